"""One delivery of a task by the installed program, undisturbed or killed at random, until it has ended.

Each command is a process of its own: `deliver`, then `approve` for each gate and `resume`. A kill is a
SIGKILL to that process at a random moment. The outcome is read from the log by `show --json` and `audit
verify`, from the files, from the provider, and from the line that each implementation leaves outside.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple

from evals import agents
from evals.agents import Backend
from evals.tasks import CodingTask

PROGRAM: Final = Path(sys.executable).with_name("holdfast")
RUN: Final = "eval"
MOST_COMMANDS: Final = 60
"""So many commands; then the delivery is given up as unsolved."""
COMMAND_S: Final = 120.0


class Delivery(NamedTuple):
    """How a delivery ended. `repeated` counts effects that ran more often than the log has attempts;
    `sent_back` how often the checks sent the work back; `why` says what was wrong, if anything."""

    task: str
    backend: Backend
    solved: bool
    kills: int
    sent_back: int
    repeated: int
    requests: int
    usd: Decimal
    files: Mapping[str, bytes]
    seconds: float
    why: str = ""


def deliver(task: CodingTask, backend: Backend, directory: Path, kills: int, seed: int) -> Delivery:
    """Deliver the task in a new repository below `directory`; kill at most `kills` of its commands."""
    root = directory / "repository"
    root.mkdir(parents=True)
    for path, text in task.files.items():
        (root / path).write_text(text)
    git = ["git", "-c", "user.name=eval", "-c", "user.email=eval@localhost", "-C", str(root)]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "as it was"]):
        subprocess.run([*git, *words], check=True)
    with agents.provider(task, backend) as model:
        url = "" if model is None else model.openai_url
        (root / "holdfast.toml").write_text(agents.settings(task, backend, url, directory))
        work = _Work(task, root, directory, kills, random.Random(seed))
        began = time.monotonic()
        why = work.until_ended()
        seconds = time.monotonic() - began
        sent = Counter(one.idempotency_key for one in model.requests) if model is not None else Counter()
    detail = work.show()
    repeated = _repeated(detail, work.effects(), sent)
    solved = (
        not why and subprocess.run(task.check, cwd=root, capture_output=True, check=False).returncode == 0
    )
    audit = work.command("audit", "verify")
    if audit.returncode:
        why = why or f"audit verify: {audit.stdout}{audit.stderr}"
    return Delivery(
        task.name, backend, solved and not why, work.killed, _sent_back(detail), repeated, sent.total(),
        _usd(detail), _files(root), seconds, why,
    )  # fmt: skip


class _Work:
    """The commands of one delivery."""

    def __init__(
        self, task: CodingTask, root: Path, directory: Path, kills: int, chance: random.Random
    ) -> None:
        self._task = task
        self._root = root
        self._effects = directory / "effects"
        self._chance = chance
        self._kills_left = kills
        self.killed = 0
        self._took: dict[str, float] = {}
        self._env = {
            **os.environ,
            "HOLDFAST_HOME": str(directory / "home"),
            "HOLDFAST_TRUST": str(root),
            "EVAL_KEY": "key",
            agents.EFFECTS: str(self._effects),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def until_ended(self) -> str:
        """Empty when the delivery has completed; else why it did not."""
        task = self._task
        check = " ".join(task.check)
        words = ["deliver", task.goal, "--id", RUN, "--agent", "coder", "--check", check, "-q"]
        for _ in range(MOST_COMMANDS):
            done = self.command(*words, may_be_killed=True)
            if done.returncode == 0:
                return ""
            status, detail = self._status()
            if status == "completed":
                return ""
            if status in ("failed", "needs_attention", "paused", "cancelled"):
                return f"the run is {status}: {done.stderr.strip()[-600:]}"
            if status == "waiting":
                for gate in detail["gates"]:
                    if gate["status"] == "open":
                        self.command("approve", RUN, gate["key"], may_be_killed=True)
            words = ["resume", RUN, "-q"] if status else words
        return f"{MOST_COMMANDS} commands did not end it"

    def _status(self) -> tuple[str, dict[str, Any]]:
        shown = self.command("show", RUN, "--json")
        if shown.returncode:
            return "", {}
        detail = json.loads(shown.stdout)
        return detail["status"], detail

    def show(self) -> dict[str, Any]:
        """The whole record of the run; empty if it never began."""
        return self._status()[1]

    def effects(self) -> list[str]:
        return self._effects.read_text().split() if self._effects.exists() else []

    def command(self, *words: str, may_be_killed: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a command; perhaps kill it at a moment within the time that it usually takes."""
        process = subprocess.Popen(
            [PROGRAM, *words], cwd=self._root, env=self._env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        began = time.monotonic()
        moment = COMMAND_S
        if may_be_killed and self._kills_left > 0:
            moment = self._chance.uniform(0.2, self._took.get(words[0], 2.0))
        try:
            out, err = process.communicate(timeout=moment)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            out, err = process.communicate()
            if moment == COMMAND_S:
                raise TimeoutError(f"{words[0]} took more than {COMMAND_S:g} s") from None
            self._kills_left -= 1
            self.killed += 1
        else:
            self._took[words[0]] = max(0.3, time.monotonic() - began)
        return subprocess.CompletedProcess(words, process.returncode, out, err)


def _repeated(detail: Mapping[str, Any], effects: list[str], sent: Counter[str]) -> int:
    """Requests and lines beyond the recorded attempts of the steps that made them. An attempt is recorded
    before its effect, so an effect without one was repeated behind the log's back."""
    attempts = {one["key"]: one["attempt"] for one in detail["steps"]}
    # A key of idempotency is RUN:GENERATION:STEP.
    requests = sum(max(0, count - attempts.get(key.split(":", 2)[2], 0)) for key, count in sent.items())
    lines = sum(one["attempt"] for one in detail["steps"] if one["name"] == "sh")
    return requests + max(0, len(effects) - lines)


def _sent_back(detail: Mapping[str, Any]) -> int:
    record = detail.get("deliver") or {}
    return int((record.get("retries") or {}).get("verification", 0))


def _usd(detail: Mapping[str, Any]) -> Decimal:
    costs = (one["usd"] for one in detail.get("measured", ()) if one.get("usd") is not None)
    return sum((Decimal(cost) for cost in costs), Decimal(0))


def _files(root: Path) -> dict[str, bytes]:
    """The files of the repository; holdfast.toml names a port and a path, and is none of them."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
        and not {".git", ".holdfast", "__pycache__"}.intersection(path.relative_to(root).parts)
        and path.name != "holdfast.toml"
    }
