"""Kills and I/O errors at file operations: a sample of every kind and every workload, and the shim itself."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.crash import points, shim
from tests.crash.score import Budget, Score
from tests.crash.shim import CHANGES, Fault, Kind, Mode
from tests.crash.stories import AIMS
from tests.crash.workloads import UNTRACKED

SEED = 20251


@pytest.fixture(autouse=True)
def built() -> None:
    try:
        shim.library()
    except shim.Unavailable as reason:
        pytest.skip(str(reason))


def expect_good(score: Score, at_least: int = 1) -> None:
    assert score.violations == [], f"seed {SEED}"
    assert score.lost == 0
    assert score.points >= at_least, f"{score.kind} struck too little: {score.notes}"


def test_a_sample_of_every_kind():
    """Each kind of fault, a few operations of each workload: nothing is lost, every run comes to its end."""
    scores = {score.kind: score for score in points.run(Budget(SEED, 0.01))}
    skipped = {kind: score.skipped for kind, score in scores.items() if score.skipped}
    for kind, score in scores.items():
        if kind not in skipped:
            expect_good(score)
    for way in points.WAYS:
        assert scores[way.kind].points >= len(UNTRACKED) / 2
    if skipped:
        pytest.skip(f"the rest is well; not tried: {skipped}")


def test_kills_around_companions():
    """Never an append without its companions, and never a companion without its append."""
    expect_good(points.kill("spending", 40, SEED), 36)


def test_kills_around_budgets():
    """Limits hold after every event, every attempt that began is charged once, and what an attempt that has
    ended had reserved is not reserved any more, in the budget and in its parent."""
    expect_good(points.kill("metered", 30, SEED), 27)


def test_where_a_kill_falls():
    """A body that was in the log is not repeated; one that was not, is."""
    score = points.classify(SEED, each=3)
    expect_good(score, 12)
    assert [score.notes[f"{aim}: repeated"] > 0 for aim in AIMS] == [True, True, False, False]
    assert all(score.notes[aim] >= 3 for aim in AIMS)


def test_every_operation_when_the_budget_allows():
    """A large budget strikes each operation once, then pairs; a small one spreads over the workloads."""
    operations = {name: [[Kind.WRITE.value, "wal"], [Kind.SYNC.value, "wal"]] * 5 for name in UNTRACKED}
    torn = next(way for way in points.WAYS if way.kind == "torn write")
    many = points.choose(torn, torn.points, operations, random.Random(1))
    single = [(point.workload, point.faults[0].at) for point in many if len(point.faults) == 1]
    assert sorted(single) == sorted((name, at) for name in UNTRACKED for at in (1, 3, 5, 7, 9))
    assert len(many) == torn.points
    few = points.choose(torn, 1, operations, random.Random(1))
    assert sorted(point.workload for point in few) == sorted(UNTRACKED)


# The shim

SCRIPT = """
import os, sys
from pathlib import Path
from tests.crash import shim
from tests.crash.shim import Fault, Kind, Mode
home = Path(sys.argv[1])
shim.plan(eval(sys.argv[2]), home)
shim.arm()
def say(text):
    os.write(1, text.encode() + b"\\n")
try:
    say("outside")
    fd = os.open(home / "file", os.O_RDWR | os.O_CREAT)        # 1
    say(f"wrote {os.write(fd, b'x' * 2000)}")                    # 2
    say(f"wrote {os.pwrite(fd, b'y' * 2000, 2000)}")             # 3
    os.fsync(fd)                                                 # 4
    os.ftruncate(fd, 3000)                                       # 5
    os.rename(home / "file", home / "other")                     # 6
    os.pread(fd, 10, 0)
    os.unlink(home / "other")                                    # 7
    say("done")
except OSError as error:
    say(f"errno {error.errno}")
say(f"count {shim.outcome().operations} struck {shim.outcome().struck}")
"""


def under(tmp_path: Path, fault: Fault) -> tuple[int, list[str], int]:
    """(exit status, what the script said, size of its file) with this fault."""
    root = Path(__file__).parents[2]
    environment = {**shim.environment(), "PYTHONPATH": str(root)}
    script = [sys.executable, "-c", SCRIPT, str(tmp_path), _as_code(fault)]
    done = subprocess.run(script, cwd=root, env=environment, capture_output=True, text=True)
    assert done.stderr == ""
    left = next((path.stat().st_size for path in tmp_path.iterdir()), -1)
    return done.returncode, done.stdout.split("\n")[:-1], left


def _as_code(fault: Fault) -> str:
    return (
        f"Fault(Mode({fault.mode.value}), {fault.at}, Kind({fault.kinds.value}), {fault.until}, "
        f"{fault.argument}, Kind({fault.counted.value}))"
    )


KILLED = -signal.SIGKILL
WROTE = ["outside", "wrote 2000", "wrote 2000"]


@pytest.mark.parametrize(
    ("fault", "status", "said", "left"),
    [
        (Fault(Mode.RECORD), 0, [*WROTE, "done", "count 7 struck 0"], -1),
        (Fault(Mode.BEFORE, 1), KILLED, ["outside"], -1),
        (Fault(Mode.AFTER, 1), KILLED, ["outside"], 0),
        (Fault(Mode.BEFORE, 3), KILLED, WROTE[:2], 2000),
        (Fault(Mode.AFTER, 3), KILLED, WROTE[:2], 4000),
        (Fault(Mode.TORN, 3, Kind.WRITE, argument=2 * 700), KILLED, WROTE[:2], 2700),
        (Fault(Mode.TORN, 3, Kind.WRITE, argument=2 * 700 + 1), KILLED, WROTE[:2], 2512),
        (Fault(Mode.BEFORE, 2, Kind.SYNC), KILLED, WROTE, 4000),
        (Fault(Mode.AFTER, 5), KILLED, WROTE, 3000),
        (Fault(Mode.BEFORE, 7), KILLED, WROTE, 3000),
        (Fault(Mode.AFTER, 7), KILLED, WROTE, -1),
        (Fault(Mode.EIO, 2), 0, ["outside", "errno 5", "count 2 struck 2"], 0),
        (Fault(Mode.EIO, 2, argument=2 * 50), 0, ["outside", "errno 5", "count 2 struck 2"], 50),
        (Fault(Mode.EIO, 4), 0, [*WROTE, "errno 5", "count 4 struck 4"], 4000),
        (Fault(Mode.EIO, 6), 0, [*WROTE, "errno 5", "count 6 struck 6"], 3000),
        (Fault(Mode.EIO, 1, Kind.READ, counted=Kind.READ), 0, [*WROTE, "errno 5", "count 1 struck 1"], 3000),
        (Fault(Mode.FULL, 2, Kind.WRITE), 0, ["outside", "errno 28", "count 2 struck 2"], 0),
        (
            Fault(Mode.FULL, 2, Kind.WRITE, argument=2 * 9),
            0,
            ["outside", "wrote 9", "errno 28", "count 3 struck 2"],
            9,
        ),
        (
            Fault(Mode.FULL, 2, Kind.WRITE, until=3, argument=2 * 9),
            0,
            ["outside", "wrote 9", "wrote 2000", "done", "count 7 struck 2"],
            -1,
        ),
        (
            Fault(Mode.SHORT, 2, Kind.WRITE, argument=2 * 300),
            0,
            ["outside", "wrote 300", "wrote 2000", "done", "count 7 struck 2"],
            -1,
        ),
        (Fault(Mode.DELAY, 4, CHANGES, argument=1000), 0, [*WROTE, "done", "count 7 struck 4"], -1),
    ],
    ids=str,
)
def test_what_a_fault_does(tmp_path, fault, status, said, left):
    """Exactly the operation that was asked for is struck, and in the way that was asked for."""
    assert under(tmp_path, fault) == (status, said, left)


CALLS = {
    "os.mkdir('d', dir_fd=here)": Kind.CREATE,
    "os.close(os.open('f', os.O_CREAT | os.O_WRONLY, dir_fd=here))": Kind.CREATE,
    "os.symlink('f', 's', dir_fd=here)": Kind.CREATE,
    "os.symlink('f', home / 't')": Kind.CREATE,
    "os.link('f', 'g', src_dir_fd=here, dst_dir_fd=here, follow_symlinks=False)": Kind.CREATE,
    "os.link(home / 'f', home / 'h')": Kind.CREATE,
    "os.chmod(home / 'f', 0o600)": Kind.MODE,
    "os.chmod('f', 0o600, dir_fd=here)": Kind.MODE,
    "os.fchmod(here, 0o700)": Kind.MODE,
    "os.truncate(home / 'f', 1)": Kind.TRUNCATE,
    "os.rename('f', 'e', src_dir_fd=here, dst_dir_fd=here)": Kind.RENAME,
    "exchange(here, b'd', b'e')": Kind.RENAME,
    "sync_filesystem(here)": Kind.SYNC,
    "os.unlink('s', dir_fd=here)": Kind.UNLINK,
    "os.rmdir('e', dir_fd=here)": Kind.UNLINK,
    "os.unlink(home / 't')": Kind.UNLINK,
}


def test_every_call_that_changes_something_counts(tmp_path):
    """By path and by directory, of files, directories, links and modes."""
    root = Path(__file__).parents[2]
    script = (
        "import os, sys; from pathlib import Path; from tests.crash import shim; "
        "from holdfast.workspace.fs.exchange import exchange; "
        "from holdfast.workspace.contents.store_files import sync_filesystem; "
        "home = Path(sys.argv[1]); here = os.open(home, os.O_RDONLY); shim.plan(shim.RECORDING, home); "
        f"shim.arm(); {'; '.join(CALLS)}; shim.disarm(); print([one.kind.value for one in shim.recorded()])"
    )
    environment = {**shim.environment(), "PYTHONPATH": os.pathsep.join((str(root / "src"), str(root)))}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert done.stdout == f"{[kind.value for kind in CALLS.values()]}\n"


def test_only_what_was_armed_is_struck(tmp_path):
    """Files elsewhere, and processes that were not armed, continue."""
    (tmp_path / "here").mkdir()
    fault = Fault(Mode.BEFORE, 1)
    root = Path(__file__).parents[2]
    script = (
        "import os, sys; from pathlib import Path; from tests.crash import shim; "
        "from tests.crash.shim import *; here = Path(sys.argv[1]); "
        f"shim.plan({_as_code(fault)}, here / 'here'); "
        "(here / 'here' / 'early').touch(); shim.arm(); (here / 'outside').touch(); "
        "os.system(f'touch {here}/here/by-another'); print('alive', flush=True); "
        "(here / 'here' / 'late').touch()"
    )
    environment = {**shim.environment(), "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert (done.returncode, done.stdout) == (KILLED, "alive\n")
    assert sorted(os.listdir(tmp_path / "here")) == ["by-another", "early"]
