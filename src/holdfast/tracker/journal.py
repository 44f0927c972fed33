"""The journal: the events of tasks, links, sessions and memory, one JSON object per line, as the log has
them.

It is the second copy of what people and agents wrote down: `repair` rebuilds those streams from it when the
database is gone. `data` is the event byte for byte as the log stores it, so that `hash` can be verified: it
chains `data` to the event before it in the same stream (`store.port.chain`).

    {"stream":"@task/UUID","version":1,"type":"TaskCreated","at":"2026-01-20T10:00:00.000000Z",
     "hash":"...","data":{...}}

An event whose text holds what the redactor would hide by now is written redacted, with `"redacted":true`;
its hash does not verify, and its text is all that is left to rebuild from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec

from holdfast import typed_values
from holdfast.clock import instant, microseconds
from holdfast.store.port import Entry, chain

NAME: Final = "journal.jsonl"
"""The file of the journal in the `tasks` directory of a mirror. One that was kept aside has this name with an
ending: `journal.jsonl.edited-TIME`, or `.replaced-TIME` if it is of another store or an earlier time."""
AHEAD: Final = f"{NAME}.ahead-"
"""The name of a journal that was kept because it has events that its log has lost; the incarnation of the
store follows."""
_STREAMS: Final = ("@task/", "@session/", "@links", "@memory")
_TIME: Final = "%Y-%m-%dT%H:%M:%S.%fZ"


class JournalLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event of the journal."""

    stream: str
    version: int
    type: str
    at: str
    hash: str
    data: msgspec.Raw
    redacted: bool = False

    @property
    def time(self) -> int:
        """When, in microseconds, as the log has it."""
        return microseconds(datetime.strptime(self.at, _TIME).replace(tzinfo=UTC))

    @property
    def payload(self) -> str:
        """The event's fields as the log stores them."""
        return bytes(self.data).decode()

    def follows(self, previous: bytes) -> bool:
        """Whether the hash is that of this event after one with the hash `previous`."""
        stream = self.stream.encode()
        found = chain(previous, stream, self.version, self.type, self.time, self.payload)
        return found.hex() == self.hash


_decode = typed_values.decoder(JournalLine)
_encode = msgspec.json.Encoder().encode


def belongs(stream: str) -> bool:
    """Whether the events of a stream are in the journal."""
    return stream.startswith(_STREAMS)


def line_of(entry: Entry, payload: str | None = None) -> bytes:
    """An event of the log as a line, with its end; `payload` if that must be another than the log's."""
    line = JournalLine(
        entry.stream,
        entry.version,
        entry.type,
        instant(entry.at).strftime(_TIME),
        entry.hash.hex(),
        msgspec.Raw(entry.payload if payload is None else payload),
        payload is not None,
    )
    return _encode(line) + b"\n"


def read_lines(lines: Iterable[bytes]) -> Iterator[JournalLine | None]:
    """Each line of a journal, however damaged the others are; None for one that cannot be read."""
    for line in lines:
        try:
            found = _decode(line)
            found.time  # noqa: B018 a time that is none is damage, too
        except (msgspec.DecodeError, ValueError):
            yield None
        else:
            yield found if line.endswith(b"\n") else None
