"""The cursor between two pages of hits.

It names the newest item that there was at the first page, and what has been shown: a later page has the best
of what is left among the items of then. The ranking may change while others write: nothing is shown twice,
and nothing that fits is left out.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence

import msgspec

from holdfast.errors import BadInput

_MOST = 1 << 22


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """`search` says which query, filters and store it belongs to. Ranked hits are excluded by their ids;
    where the order is that of the ids, `newest` is enough."""

    search: str
    newest: int
    shown: tuple[int, ...] = ()

    def after(self, ids: Sequence[int], *, ranked: bool) -> Cursor:
        """The cursor behind these hits."""
        if ranked:
            return Cursor(self.search, self.newest, tuple(sorted({*self.shown, *ids})))
        return Cursor(self.search, ids[-1] - 1) if ids else self


def write(cursor: Cursor) -> str:
    steps = [now - before for before, now in zip((0, *cursor.shown), cursor.shown, strict=False)]
    data = msgspec.json.encode((cursor.search, cursor.newest, steps))
    return base64.urlsafe_b64encode(zlib.compress(data, 9)).decode().rstrip("=")


def read(text: str, search: str) -> Cursor:
    """Raises `BadInput` for a cursor of another search, and for what is none."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        unpacker = zlib.decompressobj()
        whole = unpacker.decompress(data, _MOST)
        if not unpacker.eof:
            raise ValueError("cut off")
        of, newest, steps = msgspec.json.decode(whole, type=tuple[str, int, list[int]])
    except (ValueError, zlib.error, msgspec.MsgspecError):
        raise BadInput(f"{text[:40]!r} is no cursor of a search; take `after` of the page before") from None
    if of != search:
        raise BadInput(
            "the cursor belongs to another search, or the store was restored since; search again "
            "without `after`"
        )
    shown, at = [], 0
    for one in steps:
        at += one
        shown.append(at)
    return Cursor(of, newest, tuple(shown))
