"""A plan: steps as data, as `run_plan` executes them and the log keeps them.

A `Plan` is the argument of its run, so it holds all that the run needs: sub-plans are whole inside it, and no
file is read again. It has no line numbers: two files that differ only in their layout are the same plan. Only
that of a checklist keeps the text, which is shown again with its items ticked.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

Kind = Literal["run", "python", "agent", "approve", "wait", "sleep", "tool", "plan"]
Effect = Literal["workspace", "once", "idempotent"]


class Retries(msgspec.Struct, frozen=True):
    """How often a step is tried, as `holdfast.Retry` has it; times are in seconds."""

    attempts: int = 3
    initial: float = 1.0
    factor: float = 2.0
    cap: float = 60.0
    total: float | None = None


class PlanStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step. Texts may hold `${...}`; `needs` includes the steps that its expressions name.

    text     what it is about: `module:function`, a prompt, the title of an approval, a signal's name, a tool
    argv     of `run`: the program and its arguments
    seconds  of `sleep`
    plan     of `plan`: the sub-plan
    given    of `with`: arguments of a function or a tool, input of a sub-plan
    show     of `approve`: an expression
    by       of `agent`: the agent's name; empty for that of the role `developer`
    """

    id: str
    kind: Kind
    description: str = ""
    text: str = ""
    argv: tuple[str, ...] = ()
    seconds: float = 0.0
    plan: Plan | None = None
    given: dict[str, Any] = {}
    show: str = ""
    by: str = ""
    needs: tuple[str, ...] = ()
    when: str = ""
    foreach: str = ""
    retry: Retries | None = None
    timeout: float | None = None
    effect: Effect | None = None
    writes: tuple[str, ...] = ()
    isolate: Literal["copy"] | None = None
    env: dict[str, str] = {}
    cwd: str = ""
    stdin: str | None = None
    milestone: str = ""


class Checklist(msgspec.Struct, frozen=True):
    """The Markdown file that a plan was read from: its lines, and for each step the line of its item, counted
    from 1. A run keeps it, so that the mirror can tick what is done."""

    text: str
    items: dict[str, int]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """`input` has the default of each input; one that is None must be given. `source` is the file that it was
    read from, `directory` where the modules of its functions are; both relative to the directory in which it
    was read, if they are below that. `budget` has the limits of the run."""

    name: str
    steps: tuple[PlanStep, ...]
    description: str = ""
    input: dict[str, Any] = {}
    parallel: int = 8
    budget: dict[str, float] = {}
    checkpoint_every: int = 0
    source: str = ""
    directory: str = ""
    checklist: Checklist | None = None

    JSON: ClassVar = {
        "name": "the plan's name",
        "description": "words for people",
        "input": "the default of each input; null: it must be given",
        "parallel": "so many steps at once",
        "budget": "the limits of the run: `usd`, `tokens`, `seconds`, `steps`",
        "checkpoint_every": "a checkpoint after so many steps each; 0 for none",
        "source": "the file that it was read from",
        "steps": "the steps, with what is set: `id`, `kind`, `needs`, ...; a sub-plan is inside its step",
    }

    def __deepcopy__(self, memo: dict[int, Any]) -> Plan:
        """Itself: nothing changes a plan, and a long one is slow to copy."""
        return self

    def step(self, id: str) -> PlanStep:
        """The step of that id. Raises `KeyError`."""
        for one in self.steps:
            if one.id == id:
                return one
        raise KeyError(id)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "description": self.description,
            "input": self.input,
            "parallel": self.parallel,
            "budget": self.budget,
            "checkpoint_every": self.checkpoint_every,
            "source": self.source,
            "steps": [_what_is_set(one) for one in self.steps],
        }


def _what_is_set(step: PlanStep) -> dict[str, Any]:
    bare = PlanStep(id="", kind=step.kind)
    fields = {
        name: getattr(step, name)
        for name in step.__struct_fields__
        if getattr(step, name) != getattr(bare, name)
    }
    shown = {name: value.to_json() if isinstance(value, Plan) else value for name, value in fields.items()}
    data: dict[str, Any] = msgspec.to_builtins({"id": step.id, "kind": step.kind, **shown})
    return data
