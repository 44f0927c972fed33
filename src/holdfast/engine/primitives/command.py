"""`command`: a program as a step, its whole process tree under a supervisor.

Its effect is `workspace`: what a command that was cut off did to the files is rolled back, and it runs again.
Where there is no workspace, or the command runs outside it, it is `once`: it is not known what it did to the
world. Say `effect="idempotent"` for one that may run again as it is.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.engine.execution.call import Call, Spec
from holdfast.engine.execution.command_output import OUTPUT_LIMIT, OnLine
from holdfast.engine.execution.reserving import Reserve, check_reserve
from holdfast.engine.execution.scope import InsideStep, Scope, current, refuse_in_async, require_thread
from holdfast.engine.execution.step_options import ONCE, Retry, Seconds, check_files, seconds
from holdfast.engine.execution.thread_driver import drive
from holdfast.engine.primitives.command_line import CommandLine, Word
from holdfast.engine.primitives.command_process import directory_of, execute
from holdfast.engine.processes.process import TAIL_BYTES
from holdfast.engine.runs.workflow import workflow
from holdfast.errors import BadInput, BadWorkspace, CommandFailed
from holdfast.kernel.amounts import Amounts
from holdfast.kernel.events import Code, Effect, Isolate
from holdfast.kernel.identity import check_step_name, name_of_program

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.engine.execution.execution import Execution
    from holdfast.engine.runs.run import Run


class CommandResult(msgspec.Struct, frozen=True):
    """How a command ended. The texts are redacted and hold the last 64 KB; `left_out` bytes came before
    them, and `hf.logs()` has as much as `output_limit` says. `argv` is redacted too, with a `Secret` by its
    name."""

    argv: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str
    duration_s: float
    left_out: int = 0


def recalled_result(value: object, argv: tuple[str, ...]) -> CommandResult:
    """The recorded result of a command with these words. A result that was settled without words has them
    here. An older holdfast recorded any value that a command was settled with as done: it counts as the end
    with exit code 0, unless it names another."""
    if isinstance(value, CommandResult):
        return value if value.argv else msgspec.structs.replace(value, argv=argv)
    given = value if isinstance(value, dict) else {}
    code, stdout, stderr = given.get("exit_code"), given.get("stdout"), given.get("stderr")
    return CommandResult(
        argv,
        code if isinstance(code, int) else 0,
        stdout if isinstance(stdout, str) else "",
        stderr if isinstance(stderr, str) else "",
        0.0,
    )


def identity(argv: Sequence[str], cwd: str | None, env: Mapping[str, str]) -> str:
    """The digest that a command of plain words and without input has in the log. What the log shows of one
    with another digest is not all that it was given."""
    return CommandLine.of(argv, cwd, env, None).identity


class CommandStep:
    """Call it in a `def` workflow; in an async one, `await command.aio(...)`."""

    def __init__(self, before: Callable[[Call], None] | None = None) -> None:
        """`before` is called with each call before its program is started."""
        self._before = before

    def __call__(
        self,
        argv: Sequence[Word],
        *,
        name: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, Word] | None = None,
        stdin: Word | None = None,
        timeout: Seconds | None = None,
        retry: Retry | None = None,
        effect: Effect | None = None,
        check: bool = True,
        writes: Sequence[str] = (),
        isolate: Isolate | None = None,
        on_line: OnLine | None = None,
        output_limit: int = OUTPUT_LIMIT,
        reserve: Reserve | None = None,
        evidence: bool = True,
    ) -> CommandResult:
        """Run a program and wait for its end.

        name     the step's name (default: the program's)
        argv     the program and its words; a `Secret` reaches the program, and the log has its name. Other
                 users can see words of a running program: `env` and `stdin` are better for a secret
        cwd, env the directory (default: the one the run was started in), and variables to add to
                 this process's, text or `Secret`
        stdin    text or a `Secret` for its standard input; without it there is none. It counts for the
                 identity of the call, a `Secret` by its name
        timeout  seconds; then the whole tree is ended
        retry    not with effect="once"
        effect   "workspace" (the default where there is a workspace), "once" or "idempotent"
        check    raise `CommandFailed` when it ends with a code other than 0
        writes   patterns of what it writes; what else changes meanwhile is not its own
        isolate  "copy": it works in a copy of the workspace, beside others
        on_line  called with each line of its output while it runs, redacted and without the line break, from
                 a thread. A line of more than 64 KB comes in pieces. If it raises, the command is ended and
                 the step fails with that error. A replay does not call it
        output_limit  so many bytes of its output are kept in the log, all attempts have their own; of longer
                 output the log has the beginning, how much was left out, and the end
        reserve  what it may use, `Amounts(usd="0.50")`, or a function that returns it: reserved in a budget
                 before it begins, and settled with what `on_line` has measured
        evidence  False for a program that is an agent: what it prints are its own words, and the evidence of
                 a milestone names it and does not rest on it
        """
        how = _How(timeout, retry, effect, check, writes, isolate, on_line, output_limit, evidence, reserve)
        call = self._call(argv, name, cwd, env, stdin, how)
        if call is None:
            raise BadInput("command() is a step: call it from a workflow that a run executes")
        refuse_in_async(call.execution, "command")
        result: CommandResult = drive(call, call.recall())
        return result

    def aio(
        self,
        argv: Sequence[Word],
        *,
        name: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, Word] | None = None,
        stdin: Word | None = None,
        timeout: Seconds | None = None,
        retry: Retry | None = None,
        effect: Effect | None = None,
        check: bool = True,
        writes: Sequence[str] = (),
        isolate: Isolate | None = None,
        on_line: OnLine | None = None,
        output_limit: int = OUTPUT_LIMIT,
        reserve: Reserve | None = None,
        evidence: bool = True,
    ) -> Coroutine[Any, Any, CommandResult]:
        """The same for async workflows."""
        from holdfast.engine.execution import task_driver

        how = _How(timeout, retry, effect, check, writes, isolate, on_line, output_limit, evidence, reserve)
        call = self._call(argv, name, cwd, env, stdin, how)
        if call is None:
            raise BadInput("command.aio() is a step: call it from a workflow that a run executes")
        return call.execution.unawaited.expect("command", call.spec.name, task_driver.perform_call(call))

    def _call(
        self,
        argv: Sequence[Word],
        name: str | None,
        cwd: str | os.PathLike[str] | None,
        env: Mapping[str, Word] | None,
        stdin: Word | None,
        how: _How,
    ) -> Call | None:
        if isinstance(argv, str) or not argv:
            raise BadInput("command() takes a list: the program and its arguments, ['git', 'status']")
        how.check()
        scope = current.get()
        if isinstance(scope, InsideStep) or scope is None:
            return None
        require_thread(scope, "command()")
        line = CommandLine.of(argv, cwd, env, stdin)
        effect = how.effect or _effect(scope.execution, line.cwd, bool(how.writes or how.isolate))
        if effect == "once" and how.retry is not None:
            raise BadInput(
                'command(retry=...): a command that failed may have happened; say effect="idempotent"'
            )
        digested = line.digested(scope.execution.engine.redactor)
        title = check_step_name(name) if name else name_of_program(line.program)
        key = scope.counters.key(title)
        spec = Spec(
            title, lambda: self._run(call, line, how), kind="command", effect=effect,
            retry=how.retry or ONCE, intent_first=True, writes=how.writes, isolate=how.isolate,
            older=line.older_digests, no_evidence=not how.evidence, reserve=how.reserve,
            recalled=lambda value: recalled_result(value, line.shown(scope.execution.engine.redactor)),
        )  # fmt: skip
        call = Call(
            scope.execution, spec, key, scope.counters.ordinal, digested, deadline=scope.deadline,
            budget=scope.budget,
        )  # fmt: skip
        return call

    def _run(self, call: Call, line: CommandLine, how: _How) -> CommandResult:
        if self._before is not None:
            self._before(call)
        run = call.execution
        end = execute(call, line, how.timeout_s, how.output_limit, how.on_line)
        if how.check_code and end.code != 0:
            failed = CommandFailed(Path(line.program).name, end.code, end.stderr.text or end.stdout.text)
            _note_directory(failed, run, directory_of(run, line.cwd))
            raise failed
        shown = line.shown(run.engine.redactor)
        left_out = sum(max(0, one.size - TAIL_BYTES) for one in (end.stdout, end.stderr))
        return CommandResult(shown, end.code, end.stdout.text, end.stderr.text, end.duration_s, left_out)


class _How(NamedTuple):
    """How a command is run: nothing of it counts for its identity."""

    timeout: Seconds | None
    retry: Retry | None
    effect: Effect | None
    check_code: bool
    writes: Sequence[str]
    isolate: Isolate | None
    on_line: OnLine | None
    output_limit: int
    evidence: bool
    reserve: Reserve | None = None

    def check(self) -> None:
        check_reserve("command()", self.reserve)
        check_files("command()", self.effect or "workspace", self.writes, self.isolate)
        if self.output_limit < 0:
            raise BadInput(f"command(output_limit={self.output_limit}): not less than 0 bytes")

    @property
    def timeout_s(self) -> float | None:
        return None if self.timeout is None else seconds(self.timeout)


def _effect(run: Execution, cwd: str | None, needed: bool) -> Effect:
    """The effect of a command that declares none: `workspace` where it can have it.
    Raises `BadWorkspace` if it is `needed`."""
    files = run.engine.files
    where = directory_of(run, cwd)
    why = files.why_none
    if files.root is not None or run.state.files:
        root = files.of_run(run.state).root
        if Path(where).resolve().is_relative_to(root):
            return "workspace"
        why = f"{where} is not in the workspace {root}"
    if needed:
        raise BadWorkspace(f"command(writes=..., isolate=...): {why}")
    files.warn_once(f"commands have the effect `once`: {why}")
    return "once"


def _note_directory(failed: CommandFailed, run: Execution, where: str) -> None:
    """Name both directories if they differ: a `workspace` step that wrote to `workspace_path()` and a command
    that reads from its own directory miss each other."""
    root = run.engine.files.root_of(run.state)
    if root is not None and Path(where).resolve() != root.resolve():
        failed.add_note(f"it ran in {where}; the workspace is {root}")


@workflow
def run_command(
    argv: tuple[str, ...],
    cwd: str,
    timeout_s: float | None = None,
    effect: Effect | None = None,
    writes: tuple[str, ...] = (),
    isolate: Isolate | None = None,
    output_limit: int = OUTPUT_LIMIT,
) -> int:
    """The workflow of `holdfast run "echo hello"`: one command. It runs where its run works; `cwd`, where it
    was started, counts for its identity."""
    scope = current.get()
    paid = isinstance(scope, Scope) and bool(scope.execution.state.budget)
    result = command(
        argv, timeout=timeout_s, effect=effect, writes=writes, isolate=isolate, output_limit=output_limit,
        reserve=Amounts() if paid else None,
    )  # fmt: skip
    return result.exit_code


command = CommandStep()


def start_command(
    engine: Engine,
    argv: list[str],
    cwd: str,
    how: tuple[Any, ...],
    run_id: str | None = None,
    title: str = "",
    task: str = "",
    budget: str = "",
) -> Run[Any]:
    """Start a run of `run_command`; `how` has its other arguments."""
    code = Code(title or shlex.join(argv), __name__, argv=tuple(argv), cwd=cwd)
    return engine.start(run_command, (tuple(argv), cwd, *how), {}, run_id, code, task, budget)
