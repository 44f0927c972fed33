"""Faults of a plan, one line each, as compilers print them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.cli.drawing.terminal import Line, clean, complain, say
from holdfast.counts import counted

if TYPE_CHECKING:
    from holdfast.plans import Fault, Plan


class PlanInput(NamedTuple):
    """A plan without faults, and its input."""

    plan: Plan
    inputs: dict[str, Any]


class Checked(NamedTuple):
    """A plan, if it can be read, its input, and all that is to be said of it."""

    plan: Plan | None
    inputs: dict[str, Any]
    faults: list[Fault]

    @property
    def is_sound(self) -> bool:
        return self.plan is not None and all(one.remark for one in self.faults)


def check(path: str, pairs: Iterable[str], input_file: str | None, *, inputs_too: bool = True) -> Checked:
    """Read the plan with its input. Raises `BadInput` for an input that cannot be read."""
    from holdfast import plans
    from holdfast.facade.storeless import agent_fault
    from holdfast.plans.inputs import parse_inputs

    agents = agent_fault()
    faults = plans.check(path, agent_fault=agents)
    if any(not one.remark for one in faults):
        return Checked(None, {}, faults)
    plan = plans.read(path)
    inputs = parse_inputs(plan, pairs, input_file)
    if inputs_too or inputs:
        faults = plans.check(path, inputs, agent_fault=agents)
    return Checked(plan, inputs, faults)


def read_or_complain(path: str, pairs: Iterable[str], input_file: str | None) -> PlanInput | None:
    """The plan with its input; None if it has faults, and they are printed."""
    checked = check(path, pairs, input_file)
    if checked.is_sound:
        assert checked.plan is not None
        return PlanInput(checked.plan, checked.inputs)
    faults = [one for one in checked.faults if not one.remark]
    for line in lines(path, faults):
        say(line)
    complain(f"{clean(path)} has {counted(len(faults), 'fault')}; nothing was run")
    return None


def lines(path: str, faults: Sequence[Fault]) -> Iterator[Line]:
    """`release.yaml:4:7: there is no step `lnt`; did you mean `lint`?`"""
    for one in faults:
        file = clean(one.file or path)
        place = f"{file}:{one.line}:{one.column}" if one.line else file
        label = ("remark: ", "dim") if one.remark else ("", "dim")
        yield [(place, "bold"), ": ", label, clean(one.text)]
