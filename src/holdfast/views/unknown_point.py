"""The error for a checkpoint or step that a run does not have: it names the child run that has it, or near
names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.errors import BadInput, StepNotFound
from holdfast.operations import points

if TYPE_CHECKING:
    from holdfast.views.reader import Reader
    from holdfast.views.run_detail import RunDetail


@contextmanager
def explained(reader: Reader) -> Iterator[None]:
    """Around what takes a checkpoint or a step: for one that is not there, raise the error of `missing`."""
    try:
        yield
    except StepNotFound as error:
        raise missing(reader, error, "checkpoint or step") from None


def missing(reader: Reader, error: StepNotFound, what: str) -> StepNotFound:
    """The error with what was looked for, and the child run that has it, or the nearest names."""
    made = StepNotFound(error.run_id, error.step, error.nearest)
    made.args = (_sentence(reader, error, what),)
    return made


def _sentence(reader: Reader, error: StepNotFound, what: str) -> str:
    sentence = f"run {error.run_id} has no {what} {error.step!r}"
    for child in _descendants(reader.detail(error.run_id)):
        try:
            key = points.find(child.id, child.state, error.step).key
        except (StepNotFound, BadInput):
            continue
        return f"{sentence}; its child run {child.id} has {key}"
    return f"{sentence}; nearest: {', '.join(error.nearest)}" if error.nearest else sentence


def _descendants(run: RunDetail) -> Iterator[RunDetail]:
    for child in run.children():
        yield child
        yield from _descendants(child)
