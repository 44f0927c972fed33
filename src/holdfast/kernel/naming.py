"""Finding what a person names: by its whole key, its name, or the start of its id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from holdfast.errors import BadInput, StepNotFound
from holdfast.kernel.identity import branch_name, matches
from holdfast.kernel.state import UNSEEN, StepState
from holdfast.spelling import nearest

T = TypeVar("T")

_MOST = 8
_DIGITS = 19


def listed(names: Sequence[str]) -> str:
    """The names in a row, the first eight of them."""
    return ", ".join(names[:_MOST]) + (", ..." if len(names) > _MOST else "")


def find_step(
    run_id: str,
    steps: Iterable[StepState],
    text: str,
    *,
    what: str = "steps",
    prefer: Callable[[StepState], bool] = lambda _: False,
) -> StepState:
    """The step that `text` is: a whole key, a checkpoint's name, a step's name, where only one has it, or
    the name of the branch that it is alone in. Of several, those that `prefer` accepts are meant.

    Raises `StepNotFound` with the nearest names, `BadInput` if there are several.
    """
    known = list(steps)
    for step in known:
        if step.key == text:
            return step
    seen = [step for step in known if step.kind not in UNSEEN]
    found = [step for step in seen if step.kind == "checkpoint" and step.name == text]
    found = found or [step for step in seen if matches(step.key, text)]
    inside = [step for step in seen if step.kind != "checkpoint" and branch_name(step.key) == text]
    found = found or inside
    found = [step for step in found if prefer(step)] or found
    if len(found) == 1:
        return found[0]
    if found:
        keys = listed([step.key for step in found])
        raise BadInput(f"{text!r} is {len(found)} {what} of run {run_id}: {keys}; name one")
    near = nearest(text, dict.fromkeys(name for step in seen for name in (step.name, step.key)))
    raise StepNotFound(run_id, text, near or [step.key for step in seen[-3:]])


def number_of(text: str) -> int | None:
    """The short number that `#42`, or `42`, is; None if the text is none."""
    digits = text.removeprefix("#")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) < _DIGITS
    return int(digits) if is_number else None


def find_id(text: str, ids: Sequence[str], what: str, none: Callable[[], Exception]) -> str:
    """The id that `text` is, or the only one of `ids` that it is the start of. Raises `BadInput` if there are
    several, and what `none` returns if there is none."""
    found = [one for one in ids if one.startswith(text)] if text else []
    if text in found:
        return text
    if len(found) == 1:
        return found[0]
    if found:
        raise BadInput(f"{text!r} is the start of several {what}: {listed(found)}; type more of it")
    raise none()
