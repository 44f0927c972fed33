"""Whether a life is the same execution as the lives before it.

A `Story` is what all lives of one chain have shown so far. The trace that a life has shown up to its last
recorded outcome must be a prefix of the trace of every later life. What came after that may be forgotten:
timers that fired and values that were drawn since the last commit.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.crash import history, ledger
from tests.crash.oracle.lives import Life
from tests.crash.oracle.steps import PAID
from tests.crash.oracle.wal import Logged

DURABLE = frozenset({"got", "failed", "child", "checkpoint"})
"""Entries of outcomes that are in the log before the code receives them."""
ENDED = frozenset({"StepRan", "StepCompleted", "StepFailed"})
REPLAYED = 1000
"""Passes from this number on are those of `replay`."""

Entry = list[Any]
Stream = tuple[str, str]
"""A run and, where the order of its threads is not promised, one of its branches."""


@dataclass(frozen=True)
class Violation:
    """`what` is one of difference, repeated, divergence, hang, error."""

    what: str
    text: str


@dataclass(frozen=True)
class Story:
    """What the lives of a chain have shown."""

    by_branch: bool = False
    seen: dict[Stream, list[Entry]] = field(default_factory=dict)
    names: dict[tuple[str, str], str] = field(default_factory=dict)
    """(run, key) → name of the node whose body ran under that key."""
    once: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often the body of a `once` step without a verify hook began: (run, name) → times."""
    settled: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often somebody allowed it to run again."""

    def after(self, life: Life) -> Story:
        """The story with one more life, which may be cut short."""
        seen = dict(self.seen)
        for stream, entries in passes(life, self.by_branch):
            shown = durable(entries)
            if len(shown) > len(seen.get(stream, ())):
                seen[stream] = shown
        names, once, settled = dict(self.names), self.once.copy(), self.settled.copy()
        for _, _, run, key, name, effect, _ in life.of("body"):
            names[(run, key)] = name
            once[(run, name)] += effect == "once"
        for _, _, run, key in life.of("settled"):
            settled[(run, names.get((run, key), key))] += 1
        return replace(self, seen=seen, names=names, once=once, settled=settled)


def passes(life: Life, by_branch: bool, *, replayed: bool = False) -> list[tuple[Stream, list[Entry]]]:
    """The traces of every execution of a run's code in that life, in order."""
    found: dict[tuple[str, int, str], list[Entry]] = {}
    for _, _, run, number, entry in life.of("see"):
        if (number >= REPLAYED) == replayed:
            branch = str(entry[-1]) if by_branch else ""
            found.setdefault((run, number, branch), []).append(entry)
    return [((run, branch), entries) for (run, _, branch), entries in found.items()]


def durable(entries: Sequence[Entry]) -> list[Entry]:
    """Up to the last outcome that must be in the log."""
    ends = [place for place, entry in enumerate(entries) if entry[0] in DURABLE]
    return list(entries[: ends[-1] + 1]) if ends else []


def check(story: Story, life: Life) -> list[Violation]:
    """Everything that is wrong with a life that follows this story."""
    if life.hung:
        return [Violation("hang", hang_of(life))]
    found = [*_check_end(life), *_check_traces(story, life), *check_bodies(story, life)]
    return [*found, *_check_replay(story, life), *_check_faults(life), *_check_records(life)]


def hang_of(life: Life) -> str:
    """Where a life hangs: its last entries, then its threads and tasks."""
    last = [_word(line[-1]) for line in life.of("see")[-4:]]
    return f"no end after {' '.join(last)}\n{life.stderr[-6000:]}"


# How it ended


def _check_end(life: Life) -> list[Violation]:
    if life.killed:
        return []
    ends = {run: (how, text) for _, _, run, how, text in life.of("end")}
    if not ends:
        return [
            Violation("error", f"no report, status {life.status}: {life.lines[-1:]} {life.stderr[-1500:]}")
        ]
    found = []
    for run, (how, text) in ends.items():
        if how == "divergence":
            found.append(Violation("divergence", f"{run}: {text}"))
        elif how in ("error", "attention"):
            found.append(Violation("error", f"{run}: {text} {_crash_of(life)}"))
        elif how == "result":
            found += _check_result(life, run, text)
    return found


def _crash_of(life: Life) -> str:
    return life.stderr[-800:] if "Traceback" in life.stderr else ""


def _check_result(life: Life, run: str, text: str) -> list[Violation]:
    """The result is the one that the code returned, if it was executed to its end in this life."""
    returned = [entry[1] for (one, _), entries in passes(life, False) for entry in entries
                if one == run and entry[0] == "end"]  # fmt: skip
    if returned and returned[-1] != text:
        return [Violation("difference", f"{run}: the code returned {returned[-1]}, the run has {text}")]
    return []


# Traces


def _check_traces(story: Story, life: Life) -> list[Violation]:
    seen = dict(story.seen)
    for stream, entries in passes(life, story.by_branch):
        before = seen.get(stream, [])
        text = difference(before, entries, recorded_values(life.log, stream[0]))
        if not text and entries[-1][0] == "end" and len(entries) < len(before):
            text = f"ended after {len(entries)} of {len(before)} entries"
        if text:
            return [Violation("difference", f"{' '.join(stream).strip()}: {text}")]
        shown = durable(entries)
        if len(shown) > len(before):
            seen[stream] = shown
    return []


def recorded_values(log: Iterable[Logged], run: str) -> str:
    """The text of all values that a run has recorded: another run may have drawn the same."""
    return "\n".join(json.dumps(one.data) for one in log if one.type == "ValueRecorded" and one.run == run)


def difference(before: Sequence[Entry], now: Sequence[Entry], recorded: str) -> str:
    """Where a trace is no longer the one before, as far as both go; empty if nowhere. A value that was drawn
    and not recorded may be another one."""
    for place, (old, new) in enumerate(zip(before, now, strict=False)):
        is_lost = old[0] == new[0] == "value" and old[1] == new[1] and old[2] not in recorded
        if old != new and not is_lost:
            return f"entry {place} of {len(before)} was {_around(before, place)}, is {_around(now, place)}"
    return ""


def _around(entries: Sequence[Entry], place: int) -> str:
    before = "... " if place else ""
    return before + " ".join(_word(one) for one in entries[max(0, place - 2) : place + 3])


def _word(entry: Entry) -> str:
    return "(" + " ".join(map(str, entry)) + ")"


# Bodies


def recorded_names(story: Story, log: Iterable[Logged]) -> set[tuple[str, str]]:
    """(run, name) of the steps whose outcome the log has."""
    ended = {(one.run, one.data["key"]) for one in log if one.type in ENDED or _is_settled(one)}
    return {(run, story.names[(run, key)]) for run, key in ended if (run, key) in story.names}


def _is_settled(one: Logged) -> bool:
    return one.type == "StepSettled" and one.data.get("outcome") != "retry"


def check_bodies(story: Story, life: Life) -> list[Violation]:
    """A recorded step never runs again, and a `once` step only if somebody allowed it."""
    recorded = recorded_names(story, life.past)
    after = story.after(life)
    for _, _, run, key, name, effect, _ in life.of("body"):
        if (run, name) in recorded:
            text = f"{run}: {name} ({effect}) is recorded, and its body ran again as {key}"
            return [Violation("repeated", text)]
    for place, times in after.once.items():
        allowed = 1 + after.settled[place]
        if times > allowed:
            return [Violation("repeated", f"{place[0]}: once step {place[1]} ran {times} times")]
    return []


# Replay and audit


def _check_replay(story: Story, life: Life) -> list[Violation]:
    """`replay` of the whole log gives the whole trace of the last live execution."""
    for _, _, run, verdict, text in life.of("replay"):
        if verdict != "matches":
            return [Violation("divergence", f"replay of {run} {verdict}: {text}")]
    live = dict(passes(life, story.by_branch))
    for stream, entries in passes(life, story.by_branch, replayed=True):
        before = live.get(stream, [])
        if not before or not _is_whole(live, stream):
            continue
        text = difference(before, entries, recorded_values(life.log, stream[0]))
        if not text and len(before) != len(entries):
            text = f"{len(before)} entries were {len(entries)}: ends {_around(entries, len(entries) - 1)}"
        if text:
            return [Violation("difference", f"replay of {' '.join(stream).strip()}: {text}")]
    return []


def _is_whole(live: dict[Stream, list[Entry]], stream: Stream) -> bool:
    """Whether the code of this run came to its end."""
    return any(run == stream[0] and entries[-1][0] == "end" for (run, _), entries in live.items())


def _check_faults(life: Life) -> list[Violation]:
    return [Violation("error", f"audit: {text}") for _, _, faults in life.of("faults") for text in faults]


# Outcomes and budgets


def _check_records(life: Life) -> list[Violation]:
    """What was learned is recorded once, and every attempt that costs has reserved and is charged once."""
    streams: dict[str, list[history.Event]] = {}
    for one in life.log:
        events = streams.setdefault(one.run, [])
        events.append(history.Event(0, len(events) + 1, one.type, 0, one.data, b"", 1))
    runs = [
        history.RunHistory(name, events=events)
        for name, events in streams.items()
        if not name.startswith(ledger.BUDGET)
    ]
    reported = Counter(
        (run.id, event.payload["key"])
        for run in runs
        for event in run.events
        if event.type == "OutcomeReported"
    )
    found = [
        Violation("repeated", f"{run}: the outcome {key} is reported {times} times")
        for (run, key), times in reported.items()
        if times > 1
    ]
    try:
        ledger.check_accounts(streams, runs, lambda _, event: event.payload["name"].endswith(PAID))
    except history.Violation as wrong:
        found.append(Violation("error", f"budget: {wrong}"))
    return found
