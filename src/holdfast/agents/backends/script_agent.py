"""`ScriptAgent`: an agent without a model, which does what a script says.

    implement:
      rounds:
        - do:
            - write: {path: hello.txt, text: "hello\\n"}
            - run: {argv: [cat, hello.txt]}
          answer: Wrote hello.txt
      on_rejection:
        do:
          - edit: {path: hello.txt, old: hello, new: "${reason}"}
        answer: "Corrected: ${reason}"

The keys are kinds of jobs; `other` is for all kinds that have none. A job of the nth round of its kind takes
the nth entry of `rounds`, and the last one from then on; a list is short for `rounds`, and a single entry
for a list of one. `on_rejection` is taken instead when the prompt says why the work was rejected. Each
action is a call of a tool, and a recorded step. Texts may hold `${goal}`, `${prompt}`, `${reason}` and
`${round}`.

It serves tests of workflows, rehearsals, and chores that need no model.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.agents.backends.history import reason_of
from holdfast.agents.backends.job_round import current_round, next_round
from holdfast.agents.protocol import Job, Outcome
from holdfast.agents.tools import TOOLS
from holdfast.engine.execution.scope import Scope, current
from holdfast.errors import AgentFailed, BadExpression, BadInput
from holdfast.plans import document, templates
from holdfast.plans.document import Unreadable
from holdfast.plans.expressions import Values
from holdfast.plans.faults import nearest

__all__ = ["ScriptAgent"]

OTHER: Final = "other"
_NAMES: Final = ("goal", "prompt", "reason", "round")
_ROUND: Final = ("do", "answer", "fail")
_KIND: Final = ("rounds", "on_rejection")


class _Action(msgspec.Struct, frozen=True):
    """A call of a tool; the arguments may hold `${...}`."""

    tool: str
    arguments: dict[str, Any]


class _Round(msgspec.Struct, frozen=True):
    """The actions of a job, then its answer, or the sentence it fails with."""

    actions: tuple[_Action, ...] = ()
    answer: str = ""
    fail: str = ""


class _Part(msgspec.Struct, frozen=True):
    """The script for one kind of job."""

    rounds: tuple[_Round, ...] = ()
    on_rejection: _Round | None = None


class ScriptAgent(msgspec.Struct, frozen=True, omit_defaults=True):
    """An agent that follows a script: a mapping as above, or the path of a YAML or JSON file with one. It is
    a value, and has the whole script: a child run can have it as an argument.

    plan  the script, or its path

    Raises `BadInput` with every fault of the script.
    """

    plan: dict[str, Any]
    name: str = "script"

    if TYPE_CHECKING:

        def __init__(
            self, plan: Mapping[str, Any] | str | os.PathLike[str], name: str = "script"
        ) -> None: ...

    def __post_init__(self) -> None:
        given: Any = self.plan
        if isinstance(given, str | os.PathLike):
            msgspec.structs.force_setattr(self, "plan", _read(Path(given)))
        reader = _Reader()
        reader.parts(self.plan)
        if reader.faults:
            where = os.fspath(given) if isinstance(given, str | os.PathLike) else f"the script of {self.name}"
            raise BadInput(f"{where} is no script of an agent:\n  " + "\n  ".join(reader.faults))

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, name: str = "script") -> ScriptAgent:
        """The script in a YAML or JSON file."""
        return cls(path, name)

    async def work(self, job: Job) -> Outcome:
        """Take the actions of this round, and answer. Raises what a tool raises, and `AgentFailed` if the
        script says `fail`, or has nothing for the kind of the job."""
        parts = _Reader().parts(self.plan)
        part = parts.get(job.kind) or parts.get(OTHER)
        if part is None:
            there = ", ".join(parts)
            raise AgentFailed(self.name, f"its script has nothing for {job.kind!r} jobs, only for {there}")
        number = current_round() or _count(job.kind)
        reason = reason_of(job)
        values = Values(
            {"goal": job.goal, "prompt": job.prompt, "reason": reason, "round": number}, _never, _never
        )
        chosen = part.on_rejection if reason and part.on_rejection is not None else _nth(part, number)
        for action in chosen.actions:
            await TOOLS[action.tool].aio(templates.fill(action.arguments, values))
        if chosen.fail:
            raise AgentFailed(self.name, templates.render(chosen.fail, values))
        return Outcome(text=templates.render(chosen.answer, values))


def _nth(part: _Part, number: int) -> _Round:
    return part.rounds[min(number, len(part.rounds)) - 1] if part.rounds else _Round()


def _count(kind: str) -> int:
    """The round, for an agent that was called without `work`."""
    scope = current.get()
    return next_round(scope.execution, kind) if type(scope) is Scope else 1


def _never(_id: str) -> bool:
    return False


def _read(path: Path) -> Any:
    try:
        node, twice = document.parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f"there is no script {path}; `file` of a script agent names one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"the script {path} cannot be read: {error}") from None
    except Unreadable as error:
        raise BadInput(f"{path}:{error.line}:{error.column}: {error.text}") from None
    if twice:
        raise BadInput(f"{path}:{twice[0].line}:{twice[0].column}: {twice[0].text}")
    return document.plain(node)


class _Reader:
    """Reads a script; each fault is a sentence in `faults`, and reading continues."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def parts(self, script: Any) -> dict[str, _Part]:
        if not isinstance(script, Mapping) or not script:
            self.faults.append("a script is a mapping of kinds of jobs: {implement: [{answer: done}]}")
            return {}
        return {str(kind): self._part(str(kind), value) for kind, value in script.items()}

    def _part(self, kind: str, value: Any) -> _Part:
        if isinstance(value, Mapping) and any(key in value for key in _KIND):
            self._check_keys(kind, value, _KIND)
            again = value.get("on_rejection")
            return _Part(
                tuple(self._rounds(f"{kind}.rounds", value.get("rounds", []))),
                None if again is None else self._round(f"{kind}.on_rejection", again),
            )
        return _Part(tuple(self._rounds(kind, [value] if isinstance(value, Mapping) else value)))

    def _rounds(self, where: str, value: Any) -> Iterator[_Round]:
        if not isinstance(value, Sequence) or isinstance(value, str):
            self.faults.append(f"{where}: a list of rounds, each with `do`, `answer` or `fail`")
            return
        for number, one in enumerate(value, 1):
            yield self._round(f"{where}[{number}]", one)

    def _round(self, where: str, value: Any) -> _Round:
        if not isinstance(value, Mapping):
            self.faults.append(f"{where}: a round is a mapping with `do`, `answer` or `fail`")
            return _Round()
        self._check_keys(where, value, _ROUND)
        done = value.get("do", ())
        if not isinstance(done, Sequence) or isinstance(done, str):
            self.faults.append(
                f"{where}.do: a list of actions, such as [{{write: {{path: a.txt, text: a}}}}]"
            )
            done = ()
        actions = [self._action(f"{where}.do[{number}]", one) for number, one in enumerate(done, 1)]
        return _Round(
            tuple(one for one in actions if one is not None),
            self._text(f"{where}.answer", value.get("answer", "")),
            self._text(f"{where}.fail", value.get("fail", "")),
        )

    def _action(self, where: str, value: Any) -> _Action | None:
        if not isinstance(value, Mapping) or len(value) != 1:
            self.faults.append(f"{where}: one tool with its arguments, such as {{read: {{path: a.txt}}}}")
            return None
        ((tool, given),) = value.items()
        if tool not in TOOLS:
            self.faults.append(f"{where}: there is no tool `{tool}`{nearest(str(tool), sorted(TOOLS))}")
            return None
        if not isinstance(given, Mapping):
            self.faults.append(f"{where}: `{tool}` takes its arguments by name, {{path: a.txt}}")
            return None
        arguments = dict(given)
        unknown = [key for key, one in arguments.items() if "${" in str(one)]
        self.faults += [f"{where}: {fault}" for fault in TOOLS[tool].faults(arguments, unknown)]
        for text in _texts(arguments):
            self._check_template(where, text)
        return _Action(str(tool), arguments)

    def _text(self, where: str, value: Any) -> str:
        if not isinstance(value, str):
            self.faults.append(f"{where}: text, not {type(value).__name__}")
            return ""
        self._check_template(where, value)
        return value

    def _check_template(self, where: str, text: str) -> None:
        try:
            names = {name for one in templates.expressions(text) for name in one.names}
        except BadExpression as error:
            self.faults.append(f"{where}: {error}")
            return
        for name in sorted(names.difference(_NAMES)):
            self.faults.append(f"{where}: there is no `{name}` here{nearest(name, _NAMES)}")

    def _check_keys(self, where: str, value: Mapping[str, Any], known: Sequence[str]) -> None:
        for key in value:
            if key not in known:
                self.faults.append(f"{where}: there is no key `{key}`{nearest(str(key), known)}")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, Sequence):
        for one in value:
            yield from _texts(one)
