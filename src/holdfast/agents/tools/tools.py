"""The six tools as steps, and the table of them."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from holdfast.agents.tools import file_tools, loop_guard, searching
from holdfast.agents.tools.confinement import Confinement, here
from holdfast.agents.tools.tool_registry import Tool
from holdfast.agents.tools.tool_results import Edited, FileList, FileText, Found, Written
from holdfast.engine.execution.scope import Scope, current
from holdfast.engine.primitives.command import CommandResult, CommandStep
from holdfast.engine.primitives.step import step
from holdfast.errors import BadInput, ToolFailed

if TYPE_CHECKING:
    from holdfast.kernel.events import Effect

READ_LIMIT = 64 << 10
LIST_LIMIT = 1_000
SEARCH_LIMIT = 200
SEARCH_S = 10.0
RUN_S = 600.0

_Path = Annotated[str, Meta(description="a path relative to the workspace, such as 'src/app.py'")]
_Start = Annotated[str, Meta(description="the directory to begin in; empty for the whole workspace")]
_Patterns = Annotated[
    Sequence[str], Meta(description="only files that a pattern names, as in .gitignore: ['*.py', 'docs/**']")
]


@step(name="read")
def read(
    path: _Path,
    *,
    first: Annotated[int, Meta(description="the first line to return, counted from 1")] = 1,
    lines: Annotated[int, Meta(description="how many lines to return; 0 for all")] = 0,
    limit: Annotated[int, Meta(description="at most so many characters")] = READ_LIMIT,
    encoding: Annotated[str | None, Meta(description="the encoding, if it is not detected")] = None,
) -> FileText:
    """Read a text file, or some lines of it."""
    with here("read") as inside:
        return file_tools.read(inside, path, first, lines, limit, encoding)


@step(name="write", effect="workspace")
def write(
    path: _Path,
    text: Annotated[str, Meta(description="the whole text of the file")],
    *,
    new: Annotated[bool, Meta(description="fail if the file is there already")] = False,
    encoding: Annotated[str, Meta(description="the encoding to write")] = "utf-8",
) -> Written:
    """Create a file or replace its whole text; directories are made."""
    with here("write") as inside:
        return file_tools.write(inside, path, text, encoding, new)


@step(name="edit", effect="workspace")
def edit(
    path: _Path,
    old: Annotated[str, Meta(description="the exact text to replace, which must be in the file once")],
    new: Annotated[str, Meta(description="the text to put there")],
    *,
    everywhere: Annotated[bool, Meta(description="replace each place where the old text is")] = False,
) -> Edited:
    """Replace an exact text in a file by another."""
    with here("edit") as inside:
        return file_tools.edit(inside, path, old, new, everywhere)


@step(name="list")
def list(
    path: _Start = "",
    *,
    patterns: _Patterns = (),
    depth: Annotated[int, Meta(description="how many levels; 0 for all")] = 1,
    ignored: Annotated[bool, Meta(description="also what ignore files name")] = False,
    limit: Annotated[int, Meta(description="at most so many entries")] = LIST_LIMIT,
) -> FileList:
    """List files and directories."""
    with here("list") as inside:
        return file_tools.list_files(inside, path, _tuple(patterns), depth, ignored, limit)


@step(name="search")
def search(
    pattern: Annotated[str, Meta(description="a regular expression for one line, or a text if literal")],
    path: _Start = "",
    *,
    patterns: _Patterns = (),
    literal: Annotated[bool, Meta(description="take the pattern as plain text")] = False,
    ignore_case: Annotated[bool, Meta(description="upper and lower case are the same")] = False,
    around: Annotated[int, Meta(description="so many lines before and after each match")] = 0,
    limit: Annotated[int, Meta(description="at most so many matches")] = SEARCH_LIMIT,
    timeout_s: Annotated[float, Meta(description="seconds that the search may take")] = SEARCH_S,
) -> Found:
    """Search the text of files, those that ignore files name left out."""
    query = searching.Query(pattern, path, _tuple(patterns), literal, ignore_case, around, limit, timeout_s)
    with here("search") as inside:
        return searching.search(inside, query)


def _tuple(patterns: Sequence[str]) -> tuple[str, ...]:
    """One pattern is as good as a list of one."""
    return (patterns,) if isinstance(patterns, str) else tuple(patterns)


class RunTool:
    """Call it in a `def` workflow; in an async one, `await run.aio(...)`."""

    name = "run"

    def __call__(
        self,
        argv: Annotated[
            Sequence[str], Meta(description="the program and its arguments; no shell: ['git', 'status']")
        ],
        *,
        cwd: Annotated[str, Meta(description="the directory to run in, relative to the workspace")] = "",
        stdin: Annotated[str | None, Meta(description="text for its standard input")] = None,
        env: Annotated[Mapping[str, str] | None, Meta(description="variables to add")] = None,
        timeout_s: Annotated[float, Meta(description="seconds until it is ended")] = RUN_S,
        check: Annotated[bool, Meta(description="fail if it ends with a code other than 0")] = False,
        effect: Annotated[
            str, Meta(description="'idempotent' for a program that writes nothing")
        ] = "workspace",
    ) -> CommandResult:
        """Run a program in the workspace and wait for its end; its last 64 KB of output are returned."""
        options = _options(argv, cwd, stdin, env, timeout_s, check, effect)
        return _command(_words(argv), **options)

    def aio(
        self,
        argv: Sequence[str],
        *,
        cwd: str = "",
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float = RUN_S,
        check: bool = False,
        effect: str = "workspace",
    ) -> Coroutine[Any, Any, CommandResult]:
        """The same for async workflows."""
        options = _options(argv, cwd, stdin, env, timeout_s, check, effect)
        return _command.aio(_words(argv), **options)


def _words(argv: Sequence[str]) -> Sequence[str]:
    if isinstance(argv, str) or not argv or not all(isinstance(word, str) for word in argv):
        raise ToolFailed(
            f"argv is a list of texts, the program and its arguments, ['git', 'status'], not {argv!r}"
        )
    return argv


def _options(
    argv: Sequence[str],
    cwd: str,
    stdin: str | None,
    env: Mapping[str, str] | None,
    timeout_s: float,
    check: bool,
    effect: str,
) -> dict[str, Any]:
    _words(argv)
    if effect not in ("workspace", "idempotent"):
        raise ToolFailed(f"effect={effect!r}: 'workspace', or 'idempotent' for a program that writes nothing")
    scope = current.get()
    if type(scope) is not Scope:
        raise BadInput("run() is a step: call it from a workflow that a run executes")
    root = scope.execution.engine.files.of_run(scope.execution.state).root
    with Confinement(root) as inside:
        where = root / inside.directory(cwd).decode("utf-8", "surrogateescape")
    chosen: Effect = "idempotent" if effect == "idempotent" else "workspace"
    return {
        "cwd": str(where), "stdin": stdin, "env": env, "timeout": timeout_s, "check": check, "effect": chosen,
    }  # fmt: skip


_command = CommandStep(before=partial(loop_guard.count, "run"))
run = RunTool()

TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool("read", read, read.fn, changes_files=False),
        Tool("write", write, write.fn, changes_files=True),
        Tool("edit", edit, edit.fn, changes_files=True),
        Tool("list", list, list.fn, changes_files=False),
        Tool("search", search, search.fn, changes_files=False),
        Tool("run", run, RunTool.__call__, changes_files=True),
    )
}
"""The tools by name, for plans and agents: what each takes and does, and how it is called."""
