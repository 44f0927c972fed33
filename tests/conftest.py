"""In CI a skipped test is a failure: what a test needs must be there. Programs that tests start share their
cached bytecode, so that they start in half the time, and leave none beside the sources."""

import atexit
import os
import shutil
import tempfile

import pytest

if "PYTEST_XDIST_WORKER" not in os.environ:  # workers have the variables of the process that starts them
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp(prefix="holdfast-tests-bytecode-")
    atexit.register(shutil.rmtree, os.environ["PYTHONPYCACHEPREFIX"], ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report
