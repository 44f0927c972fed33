"""The effects of an operation on links of tasks: it removes those that a rewound part of a run added, and
adds those that the part removed.

The last change of a link counts: if another made it, the link stays. A link whose task is gone, or that would
close a cycle by now, is not added, and is named. Undoing an operation does the opposite of what it did to the
links that no other has changed since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from holdfast.kernel import events as e
from holdfast.kernel import links
from holdfast.kernel.author import NOBODY, Author
from holdfast.operations.reversal import Gone, PartBack, PartChange, PartDecided, PartKept
from holdfast.store.port import NO_EVENTS, Decision, Recorded, Source, Store, new_event


class LinkReversal:
    """Implements `Reversal`.

    gone     whose changes no longer count; None for none. `runs` are the runs that it may name
    applied  what the operation that is undone did to links
    kin      the operation itself, with those that undid it and those that undid these
    """

    def __init__(
        self,
        store: Store,
        author: Author = NOBODY,
        *,
        gone: Gone | None = None,
        runs: Iterable[str] = (),
        applied: e.LinksApplied | None = None,
        kin: Set[str] = frozenset(),
    ) -> None:
        wrote = gone is not None and links.STREAM in store.authored_by(list(runs))
        self._is_idle = not wrote and applied is None
        self._store = store
        self._author = author
        self._kin = kin
        self._names: dict[str, str] = {}
        self._add: list[e.LinkMove] = []
        self._remove: list[e.LinkMove] = []
        self._kept: list[PartKept] = []
        self._version = 0
        if not self._is_idle:
            self._look(store.load(links.STREAM), gone if wrote else None, applied or e.LinksApplied())

    def plan(self) -> PartBack:
        changes = [
            PartChange(one.task, self._name(one.task), f"{one.kind} link to {self._name(one.on)!r} {change}")
            for moves, change in ((self._remove, "removed"), (self._add, "added"))
            for one in moves
        ]
        return PartBack(tuple(changes), tuple(self._kept))

    def sources(self) -> Sequence[Source]:
        return [] if self._is_idle else [Source(links.STREAM, self._version)]

    def decide(self, recorded: Sequence[Sequence[Recorded]], operation: str, at: int) -> PartDecided | None:
        if self._is_idle:
            return PartDecided([], None)
        if recorded[0]:
            return None
        by = self._author
        events: list[e.Event] = [links.LinkRemoved(*one, by, operation) for one in map(_row, self._remove)]
        events += [links.LinkAdded(*one, by, operation) for one in map(_row, self._add)]
        if not events:
            return PartDecided([NO_EVENTS], None)
        stage = e.LinksApplied(tuple(self._add), tuple(self._remove))
        return PartDecided([Decision(links.KIND, [new_event(one, at) for one in events])], stage)

    def _look(self, recorded: Sequence[Recorded], gone: Gone | None, applied: e.LinksApplied) -> None:
        self._version = recorded[-1].version if recorded else 0
        now: dict[e.LinkMove, bool] = {}
        without: dict[e.LinkMove, bool] = {}
        last_gone: set[e.LinkMove] = set()
        counting: list[Recorded] = []
        for one in recorded:
            event = one.event
            if not isinstance(event, (links.LinkAdded, links.LinkRemoved)):
                continue
            link = e.LinkMove(event.task, event.on, event.kind)
            now[link] = isinstance(event, links.LinkAdded)
            if gone is not None and gone(event.author):
                last_gone.add(link)
            else:
                counting.append(one)
                without[link] = now[link]
                last_gone.discard(link)
        then = {link: without.get(link, False) for link in last_gone}
        undone = dict.fromkeys(applied.removed, True) | dict.fromkeys(applied.added, False)
        last = last_changes(counting) if undone else {}
        for link, wanted in undone.items():
            change = last.get(link)
            if change is None or _is_of(change, self._kin):
                then[link] = wanted
            else:
                self._kept.append(PartKept(link.task, self._name(link.task), self._why_kept(link, change)))
        there = {link for link, present in now.items() if present}
        self._remove = [link for link, wanted in then.items() if not wanted and link in there]
        there.difference_update(self._remove)
        for link in (link for link, wanted in then.items() if wanted and link not in there):
            why = self._why_not(link, there)
            if why:
                self._kept.append(PartKept(link.task, self._name(link.task), why))
            else:
                self._add.append(link)
                there.add(link)

    def _why_not(self, link: e.LinkMove, there: set[e.LinkMove]) -> str:
        """Why a link cannot be added to those that are there; empty if it can."""
        to = f"its {link.kind} link to {self._name(link.on)!r}"
        if self._store.task(link.task) is None or self._store.task(link.on) is None:
            return f"{to} is not added: the task is gone"
        if link.kind in links.ACYCLIC and _leads(there, link.kind, link.on, link.task):
            return f"{to} would close a cycle by now"
        return ""

    def _why_kept(self, link: e.LinkMove, change: Recorded) -> str:
        author: Author = getattr(change.event, "author", NOBODY)
        who = f"run {author.run}" if author.run else author.by or "someone"
        if author.by == self._author.by and not author.run:
            who = "you"
        return f"its {link.kind} link to {self._name(link.on)!r} was changed by {who} since"

    def _name(self, task: str) -> str:
        if task not in self._names:
            row = self._store.task(task)
            self._names[task] = "" if row is None else row.fields.name
        return self._names[task]


def last_changes(recorded: Iterable[Recorded]) -> dict[e.LinkMove, Recorded]:
    """Each link → its last change among these."""
    return {
        e.LinkMove(one.event.task, one.event.on, one.event.kind): one
        for one in recorded
        if isinstance(one.event, (links.LinkAdded, links.LinkRemoved))
    }


def links_stand(last: Mapping[e.LinkMove, Recorded], applied: e.LinksApplied, kin: Set[str]) -> bool:
    """Whether an operation, or one that did it again (`kin`), made the last change of one of its links."""
    found = (last.get(link) for link in (*applied.added, *applied.removed))
    return any(one is not None and _is_of(one, kin) for one in found)


def _is_of(change: Recorded, kin: Set[str]) -> bool:
    return getattr(change.event, "operation", "") in kin


def _row(link: e.LinkMove) -> tuple[str, str, str]:
    return link.task, link.on, link.kind


def _leads(there: set[e.LinkMove], kind: str, start: str, end: str) -> bool:
    """Whether links of that kind lead from one task to the other."""
    on: dict[str, list[str]] = {}
    for link in there:
        if link.kind == kind:
            on.setdefault(link.task, []).append(link.on)
    seen, left = {start}, [start]
    while left:
        task = left.pop()
        if task == end:
            return True
        new = [one for one in on.get(task, ()) if one not in seen]
        seen.update(new)
        left += new
    return False
