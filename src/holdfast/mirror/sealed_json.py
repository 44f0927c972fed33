"""JSON files that show whether they are still as they were written.

The last key of a sealed file is `sha256`, the digest of all bytes before it. A file whose digest does not
match was edited by hand or is torn: it is never overwritten."""

from __future__ import annotations

import hashlib
from typing import Any, Final, Literal

import msgspec

State = Literal["own", "edited", "torn"]
_SEAL: Final = b',\n  "sha256": "'
_END: Final = b'"\n}\n'


def seal(data: dict[str, Any]) -> bytes:
    """The file: indented JSON that ends with its digest, in place of the one in `data`."""
    unsealed = {key: value for key, value in data.items() if key != "sha256"}
    text = msgspec.json.format(msgspec.json.encode(unsealed), indent=2)
    body = text.removesuffix(b"\n}")
    return body + _SEAL + hashlib.sha256(body).hexdigest().encode() + _END


def state_of(data: bytes) -> State:
    """`own`: the file is as it was written. `edited`: it is JSON, but not as it was written. `torn`: it is no
    JSON object."""
    body, found, rest = data.rpartition(_SEAL)
    if found and rest == hashlib.sha256(body).hexdigest().encode() + _END:
        return "own"
    return "torn" if read(data) is None else "edited"


def read(data: bytes) -> dict[str, Any] | None:
    """The object in the file; None if it is no JSON object."""
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
