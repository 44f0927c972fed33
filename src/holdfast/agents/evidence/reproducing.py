"""Verifies evidence: runs its commands again and compares exit codes and normalised output.

A command is run again only if that is safe and exact. It must be `idempotent` or `workspace`; the words that
the log has must be those that it ran with, which the digest of the call proves; and no secret may be missing.
It runs in a copy of the files, never in the workspace itself. Where the same command ran several times, the
last record is checked: an earlier one is of files that are gone.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from holdfast.agents.evidence.normalising import Normaliser
from holdfast.agents.evidence.observed import Keep, ObservedRun, Output, commands_of
from holdfast.agents.evidence.rerunning import rerunner
from holdfast.counts import counted
from holdfast.engine.outside.attempt import command as record
from holdfast.engine.primitives.command import identity
from holdfast.engine.processes.process import NoThread
from holdfast.errors import EvidenceNotFound, HoldfastError
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.evolve import fold
from holdfast.views.evidence import (
    CommandCheck,
    LiveEvidence,
    Verification,
    check_files,
    find,
    live_evidence,
    outcome_of,
)

if TYPE_CHECKING:
    from holdfast.agents.evidence.rerunning import Rerun, Rerunner
    from holdfast.engine.engine import Engine
    from holdfast.kernel.state import RunState

_COMPARED = Keep(head=1 << 20, tail=0)
_DIFF_LINES = 400
_LIMIT_REACHED = re.compile(r"^\[holdfast: the output limit of [^\n]*$", re.MULTILINE)
Named = tuple[str, str, int]


def verify(
    engine: Engine, run_id: str, milestone: str | None = None, *, at: str = "now", by: str = ""
) -> list[Verification]:
    """Verify the evidence of a milestone, or of all milestones of the run, and record how it ended.

    Commands run on the files as they are (`now`) or on those of the milestone. Raises `EvidenceNotFound`;
    `StoreCorrupt` before anything runs if a document is not the one that was written; `SnapshotNotFound` if
    the files of the milestone are not kept any more, `ContentsDamaged` if they are damaged.
    """
    check_files(at)
    found = live_evidence(engine.store, run_id)
    if not found:
        raise EvidenceNotFound(run_id)
    chosen = found if milestone is None else [find(found, run_id, milestone)]
    for one in chosen:
        engine.store.blob(one.event.blob)
    verifier = _Verifier(engine, run_id, at, chosen)
    done = []
    for one in chosen:
        result = verifier.verify(one)
        _record(engine, one, result, by)
        done.append(result)
    return done


def _record(engine: Engine, one: LiveEvidence, result: Verification, by: str) -> None:
    checks = tuple(
        e.CommandChecked(check.run, check.step, check.outcome, check.why) for check in result.checks
    )
    verified = c.VerifyEvidence(
        one.run, one.event.key, one.event.digest, result.outcome, result.files, by, checks
    )
    record(engine, one.run, lambda *_: verified)


class _Todo(NamedTuple):
    """A command of the evidence: to be run, or `why` not; `outcome` is that of one that is not run."""

    named: e.ObservedCommand
    recorded: ObservedRun | None
    outcome: str = ""
    why: str = ""


class _Verifier:
    """Verifies the evidence of one run."""

    def __init__(self, engine: Engine, run_id: str, at: str, chosen: Sequence[LiveEvidence]) -> None:
        self._engine = engine
        self._at = at
        state = fold(engine.store.history(run_id))
        assert state is not None, "it has evidence"
        self._state: RunState = state
        self._root = engine.files.root_of(state)
        self._commands: dict[Named, ObservedRun] = {}
        self._looked: set[str] = set()
        self._cwds: dict[str, str] = {}
        for one in chosen:
            for named in one.event.commands:
                self._look(named.run)
        self._last: dict[str, tuple[str, Named]] = {}
        """The identity of a command → the last record of it: its milestone, and which it is."""
        if at == "now":
            for one in chosen:
                self._last |= self._lasts(one)

    def _look(self, run_id: str) -> None:
        """Read the commands of a run; those of its child runs are read with it."""
        if run_id in self._looked or self._engine.store.run(run_id) is None:
            return
        self._looked.add(run_id)
        found, _ = commands_of(self._engine.store, run_id, keep=_COMPARED)
        for one in found:
            self._looked.add(one.run)
            self._commands[one.run, one.key, one.attempt] = one

    def _lasts(self, one: LiveEvidence) -> dict[str, tuple[str, Named]]:
        found: dict[str, tuple[str, Named]] = {}
        for named in one.event.commands:
            recorded = self._commands.get((named.run, named.key, named.attempt))
            if recorded is not None and not _unsafe(recorded):
                found[_same(recorded)] = one.event.milestone, (named.run, named.key, named.attempt)
        return found

    def verify(self, one: LiveEvidence) -> Verification:
        last = self._last if self._at == "now" else self._lasts(one)
        todo = [self._judged(named, last) for named in one.event.commands]
        if any(not work.outcome for work in todo):
            checks = self._run_all(one, todo)
        else:
            checks = [self._not_run(work) for work in todo]
        if one.event.left_out:
            why = f"{counted(one.event.left_out, 'more command')}: counted in the document and not named"
            checks.append(CommandCheck(run=one.run, step="", argv=(), outcome="skipped", why=why))
        outcome = outcome_of(checks)
        return Verification(
            run=one.run,
            milestone=one.event.milestone,
            key=one.event.key,
            outcome=outcome,
            level="reproduced" if outcome == "equal" else one.event.level,
            files=self._at,
            checks=tuple(checks),
        )

    def _judged(self, named: e.ObservedCommand, last: dict[str, tuple[str, Named]]) -> _Todo:
        me = (named.run, named.key, named.attempt)
        recorded = self._commands.get(me)
        if recorded is None:
            return _Todo(named, None, "skipped", f"the log of run {named.run} is not here")
        why = _unsafe(recorded)
        if why:
            return _Todo(named, recorded, "skipped", why)
        milestone, latest = last[_same(recorded)]
        if latest != me:
            return _Todo(
                named, recorded, "superseded", f"{latest[1]} ran it again, for milestone {milestone}"
            )
        return _Todo(named, recorded)

    def _run_all(self, one: LiveEvidence, todo: Sequence[_Todo]) -> list[CommandCheck]:
        engine = self._engine
        with ExitStack() as held:
            if self._root is None or (self._at == "milestone" and not one.event.snapshot):
                runner = held.enter_context(rerunner(engine))
            else:
                workspace = engine.files.of_run(self._state)
                held.enter_context(workspace.contents.hold())
                snapshot = one.event.snapshot if self._at == "milestone" else workspace.snapshot().id
                runner = held.enter_context(rerunner(engine, workspace, snapshot))
            return [self._checked(work, runner) for work in todo]

    def _checked(self, work: _Todo, runner: Rerunner) -> CommandCheck:
        recorded = work.recorded
        if work.outcome or recorded is None:
            return self._not_run(work)
        if runner.copy is None and recorded.effect != "idempotent":
            return self._not_run(work._replace(outcome="skipped", why="there is no workspace to run it in"))
        try:
            rerun = runner.run(recorded, recorded.cwd or self._cwd(recorded.run), _COMPARED)
        except NoThread as error:  # says nothing about the command
            why = f"no thread for {recorded.argv[0]}: {error}; verify again when the machine has one"
            raise NoThread(why) from None
        except HoldfastError as error:
            return self._not_run(work._replace(outcome="different", why=f"it did not start: {error}"))
        return self._compared(recorded, rerun, runner)

    def _not_run(self, work: _Todo) -> CommandCheck:
        """Its reason may quote what was recorded before a pattern was known."""
        recorded = work.recorded
        return CommandCheck(
            run=work.named.run,
            step=work.named.key,
            argv=() if recorded is None else recorded.argv,
            outcome=work.outcome,
            why=self._engine.redactor.redact(work.why),
            recorded_exit_code=None if recorded is None else recorded.exit_code,
        )

    def _cwd(self, run_id: str) -> str:
        """The directory of a run, where it is now."""
        if run_id not in self._cwds:
            created = dict(self._engine.store.creations([run_id]))
            code = self._engine.location.now(created[run_id].code)
            self._cwds[run_id] = code.cwd or str(self._root or ".")
        return self._cwds[run_id]

    def _compared(self, recorded: ObservedRun, rerun: Rerun, runner: Rerunner) -> CommandCheck:
        normalise = self._normaliser(runner)
        whys, diffs = [], []
        if rerun.late:
            whys.append(f"still ran after {rerun.late:.0f} s, and was ended")
        elif rerun.exit_code != recorded.exit_code:
            whys.append(f"exit code {rerun.exit_code}, recorded {recorded.exit_code}")
        for name in ("stdout", "stderr"):
            diff = difference(getattr(recorded, name), getattr(rerun, name), normalise, name)
            if diff:
                whys.append(f"{name} differs")
                diffs.append(diff)
        return CommandCheck(
            run=recorded.run, step=recorded.key, argv=recorded.argv, why="; ".join(whys),
            outcome="different" if whys else "equal", recorded_exit_code=recorded.exit_code,
            exit_code=rerun.exit_code, duration_s=round(rerun.duration_s, 3), diff="".join(diffs),
        )  # fmt: skip

    def _normaliser(self, runner: Rerunner) -> Normaliser:
        roots = {saved.root for saved in self._state.files} | {str(self._root or "")}
        roots |= {self._state.code.root, str(runner.copy or "")}
        copies = re.escape(str(self._engine.files.copies))
        return Normaliser(roots, [rf"{copies}/[0-9a-z-]+"])


def _unsafe(one: ObservedRun) -> str:
    """Why a command is not run again; empty if it is."""
    if one.effect == "once":
        return "it has the effect `once`, and is not repeated"
    if one.exit_code is None:
        return f"it ended without an exit code: {one.error}"
    if not one.output_kept:
        return "its output is not in the log of this run, which is a fork"
    if one.secrets:
        names = ", ".join(one.secrets)
        return f"it needs the secret {names}, which is not recorded"
    if not one.argv or one.digest != identity(one.argv, one.cwd or None, one.env):
        return "its standard input, or a word of it that is redacted or long, is not recorded"
    if one.argv[0].rpartition("/")[2] == "git":
        return "it works on the git repository, which a copy of the files does not have"
    return ""


def _same(one: ObservedRun) -> str:
    """Commands of equal words, directory and variables are the same one."""
    return f"{one.digest} {one.cwd}"


def difference(recorded: Output, now: Output, normalise: Normaliser, name: str) -> str:
    """A unified diff of two outputs, normalised; empty if they are equal. Of output that is longer than what
    is compared, the beginnings are."""
    old, new = normalise(recorded.head).split("\n"), normalise(now.head).split("\n")
    cut = _LIMIT_REACHED.search(recorded.head)
    if cut is not None:
        old = normalise(recorded.head[: cut.start()]).split("\n")
    if cut is not None or recorded.left_out or now.left_out:
        whole = min(len(old), len(new)) - 1  # the last line may be cut
        old, new = old[:whole], new[:whole]
    if old == new:
        return ""
    first = next((n for n, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), None)
    first = max(0, (min(len(old), len(new)) if first is None else first) - 3)
    old, new = old[first : first + _DIFF_LINES], new[first : first + _DIFF_LINES]
    lines = list(difflib.unified_diff(old, new, f"{name} recorded", f"{name} now", lineterm=""))
    shown = lines[:_DIFF_LINES]
    if len(lines) > len(shown):
        shown.append("[holdfast: the rest is left out]")
    return "".join(f"{line}\n" for line in shown)
