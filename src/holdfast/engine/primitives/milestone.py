"""`milestone`: a checkpoint with evidence, a document that the engine writes from what is recorded.

    command(["pytest", "-q"])
    milestone("tests-pass")

The document has the commands since the last milestone and the changes of the files, as the log has them. The
code of the workflow adds a statement at most, which is marked as such.
"""

from __future__ import annotations

import hashlib
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from holdfast.engine.execution.control import Control
from holdfast.engine.execution.scope import Scope, scope_of_caller
from holdfast.engine.files.checkpoint_append import Blobs, CheckpointAppend
from holdfast.engine.primitives import checkpoint as checkpoints
from holdfast.errors import BadInput, NeedsAttention, StoreError
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.identity import check_step_name

if TYPE_CHECKING:
    from holdfast.engine.execution.execution import Execution

STATEMENT_CHARS = 10_000
DOCUMENT_BYTES = 4 << 20
_CAUSE = "evidence_failed"
_CUT = "\n\n[holdfast: the document is cut off here: it is longer than {:,} bytes]\n"


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """A milestone that a run has reached, for the evidence writer.

    key       the identity of its checkpoint, `name#1`
    statement what the code of the workflow says, unchecked
    snapshot  of the files as they are now; empty if there is no workspace
    first     the first snapshot of the run; empty if this is it
    """

    run: str
    key: str
    name: str
    statement: str = ""
    generation: int = 0
    snapshot: str = ""
    first: str = ""
    root: str = ""
    mark: str = ""


class Written(msgspec.Struct, frozen=True):
    """A document and what it rests on.

    commands  recorded commands; `left_out` more are only counted
    until     the version of the log up to which it was written
    images    path → SHA-256 of images in the snapshot
    """

    text: str
    commands: tuple[e.ObservedCommand, ...] = ()
    left_out: int = 0
    until: int = 0
    images: dict[str, str] = {}


class Writer(Protocol):
    """The handler `evidence`. It is called in a thread, while the run waits."""

    def write(self, reached: Reached) -> Written: ...


class Milestone:
    """Call it in a `def` workflow; in an async one, `await milestone.aio(...)`."""

    def __call__(self, name: str, *, statement: str = "") -> None:
        """Take the checkpoint `name`, and write the evidence of what was done since the last milestone.

        Both are recorded at once: there is one document for each milestone, whatever is killed. `statement`
        is a remark for the reader, unchecked. Durable when this returns. If the document
        cannot be written, the run stops with `needs_attention`, and `resume` tries again. Outside a run it
        does nothing; in a step's body it raises `BadInput`.
        """
        scope = _scope(name, statement)
        if scope is not None:
            checkpoints.take(scope, name, _make(scope, statement), what="milestone")

    def aio(self, name: str, *, statement: str = "") -> Coroutine[Any, Any, None]:
        """The same for async workflows."""
        scope = _scope(name, statement)
        if scope is None:
            return checkpoints.nothing()
        return checkpoints.take_soon(scope, name, _make(scope, statement), what="milestone")


def _scope(name: str, statement: str) -> Scope | None:
    check_step_name(name)
    if not isinstance(statement, str):
        raise BadInput(f"milestone(statement=...) is text, not {statement!r}")
    if len(statement) > STATEMENT_CHARS:
        raise BadInput(f"milestone({name!r}): a statement has at most {STATEMENT_CHARS:,} characters")
    return scope_of_caller("milestone()", f"milestone({name!r})")


def _make(scope: Scope, statement: str) -> checkpoints.Make:
    def make(key: str, ordinal: int, name: str) -> CheckpointAppend:
        run = scope.execution
        taken = e.CheckpointTaken(key, ordinal, name)
        return CheckpointAppend(run, taken, evidence=partial(_evidence, run, statement))

    return make


def _evidence(run: Execution, statement: str, taken: e.CheckpointTaken) -> tuple[e.EvidenceWritten, Blobs]:
    """The event and its document. A writer that fails stops the run: code that caught its error would
    continue past a milestone that is not in the log."""
    engine = run.engine
    first = next((one.snapshot for one in run.state.files if one.root == taken.root), "")
    reached = Reached(
        run=run.id, key=taken.key, name=taken.name, statement=engine.redactor.redact(statement),
        generation=run.state.generation, snapshot=taken.snapshot, first=first, root=taken.root,
        mark=taken.mark,
    )  # fmt: skip
    try:
        written: Written = engine.handler("evidence").write(reached)
        document = _bounded(engine.redactor.redact(written.text))
        level = "observed" if written.commands else "asserted"
    except StoreError as error:
        raise run.lose(error) from None
    except Exception as error:
        reason = f"the evidence of milestone {taken.name} was not written: {type(error).__name__}: {error}"
        raise run.stop(Control(NeedsAttention(run.id, reason), [c.AttendRun(_CAUSE, reason)])) from error
    digest = hashlib.sha256(document).hexdigest()
    event = e.EvidenceWritten(
        taken.key, taken.name, digest, digest, level, written.commands, written.left_out, written.until,
        taken.snapshot, written.images,
    )  # fmt: skip
    return event, ((digest, document),)


def _bounded(text: str) -> bytes:
    data = text.encode("utf-8", "replace")
    if len(data) <= DOCUMENT_BYTES:
        return data
    return data[:DOCUMENT_BYTES].decode("utf-8", "ignore").encode() + _CUT.format(DOCUMENT_BYTES).encode()


milestone = Milestone()
