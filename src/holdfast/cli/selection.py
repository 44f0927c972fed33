"""How runs are chosen on the command line: by status, and by time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import click

from holdfast.views.records import STATUSES

ANY_STATUSES = (*STATUSES, "in_progress", "current", "superseded", "withdrawn")
"""Those of tasks and of memory, too."""
_AGO = r"(\d+(?:\.\d+)?) ?(s|sec|m|min|h|d|w)"
_SECONDS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


def read_statuses(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> list[str]:
    """The statuses of runs that were named, with commas between or one by one."""
    return _named(values, STATUSES)


def read_any_statuses(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> list[str]:
    """The same for statuses of runs, tasks and memory."""
    return _named(values, ANY_STATUSES)


def complete_statuses(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    return _completed(incomplete, STATUSES)


def complete_any_status(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    return _completed(incomplete, ANY_STATUSES)


def _named(values: tuple[str, ...], known: Sequence[str]) -> list[str]:
    words = [word.strip().replace("-", "_") for value in values for word in value.split(",")]
    for word in words:
        if word not in known:
            raise click.BadParameter(f"there is no status {word!r}; {_hint(word, known)}")
    return words


def _completed(incomplete: str, known: Sequence[str]) -> list[str]:
    before, comma, word = incomplete.rpartition(",")
    return [before + comma + one for one in known if one.startswith(word)]


def _hint(word: str, known: Sequence[str]) -> str:
    from holdfast.spelling import did_you_mean

    return did_you_mean(word, known, f"there are {', '.join(known)}", cutoff=0.5)


def read_since(_: click.Context, __: click.Parameter, value: str | None) -> datetime | None:
    """A point in time: how long ago, or a date, or a date and time (here, unless it names its offset)."""
    return None if value is None else _moment(value, end=False)


def read_until(_: click.Context, __: click.Parameter, value: str | None) -> datetime | None:
    """The same; a date alone is the end of that day."""
    return None if value is None else _moment(value, end=True)


def read_at(_: click.Context, __: click.Parameter, value: str | None) -> int | datetime | str | None:
    """A moment of a run: a version, a time as in `read_until`, or a point of its history by name."""
    if value is None or value.isdecimal():
        return value
    try:
        return _moment(value.strip().removesuffix(" ago"), end=True)
    except click.BadParameter:
        return value


def _moment(value: str, *, end: bool) -> datetime:
    text = value.strip()
    try:
        ago = re.fullmatch(_AGO, text)
        if ago:
            return datetime.now(UTC) - timedelta(seconds=float(ago[1]) * _SECONDS[ago[2]])
        if text in ("today", "yesterday"):
            text = (datetime.now() - timedelta(days=text == "yesterday")).date().isoformat()
        at = datetime.fromisoformat(text)
        if end and len(text) <= len("2026-01-31"):
            at += timedelta(days=1)
        return at.astimezone(UTC)  # without an offset: the time here
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{value!r} is no time; write how long ago (90s, 15min, 2h, 3d, 1w), a date (2026-01-31), "
            "or a date and time (2026-01-31T12:00)"
        ) from None
