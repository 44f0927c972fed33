"""A system that has no thread left."""

import threading
from collections.abc import Callable


def refusing_threads(*names: str) -> Callable[[threading.Thread], None]:
    """A `Thread.start` of a system that has none left for threads whose names begin with one of these."""
    start = threading.Thread.start

    def start_or_refuse(thread: threading.Thread) -> None:
        if thread.name.startswith(names):
            raise RuntimeError("can't start new thread")
        start(thread)

    return start_or_refuse
