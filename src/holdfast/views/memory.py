"""A memory as `recall` shows it."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from holdfast.clock import instant, optional_instant
from holdfast.json_view import View
from holdfast.kernel import memory as kernel
from holdfast.redaction import Redactor


class Memory(View, frozen=True):
    """A decision, a pattern or a fact.

    scope          `project`, `session:ID` or `task:ID`
    status         `current`, `superseded` (by `superseded_by`) or `withdrawn` (because of `reason`)
    run_id, step   where a run remembered it; empty if it was remembered from outside
    operation      the operation that last withdrew or restored it
    """

    id: str
    kind: str
    text: str
    scope: str
    status: str
    by: str
    at: datetime
    source: str = ""
    cites: tuple[str, ...] = ()
    supersedes: str = ""
    superseded_by: str = ""
    session: str = ""
    run_id: str = ""
    step: str = ""
    reason: str = ""
    operation: str = ""
    changed_at: datetime | None = None

    JSON: ClassVar = {
        "id": "a UUID",
        "kind": "`decision`, `pattern` or `fact`",
        "text": "redacted when it was recorded",
        "scope": "`project`, `session:ID` or `task:ID`",
        "status": "`current`, `superseded` or `withdrawn`",
        "by": "who remembered it",
        "at": "when it was recorded",
        "source": "where it is from, or null",
        "cites": "what it rests on",
        "supersedes": "the memory that it replaces, or null",
        "superseded_by": "the memory that replaces it, or null",
        "session": "in which session it was recorded, or null",
        "run": "the run that remembered it, or null",
        "step": "the step of that run, or null",
        "reason": "why it was withdrawn, or null",
        "operation": "the operation that last withdrew or restored it, or null",
        "changed_at": "when that was, or null",
    }
    JSON_FROM: ClassVar = {"run": "run_id"}
    JSON_NULL: ClassVar = (
        "source", "supersedes", "superseded_by", "session", "run", "step", "reason", "operation",
    )  # fmt: skip

    @classmethod
    def of(cls, memory: kernel.Memory, redactor: Redactor) -> Memory:
        """`redactor` is applied again: what counts as a secret may have changed since it was recorded."""
        redact, author = redactor.redact, memory.author
        return cls(
            memory.id,
            memory.kind,
            redact(memory.text),
            memory.scope,
            memory.status,
            author.by,
            instant(memory.at),
            redact(memory.source),
            tuple(map(redact, memory.cites)),
            memory.supersedes,
            memory.superseded_by,
            author.session,
            author.run,
            author.step,
            redact(memory.reason),
            memory.operation,
            optional_instant(memory.changed_at),
        )
