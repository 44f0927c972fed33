"""`CommandAgent`: any CLI agent, as one command that is a recorded step.

    claude = CommandAgent(["claude", "-p", "--output-format", "stream-json", "--verbose"], parse="claude")
    outcome = await work.aio(claude, Job(goal="...", prompt="..."))

The program works in the workspace, under the supervisor of `command`: an attempt that was cut off is killed
with its whole tree, its changes to the files are rolled back, and it runs again. Cost, tokens and session
are read from its output while it runs. Holdfast does not confine the program: what it writes outside the
workspace is neither seen nor rolled back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast import typed_values
from holdfast.agents.backends import parsers
from holdfast.agents.backends.parsers import PARSERS, AgentOutput, Parse
from holdfast.agents.backends.prompting import prompt_of
from holdfast.agents.backends.retries import Retries
from holdfast.agents.protocol import Job, Outcome
from holdfast.engine.execution.command_output import OUTPUT_LIMIT, OutputReader
from holdfast.engine.execution.scope import Scope, current
from holdfast.engine.execution.step_options import Seconds, seconds
from holdfast.engine.primitives.command import CommandResult, command
from holdfast.engine.primitives.measure import measure
from holdfast.engine.primitives.values import recorded
from holdfast.errors import AgentFailed, BadInput
from holdfast.kernel.amounts import Amounts
from holdfast.kernel.events import Isolate, OutputCaptured
from holdfast.kernel.identity import name_of_program
from holdfast.kernel.measures import Measured
from holdfast.kernel.state import StepState
from holdfast.redaction import Secret

__all__ = ["PRESETS", "CommandAgent"]

_PROMPT: Final = "{prompt}"
_LONGEST_ARGUMENT: Final = 128_000
"""Linux takes 128 KiB in one argument."""


class Preset:
    """The command line of a CLI that is known: `argv` for work on files, `reads` for work that only reads."""

    def __init__(self, parse: Parse, argv: Sequence[str], reads: Sequence[str]) -> None:
        self.parse: Parse = parse
        self.argv = tuple(argv)
        self.reads = tuple(reads)


_CLAUDE = ("claude", "-p", "--output-format", "stream-json", "--verbose")
_CODEX = ("codex", "exec", "--json", "--skip-git-repo-check", "--sandbox")
_OPENCODE = ("opencode", "run", "--format", "json")
_GEMINI = ("gemini", "--output-format", "stream-json", "--approval-mode")
PRESETS: Final[Mapping[str, Preset]] = {
    "claude": Preset("claude", (*_CLAUDE, "--permission-mode", "acceptEdits"), _CLAUDE),
    "codex": Preset("codex", (*_CODEX, "workspace-write", "-"), (*_CODEX, "read-only", "-")),
    "opencode": Preset("opencode", _OPENCODE, (*_OPENCODE, "--agent", "plan")),
    "gemini": Preset("gemini", (*_GEMINI, "auto_edit"), (*_GEMINI, "default")),
}


class _CommandLine(msgspec.Struct, frozen=True):
    argv: tuple[str, ...]


class CommandAgent(_CommandLine, frozen=True, kw_only=True, omit_defaults=True):
    """A CLI agent by its command line. It is a value: a child run can have it as an argument.

    argv     the program and its arguments. The prompt goes to its standard input; if a word has `{prompt}` in
             it, the prompt is put there instead
    name     its name, and that of its steps (default: the program's)
    parse    the form of its output: claude, codex, opencode, gemini, or none for plain text
    reads    the program and its arguments for jobs that change no files (default: `argv`)
    timeout  seconds, or a timedelta; then its whole tree is ended
    retry    how often a failed attempt is tried again; its changes to the files are rolled back first
    isolate  "copy": it works in a copy of the workspace, beside others
    env      variables to add, text or `Secret`
    reserve_usd  reserved in the budget for each attempt (`max_usd` of a job comes first), and counted if the
             output says nothing of what it cost
    output_limit  so many bytes of its output are kept in the log
    """

    name: str = ""
    parse: Parse = "none"
    reads: tuple[str, ...] = ()
    timeout: float | None = None
    retry: Retries | None = None
    isolate: Isolate | None = None
    env: dict[str, str | Secret] = {}
    reserve_usd: Decimal | None = None
    output_limit: int = OUTPUT_LIMIT

    if TYPE_CHECKING:

        def __init__(
            self,
            argv: Sequence[str],
            *,
            name: str = "",
            parse: Parse = "none",
            reads: Sequence[str] = (),
            timeout: Seconds | None = None,
            retry: Retries | None = None,
            isolate: Isolate | None = None,
            env: Mapping[str, str | Secret] = {},
            reserve_usd: Decimal | None = None,
            output_limit: int = OUTPUT_LIMIT,
        ) -> None: ...

    def __post_init__(self) -> None:
        set_ = msgspec.structs.force_setattr
        set_(self, "argv", _words(self.argv, "argv"))
        set_(self, "reads", _words(self.reads, "reads") if self.reads else ())
        set_(self, "timeout", None if self.timeout is None else seconds(self.timeout))
        set_(self, "name", self.name or name_of_program(self.argv[0]))
        if self.parse not in PARSERS:
            raise BadInput(f"CommandAgent(parse={self.parse!r}): one of {', '.join(PARSERS)}")

    def with_options(self, retry: Retries | None, isolate: Isolate | None) -> CommandAgent:
        """The same agent with other options, where they are given."""
        return msgspec.structs.replace(self, retry=retry or self.retry, isolate=isolate or self.isolate)

    async def work(self, job: Job) -> Outcome:
        """Run the program once and wait for its end. Raises `CommandFailed` if it ends with a code other than
        0, `AgentFailed` if its output says that it failed, `ProgramNotFound`, `StepTimeout`."""
        prompt = prompt_of(job)
        argv, stdin = self._filled(prompt, self.argv if job.changes_files or not self.reads else self.reads)
        seen = _Seen(self.name, self.parse)
        result = await command.aio(
            argv,
            name=self.name,
            cwd=_directory(),
            env=self.env or None,
            stdin=stdin,
            timeout=self.timeout,
            retry=None if self.retry is None else self.retry.as_retry(),
            writes=job.writes,
            isolate=self.isolate,
            on_line=seen,
            output_limit=self.output_limit,
            reserve=Amounts(self._most(job), budget=job.budget),
            evidence=False,
        )
        return recorded("answer", lambda: self._outcome(job, seen, result))

    def _most(self, job: Job) -> Decimal | None:
        """The most that an attempt may cost, reserved before it begins."""
        return self.reserve_usd if job.max_usd is None else job.max_usd

    def _filled(self, prompt: str, argv: Sequence[str]) -> tuple[list[str], str | None]:
        """The command line, and the text of its standard input."""
        if not any(_PROMPT in word for word in argv):
            return list(argv), prompt
        if len(prompt.encode()) > _LONGEST_ARGUMENT:
            raise BadInput(
                f"agent {self.name}: the prompt has {len(prompt.encode()):,} bytes, more than one argument "
                "can have; leave {prompt} out of argv, so that it goes to its standard input"
            )
        return [word.replace(_PROMPT, prompt) for word in argv], None

    def _outcome(self, job: Job, seen: _Seen, result: CommandResult) -> Outcome:
        """The usage is what the log has of the step. If the run was killed before this was recorded, the
        output is read from the log, too: its end, and as much of its beginning as `output_limit` kept."""
        scope = current.get()
        assert type(scope) is Scope
        step = _step(scope, self.name)
        output = seen.output if seen.lines else self._recorded_output(scope, step)
        measured, reserved = step.measured, self._most(job)
        if not measured and reserved is not None:
            measured = (Measured(usd=reserved, units={"estimated": 1}),)
        text = output.text or _plain(self.parse, result)
        return Outcome(text=text, measured=measured, session=output.session)

    def _recorded_output(self, scope: Scope, step: StepState) -> AgentOutput:
        run = scope.execution
        pieces: list[str] = []
        for entry in run.engine.store.entries(run.id, type="OutputCaptured"):
            kept = typed_values.decode(entry.payload, OutputCaptured)
            if (kept.key, kept.attempt, kept.source) == (step.key, step.attempt, "stdout"):
                pieces.append(kept.text)
        output = parsers.output_of(self.parse)
        for line in "".join(pieces).splitlines():
            output.feed(line)
        return output


def _step(scope: Scope, name: str) -> StepState:
    """The last command of this name in the scope, which has just ended."""
    path = scope.counters.path
    return next(
        step
        for key, step in reversed(scope.execution.state.steps.items())
        if step.kind == "command" and step.name == name and key.rpartition("/")[0] == path.rstrip("/")
    )


class _Seen(OutputReader):
    """The output of the last attempt, as far as this process has seen it."""

    def __init__(self, agent: str, parse: Parse) -> None:
        self._agent = agent
        self._parse = parse
        self._attempt = 0
        self.output = parsers.output_of(parse)
        self.lines = 0

    def __call__(self, line: str) -> str:
        """Called in the step, with each line. Returns what the agent says to a person in it."""
        attempt = getattr(current.get(), "attempt", 1)
        if attempt != self._attempt:
            self._attempt, self.output = attempt, parsers.output_of(self._parse)
        self.lines += 1
        for one in self.output.feed(line):
            measure(
                model=one.model, input_tokens=one.input_tokens, output_tokens=one.output_tokens, usd=one.usd
            )
        if self.output.failure:
            raise AgentFailed(self._agent, self.output.failure)
        return self.output.said


def _plain(parse: str, result: CommandResult) -> str:
    """The answer of a program whose output has no form."""
    return result.stdout.strip()[-parsers.TEXT_LIMIT :] if parse == "none" else ""


def _directory() -> str | None:
    """The root of the run's workspace; None if the run was started there, or there is no workspace."""
    scope = current.get()
    if type(scope) is not Scope:
        return None
    run = scope.execution
    root = run.engine.files.root_of(run.state)
    return None if root is None or str(root) == run.state.code.cwd else str(root)


def _words(argv: Sequence[str], what: str) -> tuple[str, ...]:
    if isinstance(argv, str) or not argv or not argv[0]:
        raise BadInput(f"CommandAgent({what}=...): a list of the program and its arguments, ['claude', '-p']")
    return tuple(argv)
