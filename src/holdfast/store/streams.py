"""The streams of the log: names that are not a run's, and the chain of a stream's events."""

from __future__ import annotations

import hashlib

STORE_STREAM = "@store"
"""The stream that records every stream's creation; no run can have this id."""
GENESIS = b"\0" * 32
GONE = ("archived", "deleted")
"""The kinds of streams whose events were removed from the log."""


def is_numbered(stream: str) -> bool:
    """Whether a stream is a run's or a task's, by its name: these have short numbers."""
    return not stream.startswith("@") or stream.startswith("@task/")


def chain(previous: bytes, stream: bytes, version: int, type: str, at: int, payload: str) -> bytes:
    """The hash of an event: over the hash before it and everything that the log says of it."""
    return hashlib.sha256(
        b"%b%b\0%d\0%b\0%d\0%b" % (previous, stream, version, type.encode(), at, payload.encode())
    ).digest()
