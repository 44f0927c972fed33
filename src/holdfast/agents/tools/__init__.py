"""Tools: read, write, edit, list, search and run, confined to the workspace, each call a recorded step.

    from holdfast.agents import tools

    @workflow
    def fix() -> str:
        found = tools.search(r"def total\\(")
        tools.edit(found.matches[0].path, "return a + b", "return a + b + c")
        return tools.run(["pytest", "-q"]).stdout

In an async workflow each has `.aio`: `await tools.read.aio("a.py")`. `read`, `list` and `search` change
nothing and run again after a crash. `write`, `edit` and `run` have the effect `workspace`: what a cut-off
attempt did to the files is rolled back first. A tool that cannot do what it was asked raises `ToolFailed`,
whose message is written for a model. Results are bounded; `left_out` says what is missing. `text_of(result)`
is the text for a model.

`run` starts a program, and holdfast does not confine what that program does.
"""

from holdfast.agents.tools.tool_registry import Tool
from holdfast.agents.tools.tool_results import (
    Edited,
    FileEntry,
    FileList,
    FileText,
    Found,
    Match,
    Written,
    text_of,
)
from holdfast.agents.tools.tools import TOOLS, edit, list, read, run, search, write
from holdfast.engine.primitives.command import CommandResult
from holdfast.errors import ToolFailed

__all__ = [
    "TOOLS", "CommandResult", "Edited", "FileEntry", "FileList", "FileText", "Found", "Match", "Tool",
    "ToolFailed", "Written", "edit", "list", "read", "run", "search", "text_of", "write",
]  # fmt: skip
