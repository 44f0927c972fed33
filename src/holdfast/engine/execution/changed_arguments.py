"""Other arguments than the recorded ones: which parameters differ, with both values, redacted and short."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from holdfast.kernel import events as e
from holdfast.kernel.encoded import preview, redacted
from holdfast.kernel.state import StepState
from holdfast.ways import Way, quoted

if TYPE_CHECKING:
    from holdfast.redaction import Redactor
    from holdfast.store.port import Recorded

_SHOWN: Final = 60
_BEFORE: Final = 16
_RENDERED: Final = 4096
_OF_CHANCE: Final = frozenset({"$datetime", "$date", "$time", "$timedelta", "$uuid", "$bytes", "$float"})
_json: Final = msgspec.json.Encoder().encode
_HINT: Final = "time and chance must come from a step, or from `now` and `random`"


class Sides(NamedTuple):
    """Both sides of a divergence, in words."""

    recorded: str
    called: str


def describe(
    run_id: str, past: StepState, present: bytes, history: Iterable[Recorded], redactor: Redactor
) -> Sides:
    """Name each parameter that differs, with both values, if the log has the recorded ones; otherwise name
    the command that shows what the log has. `present` has the arguments of the call by name, as JSON; it is
    empty if they are large."""
    recorded = _recorded(past, history)
    other = f"{past.key} with other arguments"
    if not recorded or not present:
        show = quoted(Way("show", run_id, {"step": past.key}))
        called = (
            f"{past.key} with arguments too large for the log" if not present else f"{past.key} with these"
        )
        return Sides(f"{other} ({show} shows the beginning)", f"{called} ({_HINT})")
    before: dict[str, Any] = msgspec.json.decode(recorded)
    now: dict[str, Any] = msgspec.json.decode(present)
    names = [
        name
        for name in (*before, *(name for name in now if name not in before))
        if _differ(name, before, now)
    ]
    pairs = [_both(name, before, now, redactor) for name in names]
    if not pairs:
        return Sides(other, f"{past.key} with arguments that differ only in what the log does not show")
    hint = f" ({_HINT})" if _is_of_chance(names, before, now) else ""
    return Sides(
        f"{other}: {', '.join(pair.recorded for pair in pairs)}",
        f"it with {', '.join(pair.called for pair in pairs)}{hint}",
    )


def _recorded(past: StepState, history: Iterable[Recorded]) -> bytes:
    """The arguments of the recorded call by name, as JSON; empty if they were too large for the log."""
    found = b""
    for event, _, _ in history:
        if isinstance(event, e.StepStarted | e.StepRan):
            if (event.key, event.digest) == (past.key, past.digest):
                found = bytes(event.args)
        elif isinstance(event, e.GateOpened) and (event.key, event.digest) == (past.key, past.digest):
            found = b"" if event.blob else shown(event.name, bytes(event.show))
    return found


def shown(title: str, show: bytes) -> bytes:
    """The arguments of an approval by name."""
    return msgspec.json.encode({"title": title, "show": msgspec.Raw(show)})


def _differ(name: str, before: dict[str, Any], now: dict[str, Any]) -> bool:
    """By their JSON: Python finds 1 and True equal."""
    return name not in before or name not in now or _json(before[name]) != _json(now[name])


def _both(name: str, before: dict[str, Any], now: dict[str, Any], redactor: Redactor) -> Sides:
    texts = [_text(name, side, redactor) for side in (before, now)]
    start = _common(*texts) - _BEFORE if all(texts) else 0
    cut = [_cut(text, start if max(map(len, texts)) > _SHOWN else 0) for text in texts]
    return Sides(*(f"{name}={text}" if text else f"no {name}" for text in cut))


def _text(name: str, arguments: dict[str, Any], redactor: Redactor) -> str:
    if name not in arguments:
        return ""
    return preview(redacted(_json(arguments[name]), redactor, name), _RENDERED)


def _cut(text: str, start: int) -> str:
    """The part of the text where it differs from the other side's."""
    if start > 0:
        text = f"…{text[start:]}"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _common(one: str, other: str) -> int:
    """The number of characters that two texts begin with alike."""
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _is_of_chance(names: list[str], before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether all that differs is a number, a moment, an id or a text with digits: what a clock or a random
    generator gives. A parameter or a field that one side lacks is a change of the code."""
    return all(
        name in before
        and name in now
        and all(_from_chance(a) and _from_chance(b) for a, b in _leaves(before[name], now[name]))
        for name in names
    )


def _leaves(a: Any, b: Any) -> Iterator[tuple[Any, Any]]:
    """The innermost parts that differ."""
    if _json(a) == _json(b):
        return
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys() and not _OF_CHANCE & a.keys():
        for name in a:
            yield from _leaves(a[name], b[name])
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for one, other in zip(a, b, strict=True):
            yield from _leaves(one, other)
    else:
        yield a, b


def _from_chance(leaf: Any) -> bool:
    if isinstance(leaf, str):
        return any(map(str.isdigit, leaf))
    if isinstance(leaf, dict):
        return bool(_OF_CHANCE & leaf.keys())
    return type(leaf) in (int, float)
