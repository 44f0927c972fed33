"""The two agents that are evaluated, made from a task: a script, and a model behind a fake provider.

Both take the same way: a plan, the wrong edits first where a task has them, the right ones when the checks
send the work back, a review. Beside its edits each implementation leaves a line in a file outside the
workspace, which no rollback reaches: that is how a repeated effect is seen.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final, Literal

from evals.tasks import CodingTask, Edit
from holdfast.testing import FakeProvider, ToolCall

Backend = Literal["script", "llm"]
BACKENDS: Final[tuple[Backend, ...]] = ("script", "llm")
APPROVED: Final = "It does what the plan says.\nVERDICT: APPROVED"
MODEL: Final = "gpt-4o"
EFFECTS: Final = "EVAL_EFFECTS"
"""The variable that names the file outside the workspace."""


def provider(task: CodingTask, backend: Backend) -> AbstractContextManager[FakeProvider | None]:
    """The model of the task, for the backend that needs one."""
    if backend == "script":
        return nullcontext()
    first = [ToolCall(tool, given) for tool, given in _actions(task, task.wrong or task.edits)]
    again = [ToolCall(tool, given) for tool, given in _actions(task, task.edits)]
    return FakeProvider(
        conversations={
            "Plan how to reach this goal": [_plan(task)],
            "Review this change": [APPROVED],
            "was sent back": [*_turns(again), "Corrected."],
            "Carry out this plan": [*_turns(first), "Changed."],
        }
    )


def _turns(calls: Sequence[ToolCall]) -> list[list[ToolCall]]:
    """The first two calls in parallel, the others one by one."""
    return [list(calls[:2]), *([one] for one in calls[2:])]


def settings(task: CodingTask, backend: Backend, url: str, directory: Path) -> str:
    """The text of holdfast.toml; a script is written into the directory."""
    if backend == "llm":
        return (
            f'[agent.coder]\nbackend = "llm"\nmodel = "openai-chat:{MODEL}"\nbase_url = "{url}"\n'
            'key_variable = "EVAL_KEY"\n'
        )
    script = directory / "script.json"
    rounds: list[dict[str, Any]] = [{"do": _steps(task, task.edits), "answer": "Changed."}]
    if task.wrong:
        rounds.insert(0, {"do": _steps(task, task.wrong), "answer": "Changed."})
    parts = {"plan": {"answer": _plan(task)}, "implement": rounds, "review": {"answer": APPROVED}}
    script.write_text(json.dumps(parts))
    return f'[agent.coder]\nbackend = "script"\nfile = "{script}"\n'


def _plan(task: CodingTask) -> str:
    return "\n".join(f"{number}. Change {path}." for number, path in enumerate(task.paths, 1))


def _steps(task: CodingTask, edits: tuple[Edit, ...]) -> list[dict[str, Any]]:
    return [{tool: given} for tool, given in _actions(task, edits)]


def _actions(task: CodingTask, edits: tuple[Edit, ...]) -> list[tuple[str, dict[str, Any]]]:
    """The calls of tools: look, edit, remove, leave the line."""
    actions: list[tuple[str, dict[str, Any]]] = [("list", {})]
    for edit in edits:
        if edit.old:
            actions.append(("edit", {"path": edit.path, "old": edit.old, "new": edit.new}))
        else:
            actions.append(("write", {"path": edit.path, "text": edit.new}))
    if edits is task.edits:
        actions += [("run", {"argv": ["rm", path]}) for path in task.removes]
    which = "right" if edits is task.edits else "wrong"
    actions.append(("run", {"argv": ["sh", "-c", f'echo {which} >> "${EFFECTS}"']}))
    return actions
