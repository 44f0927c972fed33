"""What several processes at once said, against the log that they wrote together.

Shares no code with the engine. The lines are those of `program.py`; their times are of one clock, so that
what one process said can be compared with what another did.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.crash.history import History, RunHistory, Violation, require


class Lost(Violation):
    """Something acknowledged is not in the log."""


class Line(NamedTuple):
    at: int
    """Nanoseconds of the monotonic clock."""
    pid: int
    verb: str
    words: tuple[str, ...]


def read_lines(path: Path) -> list[Line]:
    """All whole lines, in the order in which they were said."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text().split("\n")[:-1]:
        at, pid, verb, *words = line.split(" ")
        found.append(Line(int(at), int(pid), verb, tuple(words)))
    return sorted(found)


def check_ledger(lines: Sequence[Line], history: History, excused: Collection[Line] = ()) -> None:
    """Everything that must hold between what was said and what is recorded. `excused` are beginnings of
    bodies that may come too late, see `late_beginnings`."""
    _check_acknowledged(lines, history)
    _check_not_again(lines, history, excused)
    _check_one_owner(lines, history)


def check_completed(history: History, runs: Iterable[str]) -> None:
    """These runs have ended, each with the result that its steps make."""
    for run_id in runs:
        run = history.runs.get(run_id)
        require(run is not None, f"run {run_id} is not in the log")
        assert run is not None
        require(run.status == "completed", f"run {run_id} is {run.status} ({run.error or run.reason})")
        open_ones = [step.key for step in run.steps.values() if step.status != "completed"]
        require(not open_ones, f"run {run_id} is completed, its steps {open_ones} are not")
        result = json.loads(run.result_json)
        if isinstance(result, str) and "+" in result:
            tokens = sorted(token for step in run.steps.values() if (token := _value(step.result_json)))
            parts = sorted("+".join(tokens).split("+"))
            require(parts == sorted(result.split("+")), f"run {run_id}: its result is not that of its steps")


def check_passed(lines: Iterable[Line], history: History) -> None:
    """Whoever passed a gate, live or in a replay, got what the log has of it."""
    for line in lines:
        if line.verb != "passed":
            continue
        run_id, key, value = line.words
        step = history.runs[run_id].step(key) if run_id in history.runs else None
        if step is None or step.status != "completed":
            raise Lost(f"process {line.pid} passed the gate {key} of {run_id}, which the log has as open")
        require(
            step.result_json == value,
            f"process {line.pid} got {value} from the gate {key} of {run_id}; the log has {step.result_json}",
        )


def last(lines: Iterable[Line], verb: str, *words: str) -> Line | None:
    """The latest line with this verb and these first words."""
    found = None
    for line in lines:
        if line.verb == verb and line.words[: len(words)] == words:
            found = line
    return found


def late_beginnings(lines: Iterable[Line], pid: int, woken: int) -> list[Line]:
    """The bodies that a process began after it was woken up.

    A process that is stopped just before it calls a body calls it when it wakes up, and nothing that it
    could have looked at before can prevent that; its effect is that of any idempotent step that is cut off
    and runs again. So each branch of a run may begin one such body, and none of a `once` step."""
    return [line for line in lines if line.verb == "began" and line.pid == pid and line.at > woken]


def _value(result_json: str) -> str:
    """The token in a step's result; what follows `~` only takes room."""
    value = json.loads(result_json) if result_json else None
    return value.partition("~")[0] if isinstance(value, str) else ""


def _check_acknowledged(lines: Sequence[Line], history: History) -> None:
    """Who was told of a value or a result was told what the log has, now and for ever."""
    for line in lines:
        if line.verb == "told":
            run_id, key, token = line.words
            step = history.runs[run_id].step(key) if run_id in history.runs else None
            if step is None or step.status != "completed":
                raise Lost(
                    f"process {line.pid} was told of step {key} of {run_id}, which the log has as "
                    f"{step.status if step else 'nothing'}"
                )
            require(
                token in ("-", _value(step.result_json)),
                f"process {line.pid} was told another value of step {key} of {run_id} than the log has",
            )
        elif line.verb == "result":
            run_id, value = line.words
            run = history.runs.get(run_id)
            if run is None or run.status != "completed":
                raise Lost(f"process {line.pid} has the result of {run_id}, the log does not")
            require(
                str(json.loads(run.result_json)) == value,
                f"process {line.pid} has another result of {run_id} than the log",
            )


def _check_not_again(lines: Sequence[Line], history: History, excused: Collection[Line]) -> None:
    """No body begins after anybody was told of its step, none ends in the log without having ended, and
    none begins more often than owners and the log allow."""
    known: dict[tuple[str, str], Line] = {}
    begun: Counter[tuple[str, str]] = Counter()
    by_process: Counter[tuple[str, str, int]] = Counter()
    for line in lines:
        if line.verb not in ("told", "began"):
            continue
        place = (line.words[0], line.words[1])
        if line.verb == "told":
            known.setdefault(place, line)
            continue
        told = known.get(place)
        require(
            told is None or line in excused,
            f"step {place[1]} of {place[0]} began in process {line.pid}, after process "
            f"{told.pid if told else 0} was told of it",
        )
        begun[place] += 1
        by_process[*place, line.pid] += 1
    for (run_id, key), times in begun.items():
        run = history.runs.get(run_id)
        step = run.step(key) if run else None
        owners = len(run.epochs) if run else 0
        failures = step.failures if step else 0
        require(
            times <= owners + failures,
            f"step {key} of {run_id} began {times} times; the run had {owners} owners, the step {failures} "
            "failures",
        )
        if step is not None and step.effect == "once":
            require(
                times <= 1 + step.again,
                f"once step {key} of {run_id} began {times} times; the log allowed {1 + step.again}",
            )
    ended = {(line.words[0], line.words[1], line.words[2]) for line in lines if line.verb == "ended"}
    for run in history.runs.values():
        for step in run.steps.values():
            token = _value(step.result_json)
            if step.by_body and step.kind == "step" and token:
                require(
                    (run.id, step.key, token) in ended,
                    f"step {step.key} of {run.id}: the log has a value that no body returned",
                )


def _check_one_owner(lines: Sequence[Line], history: History) -> None:
    """An owner is one process, and everything that the log has from its time is that process's work."""
    process_of: dict[str, int] = {}
    for run in history.runs.values():
        for owner, pid, key in _work(run):
            require(
                process_of.setdefault(owner, pid) == pid,
                f"step {key} of {run.id}: process {pid} recorded it while process {process_of[owner]} owned "
                "the run",
            )


def _work(run: RunHistory) -> Iterable[tuple[str, int, str]]:
    """(owner, process, step) of everything that a body brought about."""
    owner = ""
    for event in run.events:
        if event.type == "RunClaimed":
            owner = event.payload["owner"]
        elif event.type in ("StepRan", "StepCompleted"):
            key = event.payload["key"]
            step = run.steps.get((event.payload.get("generation", 0), key))
            token = _value(step.result_json) if step else ""
            if step is not None and step.kind == "step" and token:
                yield owner, int(token.partition(".")[0]), key
