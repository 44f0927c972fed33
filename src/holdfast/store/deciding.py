"""The rule that a decision does not call the store, enforced."""

from __future__ import annotations

from threading import get_ident

from holdfast.errors import StoreError


class Deciding:
    """Around every call of a `decide`: a call of the store from the same thread meanwhile is refused.

    A decision that reads the store sees another snapshot than the transaction that it decides in; one that
    writes deadlocks, because its own thread commits. Only one thread decides at a time: the one
    that holds the write lock."""

    __slots__ = ("thread",)

    def __init__(self) -> None:
        self.thread = 0
        """The one that decides now; 0 if none does."""

    def __enter__(self) -> None:
        self.thread = get_ident()

    def __exit__(self, *_: object) -> None:
        self.thread = 0

    def refuse_inside(self) -> None:
        if self.thread and self.thread == get_ident():
            raise StoreError(
                "a decision called the store: it must decide on the events that it is given; read before the "
                "command, and name a version in its source"
            )
