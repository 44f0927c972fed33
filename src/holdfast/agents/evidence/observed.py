"""Observed commands: what the log has of the commands of a run, for evidence and for its verification.

Everything here comes from events that the engine recorded while a command ran: its words, directory and
variables from the intent, its exit code and duration from the outcome, its output piece by piece. No text
that a step returned or printed becomes a command.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.kernel import codec
from holdfast.kernel import events as e
from holdfast.kernel.identity import name_of_program
from holdfast.operations.lineage import live

if TYPE_CHECKING:
    from holdfast.engine.primitives.command import CommandResult
    from holdfast.store.port import Recorded, Store

AGENTS = frozenset(
    "aider amp auggie claude codex copilot crush cursor-agent droid gemini goose opencode qwen".split()
)
"""Programs that are agents, whether or not a workflow says so (`command(..., evidence=False)`)."""
_FAILED = "holdfast.errors:CommandFailed"
_ENDS = (e.StepCompleted, e.StepFailed, e.StepSettled)


class Output(msgspec.Struct, frozen=True):
    """One stream of a command, as the log has it: redacted, and bounded by `output_limit`. `size` (bytes) and
    `sha256` are of all that the log has; `head` and `tail` are its beginning and its end."""

    head: str = ""
    tail: str = ""
    size: int = 0
    sha256: str = hashlib.sha256().hexdigest()

    @property
    def left_out(self) -> int:
        return self.size - len(self.head.encode()) - len(self.tail.encode())


class ObservedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One command that has ended.

    run, key   the step, in the log of its run; `attempt` is the one that ended it
    argv       its words, redacted; a secret by its name. `preview` is what is kept of long ones
    cwd        where it ran; empty if it is the directory of its run
    env        variables that were added; `secrets` are the names of those whose values are not recorded
    exit_code  None if it has none: `error` says why
    settled    not empty: a person said what became of it, and nothing was observed
    agent      it is an agent: what it printed are its own words
    digest     the identity of the call, by its words, directory, variables and input
    output_kept  False if its log does not have its output: a fork has the outcomes of the steps that it was
               made with, and not what they printed
    """

    run: str
    key: str
    attempt: int
    argv: tuple[str, ...]
    cwd: str
    effect: str
    started_at: int
    ended_at: int
    ended: int
    digest: str = ""
    env: dict[str, str] = {}
    secrets: tuple[str, ...] = ()
    preview: str = ""
    exit_code: int | None = None
    error: str = ""
    settled: str = ""
    duration_s: float = 0.0
    failed_attempts: int = 0
    stdout: Output = Output()
    stderr: Output = Output()
    output_kept: bool = True
    agent: bool = False

    @property
    def counts(self) -> bool:
        """Whether evidence can rest on it."""
        return not self.settled and not self.agent

    @property
    def named(self) -> e.ObservedCommand:
        return e.ObservedCommand(self.run, self.key, self.attempt)


class Keep(msgspec.Struct, frozen=True):
    """So many characters of the beginning and of the end of each output are kept."""

    head: int = 8 * 1024
    tail: int = 8 * 1024


def commands_of(
    store: Store, run_id: str, *, after: int = 0, generation: int | None = None, keep: Keep | None = None
) -> tuple[list[ObservedRun], int]:
    """The commands that have ended behind the version `after` in the live history of a run and of its child
    runs, in the order of their ends, and the version of the log that was read."""
    if generation is None:
        row = store.run(run_id)
        generation = 0 if row is None else row.generation
    # A history that was never rewound is one line, and its beginning need not be read.
    begin = after if generation == 0 else 0
    keep = keep or Keep()
    collected = _Collected(store, run_id, after, keep)
    recorded = store.load(run_id, after=begin, output=True)
    if not collected.take(_live(recorded, generation)) and begin:
        collected = _Collected(store, run_id, after, keep)
        recorded = store.load(run_id, output=True)
        collected.take(_live(recorded, generation))
    return collected.ended(), recorded[-1].version if recorded else after


def _live(recorded: Sequence[Recorded], generation: int) -> Iterable[Recorded]:
    return live(recorded, generation) if recorded else ()


class _Collected:
    """The commands of one run, while its history is read."""

    def __init__(self, store: Store, run_id: str, after: int, keep: Keep) -> None:
        self._store = store
        self._run = run_id
        self._after = after
        self._keep = keep
        self._open: dict[str, _Attempt] = {}
        self._failures: dict[str, int] = {}
        self._ended: dict[tuple[str, int], list[ObservedRun]] = {}
        self._children: dict[str, str] = {}
        self._begun: set[str] = set()

    def take(self, recorded: Iterable[Recorded]) -> bool:
        """False if a command ended whose beginning is not among these events."""
        for event, version, at in recorded:
            if isinstance(event, e.StepStarted):
                self._begun.add(event.key)
                if event.kind == "command":
                    self._open[event.key] = _Attempt(event, at, self._keep)
                elif event.kind == "child":
                    self._children[event.key] = event.child
            elif isinstance(event, e.OutputCaptured):
                attempt = self._open.get(event.key)
                if attempt is not None and attempt.started.attempt == event.attempt:
                    attempt.take(event.source, event.text)
            elif isinstance(event, e.StepAttemptFailed):
                self._failures[event.key] = self._failures.get(event.key, 0) + 1
            elif isinstance(event, _ENDS) and not self._end(event, version, at):
                return False
        return True

    def ended(self) -> list[ObservedRun]:
        return [one for several in self._ended.values() for one in several]

    def _end(self, event: e.StepCompleted | e.StepFailed | e.StepSettled, version: int, at: int) -> bool:
        if version <= self._after:
            return True
        key = event.key
        if key not in self._begun:
            return False
        attempt = self._open.get(key)
        if attempt is not None:
            self._ended[key, attempt.started.attempt] = [
                attempt.ended(self._store, self._run, event, version, at, self._failures.get(key, 0))
            ]
        elif key in self._children:
            found, _ = commands_of(self._store, self._children[key], keep=self._keep)
            self._ended[key, 0] = [msgspec.structs.replace(one, ended=version) for one in found]
        return True


class _Attempt:
    """An attempt of a command, while its history is read."""

    def __init__(self, started: e.StepStarted, at: int, keep: Keep) -> None:
        self.started = started
        self._at = at
        self._outputs = {"stdout": OutputParts(keep), "stderr": OutputParts(keep)}

    def take(self, source: str, text: str) -> None:
        if source in self._outputs:
            self._outputs[source].take(text)

    def ended(
        self,
        store: Store,
        run_id: str,
        event: e.StepCompleted | e.StepFailed | e.StepSettled,
        version: int,
        at: int,
        failures: int,
    ) -> ObservedRun:
        started, words = self.started, _words(self.started.args)
        code, error, settled, duration, kept = None, "", "", (at - self._at) / 1e6, True
        argv = words.argv
        if isinstance(event, e.StepCompleted):
            from holdfast.engine.primitives.command import recalled_result

            value = codec.decode(store.blob(event.blob) if event.blob else event.result)
            result = recalled_result(value, tuple(argv))
            code, duration = result.exit_code, result.duration_s
            argv = argv or result.argv
            kept = self._take_from(result)
        elif isinstance(event, e.StepSettled):
            settled = f"settled as {event.outcome}" + (f" by {event.by}" if event.by else "")
        else:
            error = event.error.message
            if event.error.type == _FAILED:
                failed = codec.decode(event.error.attributes)
                code, kept = failed["returncode"], self._has_output or not failed["output"]
        return ObservedRun(
            run=run_id, key=started.key, attempt=started.attempt, argv=tuple(argv), cwd=words.cwd,
            effect=started.effect, started_at=self._at, ended_at=at, ended=version, digest=started.digest,
            env=words.env, secrets=words.secrets, preview=started.preview, exit_code=code, error=error,
            settled=settled, duration_s=duration, failed_attempts=failures,
            stdout=self._outputs["stdout"].output(), stderr=self._outputs["stderr"].output(),
            output_kept=kept, agent=started.no_evidence or _is_agent(argv),
        )  # fmt: skip

    @property
    def _has_output(self) -> bool:
        return any(one.output().size for one in self._outputs.values())

    def _take_from(self, result: CommandResult) -> bool:
        """Of a fork: the result has the output, if it is short. Whether all of it is known."""
        if self._has_output or not (result.stdout or result.stderr):
            return True
        if result.left_out:
            return False
        self.take("stdout", result.stdout)
        self.take("stderr", result.stderr)
        return True


class OutputParts:
    """One output: hashed whole, kept at both ends."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._hash = hashlib.sha256()
        self._size = 0
        self._head: list[str] = []
        self._room = keep.head
        self._tail: deque[str] = deque()
        self._in_tail = 0

    def take(self, text: str) -> None:
        data = text.encode()
        self._hash.update(data)
        self._size += len(data)
        if self._room:
            self._head.append(text[: self._room])
            text = text[self._room :]
            self._room -= len(self._head[-1])
        if text and self._keep.tail:
            self._tail.append(text)
            self._in_tail += len(text)
            while self._in_tail - len(self._tail[0]) >= self._keep.tail:
                self._in_tail -= len(self._tail.popleft())

    def output(self) -> Output:
        tail = "".join(self._tail)[-self._keep.tail :] if self._keep.tail else ""
        return Output("".join(self._head), tail, self._size, self._hash.hexdigest())


class _Words(msgspec.Struct, frozen=True):
    argv: tuple[str, ...] = ()
    cwd: str = ""
    env: dict[str, str] = {}
    secrets: tuple[str, ...] = ()


def _words(args: msgspec.Raw) -> _Words:
    """The words of a command as its intent has them; nothing if they were too long to be kept."""
    data: Any = msgspec.json.decode(args) if bytes(args) else None
    if not isinstance(data, dict) or "argv" not in data:
        return _Words()
    argv = data["argv"]
    if isinstance(argv, dict):
        argv = argv.get("$tuple", [])
    env = data.get("env") or {}
    secrets = [_secret(word) for word in (*argv, *env.values()) if _is_secret(word)]
    return _Words(
        tuple(map(_shown, argv)),
        data.get("cwd") or "",
        {name: _shown(value) for name, value in env.items()},
        tuple(dict.fromkeys(secrets)),
    )


def _is_agent(argv: Sequence[str]) -> bool:
    return bool(argv) and name_of_program(argv[0]) in AGENTS


def _is_secret(word: Any) -> bool:
    return isinstance(word, dict) and "$secret" in word


def _secret(word: Any) -> str:
    return str(word["$secret"]).removeprefix("secret:")


def _shown(word: Any) -> str:
    return f"[secret {_secret(word)}]" if _is_secret(word) else str(word)
