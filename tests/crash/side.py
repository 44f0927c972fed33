"""What a life says while it does it: lines that outlive it, because somebody else holds the other end.

A process has one side at a time: a life that begins in another thread waits until the one before it has
ended. The lines of the lives before are the outside world: a service that
remembers which calls it has seen.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tests.crash.history import canonical, digest
from tests.crash.lives import place

from holdfast import idempotency_key

T = TypeVar("T")


class Side:
    """Where a life says what it does. Thread-safe: a line is one write, and a pipe keeps it whole.
    Without a pipe, whoever runs the life reads what was added to `past`."""

    def __init__(
        self, fd: int | None, past: Sequence[str] = (), lines_of_commands: Path | None = None
    ) -> None:
        self.past = list(past)
        """Everything that was said before, in this life and in earlier ones."""
        self.hooks: dict[str, Callable[[], None]] = {}
        """A line → what to do once it was said: wait to be killed, or arm a fault."""
        self.lines_of_commands = lines_of_commands or Path(os.devnull)
        """Commands are other processes, which do not inherit the pipe: they append to this file."""
        self._fd = fd

    def say(self, *words: str) -> None:
        line = " ".join(words)
        if self._fd is not None:
            os.write(self._fd, line.encode() + b"\n")
        self.past.append(line)
        hook = self.hooks.get(line)
        if hook is not None:
            hook()

    def count(self, *words: str) -> int:
        """How often that was said, ever."""
        return self.past.count(" ".join(words))


_present = Side(None)
_living = threading.RLock()
"""Held by the thread whose life speaks. The bodies of its steps may run in any thread."""


def here() -> Side:
    """The side of this process's life."""
    return _present


@contextmanager
def speaking(side: Side) -> Iterator[None]:
    """Meanwhile this process speaks there, and no life in another thread does. The kinds of `make crash` run
    in threads of one process: without this, one of them would hear what the other one's steps say."""
    global _present
    with _living:
        before, _present = _present, side
        try:
            yield
        finally:
            _present = before


@contextmanager
def body() -> Iterator[int]:
    """Around what a step does: says that it begins and that it has ended, by a result or by an error.
    Gives how often it has begun by now."""
    run, generation, key = idempotency_key().split(":", 2)
    words = (run, place(key, int(generation)))
    side = here()
    side.say("began", *words)
    try:
        yield side.count("began", *words)
    except Exception:
        side.say("ended", *words)
        raise
    side.say("ended", *words)


def told(run: str, key: str, value: T) -> T:
    """The workflow has the value of a step."""
    here().say("told", run, key, digest(canonical(value)))
    return value
