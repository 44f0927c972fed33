"""Power cuts: whatever of the unsynced writes has reached the disk, what was acknowledged is there.

Lives of real workloads are recorded below SQLite (`tests.crash.disk` is the model of the disk). Between two
syncs the power may go at any record; whatever it can leave then, it can also leave just before the second
sync, when more was acknowledged. So the cuts are made there: with everything that arrived up to some record,
with any other part of what was not synced, torn, and with junk.

After each cut the real store opens what is left. Its content, row for row, must be what one of the commits
left, the last one that was acknowledged or a later one; those contents have passed `checker.check_store`.
What counts as acknowledged: a step that the workflow was told of, a run that `start` or `result` has told the
caller of, and the beginning of a `once` step's body, whose intent must be in the log. A sample continues to
the end of its run, and some of these lives are recorded and cut in turn.
"""

from __future__ import annotations

import faulthandler
import hashlib
import marshal
import math
import multiprocessing
import os
import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.crash.checker import History, Lives, Violation, check_rebuilt, check_store
from tests.crash.disk import Commit, Cut, Disk, Files, Mark, Recording, Sync, SyncDirectory
from tests.crash.history import RunHistory
from tests.crash.recordings import SCRIPTS, Durability, Heard, RecorderProcess, Script
from tests.crash.score import Budget, Score
from tests.crash.workloads import TRACKED

from holdfast.store.sqlite.store import SqliteStore

STATES = 20_400
"""Crash states of the short form, with durability "full"."""
RECOVERY_STATES = 1_500
"""And so many of lives that follow a cut, of so many lives of each script:"""
RECOVERIES = 1
CONTROL_STATES = 300
"""Of each control."""
CONTROLS = ("sequential", "post", "together")
RESUME_EVERY = 80
SHARES = {"long": 1.5, "sequential": 2.0, "chatty": 0.5}
"""How many of the states a script gets, beside 1 for the others."""
HANGS_AFTER_S = 300.0
"""A script that takes longer hangs: its process says where, and ends."""
KEPT = 5
"""Of the states that violate something, so many stay on the disk to be looked at."""


class Content(NamedTuple):
    """What a store holds."""

    digest: bytes
    """Of every row of every table, but for the incarnation: a store that never was gets a new one."""
    position: int
    """Of the last event."""
    incarnation: str


class Past(NamedTuple):
    """A life that is over: what it said, and what the cut left of its store."""

    lines: list[str]
    left: History


class Floor(NamedTuple):
    """From this record on the log must reach this position, because of what was said."""

    at: int
    position: int
    line: str


@dataclass
class Truth:
    """A recording, and what a cut may leave of it."""

    script: Script
    recording: Recording
    before: History
    """Of the store before its first life."""
    past: list[Past] = field(default_factory=list)
    contents: dict[bytes, Content] = field(default_factory=dict)
    """What each commit left, by digest; each has passed the checker."""
    floors: list[Floor] = field(default_factory=list)

    def floor(self, upto: int) -> Floor:
        """What must be there if the power goes at that record."""
        said = [floor for floor in self.floors if floor.at < upto]
        return max(said, key=lambda floor: floor.position, default=Floor(0, 0, ""))


class Lab:
    """Directories in which cut states are laid out and opened."""

    def __init__(self, directory: Path, budget: Budget, chance: random.Random) -> None:
        self.budget = budget
        self.chance = chance
        self.kept = 0
        self._directory = directory
        self._home = self.fresh()

    def fresh(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self._directory))

    def lay(self, files: Files, home: Path | None = None) -> Path:
        """Put these files, and no others of the store, into a home: its mark that there was a store once is
        written behind the first sync of the database, and not there before."""
        home = home or self._home
        for entry in os.scandir(home):
            if entry.name.startswith(("holdfast.db", "write.lock")):
                os.unlink(entry)
        for name, data in files.items():
            with open(home / name, "wb", 0) as file:
                file.write(data)
        if self.chance.random() < 0.1:
            (home / "holdfast.db-shm").write_bytes(self.chance.randbytes(32_768))
        return home

    def keep(self, files: Files) -> str:
        """Leave the files of a violation where they can be looked at."""
        if self.kept == KEPT:
            return "not kept"
        self.kept += 1
        home = Path(tempfile.mkdtemp(prefix="holdfast-power-"))
        for name, data in files.items():
            (home / name).write_bytes(data)
        return f"kept in {home}"


# What a recording may leave


def read(home: Path) -> Content:
    """The content that the real store finds. Raises what it raises, and `Violation` if it left damage."""
    SqliteStore(home).close()
    digest = hashlib.sha256()
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        problems = db.execute("PRAGMA integrity_check").fetchall()
        if problems != [("ok",)]:
            raise Violation(f"integrity_check: {problems}")
        for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            rows = db.execute(f"SELECT * FROM {name}" + _NO_INCARNATION * (name == "meta")).fetchall()
            digest.update(marshal.dumps((name, rows), 2))
        position = db.execute("SELECT coalesce(max(position), 0) FROM events").fetchone()[0]
        incarnation = db.execute("SELECT value FROM meta WHERE key = 'incarnation'").fetchone()[0]
    return Content(digest.digest(), position, incarnation)


_NO_INCARNATION = " WHERE key <> 'incarnation'"


def learn(lab: Lab, truth: Truth) -> Truth:
    """Find out what each commit of the recording left, and what had to be there from when on."""
    recording = truth.recording
    disk = Disk(recording)
    history, written = truth.before, True
    contents = [read(lab.lay(recording.start))]
    for at, record in enumerate((*recording.records, Commit())):
        written = written or not isinstance(record, Mark | Commit)
        if isinstance(record, Commit) and written:
            written = False
            disk.play(at)
            home = lab.lay(disk.files())
            history = check_store(home)
            contents.append(read(home))
    truth.contents = {content.digest: content for content in contents}
    truth.floors = list(_floors(truth, history))
    return truth


def _floors(truth: Truth, history: History) -> Iterator[Floor]:
    """Where the log has what the lines of this life say."""
    begun = Counter(line for past in truth.past for line in past.lines)
    for at, record in enumerate(truth.recording.records):
        if not isinstance(record, Mark):
            continue
        line = record.line
        verb, *words = line.split()
        begun[line] += 1
        if verb in ("crash", "error"):
            raise Violation(f"a life without faults said {line!r}")
        if verb == "attention":
            position = _position(history.runs.get(truth.script.name), "RunNeedsAttention", words[0], 1)
        elif verb == "wrote":
            position = history.tracker.position(line) or 0
            if not position and words[0] in history.archived:
                continue
        elif verb == "started":
            position = _position(history.runs.get(words[0]), "RunClaimed", "", 1)
        elif verb == "result":
            position = _position(history.runs.get(words[0]), "RunCompleted", "", 1)
        elif verb == "told":
            run = history.runs.get(words[0])
            key, _, generation = words[1].partition("@")
            nth = 1 + int(generation or 0)  # a rewound step has an end in each generation
            position = _position(run, "StepRan StepCompleted StepFailed StepSettled", key, nth)
        elif verb == "began" and words[1] in truth.script.plan[words[0]].once:
            position = _position(history.runs.get(words[0]), "StepStarted", words[1], begun[line])
        else:
            continue
        if not position:
            raise Violation(f"{line!r} was said, and the log has nothing of it")
        yield Floor(at, position, line)


def _position(run: RunHistory | None, types: str, key: str, nth: int) -> int:
    """Where the log has the nth event of these types about this step; 0 if nowhere."""
    if run is None:
        return 0
    found = [
        event.position
        for event in run.events
        if event.type in types.split() and key in ("", event.payload.get("key"), event.payload.get("step"))
    ]
    return found[nth - 1] if len(found) >= nth else 0


# Cutting


def cuts(lab: Lab, truth: Truth, states: int) -> Iterator[tuple[int, Cut]]:
    """So many cuts, just before the syncs and at the end, each another one: (record, what is left)."""
    recording = truth.recording
    ends = [at for at, record in enumerate(recording.records) if isinstance(record, Sync | SyncDirectory)]
    ends.append(len(recording.records))
    weights = []
    disk = Disk(recording)
    for end in ends:
        disk.play(end)
        weights.append(math.log2(1 + disk.unsynced))
    disk = Disk(recording)
    whole = sum(weights) or 1.0
    for end, weight in zip(ends, weights, strict=True):
        disk.play(end)
        yield end, disk.cut(lab.chance, "nothing")
        wanted = math.floor(states * weight / whole + lab.chance.random())
        seen: set[int] = set()
        for _ in range(3 * wanted):
            if len(seen) == wanted:
                break
            cut = disk.cut(lab.chance)
            if cut.choice not in seen:
                seen.add(cut.choice)
                yield end, cut


def judge(lab: Lab, truth: Truth, at: int, cut: Cut) -> tuple[str, bool]:
    """What is wrong with what is left, if anything; and whether something acknowledged is missing."""
    try:
        content = read(lab.lay(cut.files))
    except Exception as error:
        return f"{type(error).__name__}: {error}", False
    known = truth.contents.get(content.digest)
    floor = truth.floor(at)
    if known is None:
        return f"what is left is none of the contents that commits left ({_reason(lab, cut)})", False
    if content.position and content.incarnation != known.incarnation:
        return "the store has another incarnation", False
    if content.position < floor.position:
        return f"{floor.line!r} was said, and the log ends at {content.position}, not {floor.position}", True
    return "", False


def _reason(lab: Lab, cut: Cut) -> str:
    home = lab.lay(cut.files)
    SqliteStore(home).close()
    try:
        check_store(home)
    except Violation as violation:
        return str(violation)
    return "it passes the checker"


# Continuing


def resume(lab: Lab, truth: Truth, at: int, cut: Cut) -> Past:
    """Let the script continue from what is left, to its end, and check all its lives."""
    home = lab.lay(cut.files, lab.fresh())
    SqliteStore(home).close()  # rolls back what a journal beside the database says
    script = truth.script
    lives = Lives(script.plan, truth.before)
    for past in truth.past:
        lives.add(past.lines, past.left, cut=True)
    now = Past(truth.recording.lines(at), check_store(home))
    lives.add(now.lines, now.left, cut=True)
    said = [line for past in (*truth.past, now) for line in past.lines]
    settle: tuple[str, str] | None = None
    for _ in range(9):
        side = Heard(said)
        script.play(home, side, settle=settle)
        said += side.lines
        lives.add(side.lines, check_store(home), cut=False)
        if lives.finish() == "completed":
            break
        step = next(line.split()[1] for line in side.lines if line.startswith("attention "))
        settle = (step, lab.chance.choice(("done", "retry")))
    else:
        raise Violation(f"the run is not at its end after nine lives: {side.lines[-1:]}")
    if lab.chance.random() < 0.25:
        check_rebuilt(home)
    shutil.rmtree(home)
    return now


# The whole


class Wreck(NamedTuple):
    """A state after a cut, to be recovered from under recording."""

    truth: Truth
    past: Past
    files: Files


def record(lab: Lab, recorder: RecorderProcess, name: str, durability: Durability = "full") -> Truth:
    """Play a script and learn what a cut may leave of it."""
    script = SCRIPTS[name]
    home = lab.fresh()
    script.prepare(home)
    before = check_store(home)
    return learn(lab, Truth(script, recorder.record(name, home, durability=durability), before))


def record_recovery(lab: Lab, recorder: RecorderProcess, wreck: Wreck) -> Truth:
    """The same of the life that comes after a cut."""
    truth, home = wreck.truth, lab.lay(wreck.files, lab.fresh())
    past = [*truth.past, wreck.past]
    said = [line for one in past for line in one.lines]
    recording = recorder.record(truth.script.name, home, past=said)
    return learn(lab, Truth(truth.script, recording, truth.before, past))


def explore(lab: Lab, truth: Truth, states: int, score: Score) -> list[Wreck]:
    """Cut the recording so often; a sample continues to the end, and is given back to be recovered from."""
    wrecks: list[Wreck] = []
    for at, cut in cuts(lab, truth, states):
        score.points += 1
        wrong, lost = judge(lab, truth, at, cut)
        if not wrong and score.points % RESUME_EVERY == 0:
            try:
                wrecks.append(Wreck(truth, resume(lab, truth, at, cut), cut.files))
            except Exception as error:
                wrong = f"continuing: {type(error).__name__}: {error}"
        if wrong:
            score.lost += lost
            score.violations.append(
                f"{truth.script.name}, seed {lab.budget.seed}, cut {score.points} ({cut.style}) before "
                f"record {at}: {wrong}; {lab.keep(cut.files)}"
            )
    score.notes["resumed to the end"] = score.notes.get("resumed to the end", 0) + len(wrecks)
    return wrecks


def try_script(budget: Budget, recorder: RecorderProcess, name: str) -> list[Score]:
    """Cut a script's lives, and some of the lives after these cuts."""
    share = SHARES.get(name, 1.0) / sum(SHARES.get(one, 1.0) for one in SCRIPTS if one not in TRACKED)
    cut = Score("power cut", "any part of the unsynced writes, torn, in any order")
    again = Score("power cut in recovery", "the life after a cut, cut in turn")
    with lab_of(budget, name) as lab:
        wrecks: list[Wreck] = []
        with noting(cut, f"{name}, seed {budget.seed}, uncut"):
            wrecks = explore(lab, record(lab, recorder, name), round(budget.of(STATES) * share), cut)
        chosen = lab.chance.sample(wrecks, min(len(wrecks), RECOVERIES))
        states = round(budget.of(RECOVERY_STATES) * share / (len(chosen) or 1))
        for number, wreck in enumerate(chosen):
            with noting(again, f"{name}, seed {budget.seed}, recovery {number}, uncut"):
                explore(lab, record_recovery(lab, recorder, wreck), states, again)
    return [cut, again]


@contextmanager
def noting(score: Score, where: str) -> Iterator[None]:
    """What is wrong without a cut is a violation, too."""
    try:
        yield
    except Violation as violation:
        score.violations.append(f"{where}: {violation}")


def try_control(budget: Budget, recorder: RecorderProcess, name: str) -> list[Score]:
    """With durability "process" the same cuts must lose acknowledged steps, or they would not see it if
    "full" did; and they must not damage anything all the same."""
    score = Score("power cut", "any part of the unsynced writes, torn, in any order")
    tried = lost = 0
    with lab_of(budget, name) as lab, noting(score, f'{name} with durability "process", uncut'):
        truth = record(lab, recorder, name, "process")
        for at, cut in cuts(lab, truth, budget.of(CONTROL_STATES)):
            tried += 1
            wrong, is_lost = judge(lab, truth, at, cut)
            lost += is_lost
            if wrong and not is_lost:
                score.violations.append(
                    f'{name} with durability "process", seed {budget.seed}, cut {tried} ({cut.style}) before '
                    f"record {at}: {wrong}; {lab.keep(cut.files)}"
                )
    if not lost:
        score.violations.append(f'{name} with durability "process" lost nothing: these cuts are blind')
    score.notes = {'control: durability "process"': tried, "of these lost something": lost}
    return [score]


@contextmanager
def lab_of(budget: Budget, name: str) -> Iterator[Lab]:
    fast = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="power-", dir=fast if fast.is_dir() else None) as directory:
        yield Lab(Path(directory), budget, random.Random(f"{budget.seed} {name}"))


def run(budget: Budget) -> list[Score]:
    """All scripts, in two processes."""
    names = sorted((name for name in SCRIPTS if name not in TRACKED), key=lambda name: -SHARES.get(name, 1.0))
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        halves = pool.map(partial(_run_half, budget), (names[::2], names[1::2]), (CONTROLS[:1], CONTROLS[1:]))
        return _sum([score for half in halves for score in half])


def _run_half(budget: Budget, names: Sequence[str], controls: Sequence[str]) -> list[Score]:
    scores: list[Score] = []
    with RecorderProcess() as recorder:
        jobs = [(try_script, name) for name in names] + [(try_control, name) for name in controls]
        for tried, name in jobs:
            faulthandler.dump_traceback_later(HANGS_AFTER_S * max(1.0, budget.scale), exit=True)
            scores += tried(budget, recorder, name)
        faulthandler.cancel_dump_traceback_later()
    return scores


def _sum(scores: list[Score]) -> list[Score]:
    sums: dict[str, Score] = {}
    for score in scores:
        known = sums.setdefault(score.kind, Score(score.kind, score.what))
        known.points += score.points
        known.lost += score.lost
        known.violations += score.violations
        for name, count in score.notes.items():
            known.notes[name] = known.notes.get(name, 0) + count
    return list(sums.values())
