"""Somebody swaps a directory for a symlink that leads outside, again and again, while a restore runs."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.workspace.trees import look

from holdfast.errors import HoldfastError
from holdfast.workspace.fs import beneath
from holdfast.workspace.workspace import Workspace

FILES = 30
"""Each in a directory of its own, so that the way there is walked again for each."""


class Race:
    """A workspace whose directory `inner` is being swapped, and a place outside that must stay as it is."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "tree"
        self.outside = directory / "outside"
        self._inner = self.root / "inner"
        self._other = directory / "moved"
        for number in range(FILES):
            for top, content in ((self._inner, b"good"), (self.outside, b"not yours")):
                (top / f"d{number}").mkdir(parents=True)
                (top / f"d{number}" / "file").write_bytes(content)
        self.workspace = Workspace(self.root, directory / "store")
        self._to = self.workspace.snapshot().id
        self._before = look(self.outside)

    def run(self) -> bool:
        """One restore under attack → whether it was done."""
        for number in range(FILES):
            (self._inner / f"d{number}" / "file").write_bytes(b"bad")
        plan = self.workspace.plan(self._to, self.workspace.snapshot().id)
        try:
            with self._swapping():
                self.workspace.apply(plan)
            return True
        except HoldfastError:
            return False
        finally:
            self.workspace.recover()
            # what was staged in a directory that could not be reached when the restore was taken back
            for path in self._inner.glob("*/.holdfast-restore-*"):
                path.unlink()

    @property
    def has_escaped(self) -> bool:
        return look(self.outside) != self._before

    @contextmanager
    def _swapping(self) -> Iterator[None]:
        stop = threading.Event()

        def swap() -> None:
            while not stop.is_set():
                os.rename(self._inner, self._other)
                os.symlink(self.outside, self._inner)
                os.unlink(self._inner)
                os.rename(self._other, self._inner)

        thread = threading.Thread(target=swap)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


@contextmanager
def following_links() -> Iterator[None]:
    """The control: the same code, were it to follow links."""
    flags, resolve = beneath.FLAGS, beneath._HOW.resolve
    beneath.FLAGS, beneath._HOW.flags, beneath._HOW.resolve = (flags & ~os.O_NOFOLLOW,) * 2 + (0,)
    try:
        yield
    finally:
        beneath.FLAGS, beneath._HOW.flags, beneath._HOW.resolve = flags, flags, resolve
