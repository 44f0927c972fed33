"""The interpreter and the directory with which one run is resumed in a process of its own.

Both must be known before an engine is opened: another interpreter replaces this process, and the working
directory decides which project and which workspace the engine has.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from holdfast.serving.recorded_code import recorded_code

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.engine.runs.code_location import Location
    from holdfast.serving.interpreter import OnNote
    from holdfast.store.port import Store


class Resumption(NamedTuple):
    """The process that can resume a run.

    interpreter  the Python that must execute it; empty if this process can
    directory    the working directory that the run was started in, where it is now; empty if none is recorded
    is_command   whether the run is one command line, and no function
    """

    interpreter: str
    directory: str
    is_command: bool


def prepare(
    store: Store,
    location: Location,
    run_id: str,
    *,
    root: Path | None = None,
    python: str | None = None,
    passed_on: bool = False,
    on_note: OnNote | None = None,
) -> Resumption:
    """Find the code of a run. `passed_on`: this process was started for this very run, and is not replaced by
    another interpreter. Raises `CodeNotFound` if its directory is gone, `NotFound` if `python` cannot be
    used."""
    from holdfast.engine.runs.recovery import check_directory
    from holdfast.serving.interpreter import Interpreters, is_this

    location.look_in(root)
    recorded = recorded_code(store, run_id)
    now = location.now(recorded)
    interpreter = ""
    interpreters = Interpreters(python, on_note)
    if not passed_on and not now.argv:
        chosen = interpreters.choose(run_id, now.interpreter)
        interpreter = "" if is_this(chosen) else chosen
    check_directory(run_id, recorded, now)
    return Resumption(interpreter, now.cwd, bool(now.argv))


def enter(resumption: Resumption) -> None:
    """Make this process one for the code of that run alone, and change to its directory: its relative paths
    mean what they meant when it was started."""
    from holdfast.engine.runs.code import own_process

    own_process()
    if resumption.directory:
        os.chdir(resumption.directory)
