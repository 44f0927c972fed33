"""Kill -9 at any file operation of a run that works on files, and of a rewind of it: state and files agree.

A process with the shim of the crash suite lists the operations of an undisturbed life: the store's, the
content store's and those in the tree. Then lives are killed, one or two in a row, before or after any of
them, and the next one continues. In the end the files are those of a run that nobody disturbed, each step has
found the files that it would have found then, and a person's file is as it was.

    python -m tests.workspace.runs --sample 40 --seed 1      prints a line of JSON for each point
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.crash import shim
from tests.crash.shim import Fault, Mode

from holdfast import Holdfast, checkpoint, parallel, step, workflow, workspace_path

ROOT = Path(__file__).parents[2]
STEPS = 4
_FAST = Path("/dev/shm")

Files = dict[str, str]


@step(effect="workspace")
def ink(n: int) -> Files:
    """Gives what it finds, so that a replay tells whether each attempt found the same."""
    here = workspace_path()
    found = look(here)
    with (here / "log").open("a") as log:
        log.write(f"{n}\n")
    (here / f"page-{n}").write_text("words " * n)
    (here / f"page-{n - 1}").unlink(missing_ok=True)
    (here / f"shelf-{n}").mkdir(exist_ok=True)
    (here / f"shelf-{n}" / "book").write_text(str(n))
    return found


@step(effect="workspace", isolate="copy")
def copy(n: int) -> None:
    (workspace_path() / f"copied-{n}").write_text(str(n))


@workflow
def scribe() -> list[Files]:
    found = [ink(n) for n in (1, 2)]
    checkpoint("half")
    parallel(copy, range(2))
    return found + [ink(n) for n in range(3, STEPS + 1)]


def look(root: Path) -> Files:
    return {
        str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()
    }


class Scene:
    """A store and a tree of their own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.home, self.tree = directory / "home", directory / "tree"
        self.tree.mkdir()
        (self.tree / "log").write_text("")
        (self.tree / "mine").write_text("a person's")

    def write(self) -> Any:
        with Holdfast(self.home, workspace=self.tree) as hf:
            return hf.with_id("r").run(scribe)

    def rewind(self) -> None:
        with Holdfast(self.home, workspace=self.tree) as hf:
            if hf.get("r").status != "paused":
                hf.rewind("r", "half")

    def live(self, act: Callable[[], object], fault: Fault) -> int:
        """A life in a process of its own → whether the fault struck."""
        shim.plan(fault, self.directory)
        child = os.fork()
        if child == 0:
            try:
                shim.arm()
                act()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        _, status = os.waitpid(child, 0)
        assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0, "a life failed that nobody disturbed"
        return int(shim.outcome().struck > 0)


def strike(chance: random.Random, operations: int, going_back: int) -> tuple[int, str]:
    """Some lives that are killed, and one that is not → how many struck, and what is wrong."""
    struck = 0
    with tempfile.TemporaryDirectory(prefix="runs-", dir=_FAST if _FAST.is_dir() else None) as made:
        scene = Scene(Path(made))
        for _ in range(chance.choice((1, 1, 2))):
            struck += scene.live(scene.write, _kill(chance, operations))
        found = scene.write()
        assert [sorted(one) for one in found] == [sorted(one) for one in EXPECTED_FOUND], "found other files"
        assert look(scene.tree) == EXPECTED, _differing(look(scene.tree), EXPECTED)
        if chance.random() < 0.5:
            struck += scene.live(scene.rewind, _kill(chance, going_back))
            scene.rewind()
            assert look(scene.tree) == HALF, _differing(look(scene.tree), HALF)
            with Holdfast(scene.home, workspace=scene.tree) as hf:
                assert hf.get("r").status == "paused"
                hf.undo()
            assert look(scene.tree) == EXPECTED, "undone: " + _differing(look(scene.tree), EXPECTED)
    return struck, ""


def _kill(chance: random.Random, operations: int) -> Fault:
    return Fault(chance.choice((Mode.BEFORE, Mode.AFTER)), chance.randint(1, operations))


def _differing(found: Files, expected: Files) -> str:
    names = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
    return ", ".join(f"{name}: {found.get(name)!r} and not {expected.get(name)!r}" for name in names[:4])


def _page(upto: int) -> Files:
    made = {"log": "".join(f"{n}\n" for n in range(1, upto + 1)), "mine": "a person's"}
    made |= {f"shelf-{n}/book": str(n) for n in range(1, upto + 1)}
    return made | ({f"page-{upto}": "words " * upto} if upto else {})


_COPIES = {f"copied-{n}": str(n) for n in range(2)}
HALF = _page(2)
EXPECTED = _page(STEPS) | _COPIES
EXPECTED_FOUND = [_page(0), _page(1), _page(2) | _COPIES, _page(3) | _COPIES]


def tell(*arguments: str) -> Iterator[dict[str, Any]]:
    """What a process with the shim prints. Raises `shim.Unavailable`."""
    command = [sys.executable, "-m", "tests.workspace.runs", *arguments]
    environ = shim.environment()
    with subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)
    assert process.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    counts = []
    with tempfile.TemporaryDirectory(prefix="runs-") as made:
        scene = Scene(Path(made))
        for act in (scene.write, scene.rewind):
            scene.live(act, shim.RECORDING)
            counts.append(len(shim.recorded()))
    for number in range(arguments.sample):
        seed = arguments.seed * 100_000 + number
        try:
            struck, wrong = strike(random.Random(seed), *counts)
        except Exception as error:
            struck, wrong = 1, f"{type(error).__name__}: {error}"
        print(json.dumps({"seed": seed, "operations": counts, "struck": struck, "wrong": wrong}), flush=True)


if __name__ == "__main__":
    main()
