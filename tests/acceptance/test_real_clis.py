"""Claude Code, Codex and OpenCode as the agent of every role of a delivery, on a model that follows a script:
killed once in each stage, in the middle of an edit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.real_clis import CLIS, LOOPBACK_ONLY, NotInstalled, RealCli, programs

from holdfast.testing.fake_provider import FakeProvider, Fault

GOAL = "Let greet.py say hello"
CHECK = f"{sys.executable} check.py"
PROMPTS = {
    "repair": "What is there now was sent back",
    "plan": "Plan how to reach this goal",
    "implement": "Carry out this plan in the workspace",
    "review": "Review this change",
    "verify": "Verify that this change reaches the goal",
}
"""By the words of its prompt the model knows which stage it works for; the first that fits counts."""
KILLED = ("plan", "implement", "review", "repair", "verify")
"""The stages in which an agent works, in the order of a delivery whose first check fails."""
SLEEPS = ["sleep", "3017"]
"""A process that the agent leaves in the background, in a session of its own."""
LEAVES = f"(setsid sh -c 'echo; exec {' '.join(SLEEPS)} > /dev/null 2>&1' &) | read -r begun"
"""It ends when that process has its session: what ends the group of the command then does not reach it."""
BEFORE = {"greet.py": "GREETING = ''\n"}
MADE = {"greet.py": "GREETING = ''\nGREETING = 'Hullo'\n", "notes.md": "greets\n"}
AFTER = {"greet.py": "GREETING = ''\nGREETING = 'Hullo'\nGREETING = 'Hello'\n", "notes.md": "greets\n"}
FOUND = [
    *[("plan", BEFORE)] * 2, *[("implement", BEFORE)] * 2, *[("review", MADE)] * 2, *[("repair", MADE)] * 2,
    ("review", AFTER), *[("verify", AFTER)] * 2,
]  # fmt: skip
"""The files as each conversation must find them: the second of a stage as the first, which was killed."""


JOBS = [
    ("planner[1]", 2), ("developer[1]", 2), ("reviewer[1]", 2), ("developer[2]", 2), ("reviewer[2]", 1),
    ("verifier[1]", 2),
]  # fmt: skip
"""Each job, and how many attempts it took."""
SPENT = {"claude": ("0.2548", 11, 0), "codex": ("0.55", 11, 6), "opencode": ("0.2548", 11, 0)}
"""Dollars, attempts, and attempts of unknown price. One that was killed, or that does not say what it cost,
is charged as reserved: 0.05. The others made eight requests of 0.0006."""


@pytest.fixture(scope="session")
def installed() -> Path:
    try:
        return programs()
    except NotInstalled as why:
        pytest.skip(f"the real CLI agents cannot be had: {why}")


@pytest.fixture(params=sorted(CLIS))
def real(request, cli, installed):
    """A repository whose only agent is one of them."""
    one = CLIS[request.param]
    cli.directory.joinpath("holdfast.toml").write_text(f'{one.table}reserve_usd = "0.05"\n')
    cli.directory.joinpath("check.py").write_text("import greet\nassert greet.GREETING == 'Hello'\n")
    cli.directory.joinpath(".gitignore").write_text("__pycache__/\n")
    for name, text in BEFORE.items():
        cli.directory.joinpath(name).write_text(text)
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        who = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
        subprocess.run(["git", *who, *words], cwd=cli.directory, check=True)
    cli.env |= {**LOOPBACK_ONLY, "PATH": f"{installed}:{cli.env['PATH']}"}
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        cli.env.pop(name, None)
    cli("trust")
    return one


class Model(FakeProvider):
    """Its first conversation in each stage writes into two files, leaves a process behind, and then hangs;
    after `goes_on(stage)` it does the work of the stage. `begun` has the files as each conversation found
    them."""

    def __init__(self, real: RealCli, project: Path) -> None:
        whole: dict[str, list[Any]] = {
            "plan": ["1. In greet.py, say Hello."],
            "implement": [
                [
                    real.creates(project / "notes.md", "greets\n"),
                    real.runs("""echo "GREETING = 'Hullo'" >> greet.py"""),
                ],
                "It greets.",
            ],
            "review": ["Fine.\nVERDICT: APPROVED"],
            "repair": [real.runs("""echo "GREETING = 'Hello'" >> greet.py"""), "Now it greets."],
            "verify": ["It says Hello.\nVERDICT: APPROVED"],
        }
        half = [
            real.creates(project / "half.txt", "half\n"),
            real.runs(f"echo half >> greet.py; {LEAVES}"),
        ]
        super().__init__(
            conversations={text: [half, "never said"] for text in PROMPTS.values()}, side_text="Hello"
        )
        self._whole = {stage: FakeProvider(turns).turns for stage, turns in whole.items()}
        self._project = project
        self._half = set(KILLED)
        self.hangs = {stage: threading.Event() for stage in KILLED}
        self.begun: list[tuple[str, dict[str, str]]] = []

    def goes_on(self, stage: str) -> None:
        self._half.remove(stage)
        self.conversations[PROMPTS[stage]] = self._whole[stage]

    def take(self, *args: Any) -> Any:
        reply = super().take(*args)
        stage = next((one for one in KILLED if PROMPTS[one] == reply.request.conversation), "")
        if reply.request.turn == 0:
            self.begun.append((stage, tree(self._project)))
        if reply.request.turn == 1 and stage in self._half:
            self.hangs[stage].set()
            reply.fault = Fault(hang=True)
        return reply


def tree(project: Path) -> dict[str, str]:
    ours = {".git", "__pycache__", "holdfast.toml", "check.py", ".gitignore", ".holdfast"}
    return {
        str(path.relative_to(project)): path.read_text()
        for path in sorted(project.rglob("*"))
        if path.is_file() and not ours & set(path.relative_to(project).parts)
    }


def descendants(pid: int) -> dict[int, list[str]]:
    """Every process below this one, with its command line."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found: dict[int, list[str]] = {}
    todo = [pid]
    while todo:
        for below in parents.get(todo.pop(), []):
            found[below] = _words(below)
            todo.append(below)
    return found


def _words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
    except OSError:
        return []


@pytest.mark.timeout(400)
def test_killed_in_each_stage(cli, real, wait_until):
    """`kill -9` of holdfast in each stage, while the agent has edited and asks its model: its whole tree
    dies, also what it left in the background; `resume` rolls the edit back before the agent works again, and
    the delivery ends as if nothing had happened, with session, tokens and cost of each job."""
    with Model(real, cli.directory) as model:
        cli.env.update(real.settings(Path(cli.env["HOME"]), model.url))
        roles = ("--agent", real.name, "--verifier", real.name)
        process = cli.start("deliver", GOAL, "--id", "d", "--yes", "--check", CHECK, *roles)

        def ended() -> bool:
            return process.poll() is not None

        for stage in KILLED:
            wait_until(lambda stage=stage: model.hangs[stage].is_set() or ended(), stage, 90)
            assert model.begun == FOUND[: len(model.begun)]  # first: with wrong files the run ends anywhere
            assert not ended(), process.communicate()
            left = tree(cli.directory)
            assert left["half.txt"] == "half\n" and left["greet.py"].endswith("half\n")
            wait_until(lambda pid=process.pid: SLEEPS in descendants(pid).values(), "what it leaves")
            below = descendants(process.pid)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            wait_until(lambda below=below: not any(Path(f"/proc/{pid}").exists() for pid in below), "its end")
            model.goes_on(stage)
            process = cli.start("resume", "d")
        code = process.wait(90)
    assert model.begun == FOUND
    assert tree(cli.directory) == AFTER
    assert code == 0, process.communicate()
    shown = cli("show", "d", "--json").json()
    assert shown["result"] == {
        "files": ["greet.py", "notes.md"],
        "verified": True,
        "retries": {"plan": 0, "implementation": 0, "review": 0, "verification": 1},
    }
    jobs = [step for step in shown["steps"] if step["name"] == real.name]
    assert [(job["key"].partition("/")[0], job["attempt"]) for job in jobs] == JOBS
    parts = [shown["deliver"][part] for part in ("plan", "implementation", "review", "verification")]
    assert len({part["session"] for part in parts} - {""}) == 4
    tokens = sum(one["input_tokens"] for one in shown["measured"])
    if real.name == "opencode":  # it reports each request: also those of attempts that were killed later
        assert all(job["measured"] for job in jobs) and tokens >= 800
    else:
        assert tokens == 800
    (spent,) = shown["spent"]
    assert (spent["usd"], spent["steps"], spent["unknown"]) == SPENT[real.name]
