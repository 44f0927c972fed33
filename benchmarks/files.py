"""The figures of saved files: beside git on the same trees, in one run and in turns (`workspace`)."""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

from holdfast import Holdfast, checkpoint, step, workflow, workspace_path
from row import Row, Spread, number
from workspace import make_tree, measure_disk, measure_large, measure_tree

COUNTS = (20_000, 100_000)
LIMITS = {
    "first": (0.4, 0.25),
    "unchanged": (1.5, 1.0),
    "3 changed": (1.5, None),
    "restore of 1,000": (1.0, None),
}
NAMES = {
    "first": "first snapshot of {:,} files",
    "unchanged": "snapshot of {:,} files, unchanged",
    "3 changed": "snapshot of {:,} files, 3 of them changed",
    "restore of 1,000": "restore of 1,000 changed files of {:,}",
}


@step(effect="workspace")
def spoil(names: list[str]) -> int:
    for name in names:
        (workspace_path() / name).write_text("spoilt by an agent\n")
    return len(names)


@workflow
def agent(names: list[str]) -> int:
    checkpoint("before")
    return spoil(names)


def measure(directory: Path, rounds: int, only: str) -> list[Row]:
    """Every figure whose name holds `only`. Trees are made once, in a place that stays."""
    trees = Path(tempfile.gettempdir(), "holdfast-workspace-trees")
    found: list[Row] = []
    for count in COUNTS:
        if any(only.lower() in name.format(count).lower() for name in NAMES.values()):
            tree = trees / str(count)
            if not tree.exists():
                _say(f"making a tree of {count:,} files")
                make_tree(tree, count)
            found += _beside_git(tree, directory / f"tree-{count}", count, rounds)
    if only.lower() in "disk of 50 snapshots":
        (directory / "disk").mkdir()
        _say("disk of 50 snapshots")
        disk = measure_disk(directory / "disk")
        ratio = disk["ours after gc"] / disk["git after gc"]
        beside = f"{disk['ours after gc'] / 1e6:.1f} MB; git {disk['git after gc'] / 1e6:.1f} MB"
        found.append(
            Row(
                "disk of 50 snapshots of a Python library",
                Spread.of([ratio]),
                "× git",
                1.5,
                at_most=True,
                beside=beside,
            )
        )
    if only.lower() in "memory for a file of 2 gb":
        (directory / "large").mkdir()
        _say("a file of 2 GB")
        large = measure_large(directory / "large")
        found.append(
            Row(
                "memory for a file of 2 GB, saved and put back",
                Spread.of([large["MB"]]),
                "MB",
                100,
                at_most=True,
            )
        )
    if only.lower() in "rewind of 3 files of 100,000":
        _say("rewind of 3 files of 100,000")
        found.append(_other_mtimes(trees / str(COUNTS[-1]), directory))
    return found


def _beside_git(tree: Path, scratch: Path, count: int, rounds: int) -> list[Row]:
    taken: dict[str, list[tuple[float, float]]] = {}
    for number_ in range(rounds):
        _say(f"{count:,} files beside git, round {number_ + 1} of {rounds}")
        for what, pair in measure_tree(tree, scratch / str(number_), 1).items():
            taken.setdefault(what, []).append(pair)
    rows = []
    for what, pairs in taken.items():
        reach, aim = LIMITS[what]
        ours, git = (Spread.of([pair[side] for pair in pairs]).median for side in (0, 1))
        ratios = Spread.of([mine / theirs for mine, theirs in pairs])
        beside = f"{number(ours)} s; git {number(git)} s"
        rows.append(Row(NAMES[what].format(count), ratios, "× git", reach, aim, at_most=True, beside=beside))
    return rows


def _other_mtimes(tree: Path, directory: Path) -> Row:
    """How many files beside the three that were changed have another mtime or inode after the rewind."""
    names = [str(path.relative_to(tree)) for path in tree.rglob("*.txt")]
    chosen = random.Random(3).sample(sorted(names), 3)
    with Holdfast(directory / "rewound", workspace=tree) as hf:
        hf.with_id("agent").run(agent, chosen)
        before = {name: _stamp(tree / name) for name in names if name not in chosen}
        hf.rewind("agent", "before")
    changed = sum(_stamp(tree / name) != stamp for name, stamp in before.items())
    return Row(
        "other files that a rewind of 3 of 100,000 touches", Spread.of([changed]), "files", 0, at_most=True
    )


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_ino


def _say(text: str) -> None:
    print(f"  {text} ...", file=sys.stderr, flush=True)
