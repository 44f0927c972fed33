"""Notices for the caller of a run: what it waits for, and that an error is a recorded one."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.engine.execution import step_output
from holdfast.errors import HoldfastError
from holdfast.kernel.evolve import fold
from holdfast.ways import VALUE, Way, quoted

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine

logger = logging.getLogger("holdfast")

_DIGEST_CHARS = 6
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def report_open_gates(engine: Engine, run_id: str) -> bool:
    """Log the open gates of the run and the commands that answer them: a script that blocks there looks hung.
    The log record goes to stderr unless the program has configured logging. Returns whether there was an open
    gate."""
    try:
        row = engine.store.run(run_id)
        lines = list(_lines(engine, run_id)) if row is not None and row.status == "waiting" else []
    except HoldfastError:
        return False  # the caller gets this error from the run itself
    for line in lines:
        logger.warning(line)
    return bool(lines)


def _lines(engine: Engine, run_id: str) -> Iterator[str]:
    state = fold(engine.store.history(run_id))
    for gate in state.open_gates() if state is not None else ():
        name = engine.redactor.redact(gate.name)
        if gate.kind == "approval":
            place = {"gate": gate.key, "digest": gate.digest[:_DIGEST_CHARS]}
            how = f"{quoted(Way('approve', run_id, place))} or {quoted(Way('reject', run_id, place))}"
            yield (
                f"run {run_id} waits for the approval of {name!r}: "
                f"{quoted(Way('show', run_id))} shows what is asked; {how}"
            )
        else:
            answer = quoted(Way("signal", run_id, {"name": gate.name, "value": VALUE}))
            yield f"run {run_id} waits for the signal {name!r}: {answer}"


def print_stopping() -> None:
    """Print at once what the first Ctrl-C does: a program that waits for its running steps looks hung."""
    with suppress(Exception), step_output.unkept():  # the main thread may be in a step's body
        if sys.stderr is not None:
            after_echo = "\n" if sys.stderr.isatty() else ""  # the terminal shows ^C
            text = "Ctrl-C: stopping at the next step boundary; a second one stops at once"
            sys.stderr.write(f"{after_echo}{text}\n")
            sys.stderr.flush()


def note_recorded(error: BaseException, run_id: str, age_s: float) -> None:
    """Add a note to an error that was read from the log: it is a recorded one, and which command resumes."""
    with suppress(Exception):  # a class may refuse attributes: its error is raised without the note
        error.add_note(
            f"run {run_id} failed {_ago(age_s)}: this is its recorded error; "
            f"{quoted(Way('resume', run_id))} tries it again"
        )


def _ago(seconds: float) -> str:
    size, unit = next((one for one in _UNITS if seconds >= one[0]), _UNITS[-1])
    return "just now" if seconds < 2 else f"{seconds // size:.0f} {unit} ago"
