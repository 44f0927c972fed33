"""Values of a declared type, from JSON, MessagePack and plain objects, in several threads at once.

msgspec reads the annotations of a class when the class is first decoded, and stores the result in the class
before it is complete. Another thread that decodes this class at that moment ends the process with a
segmentation fault. So all classes are read here, under one lock; what has been read needs no lock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")
_Decode = Callable[[bytes | str], Any]

_lock = threading.RLock()
"""Reading runs Python code, so a signal handler that decodes may run in it."""
# No child is forked with a class that is half read, or with the lock held.
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
_json: Final[dict[Any, _Decode]] = {}
_packed: Final[dict[Any, Callable[[bytes], Any]]] = {}


def decoder(of: Any) -> _Decode:
    """The function that decodes JSON as this type; it raises `msgspec.DecodeError`."""
    try:
        found = _json.get(of)
    except TypeError:  # metadata that cannot be hashed
        with _lock:
            return msgspec.json.Decoder(of).decode
    if found is None:
        with _lock:
            found = _json[of] = msgspec.json.Decoder(of).decode
    return found


def decode(data: bytes | str, of: type[T]) -> T:
    """Decode JSON as this type. Raises `msgspec.DecodeError`."""
    value: T = decoder(of)(data)
    return value


def unpack(data: bytes, of: type[T]) -> T:
    """Decode MessagePack as this type. Raises `msgspec.DecodeError`."""
    found = _packed.get(of)
    if found is None:
        with _lock:
            found = _packed[of] = msgspec.msgpack.Decoder(of).decode
    value: T = found(data)
    return value


def convert(value: Any, of: type[T], *, strict: bool = True) -> T:
    """Convert a plain object to this type. Raises `msgspec.ValidationError`."""
    decoder(of)
    return msgspec.convert(value, of, strict=strict)
