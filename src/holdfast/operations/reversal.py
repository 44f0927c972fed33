"""The parts of an operation beside the run and its files: what else it moves, in the same transaction.

A `Reversal` is one part, such as the memory. It plans on the streams as they are, names these streams at the
versions that it has read, and decides inside the transaction. If what it would do has changed meanwhile, it
decides nothing, and the operation looks again: all parts are done, with the operation, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import msgspec

from holdfast.kernel import events as e
from holdfast.kernel.author import Author
from holdfast.store.port import Decision, Recorded, Source

if TYPE_CHECKING:
    from holdfast.kernel.state import RunState, StepState

Gone = Callable[[Author], bool]
"""Whether what this author wrote belongs to the part of a run that no longer counts."""


class PartChange(msgspec.Struct, frozen=True):
    """A task or a memory that changes: its id, its name or text, and how it changes."""

    id: str
    name: str
    change: str


class PartKept(msgspec.Struct, frozen=True):
    """One that stays as it is, and why."""

    id: str
    name: str
    why: str


class PartBack(msgspec.Struct, frozen=True):
    """The effects of an operation on tasks, or on the memory, done or planned."""

    changes: tuple[PartChange, ...] = ()
    kept: tuple[PartKept, ...] = ()

    JSON: ClassVar = {
        "changes": "what changes: `id`, `name` (of a memory, its text) and `change`",
        "kept": "what was changed by another since and stays: `id`, `name`, `why`",
    }

    def __bool__(self) -> bool:
        return bool(self.changes or self.kept)

    def to_json(self) -> dict[str, Any]:
        return {
            "changes": [msgspec.structs.asdict(one) for one in self.changes],
            "kept": [msgspec.structs.asdict(one) for one in self.kept],
        }


class PartDecided(NamedTuple):
    """The output of a part: a decision for each of its sources, and the stage that the operation records."""

    decisions: Sequence[Decision]
    stage: e.Event | None


class Reversal(Protocol):
    """One part of an operation."""

    def plan(self) -> PartBack:
        """The items that are restored, and those that are kept and why."""
        ...

    def sources(self) -> Sequence[Source]:
        """The streams that the plan was made on, each at its version."""
        ...

    def decide(self, recorded: Sequence[Sequence[Recorded]], operation: str, at: int) -> PartDecided | None:
        """The events to append, given the events since the plan; None if the plan no longer holds."""
        ...


class PartsDecided(NamedTuple):
    """The decisions of all parts of an operation, in the order of `part_sources`."""

    decisions: list[Decision]
    stages: list[e.Event]


def part_sources(parts: Sequence[Reversal]) -> list[Source]:
    return [source for part in parts for source in part.sources()]


def decide_parts(
    parts: Sequence[Reversal], recorded: Sequence[Sequence[Recorded]], operation: str, at: int
) -> PartsDecided | None:
    """None if the plan of one of them no longer holds."""
    decisions: list[Decision] = []
    stages: list[e.Event] = []
    for part in parts:
        begin = len(decisions)
        decided = part.decide(recorded[begin : begin + len(part.sources())], operation, at)
        if decided is None:
            return None
        decisions += decided.decisions
        stages += [] if decided.stage is None else [decided.stage]
    return PartsDecided(decisions, stages)


def digest_fields(parts: Sequence[Reversal]) -> list[Any]:
    """The effects of the parts, as JSON data for the digest of the plan, without the items that are kept."""
    plans = [[[one.id, one.change] for one in part.plan().changes] for part in parts]
    return [plans] if any(plans) else []


def rewound(run_id: str, state: RunState, kept: Set[str], children: Set[str]) -> Gone:
    """The part of a run that a rewind leaves: the live steps that are not `kept`, what the run's end wrote,
    which comes after every point and has no step, and everything of these child runs."""

    def gone(author: Author) -> bool:
        if author.run != run_id:
            return author.run != "" and author.run in children
        return author.step not in kept and is_live(author, state)

    return gone


def left(run_id: str, state: RunState, steps: Sequence[StepState], children: Set[str]) -> Gone:
    """The steps left behind where another generation is restored: `steps`, which only the live one has, and
    those that it had begun and not recorded."""
    return rewound(run_id, state, {*state.steps} - {step.key for step in steps}, children)


def is_live(author: Author, state: RunState) -> bool:
    """Whether the run wrote it in its live generation, or in a step that this one has taken over."""
    step = state.steps.get(author.step)
    return author.generation == state.generation or (
        step is not None and step.generation == author.generation
    )
