"""A ref is the name of a content: its SHA-256."""

from __future__ import annotations

from hashlib import sha256
from typing import NewType

Ref = NewType("Ref", bytes)
SIZE = 32


def ref_of(data: bytes) -> Ref:
    return Ref(sha256(data).digest())
