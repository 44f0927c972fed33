"""The events of all streams of a store, page by page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from holdfast.clock import instant
from holdfast.errors import BadInput
from holdfast.json_view import View

if TYPE_CHECKING:
    from holdfast.redaction import Redactor
    from holdfast.store.port import Store

_LOOK_EVERY_S = 0.02


class FeedEvent(View, frozen=True):
    """One event of a stream, redacted. The stream of a run has the run's id as its name; the names of all
    others begin with `@`."""

    stream: str
    version: int
    type: str
    at: datetime
    data: dict[str, Any]

    JSON: ClassVar = {
        "stream": "a run's id, or a name that begins with `@`",
        "version": "its place in the stream: 1, 2, 3, ...",
        "type": "see [formats](formats.md)",
        "at": "when",
        "data": "its fields",
    }


class FeedPage(View, frozen=True):
    """Events in the order of the log, and the cursor after them: the next page begins there."""

    events: list[FeedEvent]
    cursor: str

    JSON: ClassVar = {
        "events": "in the order of the log",
        "cursor": "the next page begins there",
    }


def read_page(
    store: Store, redactor: Redactor, after: str, *, limit: int, types: Sequence[str], wait_s: float
) -> FeedPage:
    """The events after the cursor; if there are none, wait up to `wait_s` seconds for one."""
    if limit < 1:
        raise BadInput(f"a page of {limit} events is empty; `limit` must be at least 1")
    deadline = time.monotonic() + wait_s
    while True:
        pulse = store.pulse()  # before the page: what is committed after it changes the pulse
        page = store.feed(after, limit=limit, types=types)
        if page.entries or not _changes(store, pulse, deadline):
            break
        after = page.cursor
    return FeedPage(
        [
            FeedEvent(one.stream, one.version, one.type, instant(one.at), _data(redactor, one.payload))
            for one in page.entries
        ],
        page.cursor,
    )


def _changes(store: Store, pulse: int, deadline: float) -> bool:
    """Wait for a commit; False if the time is over first."""
    while (left := deadline - time.monotonic()) > 0:
        if store.pulse() != pulse:
            return True
        time.sleep(min(_LOOK_EVERY_S, left))
    return False


def _data(redactor: Redactor, payload: str) -> dict[str, Any]:
    data: dict[str, Any] = redactor.redact_value(msgspec.json.decode(payload))
    return data
