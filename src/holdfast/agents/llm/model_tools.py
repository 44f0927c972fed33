"""holdfast's own tools as tools of pydantic-ai. Each call is a step of its own, so the tool itself is
none."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pathspec
from pydantic_ai.tools import Tool as ModelTool

from holdfast.agents.protocol import Job
from holdfast.agents.tools import TOOLS, Tool, text_of
from holdfast.errors import BadInput, CommandFailed, ProgramNotFound, StepTimeout, ToolFailed

_FAILURES = (ToolFailed, CommandFailed, ProgramNotFound, StepTimeout, BadInput)
"""Errors that a model can correct: it reads the sentence and calls again."""


def checked_names(names: Sequence[str] | bool) -> tuple[str, ...]:
    """The tools that are chosen by name; True for all."""
    if isinstance(names, bool):
        return tuple(TOOLS) if names else ()
    unknown = sorted(set(names) - set(TOOLS))
    if unknown:
        raise BadInput(f"tools: there is no {unknown[0]!r}; there are {', '.join(TOOLS)}")
    return tuple(dict.fromkeys(names))


def model_tools(names: Sequence[str], job: Job, approve: Collection[str]) -> list[ModelTool[Any]]:
    """The tools for a job: those that change files only if the job may, and paths only as it says."""
    return [
        _model_tool(TOOLS[name], job.writes, name in approve)
        for name in names
        if job.changes_files or not TOOLS[name].changes_files
    ]


def _model_tool(tool: Tool, writes: Sequence[str], requires_approval: bool) -> ModelTool[Any]:
    allowed = pathspec.GitIgnoreSpec.from_lines(writes) if writes and tool.name in ("write", "edit") else None

    async def call(**arguments: Any) -> str:
        path = arguments.get("path")
        if allowed is not None and isinstance(path, str) and not allowed.match_file(path):
            return f"error: {path} is not to be changed by this job; it may change {', '.join(writes)}"
        try:
            return text_of(await tool.aio(arguments))
        except _FAILURES as error:
            return f"error: {error}"

    made: ModelTool[Any] = ModelTool.from_schema(call, tool.name, tool.does, dict(tool.schema))
    made.requires_approval = requires_approval
    made.metadata = {"holdfast": False}
    return made
