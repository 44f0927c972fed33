"""The checks of a task: commands that must succeed before it counts as completed."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence

from holdfast.errors import CheckFailed
from holdfast.tracker.tracker import Tracker

_KEPT = 4000
"""How many characters of a failed check's output are shown, the last ones."""
_READ = 1 << 20
"""How many bytes of it are read. More than are shown: a secret that is cut in two is not recognized."""
TIMEOUT_S = 3600.0


def run_checks(tracker: Tracker, task: str, commands: Sequence[str]) -> None:
    """Run each in a shell, in the project's root, one after the other. Raises `CheckFailed` with the end of
    its output for the first that fails, and `NotTrusted` for a store from somewhere else."""
    if not commands:
        return
    tracker.allow_code()
    for command in commands:
        how, output = _run(tracker, command)
        if how:
            text = tracker.redactor().redact(output.decode("utf-8", "replace")).strip()
            raise CheckFailed(task, command, how, text[-_KEPT:])


def _run(tracker: Tracker, command: str) -> tuple[str, bytes]:
    """How it failed (empty if it did not), and the end of what it printed. It is ended with all that it has
    started, whatever it prints stays out of this process's memory."""
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", command],
                cwd=tracker.root,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return f"could not be started ({error.strerror})", b""
        try:
            code = process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            how = f"took longer than {TIMEOUT_S / 60:.0f} min"
        else:
            how = (
                f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}" if code else ""
            )
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        size = output.seek(0, os.SEEK_END)
        output.seek(max(0, size - _READ))
        return how, output.read()
