"""`command`: a program as a step, its whole process tree under a supervisor.

Its effect is `workspace`: what a command that was cut off did to the files is taken back, and it runs again.
Where there is no workspace, or the command runs outside it, it is `once`: it is not known what it did to the
world. Say `effect="idempotent"` for one that may run again as it is.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import signal
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.engine.execution.arguments import Digested, Signature
from holdfast.engine.execution.call import Call, Spec
from holdfast.engine.execution.command_output import OUTPUT_LIMIT, CommandOutput, OnLine
from holdfast.engine.execution.perform import doubt
from holdfast.engine.execution.reserving import Reserve, check_reserve
from holdfast.engine.execution.scope import InsideStep, current, on_this_thread
from holdfast.engine.execution.step_options import ONCE, Retry, Seconds, check_files, seconds
from holdfast.engine.execution.thread_driver import drive, look_for_takeover
from holdfast.engine.ownership.dead_owner import command_locks
from holdfast.engine.processes.process import NO_OUTPUT, TAIL_BYTES, Exit, Process, SupervisorLost
from holdfast.engine.processes.tree_lock import drop_lock, tree_is_dead
from holdfast.engine.runs.workflow import workflow
from holdfast.errors import BadInput, BadWorkspace, CommandFailed, StepTimeout, StoreError, WrongColour
from holdfast.kernel.events import Code, Effect, Isolate
from holdfast.kernel.identity import check_step_name, check_text, name_of_program
from holdfast.project import explained
from holdfast.redaction import Secret, revealed

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.engine.execution.execution import Execution
    from holdfast.engine.runs.run import Run
    from holdfast.redaction import Redactor

_GRACE_S = 2.0
_HURRY_S = 0.4
"""Between SIGTERM and SIGKILL: when a run stops, and when it is cancelled."""
_FROM_OUTSIDE = ("signalled", "supervisor_lost")


Word = str | Secret
"""One word of a command line."""


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


def _parameters(
    argv: Sequence[Word],
    cwd: str | None = None,
    env: Mapping[str, Word] | None = None,
    stdin: Word | None = None,
) -> None:
    """The parts of a command that identify it."""


def _shown(argv: Sequence[Word], cwd: str | None = None, env: Mapping[str, Word] | None = None) -> None:
    """The command as the log shows it: an input may be long, and the words matter more."""


class _Words(NamedTuple):
    """The input of a program: its words, directory, added variables, and the text of its standard input."""

    argv: tuple[Word, ...]
    cwd: str | None
    env: Mapping[str, Word]
    stdin: Word | None

    @classmethod
    def of(
        cls,
        argv: Sequence[Word | os.PathLike[str]],
        cwd: str | os.PathLike[str] | None,
        env: Mapping[str, Word] | None,
        stdin: Word | None,
    ) -> _Words:
        """Raises `BadInput` for what a program cannot be given, and for a secret where it would show."""
        words = tuple(_word(word, "command(): a word of the command") for word in argv)
        check_text(words[0], "command(): the program")
        variables = {
            check_text(name, "command(env=...): the name of a variable"): _word(
                value, f"command(env=...): the variable {name}"
            )
            for name, value in (env or {}).items()
        }
        where = None if cwd is None else check_text(_plain(cwd), "command(cwd=...)")
        if stdin is not None and not isinstance(stdin, (str, Secret)):
            raise BadInput(f"command(stdin=...) must be text or a Secret, not {stdin!r}")
        return cls(words, where, variables, stdin)

    @property
    def program(self) -> str:
        return revealed(self.argv[0])

    def digested(self, redactor: Redactor) -> Digested:
        """The identity by all words, a secret by its name. What the log shows of them is redacted: plain text
        may be a secret too."""
        exact = _SIGNATURE.digest((self.argv, self.cwd, self.env or None, self.stdin), {})
        hidden = redactor.redact_value({"argv": self.argv, "env": dict(self.env) or None})
        shown = _SHOWN.digest((hidden["argv"], self.cwd, hidden["env"]), {})
        return Digested(exact.digest, shown.args, shown.preview, shown.size)

    def older_digests(self) -> Iterable[str]:
        """The digest that this command had when its input did not count."""
        return (_SHOWN.digest((self.argv, self.cwd, self.env or None), {}).digest,)

    def shown(self, redactor: Redactor) -> tuple[str, ...]:
        """The words as a result has them."""
        return tuple(repr(one) if isinstance(one, Secret) else redactor.redact(one) for one in self.argv)


def _word(value: object, what: str) -> Word:
    value = _plain(value)
    if isinstance(value, (str, Secret)):
        return value
    if isinstance(value, (int, float)):
        return str(value)
    raise BadInput(f"{what} must be text or a Secret, not {value!r}")


def _plain(value: object) -> object:
    """A path as its text."""
    return os.fsdecode(value) if isinstance(value, (bytes, os.PathLike)) else value


class CommandStep:
    """Call it in a `def` workflow; in an async one, `await command.aio(...)`."""

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
        """
        how = _How(timeout, retry, effect, check, writes, isolate, on_line, output_limit, reserve)
        call = self._call(argv, name, cwd, env, stdin, how)
        if call is None:
            raise BadInput("command() is a step: call it from a workflow that a run executes")
        if call.execution.is_async:
            raise WrongColour("command() would block this async workflow: write `await command.aio(...)`")
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
    ) -> Coroutine[Any, Any, CommandResult]:
        """The same for async workflows."""
        from holdfast.engine.execution import task_driver

        how = _How(timeout, retry, effect, check, writes, isolate, on_line, output_limit, reserve)
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
        if not on_this_thread(scope):
            raise WrongColour("command() was called on another thread than the one of its scope")
        words = _Words.of(argv, cwd, env, stdin)
        effect = how.effect or _effect(scope.execution, words.cwd, bool(how.writes or how.isolate))
        if effect == "once" and how.retry is not None:
            raise BadInput(
                'command(retry=...): a command that failed may have happened; say effect="idempotent"'
            )
        digested = words.digested(scope.execution.engine.redactor)
        title = check_step_name(name) if name else name_of_program(words.program)
        key = scope.counters.key(title)
        spec = Spec(
            title, lambda: _run(call, words, how), kind="command", effect=effect, retry=how.retry or ONCE,
            intent_first=True, writes=how.writes, isolate=how.isolate, older=words.older_digests,
            reserve=how.reserve,
        )  # fmt: skip
        call = Call(
            scope.execution, spec, key, scope.counters.ordinal, digested, deadline=scope.deadline,
            budget=scope.budget,
        )  # fmt: skip
        return call


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
    reserve: Reserve | None = None

    def check(self) -> None:
        check_reserve("command()", self.reserve)
        check_files("command()", self.effect or "workspace", self.writes, self.isolate)
        if self.output_limit < 0:
            raise BadInput(f"command(output_limit={self.output_limit}): not less than 0 bytes")

    @property
    def timeout_s(self) -> float | None:
        return None if self.timeout is None else seconds(self.timeout)


_SIGNATURE = Signature(_parameters, "command")
_SHOWN = Signature(_shown, "command")


def _effect(run: Execution, cwd: str | None, needed: bool) -> Effect:
    """The effect of a command that declares none: `workspace` where it can have it.
    Raises `BadWorkspace` if it is `needed`."""
    files = run.engine.files
    where = _where(run, cwd)
    why = files.why_none
    if files.root is not None or run.state.files:
        root = files.of_run(run.state).root
        if Path(where).resolve().is_relative_to(root):
            return "workspace"
        why = f"{where} is not in the workspace {root}"
    if needed:
        raise BadWorkspace(f"command(writes=..., isolate=...): {why}")
    files.say_once(f"commands have the effect `once`: {why}")
    return "once"


def _run(call: Call, words: _Words, how: _How) -> CommandResult:
    """The body of a command step: start it, keep its output, wait for its whole tree."""
    run = call.execution
    argv = tuple(map(revealed, words.argv))
    added = {name: revealed(value) for name, value in words.env.items()}
    locks = command_locks(run.engine.home, run.id)
    # The epoch: what a stale owner still has to clear away is never the lock of the next one.
    lock = locks / f"{run.epoch}-{hashlib.sha256(call.key.encode()).hexdigest()[:16]}.lock"
    output = CommandOutput(call, how.output_limit, how.on_line)
    started: list[Process] = []
    try:
        with explained(locks):
            locks.mkdir(mode=0o700, parents=True, exist_ok=True)
        process = Process.start(
            argv,
            cwd=_directory(call, words.cwd),
            env={**os.environ, **({} if call.guard is None else call.guard.environment), **added},
            lock_path=lock,
            stdin=None if words.stdin is None else revealed(words.stdin).encode(),
            on_output=output.take,
            on_quiet=output.flush,
            on_start=started.append,
            redactor=run.engine.redactor,
        )
        end = _wait(call, process, how.timeout_s)
    except SupervisorLost:
        end = Exit(-signal.SIGKILL, "supervisor_lost", 0.0, NO_OUTPUT, NO_OUTPUT)
    except BaseException as error:
        if started:
            _end(started[0])
        if isinstance(error, StoreError):  # its lock cannot be had: no failure of the command
            raise run.lose(error) from None
        raise
    finally:
        if all(process.ended for process in started):
            output.close()
        _clear(lock)
    from_outside = end.reason in _FROM_OUTSIDE
    if from_outside:  # who takes a run over ends its commands: then that is what stops this run
        look_for_takeover(run)
    if run.control is not None:
        # It was ended because the run stops: what it had done by then is not known.
        raise run.stop(doubt(call, "was cancelled while it ran")) if _is_once(call) else run.control
    if from_outside and _is_once(call):
        raise run.stop(doubt(call, "was ended from outside"))
    output.end_lines()
    if how.check_code and end.code != 0:
        failed = CommandFailed(Path(argv[0]).name, end.code, end.stderr.text or end.stdout.text)
        _note_directory(failed, run, _where(run, words.cwd))
        raise failed
    shown = words.shown(run.engine.redactor)
    left_out = sum(max(0, one.size - TAIL_BYTES) for one in (end.stdout, end.stderr))
    return CommandResult(shown, end.code, end.stdout.text, end.stderr.text, end.duration_s, left_out)


def _directory(call: Call, cwd: str | None) -> str:
    """Where it runs; an isolated one in the same place of its copy."""
    where = _where(call.execution, cwd)
    return where if call.guard is None else call.guard.inside(where)


def _where(run: Execution, cwd: str | None) -> str:
    return cwd or run.state.code.cwd or os.getcwd()


def _note_directory(failed: CommandFailed, run: Execution, where: str) -> None:
    """Name both directories if they differ: a `workspace` step that wrote to `workspace_path()` and a command
    that reads from its own directory miss each other."""
    root = run.engine.files.root_of(run.state)
    if root is not None and Path(where).resolve() != root.resolve():
        failed.add_note(f"it ran in {where}; the workspace is {root}")


def _clear(lock: Path) -> None:
    """Remove the lock if its tree is dead; if that is not known, the next claim of the run looks again."""
    try:
        if tree_is_dead(lock):
            drop_lock(lock)
    except StoreError:
        pass


def _wait(call: Call, process: Process, timeout_s: float | None) -> Exit:
    run = call.execution
    limit = _limit(call, timeout_s)

    def end() -> None:
        hurry = run.control is not None and run.control.at_once
        process.terminate(_HURRY_S if hurry else _GRACE_S)

    run.on_stop.append(end)
    try:
        if run.control is not None:
            end()
        return process.wait(limit)
    except TimeoutError:
        if process.ended:
            raise  # it is the program's own, from `on_output`
        raise StepTimeout(call.key, limit or 0.0) from None
    finally:
        run.on_stop.remove(end)


def _end(process: Process) -> None:
    """End the whole tree and wait for it. An interrupt of that kills the tree, and waits too."""
    process.terminate()
    try:
        process.join()
    except BaseException:
        process.kill()
        process.join()
        raise


def _is_once(call: Call) -> bool:
    return call.spec.effect == "once"


def _limit(call: Call, timeout_s: float | None) -> float | None:
    """Seconds that the command has, by its own timeout and the deadline of the block it is in."""
    if not call.deadline:
        return timeout_s
    left = call.deadline.left_s(call.execution.engine.clock)
    return left if timeout_s is None else min(timeout_s, left)


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
    result = command(
        argv, timeout=timeout_s, effect=effect, writes=writes, isolate=isolate, output_limit=output_limit
    )
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
