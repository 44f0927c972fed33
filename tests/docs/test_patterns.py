"""The patterns of `docs/concepts.md`: killed after every second step and resumed, each gives one result.

A trial writes `steps.py` and the example into a directory and executes `LIFE` there, in one process after
the other. `LIFE` kills itself with SIGKILL when it has recorded two more steps, and once more when the
example has returned. So the last process replays a whole history, with other hashes and other delays.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "concepts.md"
MOST_LIVES = 20
TOPICS = ["kelp", "rock", "tide", "reef"]

LIFE = f"""
import asyncio
import os
import signal
from pathlib import Path

import example
from holdfast import Holdfast, step, workflow
from holdfast.engine.runs.workflow import WorkflowBase

RECORDED = ("StepRan", "StepCompleted", "StepFailed")
(flow,) = [one for one in vars(example).values() if isinstance(one, WorkflowBase)]
recorded = 0


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def count(event):
    global recorded
    recorded += event.type in RECORDED
    if recorded == 2 and not Path("returned").exists():
        die()


@step
def end(result):
    print("result", result, flush=True)
    if not Path("returned").exists():
        Path("returned").touch()
        die()


if flow.is_async:

    @workflow
    async def watched(topics):
        result = await flow.fn(topics)
        await end.aio(result)
        return result

else:

    @workflow
    def watched(topics):
        result = flow.fn(topics)
        end(result)
        return result


async def start():
    async with Holdfast(home="home", on_event=count) as hf:
        return await hf.with_id("trial").start(watched, {TOPICS!r})


if __name__ == "__main__":
    print("result", asyncio.run(start()), flush=True)
"""


def patterns() -> tuple[str, dict[str, list[str]]]:
    """The steps that all examples use, and the examples by their headings: one, or the code before and after
    a change."""
    section = PAGE.read_text().partition("\n## Patterns\n")[2].partition("\n## ")[0]
    opening, *parts = re.split(r"^### ", section, flags=re.MULTILINE)
    (steps,) = blocks(opening)
    return steps, {part.partition("\n")[0]: blocks(part) for part in parts}


def blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


STEPS, PATTERNS = patterns()


class Trial:
    """One run of an example, in as many processes as it takes."""

    def __init__(self, place: Path, code: str) -> None:
        self.place = place
        self.lives = 0
        self.results: list[str] = []
        """What the example returned, in each process in which it did, and what the run ended with."""
        (place / "steps.py").write_text(STEPS)
        (place / "life.py").write_text(LIFE)
        self.change(code)

    def change(self, code: str) -> None:
        (self.place / "example.py").write_text(code)

    def live(self) -> subprocess.CompletedProcess[str]:
        """Execute the run until it is killed or ends."""
        self.lives += 1
        environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": str(self.lives)}
        done = subprocess.run(
            [sys.executable, "life.py"],
            cwd=self.place,
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.results += re.findall(r"^result (.*)$", done.stdout, re.MULTILINE)
        return done

    def live_on(self) -> None:
        """Resume it again and again, to its end."""
        while (done := self.live()).returncode == -signal.SIGKILL and self.lives < MOST_LIVES:
            pass
        assert done.returncode == 0, done.stderr

    def sent(self) -> list[str]:
        outbox = self.place / "outbox.txt"
        return outbox.read_text().splitlines() if outbox.exists() else []

    def check(self) -> None:
        """It was killed at least twice, and all of its processes agree."""
        assert self.lives > 2
        assert len(self.results) > 2 and set(self.results) == {self.results[0]}
        assert len(self.sent()) == len(set(self.sent()))


def test_every_pattern_is_tried() -> None:
    """The page has the patterns that people use; a heading without an example is a mistake."""
    assert len(PATTERNS) >= 13
    assert [name for name, examples in PATTERNS.items() if len(examples) not in (1, 2)] == []


@pytest.mark.parametrize("name", [name for name, examples in PATTERNS.items() if len(examples) == 1])
def test_a_pattern_is_the_same_execution_when_it_is_resumed(name: str, tmp_path: Path) -> None:
    """Killed after every second step, and when it has returned: one result, and nothing is sent twice."""
    trial = Trial(tmp_path, PATTERNS[name][0])
    trial.live_on()
    trial.check()


@pytest.mark.parametrize("name", [name for name, examples in PATTERNS.items() if len(examples) == 2])
def test_a_run_in_flight_ends_under_the_code_after_the_change(name: str, tmp_path: Path) -> None:
    """Begun and killed under the code before the change, resumed under the code after it."""
    before, after = PATTERNS[name]
    trial = Trial(tmp_path, before)
    assert trial.live().returncode == -signal.SIGKILL
    trial.change(after)
    trial.live_on()
    trial.check()


def test_a_new_run_takes_the_way_of_the_change(tmp_path: Path) -> None:
    """`patched` is True in a run that begins under the new code."""
    trial = Trial(tmp_path, PATTERNS["`patched` before a fan-out"][1])
    trial.live_on()
    trial.check()
    assert "which topics?" in trial.results[0]


def test_a_renamed_helper_diverges_before_anything_runs(tmp_path: Path) -> None:
    """Without the line that keeps the name of the scope; with it the run ends."""
    before, after = PATTERNS["Renaming a helper"]
    renamed = re.sub(r"^publish_one\.__qualname__.*\n", "", after, flags=re.MULTILINE)
    assert renamed != after
    trial = Trial(tmp_path, before)
    assert trial.live().returncode == -signal.SIGKILL
    sent = trial.sent()
    trial.change(renamed)
    assert "DivergenceError" in trial.live().stderr
    assert trial.sent() == sent
    trial.change(after)
    trial.live_on()
    trial.check()
