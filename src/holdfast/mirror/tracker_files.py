"""The `tasks` directory of the mirror: journal, history, sessions, memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.kernel import families, session, task
from holdfast.kernel import memory as memories
from holdfast.mirror import history, line_file, memory_file, sealed_json, session_file
from holdfast.mirror.card import FORMAT, Card
from holdfast.mirror.history import History, Spool
from holdfast.mirror.line_file import NEW
from holdfast.mirror.mirror_directory import MirrorDirectory
from holdfast.tracker import journal

if TYPE_CHECKING:
    from holdfast.store.port import Entry, Store
    from holdfast.views.reader import Reader

DIRECTORY: Final = "tasks"
TYPES: Final = tuple(families.TYPES)


class TrackerFiles:
    """The changes of one drain to the directory."""

    def __init__(
        self,
        directory: MirrorDirectory,
        store: Store,
        reader: Reader,
        card: Card | None,
        now: int,
        project_type: Callable[[], str],
        files_of: Callable[[str], list[str]],
    ) -> None:
        self._directory = directory
        self._store = store
        self._reader = reader
        self._now = now
        self._find_project_type = project_type
        self._files_of = files_of
        self._known = {} if card is None else dict(card.lines)
        self._journal = self._known.pop(journal.NAME, NEW)
        self._history = self._known
        self._session = "" if card is None else card.session
        self._active_at = 0 if card is None else card.active_at
        self._tasks: set[str] = set()
        self._sessions: set[str] = set()
        self._memory = False
        self._changed = False

    def card(self, cursor: str) -> Card:
        """The card of the mirror with these files."""
        lines = self._history | ({journal.NAME: self._journal} if self._is_used else {})
        return Card(FORMAT, cursor, "", self._session, self._active_at, dict(sorted(lines.items())))

    @property
    def is_unchanged(self) -> bool:
        """Whether nothing was written."""
        return not self._changed

    def add(self, entries: list[Entry]) -> None:
        """Add events to the journal and the history. Raises `NotOurs` if those are not as they were left."""
        lines, ends = bytearray(), dict[str, bytes]()
        for entry in entries:
            self._notice(entry)
            lines += self._line(entry)
            for month, line in self._ends(entry):
                ends[month] = ends.get(month, b"") + line
        self._journal = line_file.add(self._directory, journal.NAME, self._journal, bytes(lines))
        if ends:
            with self._directory.within(history.DIRECTORY) as directory:
                History(directory, self._history, self._now).add(ends)

    def write_anew(self, entries: Iterable[Entry], *, forget: bool) -> None:
        """Write all files again. `forget` is that of `line_file.write_anew`."""
        with Spool() as spool:

            def lines() -> Iterator[bytes]:
                for entry in entries:
                    self._notice(entry)
                    for month, line in self._ends(entry):
                        spool.add(month, line)
                    yield self._line(entry)

            self._journal = line_file.write_anew(
                self._directory, journal.NAME, self._journal, lines(), forget=forget
            )
            if spool.months or self._directory.has(history.DIRECTORY):
                with self._directory.within(history.DIRECTORY) as directory:
                    History(directory, self._history, self._now).write_anew(spool, forget=forget)
        self._changed = True
        if self._is_used:
            self._memory = True
            self._write_json()

    @property
    def _is_used(self) -> bool:
        """Whether there are tasks, sessions or memories at all."""
        return self._journal != NEW

    def finish(self) -> None:
        """Write the files that the events change, and those that are missing."""
        if self._history:
            with self._directory.within(history.DIRECTORY) as directory:
                months = History(directory, self._history, self._now)
                months.check()
                months.compress()
        if not self._is_used:
            return
        self._memory = self._memory or not self._directory.has(memory_file.NAME)
        if self._changed or self._memory or not self._directory.has(session_file.CURRENT):
            self._changed = True
            self._write_json()

    # What an event changes

    def _notice(self, entry: Entry) -> None:
        self._changed = True
        data: dict[str, Any] = msgspec.json.decode(entry.payload)
        of = data.get("author", {}).get("session", "")
        if entry.stream.startswith(session.PREFIX):
            of = entry.stream.removeprefix(session.PREFIX)
        elif entry.stream == memories.STREAM:
            self._memory = True
        elif entry.stream.startswith(task.PREFIX):
            self._tasks.add(task.task_of(entry.stream))
            of = of or data.get("session", "")
        if of:
            self._sessions.add(of)
        if of and entry.at >= self._active_at:
            self._session, self._active_at = of, entry.at

    def _line(self, entry: Entry) -> bytes:
        """Recorded text is redacted already. A pattern that was added since is applied here."""
        data = msgspec.json.decode(entry.payload)
        redacted = self._reader.redactor.redact_value(data)
        if redacted == data:
            return journal.line_of(entry)
        return journal.line_of(entry, msgspec.json.encode(redacted).decode())

    def _ends(self, entry: Entry) -> Iterator[tuple[str, bytes]]:
        if entry.type in history.ENDS:
            line = history.line_of(self._store, entry, self._reader.redactor)
            if line is not None:
                yield history.month_of(entry.at), line

    # The JSON files

    def _write_json(self) -> None:
        project_type = self._find_project_type()
        redactor = self._reader.redactor
        if self._memory:
            body = memory_file.render(self._store, redactor, project_type)
            self._directory.replace_sealed(memory_file.NAME, sealed_json.seal(body))
        for one in self._tasks:
            row = self._store.task(one)
            if row is not None:
                self._sessions.add(row.session)
        self._sessions.add(self._session)
        with self._directory.within(session_file.DIRECTORY) as directory:
            for one in sorted(self._sessions):
                body = session_file.render(self._store, redactor, one, project_type, self._files_of)
                data = sealed_json.seal(body)
                if one and _is_file_name(one):
                    directory.replace_sealed(f"{one}.json", data)
                if one == self._session:
                    self._directory.replace_sealed(session_file.CURRENT, data)


def _is_file_name(session: str) -> bool:
    """Whether the id of a session can be the name of a file."""
    return len(session) <= 128 and all(letter.isalnum() or letter in "._-" for letter in session)
