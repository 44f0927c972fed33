"""`tasks/history/YYYY-MM.jsonl`: a line for every task that was completed, failed or archived in that month.

The files of months before the last one are compressed (`YYYY-MM.jsonl.zst`). Lines are added as tasks end;
no file is ever read into memory as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.clock import instant
from holdfast.kernel import task as tasks
from holdfast.mirror import line_file
from holdfast.mirror.line_file import NEW, Mark, NotOurs
from holdfast.mirror.mirror_directory import MirrorDirectory

if TYPE_CHECKING:
    from holdfast.redaction import Redactor
    from holdfast.store.port import Entry, Store

DIRECTORY: Final = "history"
ENDS: Final[dict[str, Literal["completed", "failed", "archived"]]] = {
    "TaskCompleted": "completed",
    "TaskFailed": "failed",
    "TaskArchived": "archived",
}
_PLAIN, _COMPRESSED = ".jsonl", ".jsonl.zst"
_LEVEL: Final = 9
_PIECE: Final = 1 << 20


class EndedTask(msgspec.Struct, frozen=True):
    """A line of the history: a task as it was when it ended.

    status  `completed`, `failed` or `archived`
    at      when that was
    """

    id: str
    name: str
    status: Literal["completed", "failed", "archived"]
    at: datetime
    started_at: datetime | None
    duration_seconds: float | None
    summary: str
    error: str
    labels: tuple[str, ...]
    by: str
    session: str
    run: str
    version: int


def line_of(store: Store, entry: Entry, redactor: Redactor) -> bytes | None:
    """The line of an event by which a task ended; None if its stream was removed since."""
    state = tasks.at_version(store.history(entry.stream), entry.version)
    if state is None:
        return None
    fields = state.fields
    ended = EndedTask(
        tasks.task_of(entry.stream),
        fields.name,
        ENDS[entry.type],
        instant(entry.at),
        instant(fields.started_at) if fields.started_at else None,
        (entry.at - fields.started_at) / 1e6 if fields.started_at else None,
        fields.summary,
        fields.error,
        fields.labels,
        state.last.by,
        state.last.session,
        state.last.run,
        entry.version,
    )
    return msgspec.json.encode(redactor.redact_value(msgspec.to_builtins(ended))) + b"\n"


def month_of(us: int) -> str:
    return f"{instant(us):%Y-%m}"


class Spool:
    """Lines by month, in temporary files: if a clock was set back, the log is not in the order of months."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.months: dict[str, IO[bytes]] = {}

    def add(self, month: str, line: bytes) -> None:
        if month not in self.months:
            self.months[month] = self._stack.enter_context(TemporaryFile())  # noqa: SIM115
        self.months[month].write(line)

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


class History:
    """The months in one directory. `marks` are those of the card, by file name; they are brought up to
    date."""

    def __init__(self, directory: MirrorDirectory, marks: dict[str, Mark], now: int) -> None:
        self._directory = directory
        self.marks = marks
        this = instant(now)
        self._open = {f"{this:%Y-%m}", f"{this.replace(day=1) - timedelta(days=1):%Y-%m}"}

    def add(self, lines: dict[str, bytes]) -> None:
        """Add lines by month. Raises `NotOurs` if a file is not as it was left, or the month is
        compressed."""
        for month, text in sorted(lines.items()):
            if month + _COMPRESSED in self.marks:
                raise NotOurs(month)
            name = month + _PLAIN
            self.marks[name] = line_file.add(self._directory, name, self.marks.get(name, NEW), text)

    def check(self) -> None:
        """Raise `NotOurs` if a file is missing."""
        for name in self.marks:
            if self._directory.status(name) is None:
                raise NotOurs(name)

    def compress(self, known: dict[str, Mark] | None = None, *, forget: bool = False) -> None:
        """Compress the months before the last one. Killed in the middle, it leaves the plain file, which is
        compressed again."""
        for name in [name for name in self.marks if name.endswith(_PLAIN)]:
            month = name.removesuffix(_PLAIN)
            if month < min(self._open):
                compressed = month + _COMPRESSED
                mark = (known or {}).get(compressed, NEW)
                self.marks[compressed] = line_file.write_anew(
                    self._directory, compressed, mark, self._frames(name), forget=forget
                )
                del self.marks[name]
                self._directory.discard(name)

    def _frames(self, name: str) -> Iterator[bytes]:
        from holdfast.workspace.contents.compression import Compressor

        compressor = Compressor(level=_LEVEL)
        with self._directory.reading(name) as fd:
            at = 0
            while piece := os.pread(fd, _PIECE, at):
                at += len(piece)
                yield compressor.compress(piece)
        yield compressor.flush()

    def write_anew(self, spool: Spool, *, forget: bool) -> None:
        """Write all months from their lines. A present file that is not a prefix of the new one is kept
        aside; with `forget`, only if it was changed by others."""
        known = dict(self.marks)
        self.marks.clear()
        for month, lines in sorted(spool.months.items()):
            lines.seek(0)
            name = month + _PLAIN
            self.marks[name] = line_file.write_anew(
                self._directory, name, known.get(name, NEW), lines, forget=forget
            )
        self.compress(known, forget=forget)
        for name, mark in known.items():
            status = self._directory.status(name)
            if name not in self.marks and status is not None:
                if forget and Mark.of(status) == mark:
                    self._directory.discard(name)
                else:
                    self._directory.keep_aside(
                        name, "is not as the log has it", is_intact=self._directory.is_others
                    )
