"""Writing to the memory. What is written from outside every run is an operation, too, which `undo` undoes."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Sequence

from holdfast.kernel import events as e
from holdfast.kernel import memory as m
from holdfast.kernel import operation
from holdfast.kernel.author import Author
from holdfast.kernel.naming import find_id
from holdfast.spelling import nearest
from holdfast.store.folded import Folded
from holdfast.store.port import NO_EVENTS, Decision, MemoryFilter, Recorded, Source, Store, new_event
from holdfast.tracker.tracker import Tracker

_MOST_IDS = 9
_MOST_NEAR = 1000


class Memories:
    """The memory of a store. Keeps the state that it has read: a decision loads what is new."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._folded = Folded(tracker.store, m.STREAM, m.EMPTY, m.evolve)

    def remember(
        self,
        text: str,
        *,
        kind: str = "fact",
        scope: str = m.PROJECT,
        source: str = "",
        cites: Sequence[str] = (),
        supersedes: str | None = None,
    ) -> str:
        """Record a memory, redacted, and return its id. A step that is tried again records the same text
        once. Raises what `kernel.memory.remember` raises."""
        author = self._tracker.author()
        redact = self._tracker.redactor().redact
        m.check_memory_text(text)
        text, source, cites = redact(text), redact(source), tuple(map(redact, cites))
        id = str(self._tracker.clock.uuid())
        if author.run:
            place = f"{author.run}:{author.generation}:{author.step}:{kind}:{scope}:{text}"
            id = str(uuid.UUID(bytes=hashlib.sha256(place.encode()).digest()[:16], version=4))
        replaced = find(self._tracker.store, supersedes) if supersedes else ""

        def decide(state: m.MemoryState) -> m.Remembered | None:
            if author.run and state.get(id) is not None:
                return None
            return m.remember(
                state, id, text, kind=kind, scope=scope, source=source, cites=cites, supersedes=replaced,
                author=author,
            )  # fmt: skip

        decide(m.EMPTY if not replaced else self._folded.refresh())  # refuse it before anything is written
        self._write(decide, e.MemoryApplied(restored=(id,)), author)
        return id

    def withdraw(self, id: str, why: str = "") -> str:
        """Withdraw a memory, by its id or the beginning of it, and return its id. Raises `NotFound` with the
        nearest ids, `Refused`."""
        author = self._tracker.author()
        reason = self._tracker.redactor().redact(why)
        known = find(self._tracker.store, id)
        made = "" if author.run else self._operation()
        now = self._folded.refresh().get(known) if author.step else None
        is_out = now is not None and now.withdrawn
        if is_out and self._tracker.has_done(m.STREAM, author, lambda event: _withdraws(event, known)):
            return known

        def decide(state: m.MemoryState) -> m.MemoryWithdrawn:
            return m.withdraw(state, known, reason, operation=made, author=author)

        self._write(decide, e.MemoryApplied(withdrawn=(known,)), author, made)
        return known

    def _operation(self) -> str:
        return self._tracker.clock.uuid().hex[:12]

    def _write(
        self,
        decide: Callable[[m.MemoryState], m.Remembered | m.MemoryWithdrawn | None],
        stage: e.MemoryApplied,
        author: Author,
        made: str = "",
    ) -> None:
        """Append what `decide` returns, and the operation `made`, or a new one, if no run is the author."""
        at = self._tracker.clock.now_us()

        def appended(state: m.MemoryState) -> Decision:
            event = decide(state)
            return NO_EVENTS if event is None else Decision(m.KIND, [new_event(event, at)])

        companion, acknowledge = self._folded.companion(appended)
        sources = [companion.source]
        record: list[Decision] = []
        if not author.run:
            (id,) = (*stage.withdrawn, *stage.restored)
            events = operation.edit(author.by, f"memory {id}", stage)
            sources.append(Source(operation.stream_of(made or self._operation())))
            record.append(Decision(operation.KIND, [new_event(one, at) for one in events]))

        def write(recorded: Sequence[Sequence[Recorded]]) -> list[Decision]:
            return [companion.decide(recorded[0]), *record]

        self._tracker.store.command_all(sources, write)
        acknowledge()


def _withdraws(event: e.Event, id: str) -> bool:
    """Whether an event withdraws or restores that memory."""
    return isinstance(event, m.MemoryWithdrawn | m.MemoryRestored) and event.id == id


def find(store: Store, text: str) -> str:
    """The id of the memory that `text` is the id of, or the only one that it begins. Raises `NotFound` with
    the nearest ids, `BadInput` if there are several."""
    ids = [one.id for one in store.memories(MemoryFilter(text, every=True), limit=_MOST_IDS)] if text else []

    def none() -> Exception:
        newest = store.memories(MemoryFilter(every=True), limit=_MOST_NEAR)
        return m.unknown(text, nearest(text, [one.id[: max(len(text), 8)] for one in newest]))

    return find_id(text, ids, "memories", none)
