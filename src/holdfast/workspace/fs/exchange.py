"""Two names of a directory swap what they stand for, in one step.

So a new file takes the place of an old one, and the old one is not lost, even if it was put there a moment
ago: neither a second name nor a look just before it could promise that.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

_SWAP = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
_CANNOT = frozenset((errno.EINVAL, errno.ENOSYS, errno.ENOTSUP))
_rename = getattr(
    ctypes.CDLL(None, use_errno=True), "renameatx_np" if sys.platform == "darwin" else "renameat2", None
)


def exchange(directory: int, one: bytes, other: bytes) -> bool:
    """False where the system or the filesystem cannot. Raises OSError, of its kinds the one that fits."""
    if _rename is None:
        return False
    if _rename(directory, one, directory, other, _SWAP) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), one)
