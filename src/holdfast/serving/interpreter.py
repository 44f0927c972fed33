"""Chooses the Python that executes a run: the one that is named, the one it was started with, or this one.

The interpreter that a run was started with has what its code imports. It is used if it is there and has a
holdfast that can open the store. A note reports which one is used, and why, if it is not this one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast import typed_values, wiring
from holdfast.errors import NotFound
from holdfast.serving.protocol import PROTOCOL
from holdfast.version import __version__

OnNote = Callable[[str], None]
"""Gets a sentence for the person, once for each thing to know."""
_PATIENCE_S = 30
_PROBE = """
import json, platform
found = {"python": platform.python_version()}
try:
    from holdfast.version import __version__
    found["holdfast"] = __version__
    from holdfast.store.sqlite import sql
    found["schema"] = sql.migrations()[-1][0]  # an older holdfast has no other name for it
    from holdfast.serving.protocol import PROTOCOL
    found["protocol"] = PROTOCOL
except ImportError as error:
    found["why"] = str(error)
print(json.dumps(found))
"""


class _Found(msgspec.Struct):
    """An interpreter, as it describes itself."""

    python: str = ""
    holdfast: str = ""
    schema: int = 0
    protocol: int = 0
    why: str = ""


class _Choice(NamedTuple):
    path: str
    note: str = ""


class Interpreters:
    """Chooses one for each run. `on_note` gets one sentence for each recorded interpreter that is not this
    one. Thread-safe."""

    def __init__(self, named: str | None = None, on_note: OnNote | None = None) -> None:
        self._named = None if named is None else _resolved(named)
        self._on_note = on_note
        self._choices: dict[str, _Choice] = {}
        self._lock = threading.Lock()

    def choose(self, run_id: str, recorded: str) -> str:
        """The interpreter for a run that was started with `recorded`. Raises `NotFound` if the one that was
        named on the command line cannot be used."""
        if self._named is not None:
            return self._named
        if not recorded or is_this(recorded):
            return sys.executable
        with self._lock:
            choice = self._choices.get(recorded)
            if choice is None:
                choice = self._choices[recorded] = _choose(recorded)
                if self._on_note is not None:
                    note = f"run {run_id} was started with {recorded}, {choice.note}"
                    self._on_note(f"{note}; --python PATH names another")
            return choice.path


def is_this(path: str) -> bool:
    """Whether it is the interpreter of this process, perhaps by another of its names."""
    other, this = Path(path), Path(sys.executable)
    if other == this:
        return True
    return other.parent == this.parent and other.resolve() == this.resolve()


def _resolved(named: str) -> str:
    """The interpreter that `--python` names: a path, a command, or the directory of a virtual environment."""
    inside = Path(named) / "bin" / "python"
    path = str(inside.absolute()) if inside.exists() else shutil.which(named)
    if path is None:
        raise NotFound(f"--python {named}: there is no such program; name the path of an interpreter")
    path = os.path.abspath(path)  # noqa: PTH100 a virtual environment is known by the link itself
    if is_this(path):
        return sys.executable
    why = _why_not(path)
    if why:
        raise NotFound(f"--python {path} cannot be used: it {why}")
    return path


def _choose(recorded: str) -> _Choice:
    if not os.access(recorded, os.X_OK):
        why = "which is not there any more"
    else:
        found = _ask(recorded)
        why = _why_not(recorded, found)
        if not why:
            return _Choice(recorded, f"which resumes it (Python {found.python}, holdfast {found.holdfast})")
        why = f"which {why}"
    return _Choice(sys.executable, f"{why}: {sys.executable} resumes it instead")


def _why_not(path: str, found: _Found | None = None) -> str:
    """Why that interpreter cannot execute runs of this store; empty if it can."""
    found = found or _ask(path)
    schema = wiring.schema_version()
    if not found.python:
        return found.why
    if not found.holdfast:
        return f"has no holdfast (Python {found.python}: {found.why}); install holdfast {__version__} into it"
    if found.schema < schema:
        return (
            f"has holdfast {found.holdfast}, which cannot read the store that holdfast {__version__} has "
            f"written (schema {schema}, it knows {found.schema})"
        )
    if found.protocol != PROTOCOL:
        return f"has holdfast {found.holdfast}, and this one is {__version__}: the two are not compatible"
    return ""


def _ask(path: str) -> _Found:
    try:
        done = subprocess.run(
            [path, "-P", "-c", _PROBE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        if done.returncode == 0:
            return typed_values.decode(done.stdout, _Found)
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return _Found(why=f"is not a working Python 3.11 or newer ({said[-1] if said else done.returncode})")
    except subprocess.TimeoutExpired:
        return _Found(why=f"did not answer within {_PATIENCE_S} s")
    except (OSError, msgspec.DecodeError) as error:
        return _Found(why=f"cannot be started ({error})")
