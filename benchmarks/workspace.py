"""Snapshots and restores beside git, on the same trees, turn by turn in one run.

    python benchmarks/workspace.py [--files 20000,100000] [--rounds 3] [--trees DIRECTORY] [--json FILE]

Git is `git add -A && git write-tree` with a private index and object store, and `git checkout-index` for the
restore. A snapshot of ours is measured with an index that is read from disk, as a new process would; all files
are in the system's memory before the first one, for both.
Trees are made once and kept in `--trees`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from holdfast.workspace.snapshots.snapshot import needed
from holdfast.workspace.workspace import Workspace

CHANGED = 3
RESTORED = 1000
SNAPSHOTS = 50
EDITED = 10
LARGE_BYTES = 2 * 1024**3


class Git:
    """The peer: a private repository over the same tree."""

    def __init__(self, tree: Path, directory: Path) -> None:
        self.directory = directory
        self._tree = tree
        self._environ = {
            **os.environ,
            "GIT_DIR": str(directory / "repository"),
            "GIT_WORK_TREE": str(tree),
            "GIT_INDEX_FILE": str(directory / "index"),
        }
        directory.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", "--bare", directory / "repository"], check=True)

    def run(self, *arguments: str, text: str | None = None) -> str:
        return subprocess.run(
            ["git", *arguments],
            cwd=self._tree,
            env=self._environ,
            check=True,
            text=True,
            input=text,
            stdout=subprocess.PIPE,
        ).stdout.strip()

    def snapshot(self) -> str:
        self.run("add", "-A")
        return self.run("write-tree")

    def restore(self, names: list[str]) -> None:
        self.run("checkout-index", "-f", "-z", "--stdin", text="\0".join(names))


def make_tree(root: Path, count: int, seed: int = 7) -> None:
    """Files of words, sizes lognormal with a median of 4 KB, five to thirty-five in a directory."""
    chance = random.Random(seed)
    words = [
        bytes(chance.choices(b"abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 10))) for _ in range(4000)
    ]
    directories, made = [root], 0
    root.mkdir(parents=True)
    while made < count:
        directory = chance.choice(directories[-400:]) / f"d{len(directories)}"
        directory.mkdir()
        directories.append(directory)
        for _ in range(min(chance.randint(5, 35), count - made)):
            size = int(min(chance.lognormvariate(8.3, 1.0), 400_000))
            data = b"\n".join(b" ".join(chance.choices(words, k=64)) for _ in range(size // 350 + 1))
            (directory / f"f{made}.txt").write_bytes(data[:size])
            made += 1


def timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def measure_tree(tree: Path, scratch: Path, rounds: int) -> dict[str, tuple[float, float]]:
    """(ours, git) in seconds, the median of each."""
    chance = random.Random(1)
    files = [path for path in tree.rglob("*") if path.is_file()]
    taken: dict[str, list[tuple[float, float]]] = {}

    def note(what: str, ours: float, git: float) -> None:
        taken.setdefault(what, []).append((ours, git))

    for number in range(rounds):
        place = scratch / str(number)
        git = Git(tree, place / "git")
        store = place / "store"
        fresh = partial(Workspace, tree, store)
        for path in files:  # whoever reads them from the disk, it is not whoever comes first
            path.read_bytes()
        note("first", timed(fresh().snapshot), timed(git.snapshot))
        for _ in range(3):
            note("unchanged", timed(fresh().snapshot), timed(git.snapshot))
            for path in chance.sample(files, CHANGED):
                path.write_bytes(path.read_bytes()[::-1])
            time.sleep(0.05)
            note("3 changed", timed(fresh().snapshot), timed(git.snapshot))
            fresh().snapshot()
        note("restore of 1,000", *restore(tree, fresh(), git, chance.sample(files, RESTORED)))
        shutil.rmtree(place)
    return {
        what: tuple(statistics.median(side) for side in zip(*pairs, strict=True))
        for what, pairs in taken.items()
    }


def restore(tree: Path, workspace: Workspace, git: Git, changed: list[Path]) -> tuple[float, float]:
    """The same files changed and put back, by each in turn."""
    to = workspace.snapshot().id
    git.snapshot()

    def spoil() -> None:
        for path in changed:
            path.write_bytes(b"spoilt")
        os.sync()

    spoil()
    time.sleep(0.05)
    left = workspace.snapshot().id
    plan = workspace.plan(to, left)
    ours = timed(lambda: workspace.apply(plan))
    spoil()
    names = [str(path.relative_to(tree)) for path in changed]
    return ours, timed(lambda: git.restore(names))


def measure_disk(scratch: Path) -> dict[str, int]:
    """Bytes of 50 snapshots of a Python library with ten files changed between them, ours and git's."""
    tree = scratch / "library"
    shutil.copytree(
        sysconfig.get_path("stdlib"),
        tree,
        symlinks=True,
        ignore=shutil.ignore_patterns("__pycache__", "site-packages"),
    )
    chance = random.Random(2)
    sources = sorted(path for path in tree.rglob("*.py") if path.is_file())
    git, workspace = Git(tree, scratch / "git"), Workspace(tree, scratch / "store")
    ids, parent = [], ""
    for number in range(SNAPSHOTS):
        for path in chance.sample(sources, EDITED) if number else ():
            lines = path.read_bytes().splitlines(keepends=True)
            lines.insert(chance.randint(0, len(lines)), b"# snapshot %d\n" % number)
            path.write_bytes(b"".join(lines))
        ids.append(workspace.snapshot().id)
        root = git.snapshot()
        who = ("-c", "user.name=bench", "-c", "user.email=bench")
        parent = git.run(*who, "commit-tree", root, *(("-p", parent) if parent else ()), text=str(number))
    git.run("update-ref", "refs/heads/main", parent)
    git.run("gc", "-q", "--prune=now")
    before = workspace.contents.du().bytes
    workspace.contents.gc(lambda: needed(workspace.contents, ids))
    objects = scratch / "git" / "repository" / "objects"
    return {
        "ours": before,
        "ours after gc": workspace.contents.du().bytes,
        "git after gc": sum(path.stat().st_size for path in objects.rglob("*") if path.is_file()),
    }


def measure_large(scratch: Path) -> dict[str, float]:
    """Memory and time of a process that saves one file of 2 GB and puts it back."""
    tree = scratch / "tree"
    tree.mkdir()
    with (tree / "large").open("wb") as file:
        block = os.urandom(4 * 1024**2) + b"kelp and rock\n" * 300_000
        while file.tell() < LARGE_BYTES:
            file.write(block)
    script = (
        "import sys; from pathlib import Path; from holdfast.workspace.workspace import Workspace\n"
        "w = Workspace(Path(sys.argv[1]), Path(sys.argv[2])); a = w.snapshot().id\n"
        "Path(sys.argv[1], 'large').unlink(); b = w.snapshot().id; w.apply(w.plan(a, b))\n"
        # Its own peak: ru_maxrss begins with what the parent had when it started this process.
        "print(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])"
    )
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", script, tree, scratch / "store"], check=True, capture_output=True, text=True
    )
    return {"seconds": time.perf_counter() - began, "MB": int(done.stdout) * 1024 / 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", default="20000,100000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trees", type=Path, default=Path(tempfile.gettempdir(), "holdfast-workspace-trees"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--skip", default="", help="of: trees, disk, large")
    arguments = parser.parse_args()
    results: dict[str, object] = {}
    with tempfile.TemporaryDirectory(dir=arguments.trees.parent) as made:
        scratch = Path(made)
        for count in map(int, arguments.files.split(",")) if "trees" not in arguments.skip else ():
            tree = arguments.trees / str(count)
            if not tree.exists():
                make_tree(tree, count)
            measured = measure_tree(tree, scratch / str(count), arguments.rounds)
            results[f"{count} files"] = measured
            for what, (ours, git) in measured.items():
                print(
                    f"{count:>7} files  {what:<18} {ours:7.3f} s  git {git:7.3f} s  {ours / git:5.2f} x",
                    flush=True,
                )
        if "disk" not in arguments.skip:
            (scratch / "disk").mkdir()
            disk = results["disk"] = measure_disk(scratch / "disk")
            for what, size in disk.items():
                print(
                    f"disk  {what:<14} {size / 1e6:7.2f} MB  {size / disk['git after gc']:5.2f} x", flush=True
                )
        if "large" not in arguments.skip:
            (scratch / "large").mkdir()
            large = results["2 GB file"] = measure_large(scratch / "large")
            print(f"2 GB file  {large['seconds']:.1f} s, {large['MB']:.0f} MB of memory")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
