"""`write_plan`: an agent writes a plan; what `plan check` finds wrong with it goes back to the agent once."""

from __future__ import annotations

import re
from collections.abc import Sequence

from holdfast.agents.protocol import Job
from holdfast.agents.working import work
from holdfast.engine.execution.scope import Scope, current
from holdfast.engine.primitives.values import recorded
from holdfast.engine.runs.workflow import workflow
from holdfast.errors import PlanFaults
from holdfast.plans import keys
from holdfast.plans.faults import Fault
from holdfast.plans.reading import check

_FENCED = re.compile(r"^```[a-z]*[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_EXAMPLE = """\
name: release
description: Publish a version
input: {version: null}
steps:
  - id: notes
    agent: Write release notes for ${input.version} into NOTES.md
    writes: [NOTES.md]
  - id: test
    needs: [notes]
    run: [pytest, -q]
    timeout: 10m
  - id: accept
    needs: [test]
    approve: Publish ${input.version}?
    show: notes.text
    milestone: accepted
"""


@workflow
async def write_plan(task: str, agent: str = "", draft: str = "") -> str:
    """Let an agent write a plan for the task, and return its text, which `plan check` accepts.

    agent  its name; empty for that of the role `planner`
    draft  a plan to begin with, such as that of `plan new` without an agent

    Raises `PlanFaults` if the second answer has faults, too.
    """
    text = await _ask(task, agent, _prompt(task, draft))
    faults = _faults(text)
    if faults:
        again = f"{_prompt(task, draft)}\n\nYour last plan:\n\n{text}\n\nIts faults:\n{_listed(faults)}"
        text = await _ask(task, agent, f"{again}\n\nAnswer with the whole plan, corrected.")
        faults = _faults(text)
        if faults:
            raise PlanFaults("the plan of the agent", faults)
    return text


def title_of(task: str, agent: str = "", draft: str = "") -> str:
    return f"plan: {' '.join(task.split())}"[:200]


write_plan.title = title_of


async def _ask(task: str, agent: str, prompt: str) -> str:
    job = Job(goal=task, prompt=prompt, kind="plan", changes_files=False)
    outcome = await work.aio(agent, job, role="planner")
    return plan_in(outcome.text)


def plan_in(answer: str) -> str:
    """The plan in an answer: its longest fenced block, or all of it."""
    blocks = _FENCED.findall(answer)
    return (max(blocks, key=len) if blocks else answer).strip() + "\n"


def _faults(text: str) -> list[Fault]:
    """Recorded: whether a program or an agent is there may change."""
    scope = current.get()
    assert type(scope) is Scope
    agent_fault = getattr(scope.execution.engine.handler("agents"), "fault", None)
    return recorded(
        "faults", lambda: [one for one in check(f"{text}\n", agent_fault=agent_fault) if not one.remark]
    )


def _listed(faults: Sequence[Fault]) -> str:
    return "\n".join(f"- line {one}" for one in faults)


def _prompt(task: str, draft: str) -> str:
    kinds = ", ".join(f"`{kind}`" for kind in keys.KINDS)
    any_step = ", ".join(f"`{key}`" for key in keys.ANY)
    options = "\n".join(
        f"- `{kind}` also takes {', '.join(f'`{key}`' for key in taken)}"
        for kind, taken in keys.OF_KIND.items()
        if taken
    )
    begin = f"\n\nBegin with this draft, which was made without a model:\n\n{draft}" if draft else ""
    return (
        f"Write a plan for this task: {task}\n\n"
        "A plan is a YAML file of steps, which holdfast executes. Each step does one thing: "
        f"{kinds}. Each step has {any_step}; only `id` is needed.\n{options}\n\n"
        "No shell reads `run`: write a list of words. `${STEP.KEY}` puts in the result of a step. "
        f"An example:\n\n{_EXAMPLE}{begin}\n\n"
        "Change no files. Answer with the plan alone, in one fenced block."
    )
