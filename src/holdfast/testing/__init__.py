"""For tests of holdfast and of what is built on it."""

from holdfast.testing.clock import FakeClock
from holdfast.testing.crash import CrashLab, after_append, after_ms, at_body, at_mark, before_append, mark

__all__ = ["CrashLab", "FakeClock", "after_append", "after_ms", "at_body", "at_mark", "before_append", "mark"]


def __getattr__(name: str) -> type:
    """`StoreContract` on demand: it needs pytest, which the rest does not."""
    if name == "StoreContract":
        from holdfast.testing.contract import StoreContract

        return StoreContract
    raise AttributeError(name)
