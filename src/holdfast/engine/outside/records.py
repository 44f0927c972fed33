"""An event of a run as programs get it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from holdfast.json_view import View


class LogEvent(View, frozen=True):
    """One event of a run, as `hf.events()` and the `on_event` callback give it."""

    run_id: str
    version: int
    type: str
    at: datetime
    data: dict[str, Any]

    JSON: ClassVar = {
        "run": "the run",
        "version": "its place in the run: 1, 2, 3, ...",
        "type": "see [formats](formats.md)",
        "at": "when",
        "data": "its fields",
    }
    JSON_FROM: ClassVar = {"run": "run_id"}
