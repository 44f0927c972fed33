"""Whether a run that is resumed with changed code does the same, or is stopped before it does anything."""

from __future__ import annotations

from collections.abc import Sequence, Set

from tests.crash.oracle.comparing import (
    DURABLE,
    Entry,
    Story,
    Stream,
    Violation,
    check_bodies,
    hang_of,
    passes,
)
from tests.crash.oracle.lives import Life
from tests.crash.oracle.mutations import HARMLESS


def check_mutated(story: Story, life: Life, change: str, movable: Set[str] = frozenset()) -> list[Violation]:
    """Everything that is wrong with a life that follows this story with changed code. `movable` steps have
    keys, in a workflow of one thread: they may be called in another order, and each gets its own outcome."""
    if life.hung:
        return [Violation("hang", hang_of(life))]
    ends = {run: (how, text) for _, _, run, how, text in life.of("end")}
    if not ends:
        return [Violation("error", f"no report, status {life.status}: {life.stderr[-1500:]}")]
    repeated = check_bodies(story, life)
    for run, (how, text) in ends.items():
        if how in ("error", "attention"):
            return [Violation("error", f"{run}: {text}")]
        if how == "divergence":
            return repeated or _check_divergence(life, change, run, f"{run}: {text}")
    return repeated or _check_outcomes(story, life, movable)


def diverged(life: Life) -> bool:
    return any(how == "divergence" for _, _, _, how, _ in life.of("end"))


def _check_divergence(life: Life, change: str, run: str, text: str) -> list[Violation]:
    """It is allowed if the change is not harmless, and nothing of the run, or of the child that stopped it,
    ran before it. Another run in the same loop may be stopped by a step in doubt, long after it began."""
    if change in HARMLESS:
        return [Violation("divergence", text)]
    attended = [one.run for one in life.log[len(life.past) :] if one.type == "RunNeedsAttention"]
    deepest = max((one for one in attended if one.startswith(f"{run}.")), key=len, default=run)
    ran = [name for _, _, its, _, name, _, _ in life.of("body") if its == deepest]
    if ran:
        return [Violation("difference", f"bodies ran before the divergence: {', '.join(ran)}; {text}")]
    return []


def _check_outcomes(story: Story, life: Life, movable: Set[str]) -> list[Violation]:
    """The code received the recorded outcomes in their order, each for the call that it belongs to."""
    for stream, entries in passes(life, story.by_branch):
        before = story.seen.get(stream, [])
        text = _difference(before, entries, movable) or _swapped(stream, entries)
        if text:
            return [Violation("difference", f"{' '.join(stream).strip()}: {text}")]
    return []


def _difference(before: Sequence[Entry], now: Sequence[Entry], movable: Set[str]) -> str:
    wanted = [one for one in _outcomes(before) if one[0] not in movable]
    names = {name for name, _ in wanted}
    found = [one for one in _outcomes(now) if one[0] in names]
    whole = bool(now) and now[-1][0] == "end"
    for place, (old, new) in enumerate(zip(wanted, found, strict=False)):
        if old[0] != new[0] or (old[1] != new[1] and "cancelled" not in (old[1], new[1])):
            return f"outcome {place} of {len(wanted)} was {old}, is {new}"
    # A task that the function left behind may wait for its outcome when the function ends, which a removed
    # call makes sooner. An outcome that is awaited is received before that.
    waiting = {entry[1] for entry in now if entry[0] == "call"} - {name for name, _ in found}
    missing = [one for one in wanted[len(found) :] if one[0] not in waiting]
    if whole and missing:
        return f"the recorded outcome {missing[0]} was not received"
    return ""


def _outcomes(entries: Sequence[Entry]) -> list[tuple[str, str]]:
    """(name, value) of the outcomes that the code received; one that ended a cancelled call counts."""
    found = []
    for entry in entries:
        if entry[0] in DURABLE:
            found.append((entry[1], "" if entry[0] == "checkpoint" else str(entry[2])))
        elif entry[0] == "call cancelled":
            found.append((entry[1], "cancelled"))
    return found


def _swapped(stream: Stream, entries: Sequence[Entry]) -> str:
    wrong = [entry for entry in entries if entry[0] == "got" and entry[1] != entry[2]]
    return f"{wrong[0][1]} received the result of {wrong[0][2]}" if wrong else ""
