"""Reading many contents of which it is known that they will be asked for.

A content lies in a group with others, which is read and decompressed as a whole. Asked for in the order in
which they lie, each group is read once; and a thread reads those that come next while the caller writes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeAlias

from holdfast.thread_pool import ThreadPool
from holdfast.workspace.contents.pack import Pack, PackDamaged, Place
from holdfast.workspace.contents.refs import Ref, ref_of

_RUN = 16

Group: TypeAlias = tuple[Pack, int]


class Reading:
    """`find` says where a content lies, None if in no pack; `rest` reads what cannot be read from there."""

    def __init__(
        self, find: Callable[[Ref], tuple[Pack, Place] | None], rest: Callable[[Ref], Iterator[bytes]]
    ) -> None:
        self._find = find
        self._rest = rest
        self._found: dict[Ref, tuple[Pack, Place] | None] = {}
        self._coming: deque[Group] = deque()
        self._pending: dict[Group, tuple[Future[list[bytes | None]], int]] = {}
        self._thread: ThreadPool | None = None

    def order(self, ref: Ref) -> tuple[str, int, int]:
        """Contents that are asked for in this order cost the least."""
        found = self._where(ref)
        return ("", 0, 0) if found is None else (found[0].path.name, found[1].group, found[1].offset)

    @contextmanager
    def ahead(self, refs: Iterable[Ref]) -> Iterator[None]:
        """Inside, these will be asked for, in this order."""
        places = filter(None, map(self._where, refs))
        self._coming.extend(dict.fromkeys((pack, place.group) for pack, place in places))
        with ThreadPool(1, "holdfast-read") as self._thread:
            try:
                self._read_on()
                yield
            finally:
                self._thread.shutdown(cancel_futures=True)
                self._coming.clear()
                self._pending.clear()

    def pieces(self, ref: Ref) -> Iterator[bytes]:
        """A content, verified, as `Contents.pieces` gives it. Raises ContentsDamaged."""
        found = self._where(ref)
        data = None if found is None else self._data(*found)
        if data is None or ref_of(data) != ref:
            yield from self._rest(ref)
        else:
            yield data

    def _where(self, ref: Ref) -> tuple[Pack, Place] | None:
        if ref not in self._found:
            self._found[ref] = self._find(ref)
        return self._found[ref]

    def _data(self, pack: Pack, place: Place) -> bytes | None:
        """None if the group was not read ahead, or is damaged."""
        wanted = pack, place.group
        if wanted not in self._pending:
            return None
        while next(iter(self._pending)) != wanted:
            del self._pending[next(iter(self._pending))]
        self._read_on()
        run, number = self._pending[wanted]
        group = run.result()[number]
        return None if group is None else group[place.offset : place.offset + place.size]

    def _read_on(self) -> None:
        assert self._thread is not None, "asked for inside `ahead` only"
        while self._coming and len(self._pending) <= _RUN:
            run = [self._coming.popleft() for _ in range(min(_RUN, len(self._coming)))]
            future = self._thread.submit(_read_run, run)
            self._pending.update((group, (future, number)) for number, group in enumerate(run))


def _read_run(groups: list[Group]) -> list[bytes | None]:
    """Several groups at once, for handing over costs as much as reading one; None for a damaged one."""
    found: list[bytes | None] = []
    for pack, number in groups:
        try:
            found.append(pack.group(number))
        except PackDamaged:
            found.append(None)
    return found
