"""`make mutants`: does a test see each defect of the catalogue?

python -m tests.mutants [WORD ...]      only mutants whose name or test holds one of the words

All of them together write their part of `docs/reliability.md`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.crash import page
from tests.mutants.catalogue import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
FAILED = 1
"""pytest's exit code when tests ran and some failed; any other says that they did not run as they should."""
PATIENCE_S = 120
"""For the test of one mutant. All tests together, on the source as it is, get ten times as long."""


def main(words: list[str]) -> int:
    chosen = [one for one in MUTANTS if not words or any(word in one.name + one.test for word in words)]
    if not chosen:
        print("no mutant has such a name", file=sys.stderr)
        return 2
    if not _pass_unchanged(chosen):
        return 1
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        verdicts = list(pool.map(_report, chosen))
    found = [
        {"name": one.name, "test": one.test, "caught": caught}
        for one, caught in zip(chosen, verdicts, strict=True)
    ]
    caught = sum(one["caught"] is True for one in found)
    print(f"{caught} of {len(chosen)} mutants caught")
    if not words:
        page.save_mutants(found)
    return 0 if caught == len(chosen) else 1


def _pass_unchanged(chosen: list[Mutant]) -> bool:
    """The tests say nothing about a mutant if they fail without it."""
    tests = sorted({one.test for one in chosen})
    done = _pytest(ROOT / "src", tests)
    if done.returncode:
        print(done.stdout + done.stderr)
        print("these tests fail on the source as it is", file=sys.stderr)
    return not done.returncode


def _report(one: Mutant) -> bool:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-mutant-") as directory:
        source = Path(directory) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        problem = _apply(one, source / "holdfast")
        if not problem:
            try:
                done = _pytest(source, [one.test])
                problem = _why_not_caught(done.returncode)
            except subprocess.TimeoutExpired:
                problem = ""  # the test hangs, which nobody would overlook
    verdict = f"NOT CAUGHT: {problem}" if problem else "caught"
    print(f"{verdict:10} {time.monotonic() - began:5.1f} s  {one.name}\n{'':20}{one.test}", flush=True)
    return not problem


def _apply(one: Mutant, package: Path) -> str:
    """Edit the copy; what is wrong with the edit, if something is."""
    for edit in one.edits:
        file = package / edit.file
        text = file.read_text()
        if (count := text.count(edit.old)) != 1:
            return f"the edit of {edit.file} does not apply: what it replaces is there {count} times"
        file.write_text(text.replace(edit.old, edit.new))
    return ""


def _why_not_caught(code: int) -> str:
    if code == FAILED:
        return ""
    return "its test passes" if not code else f"its test did not run (pytest says {code})"


def _pytest(source: Path, tests: list[str]) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--timeout=30",
        *tests,
    ]
    environ = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=PATIENCE_S if len(tests) == 1 else 10 * PATIENCE_S)
        finally:
            _end_group(process.pid)
    return subprocess.CompletedProcess(command, process.returncode, output, "")


def _end_group(leader: int) -> None:
    """A test that fails in the middle may leave processes behind: a mutant's must not continue."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
