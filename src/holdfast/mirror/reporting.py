"""The warnings of a drain: one sentence each, to the logger `holdfast`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.errors import StoreError

if TYPE_CHECKING:
    from holdfast.mirror.draining import Drained, Mirror


def drained(open_mirror: Callable[[], Mirror | None], warned: set[str]) -> Drained | None:
    """Drain, and log a warning for a failure and for each file that was kept aside; None if the drain failed.
    A sentence in `warned`, which has those of earlier drains, is not repeated: a long-running program drains
    every two seconds."""
    try:
        mirror = open_mirror()
        found = None if mirror is None else mirror.drain()
    except StoreError:
        return None  # the user of the store is warned
    except Exception as error:
        _warn(
            f"the mirror is behind: {_cause(error)}; the next command writes it again, and "
            "HOLDFAST_MIRROR=false turns it off",
            warned,
        )
        return None
    if found is not None:
        if found.is_current:
            warned.clear()
        for sentence in found.kept:
            _warn(sentence, warned)
    return found


def _cause(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename} cannot be written ({error.strerror})"
    return f"{type(error).__name__}: {error}"


def _warn(sentence: str, warned: set[str]) -> None:
    if sentence in warned:
        return
    warned.add(sentence)
    import logging  # 4 ms that a drain without a fault need not pay

    logging.getLogger("holdfast").warning("%s", sentence)
