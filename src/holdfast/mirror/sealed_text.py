"""Markdown files that show whether they are still as they were written.

The last line of a sealed file is a comment, which no reader of Markdown shows, with the digest of all bytes
before it."""

from __future__ import annotations

import hashlib
from typing import Final

from holdfast.mirror import sealed_json
from holdfast.mirror.sealed_json import State

SUFFIX: Final = ".md"
_SEAL: Final = b"<!-- written by holdfast, sha256: "
_END: Final = b" -->\n"


def seal(text: str) -> bytes:
    """The file: the text, and a last line with its digest."""
    body = text.encode("utf-8", "replace")
    body += b"" if body.endswith(b"\n") or not body else b"\n"
    return body + _SEAL + hashlib.sha256(body).hexdigest().encode() + _END


def state_of(name: str, data: bytes) -> State:
    """The state of a Markdown or JSON file, by its name. Markdown with another digest is `edited`: in text,
    an edit and damage cannot be distinguished."""
    if not name.endswith(SUFFIX):
        return sealed_json.state_of(data)
    body, found, rest = data.rpartition(_SEAL)
    is_own = found and rest == hashlib.sha256(body).hexdigest().encode() + _END
    return "own" if is_own else "edited"
