"""Times and durations as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def duration(seconds: float) -> str:
    """Such as `<1 ms`, `12 ms`, `1.4 s`, `3 min 5 s`, `2 h 10 min`, `4 d 3 h`."""
    if seconds < 0.0005:
        return "<1 ms"
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, size, lower, lower_size in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // lower_size} {lower}"
    return f"{whole // 60} min {whole % 60} s"


def between(start: datetime | None, end: datetime | None) -> str:
    """The duration from one to the other; empty if one is missing."""
    return duration((end - start).total_seconds()) if start and end else ""


def ago(then: datetime, now: datetime | None = None) -> str:
    """Such as `just now`, `40 s ago`, `3 min ago`, `5 h ago`, `2 d ago`, and the date after a month."""
    seconds = ((now or datetime.now(UTC)) - then).total_seconds()
    if seconds < 2:
        return "just now"
    for size, unit in ((60, "s"), (3600, "min"), (86_400, "h"), (30 * 86_400, "d")):
        if seconds < size:
            per = {"s": 1, "min": 60, "h": 3600, "d": 86_400}[unit]
            return f"{int(seconds // per)} {unit} ago"
    return f"{then.astimezone():%Y-%m-%d}"


def stamp(at: datetime) -> str:
    """The time of day here, with its date."""
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}"


def utc(at: datetime) -> str:
    """The same for programs, in UTC."""
    return f"{at.replace(tzinfo=None).isoformat(timespec='seconds')}Z"
