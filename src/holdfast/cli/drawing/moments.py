"""Times and durations as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast import clock


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


def span(us: int) -> str:
    """The same of microseconds."""
    return duration(us / 1e6)


def between(start: datetime | None, end: datetime | None) -> str:
    """The duration from one to the other; empty if one is missing."""
    return duration((end - start).total_seconds()) if start and end else ""


def ago(then: datetime, now: datetime | None = None) -> str:
    """Such as `just now`, `40 s ago`, `3 min ago`; `now` is the time of this call if it is not given."""
    return clock.ago(then, now or datetime.now(UTC))


def stamp(at: datetime) -> str:
    """The time of day here, with its date."""
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}"


def utc(at: datetime) -> str:
    """The same for programs, in UTC."""
    return f"{at.replace(tzinfo=None).isoformat(timespec='seconds')}Z"
