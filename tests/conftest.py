"""In CI a skipped test is a failure: what a test needs must be there. Programs that tests start share their
cached bytecode, so that they start in half the time, and leave none beside the sources. Neither the tests nor
these programs see the user's home directory, data, configuration or settings of holdfast."""

import atexit
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest


def _isolate(home: Path) -> None:
    """Give this process, and all that it starts, an empty home directory and no settings. Caches stay: they
    are slow to build, and hold no results."""
    os.environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    for name in list(os.environ):
        if name.startswith("HOLDFAST_") or name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            del os.environ[name]
    os.environ["HOME"] = str(home)


if "PYTEST_XDIST_WORKER" not in os.environ:  # workers have the variables of the process that starts them
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp(prefix="holdfast-tests-bytecode-")
    atexit.register(shutil.rmtree, os.environ["PYTHONPYCACHEPREFIX"], ignore_errors=True)
    _home = tempfile.mkdtemp(prefix="holdfast-tests-home-")
    atexit.register(shutil.rmtree, _home, ignore_errors=True)
    _isolate(Path(_home))
    # A shell lets what it starts in the background ignore SIGINT, and so would all programs of the tests.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory for the test's store, which is not there yet."""
    return tmp_path / "store"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report
