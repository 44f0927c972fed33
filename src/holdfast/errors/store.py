"""Errors of the store."""

from __future__ import annotations

import errno

from holdfast.errors.base import HoldfastError
from holdfast.ways import Way, quoted


class StoreError(HoldfastError):
    code = "store"
    exit_code = 8


class StoreVanished(StoreError):
    code = "store_vanished"


class StoreLost(StoreError):
    """The store of a project is not where it was, and its mirror is there: a new store would take the mirror
    over."""

    code = "store_lost"

    def __init__(self, home: object, mirror: object) -> None:
        self.home = home
        self.mirror = mirror
        super().__init__(
            f"there is no store in {home}, and {mirror} is the mirror of one; if HOME or XDG_DATA_HOME was "
            f"another, set it again; if the store is gone, {quoted(self.ways[0])} rebuilds what the mirror "
            f"and backups have, or move {mirror}/mirror.json away to begin a new store"
        )

    @property
    def ways(self) -> tuple[Way, ...]:
        return (Way("repair", "", {}, "rebuilds what the mirror and backups have"),)


class StoreHeld(StoreError):
    code = "store_held"
    exit_code = 4

    def __init__(self, home: object, pid: int = 0, host: str = "") -> None:
        self.home = home
        self.pid = pid
        self.host = host
        who = f"the live process {pid}" + (f" on {host}" if host else "") if pid else "another live process"
        super().__init__(f"the store in {home} is in use by {who}; wait for it or stop it, then try again")


class StoreCorrupt(StoreError):
    code = "store_corrupt"

    @property
    def ways(self) -> tuple[Way, ...]:
        return (Way("repair", "", {"dry_run": True}, "says what is damaged, and what can be saved"),)


class StoreForeign(StoreError):
    code = "store_foreign"


class StoreNewer(StoreError):
    code = "store_newer"


class StoreFull(StoreError):
    code = "store_full"


class StoreReadOnly(StoreError):
    code = "store_read_only"


_KINDS: dict[int, type[StoreError]] = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), StoreReadOnly),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), StoreFull),
}


def store_error_for(error: OSError) -> type[StoreError]:
    """The class that fits an error of the operating system: StoreFull, StoreReadOnly or StoreError."""
    return _KINDS.get(error.errno or 0, StoreError)


class StoreOnNetwork(StoreError):
    code = "store_on_network"


class StoreInDoubt(StoreError):
    code = "store_in_doubt"


class StoreClosed(StoreError):
    code = "store_closed"


class Resync(StoreError):
    """The cursor is of another history of this store (a restored backup): start from the beginning.
    `is_removed`: it is of this history, and its event was archived or deleted since."""

    code = "resync"

    def __init__(self, message: str, *, is_removed: bool = False) -> None:
        self.is_removed = is_removed
        super().__init__(message)


class OwnershipLost(StoreError):
    code = "ownership_lost"
    exit_code = 4

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id} was taken over by another owner; this process no longer writes to it")
