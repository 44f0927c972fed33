"""Points of a run that a person named and that are not there: what there is instead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.cli.detail import Detail
from holdfast.errors import BadInput, NotFound, RunNotFound, StepNotFound

if TYPE_CHECKING:
    from holdfast.cli.access import Opened


@contextmanager
def explained(opened: Opened) -> Iterator[None]:
    """In a command that takes a checkpoint or a step: one that is not there is told as `missing` does."""
    try:
        yield
    except StepNotFound as error:
        raise missing(opened, error, "checkpoint or step") from None


def missing(opened: Opened, error: StepNotFound, what: str) -> NotFound:
    """The error with what was looked for, and the child run that has it, or the nearest names."""
    from holdfast.operations import points

    sentence = f"run {error.run_id} has no {what} {error.step!r}"
    for child in _children(opened, error.run_id):
        try:
            key = points.find(child.info.id, child.state, error.step).key
        except (StepNotFound, BadInput):
            continue
        return NotFound(f"{sentence}; its child run {child.info.id} has {key}")
    return NotFound(f"{sentence}; nearest: {', '.join(error.nearest)}" if error.nearest else sentence)


def _children(opened: Opened, run_id: str) -> Iterator[Detail]:
    """The child runs, their children too."""
    for step in Detail(opened, run_id).steps:
        if step.child:
            try:
                child = Detail(opened, step.child)
            except RunNotFound:  # its step began, and nothing of the run was written
                continue
            yield child
            yield from _children(opened, step.child)
