"""Values with nothing inside that JSON does not have: each as a tag and a text or a few numbers."""

from __future__ import annotations

import importlib
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any, Final, cast

import msgspec

from holdfast.errors import CodeNotFound, NotStorable

Tagged = dict[str, object]


def float_out(value: float) -> Tagged:
    """NaN and the infinities, which JSON does not have."""
    return {"$float": repr(value)}


def int_out(value: int) -> Tagged:
    """An integer beyond 64 bits; hexadecimal, because Python limits the length of decimal text."""
    return {"$int": hex(value)}


def str_out(value: str) -> Tagged:
    """Text with lone surrogates, which UTF-8 cannot carry: a file name of arbitrary bytes, for one."""
    return {"$str": _text64(value.encode("utf-8", "surrogatepass"))}


def str_in(text: str) -> str:
    return a2b_base64(text).decode("utf-8", "surrogatepass")


def _str_node(value: str) -> object:
    try:
        value.encode()
    except UnicodeEncodeError:
        return str_out(value)
    return value


def _str_of(node: Any) -> str:
    return node if isinstance(node, str) else str_in(node["$str"])


def _text64(data: bytes | bytearray) -> str:
    return b2a_base64(data, newline=False).decode("ascii")


def _complex_in(parts: list[str]) -> complex:
    return complex(float(parts[0]), float(parts[1]))


# Dates and times


def _zone_node(zone: tzinfo) -> object:
    kind = type(zone)
    if kind is timezone:
        return _timezone_out(cast(timezone, zone))
    if kind.__name__ == "ZoneInfo" and late(kind):
        return _zoneinfo_out(zone)
    if (kind.__module__, kind.__name__) == ("pydantic_core._pydantic_core", "TzInfo"):
        offset = zone.utcoffset(None)
        return {"$tzinfo": offset.total_seconds() if offset else 0}
    name = f"{kind.__module__}.{kind.__qualname__}"
    raise NotStorable("", f"its time zone is a {name}; use datetime.timezone or zoneinfo.ZoneInfo")


def _zone_in(node: Any) -> tzinfo | None:
    if node is None:
        return None
    ((tag, payload),) = node.items()
    return cast(tzinfo, FROM_JSON[tag](payload))


def _timezone_out(zone: timezone) -> Tagged:
    offset, *name = zone.__getinitargs__()  # type: ignore[attr-defined]
    return {"$timezone": [_timedelta_node(offset), *map(_str_node, name)]}


def _timezone_in(parts: list[Any]) -> timezone:
    return timezone(timedelta(*parts[0]), *map(_str_of, parts[1:]))


def _zoneinfo_out(zone: Any) -> Tagged:
    if zone.key is None:
        raise NotStorable("", "it is a ZoneInfo without a key, so it cannot be found again")
    return {"$zone": zone.key}


def _zoneinfo_in(key: str) -> object:
    try:
        return importlib.import_module("zoneinfo").ZoneInfo(key)
    except Exception as error:
        raise CodeNotFound(f"zoneinfo:{key}", f"this machine has no such time zone ({error})") from error


def _tzinfo_in(seconds: float) -> object:
    return importlib.import_module("pydantic_core").TzInfo(seconds)


def _moment_node(value: datetime | time) -> object:
    """ISO text where that says it all: no fold, and a zone that is absent or a plain offset."""
    zone = value.tzinfo
    plain = zone is None or (type(zone) is timezone and len(zone.__getinitargs__()) == 1)  # type: ignore[attr-defined]
    if plain and not value.fold:
        return value.isoformat()
    return [value.replace(tzinfo=None, fold=0).isoformat(), _zone_node(zone) if zone else None, value.fold]


def _datetime_in(node: Any) -> datetime:
    if isinstance(node, str):
        return datetime.fromisoformat(node)
    return datetime.fromisoformat(node[0]).replace(tzinfo=_zone_in(node[1]), fold=node[2])


def _time_in(node: Any) -> time:
    if isinstance(node, str):
        return time.fromisoformat(node)
    return time.fromisoformat(node[0]).replace(tzinfo=_zone_in(node[1]), fold=node[2])


def _timedelta_node(value: timedelta) -> list[int]:
    return [value.days, value.seconds, value.microseconds]


# Types whose modules are loaded only when a value of them is met


def _path_out(value: Any) -> Tagged:
    return {"$path": [type(value).__name__, _str_node(str(value))]}


def _path_in(parts: list[Any]) -> object:
    name, text = parts
    if name not in _PATHS:
        raise CodeNotFound(f"pathlib:{name}", "it is not a path")
    return getattr(importlib.import_module("pathlib"), name)(_str_of(text))


def _uuid_out(value: object) -> Tagged:
    return {"$uuid": str(value)}


def _uuid_in(text: str) -> object:
    return importlib.import_module("uuid").UUID(text)


_PATHS: Final = ("PurePosixPath", "PosixPath", "PureWindowsPath", "WindowsPath")
_LATE: Final[dict[tuple[str, str], Callable[[Any], Tagged]]] = {
    ("uuid", "UUID"): _uuid_out,
    ("zoneinfo", "ZoneInfo"): _zoneinfo_out,
    **{("pathlib", name): _path_out for name in _PATHS},
}


def late(cls: type) -> Callable[[Any], Tagged] | None:
    """How to write values of a class whose module is not loaded here; None where it is not one of them."""
    # Some Pythons define the paths in pathlib._local and the zones in zoneinfo._zoneinfo.
    package = cls.__module__.partition(".")[0]
    out = _LATE.get((package, cls.__name__))
    if out is None or getattr(importlib.import_module(package), cls.__name__, None) is not cls:
        return None
    TO_JSON[cls] = out
    return out


TO_JSON: Final[dict[type, Callable[[Any], Tagged]]] = {
    bytes: lambda value: {"$bytes": _text64(value)},
    bytearray: lambda value: {"$bytearray": _text64(value)},
    complex: lambda value: {"$complex": [repr(value.real), repr(value.imag)]},
    datetime: lambda value: {"$datetime": _moment_node(value)},
    date: lambda value: {"$date": value.isoformat()},
    time: lambda value: {"$time": _moment_node(value)},
    timedelta: lambda value: {"$timedelta": _timedelta_node(value)},
    timezone: _timezone_out,
    Decimal: lambda value: {"$decimal": str(value)},
    msgspec.UnsetType: lambda _: {"$unset": None},
}

FROM_JSON: Final[dict[str, Callable[[Any], object]]] = {
    "$float": float,
    "$int": lambda text: int(text, 16),
    "$str": str_in,
    "$bytes": a2b_base64,
    "$bytearray": lambda text: bytearray(a2b_base64(text)),
    "$complex": _complex_in,
    "$datetime": _datetime_in,
    "$date": date.fromisoformat,
    "$time": _time_in,
    "$timedelta": lambda parts: timedelta(*parts),
    "$timezone": _timezone_in,
    "$zone": _zoneinfo_in,
    "$tzinfo": _tzinfo_in,
    "$decimal": Decimal,
    "$uuid": _uuid_in,
    "$path": _path_in,
    "$unset": lambda _: msgspec.UNSET,
}
