"""`deliver` in one process, with agents that a test writes: stages, approvals, ways back and their bounds."""

from __future__ import annotations

import asyncio
import hashlib
import queue
import re
import subprocess
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, command
from holdfast.agents import tools
from holdfast.agents.deliver.policies import Policy
from holdfast.agents.deliver.stages import STAGES
from holdfast.agents.protocol import Job, Outcome
from holdfast.errors import (
    BadInput,
    BadRunId,
    GateError,
    NotDelivered,
    NotFound,
    ProgramNotFound,
    RunDeleted,
    RunExists,
)

PATIENCE_S = 60
GOAL = "Let app.py say hello"
APPROVED = "looks right\nVERDICT: APPROVED"
CHECK = 'python3 -c "import app; assert app.TEXT"'

WORDS = ("made", "shown")
SHELL = "$"
"""In place of a path: the text is a command line."""
COMMIT = "git -c user.name=t -c user.email=t@example.invalid commit -qam sly"

Work = Callable[[Job], tuple[dict[str, str], str]]
"""A job → the files that are written, and the answer."""


class Agents:
    """In place of the configured ones: one agent, whose work for each kind of job the test gives."""

    def __init__(self, **work: Work) -> None:
        self.jobs: list[Job] = []
        self.asked: list[tuple[str, str]] = []
        self._work: dict[str, Work] = {
            "plan": lambda job: ({}, "1. change app.py\n"),
            "implement": lambda job: ({"app.py": 'TEXT = "hello"\n'}, "done"),
            "review": lambda job: ({}, APPROVED),
            "verify": lambda job: ({}, APPROVED),
            **work,
        }

    def make(self, *_: object) -> Agents:
        return self

    def find(self, name: str, role: str = "") -> Agent:
        if role:
            self.asked.append((name, role))
        return Agent(self)


class Agent:
    name = "test"

    def __init__(self, agents: Agents) -> None:
        self._agents = agents

    async def work(self, job: Job) -> Outcome:
        self._agents.jobs.append(job)
        writes, answer = self._agents._work[job.kind](job)
        for path, text in writes.items():
            if path == SHELL:
                await command.aio(["sh", "-ec", text], effect="workspace")
            else:
                await tools.write.aio(path, text)
        return Outcome(text=answer)


class Desk:
    """A Holdfast on a repository, and a person who waits for what is to be decided."""

    def __init__(self, root: Path, agents: Agents) -> None:
        self.root = root / "repo"
        self.root.mkdir()
        (self.root / "app.py").write_text('TEXT = ""\n')
        (self.root / "other.txt").write_text("other\n")
        (self.root / ".gitignore").write_text("__pycache__/\n")
        for words in (["init", "-qb", "master"], ["add", "."], ["commit", "-qm", "first"]):
            who = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
            subprocess.run(["git", *who, *words], cwd=self.root, check=True)
        self.agents = agents
        self._opened: queue.Queue[str] = queue.Queue()
        self.hf = Holdfast(
            root / "store", workspace=self.root, handlers={"agents": agents.make}, on_event=self._on_event
        )
        self.run: Any = None

    def _on_event(self, event: Any) -> None:
        if event.type == "GateOpened" and event.data.get("kind", "approval") == "approval":
            self._opened.put(event.data["key"])
        if event.type == "RunReleased":
            self._opened.put("released")

    def deliver(self, **options: Any) -> None:
        options.setdefault("checks", [CHECK])
        self.run = self.hf.deliver(GOAL, run_id="d", **options)

    def gate(self) -> Any:
        """The next gate, once the run waits at it."""
        key = self.gate_key()
        self.released()
        (found,) = [gate for gate in self.hf.get("d").gates if gate.key == key]
        return found

    def gate_key(self) -> str:
        """The key of the next gate, also of one that a policy decides."""
        key = self._opened.get(timeout=PATIENCE_S)
        return self.gate_key() if key == "released" else key

    def released(self) -> None:
        while self._opened.get(timeout=PATIENCE_S) != "released":
            pass

    def approve(self) -> Any:
        gate = self.gate()
        self.hf.approve("d", gate.key, gate.digest, by="ann")
        return gate

    def reject(self, why: str) -> Any:
        gate = self.gate()
        self.hf.reject("d", gate.key, gate.digest, by="ann", comment=why)
        return gate

    def result(self) -> Any:
        return self.run.result(PATIENCE_S)

    def stages(self) -> list[str]:
        return [one.stage for one in self.hf.get("d").deliver.log]

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=self.root, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def text(self, path: str = "app.py") -> str:
        return (self.root / path).read_text()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Callable[..., Desk]]:
    made: list[Desk] = []

    def make(**work: Work) -> Desk:
        made.append(Desk(tmp_path, Agents(**work)))
        return made[-1]

    yield make
    for one in made:
        one.hf.close()


# The way through


def test_every_stage_and_checkpoint(desk: Callable[..., Desk]) -> None:
    """A delivery in which nothing is sent back enters the stages in their order, takes each checkpoint, and
    ends with the files changed."""
    at = desk()
    at.deliver()
    assert "1. change app.py" in at.approve().shown
    shown = at.approve().shown
    assert '+TEXT = "hello"' in shown and "shown on the files of snapshot " in shown
    assert at.result() == {
        "files": ["app.py"],
        "verified": True,
        "retries": {"plan": 0, "implementation": 0, "review": 0, "verification": 0},
    }
    assert at.stages() == list(STAGES)
    assert [one.name for one in at.hf.checkpoints("d")] == [
        "workflow_start",
        "after_planning",
        "start_implementation",
        "after_implementation",
        "after_review",
        "after_verification",
    ]
    assert at.text() == 'TEXT = "hello"\n'


def test_the_record(desk: Callable[..., Desk]) -> None:
    """The record has request, task, plan, implementation, review, verification, and both approvals with who,
    when and why."""
    at = desk()
    at.deliver()
    at.approve()
    at.approve()
    at.result()
    record = at.hf.get("d").deliver
    assert record is not None
    assert record.request == GOAL and record.task == at.hf.tasks.list()[0].id
    assert (record.plan["plan"], record.plan["files"], record.plan["round"]) == (
        "1. change app.py\n", ["app.py"], 1
    )  # fmt: skip
    assert record.plan["digest"] == hashlib.sha256(b"1. change app.py\n").hexdigest()
    assert (record.implementation["files"], record.implementation["text"]) == (["app.py"], "done")
    assert record.review["verdict"] == "approved"
    (check,) = record.verification["checks"]
    assert (record.verification["passed"], check["command"], check["exit_code"]) == (True, CHECK, 0)
    said = [(one.stage, one.outcome, one.by, one.at is not None) for one in record.approvals]
    assert said == [("plan", "approved", "ann", True), ("implementation", "approved", "ann", True)]
    assert record.error == ""
    assert at.hf.get("d").to_json()["deliver"] == record.to_json()


def test_the_title_is_the_request(desk: Callable[..., Desk]) -> None:
    """A listing shows the goal and the stage."""
    at = desk()
    at.deliver()
    at.gate()
    (run,) = at.hf.runs()
    assert (run.title, run.stage) == (GOAL, "plan_awaiting_approval")


def test_roles_have_agents_of_their_own(desk: Callable[..., Desk]) -> None:
    """Each role is looked up by the name that it was given."""
    at = desk()
    at.deliver(agent="a", reviewer="r", verifier="v", yes=True)
    at.result()
    assert set(at.agents.asked) == {
        ("a", "planner"), ("a", "developer"), ("r", "reviewer"), ("v", "verifier")
    }  # fmt: skip
    assert [job.kind for job in at.agents.jobs] == ["plan", "implement", "review", "verify"]
    assert [job.changes_files for job in at.agents.jobs] == [False, True, False, False]


# Ways back


def test_a_rejected_plan_comes_back_changed(desk: Callable[..., Desk]) -> None:
    """The reason is in the next prompt and in the history; what is implemented is the second plan."""

    def plan(job: Job) -> tuple[dict[str, str], str]:
        return {}, "2. change app.py politely" if "be polite" in job.prompt else "1. change app.py"

    at = desk(plan=plan)
    at.deliver()
    at.reject("be polite")
    assert "2. change app.py politely" in at.approve().shown
    at.approve()
    at.result()
    implement = next(job for job in at.agents.jobs if job.kind == "implement")
    assert "2. change app.py politely" in implement.prompt
    assert any("rejected" in line and "be polite" in line for line in implement.history)
    record = at.hf.get("d").deliver
    assert record is not None and record.retries["plan"] == 1 and record.plan["round"] == 2


def test_a_rejected_implementation_goes_back(desk: Callable[..., Desk]) -> None:
    """The developer gets the reason, and the next difference is shown against the beginning."""

    def implement(job: Job) -> tuple[dict[str, str], str]:
        return {"app.py": 'TEXT = "hello, world"\n' if "greet all" in job.prompt else 'TEXT = "x"\n'}, "done"

    at = desk(implement=implement)
    at.deliver()
    at.approve()
    assert '+TEXT = "x"' in at.reject("greet all").shown
    shown = at.approve().shown
    assert '-TEXT = ""' in shown and '+TEXT = "hello, world"' in shown and '"x"' not in shown
    assert at.result()["retries"]["implementation"] == 1


def test_objections_go_back(desk: Callable[..., Desk]) -> None:
    """What the reviewer objects to reaches the developer, and the corrected files are approved again."""
    reviews = {"x": "x is no greeting\nVERDICT: CHANGES", "hello": APPROVED}

    def implement(job: Job) -> tuple[dict[str, str], str]:
        return {"app.py": f'TEXT = "{"hello" if "no greeting" in job.prompt else "x"}"\n'}, "done"

    def review(job: Job) -> tuple[dict[str, str], str]:
        return {}, reviews["hello" if '+TEXT = "hello"' in job.prompt else "x"]

    at = desk(implement=implement, review=review)
    at.deliver()
    at.approve()
    at.approve()
    at.approve()
    assert at.result()["retries"] == {"plan": 0, "implementation": 0, "review": 1, "verification": 0}
    told = [job.history for job in at.agents.jobs if job.kind == "implement"]
    assert not any("has objections" in line for line in told[0])
    assert any(line.startswith("the review has objections: x is no greeting") for line in told[-1])
    assert at.stages().count("implementation_awaiting_approval") == 2


def test_a_failed_check_is_repaired(desk: Callable[..., Desk]) -> None:
    """The developer gets what the command printed; the record has the retry."""

    def implement(job: Job) -> tuple[dict[str, str], str]:
        return {"app.py": 'TEXT = "hello"\n' if "AssertionError" in job.prompt else "TEXT = 0\n"}, "done"

    at = desk(implement=implement)
    at.deliver()
    at.approve()
    at.approve()
    at.approve()
    assert at.result()["retries"]["verification"] == 1
    record = at.hf.get("d").deliver
    assert record is not None and record.retries["verification"] == 1 and record.verification["passed"]


def test_a_check_that_takes_too_long_has_failed(desk: Callable[..., Desk]) -> None:
    """It is ended, and the developer is told so; what the other checks say is in the record, too."""
    at = desk()
    at.deliver(checks=["sleep 600", "true"], check_timeout=0.3, retries=0, yes=True)
    with pytest.raises(NotDelivered, match="sleep 600: took too long"):
        at.result()
    record = at.hf.get("d").deliver
    assert record is not None
    assert [one["exit_code"] for one in record.verification["checks"]] == [None, 0]


def test_an_answer_without_a_verdict_is_asked_for(desk: Callable[..., Desk]) -> None:
    """A reviewer that forgets the verdict is asked again, and has decided nothing before."""

    def review(job: Job) -> tuple[dict[str, str], str]:
        return {}, APPROVED if "had no verdict" in job.prompt else "nice"

    at = desk(review=review)
    at.deliver(yes=True)
    assert at.result()["retries"]["review"] == 0
    assert [job.kind for job in at.agents.jobs].count("review") == 2


def test_without_a_check_nothing_is_verified(desk: Callable[..., Desk]) -> None:
    """A project that shows no test command is delivered, and the record says that nothing verified it."""
    at = desk()
    at.deliver(yes=True, checks=[])
    assert at.result()["verified"] is None


# Bounds


@pytest.mark.parametrize(
    ("work", "options", "point"),
    [
        ({"review": lambda job: ({}, "no\nVERDICT: CHANGES")}, {}, "start_implementation#2"),
        ({"review": lambda job: ({}, "hm")}, {}, "start_implementation#1"),
        ({"implement": lambda job: ({"app.py": "TEXT = 0\n"}, "")}, {}, "start_implementation#2"),
        ({}, {"policies": [Policy(name="no", stages=("plan",), decide="reject")]}, "before:snapshot#3"),
    ],
    ids=["review", "no verdict", "verification", "plan"],
)
def test_bounds(
    desk: Callable[..., Desk], work: dict[str, Work], options: dict[str, Any], point: str
) -> None:
    """What is sent back again and again ends the run; the error names the point to go back to."""
    at = desk(**work)
    at.deliver(retries=1, rounds=1, yes=True, **options)
    with pytest.raises(NotDelivered) as raised:
        at.result()
    assert raised.value.point == point
    assert raised.value.ways[0].shell() in str(raised.value)
    record = at.hf.get("d").deliver
    assert record is not None and record.error
    assert at.hf.get("d").status == "failed"


def test_a_point_of_a_bound_can_be_gone_back_to(desk: Callable[..., Desk]) -> None:
    """The command that the error names, and that `show` names alone, opens the way: the planner is asked for
    another plan, and that is approved."""
    plans = {False: "first: app.py\n", True: "second: app.py\n"}
    at = desk(plan=lambda job: ({}, plans["too short" in job.prompt]))
    at.deliver(rounds=1)
    at.reject("too short")
    at.reject("no again")
    with pytest.raises(NotDelivered) as raised:
        at.result()
    assert at.hf.get("d").ways() == list(raised.value.ways)
    at.hf.rewind("d", to=raised.value.point)
    plans[True] = "third: app.py\n"
    at.run = at.hf.resume("d")
    gate = at.approve()
    assert gate.key == "plan#2" and gate.shown.startswith("third: app.py")
    at.approve()
    assert at.result()["verified"] is True


# Approvals and files


def test_files_that_change_while_a_plan_waits(desk: Callable[..., Desk]) -> None:
    """An approval given on other files than were shown does not count: it is asked again, with the
    difference."""
    at = desk()
    at.deliver()
    gate = at.gate()
    (at.root / "other.txt").write_text("edited\n")
    at.hf.approve("d", gate.key, gate.digest)
    again = at.approve()
    assert (gate.key, again.key) == ("plan#1", "plan#2")
    assert again.shown.startswith("It is asked again") and "+edited" in again.shown
    made, shown = (re.findall(rf"{word} on the files of snapshot (\w+)", again.shown) for word in WORDS)
    assert len(made) == len(shown) == 1 and made != shown
    assert re.findall(r"made on the files of snapshot (\w+)", gate.shown) == made
    at.approve()
    at.result()


def test_a_rejection_counts_whatever_the_files_are(desk: Callable[..., Desk]) -> None:
    """Who rejects is not asked again because a file changed meanwhile: the planner gets the reason."""
    at = desk()
    at.deliver()
    gate = at.gate()
    (at.root / "other.txt").write_text("edited\n")
    at.hf.reject("d", gate.key, gate.digest, comment="be polite")
    again = at.gate()
    assert "be polite" in at.agents.jobs[-1].prompt
    assert not again.shown.startswith("It is asked again")


def test_drift_in_the_files_of_a_plan_is_shown(desk: Callable[..., Desk]) -> None:
    """A file that the plan names and that changed since the plan was made stands in the next question."""
    at = desk()
    at.deliver()
    gate = at.gate()
    (at.root / "app.py").write_text('TEXT = "theirs"\n')
    at.hf.approve("d", gate.key, gate.digest)
    again = at.gate()
    assert '+TEXT = "theirs"' in again.shown
    (at.root / "other.txt").write_text("edited\n")
    at.hf.approve("d", again.key, again.digest)
    third = at.gate()
    assert "changed in these files since the plan was made" in third.shown
    assert '+TEXT = "theirs"' in third.shown and "+edited" in third.shown


def test_files_that_change_while_an_implementation_waits(desk: Callable[..., Desk]) -> None:
    """As when something that the agent left behind goes on writing: what was approved is what is kept."""
    at = desk()
    at.deliver()
    at.approve()
    gate = at.gate()
    (at.root / "app.py").write_text('TEXT = "hello"\nEVIL = 1\n')
    at.hf.approve("d", gate.key, gate.digest)
    again = at.reject("what is that?")
    assert "+EVIL = 1" in again.shown
    assert at.approve().key == "implementation#3"
    assert at.result()["retries"]["implementation"] == 1
    assert at.text() == 'TEXT = "hello"\n'


def test_what_is_asked_again_shows_the_whole_implementation(desk: Callable[..., Desk]) -> None:
    """The difference since it was asked, then all of it as it is by now; the result has every file of it."""
    at = desk()
    at.deliver()
    at.approve()
    gate = at.gate()
    (at.root / "other.txt").write_text("edited\n")
    at.hf.approve("d", gate.key, gate.digest)
    again = at.approve()
    assert again.shown.count("+edited") == 2 and again.shown.count('+TEXT = "hello"') == 1
    assert at.result()["files"] == ["app.py", "other.txt"]


def test_what_a_check_changed_can_be_rejected(desk: Callable[..., Desk]) -> None:
    """It goes back to the developer, with the reason, and is not delivered before it is approved."""
    at = desk()
    at.deliver(checks=["sh -c 'grep -q kept app.py || echo formatted >> app.py'"])
    at.agents._work["implement"] = lambda job: (
        {"app.py": 'TEXT = "hello"\n' + ("# kept\n" if "do not format" in job.prompt else "")}, "done"
    )  # fmt: skip
    at.approve()
    at.approve()
    assert "+formatted" in at.reject("do not format").shown
    assert "+# kept" in at.approve().shown
    assert at.result()["retries"]["implementation"] == 1
    assert at.text() == 'TEXT = "hello"\n# kept\n'


def test_a_verifier_is_not_asked_about_what_a_check_refused(desk: Callable[..., Desk]) -> None:
    """It verifies what the commands passed, and nothing else."""

    def implement(job: Job) -> tuple[dict[str, str], str]:
        return {"app.py": 'TEXT = "hello"\n' if "AssertionError" in job.prompt else "TEXT = 0\n"}, "done"

    at = desk(implement=implement)
    at.deliver(yes=True, verifier="v")
    assert at.result()["retries"]["verification"] == 1
    (asked,) = [job for job in at.agents.jobs if job.kind == "verify"]
    assert '+TEXT = "hello"' in asked.prompt


def test_a_check_that_changes_files_is_asked_about(desk: Callable[..., Desk]) -> None:
    """Files that are other after the checks than when they were approved are shown before the end."""
    at = desk()
    at.deliver(checks=["sh -c 'echo formatted >> app.py'"])
    at.approve()
    at.approve()
    again = at.approve()
    assert "+formatted" in again.shown
    at.result()
    assert at.stages()[-3:] == ["verifying", "implementation_awaiting_approval", "completed"]


def test_what_is_asked_again_is_asked_of_a_person(desk: Callable[..., Desk]) -> None:
    """A policy that approves everything does not approve files that changed since it did."""
    at = desk()
    at.deliver(checks=["sh -c 'echo formatted >> app.py'"], yes=True)
    gates = [at.gate_key() for _ in range(3)]
    assert gates == ["plan#1", "implementation#1", "implementation#2"]
    at.released()
    assert [gate.outcome for gate in at.hf.get("d").gates] == ["approved", "approved", ""]


def test_new_files_of_a_check_are_no_question(desk: Callable[..., Desk]) -> None:
    """A report that a check writes does not make the approval void."""
    at = desk()
    at.deliver(checks=["sh -c 'echo ok > report.txt'"], yes=True)
    assert at.result()["files"] == ["app.py"]


def test_a_file_that_is_added_after_the_approval(desk: Callable[..., Desk]) -> None:
    """It was not shown, so the gate asks again and shows it; what the check wrote is no part of that."""

    def add(job: Job) -> tuple[dict[str, str], str]:
        (at.root / "sly.py").write_text("sly = 1\n")
        (at.root / "__pycache__").mkdir(exist_ok=True)
        (at.root / "__pycache__" / "ignored").write_text("x")
        return {}, APPROVED

    at = desk(verify=add)
    at.deliver(checks=["sh -c 'echo ok > report.txt'"], yes=True, verifier="test")
    assert [at.gate_key() for _ in range(3)] == ["plan#1", "implementation#1", "implementation#2"]
    at.released()
    again = at.hf.get("d").gates[-1]
    changed = again.shown.partition("+++ b/app.py")[0]
    assert "asked again" in changed and "+sly = 1" in changed and "report.txt" not in changed
    at.hf.approve("d", again.key, again.digest, by="ann")
    assert at.result()["files"] == ["app.py", "report.txt", "sly.py"]


def test_an_approval_of_one_plan_lets_no_other_run(desk: Callable[..., Desk]) -> None:
    """The digest of plan A is refused at the gate of plan B, and so is the key of plan A's gate."""
    at = desk(plan=lambda job: ({}, "B: app.py" if "another one" in job.prompt else "A: app.py"))
    at.deliver()
    first = at.reject("another one")
    second = at.gate()
    assert "A: app.py" in first.shown and "B: app.py" in second.shown
    for gate, digest in (("plan", first.digest), (first.key, first.digest), ("", first.digest)):
        with pytest.raises(GateError):
            at.hf.approve("d", gate or None, digest)
    assert at.hf.get("d").status == "waiting"
    assert not [job for job in at.agents.jobs if job.kind == "implement"]


def test_under_an_id(desk: Callable[..., Desk]) -> None:
    """`with_id`, `with_task` and `with_budget` say for `deliver` what its own arguments do; `hf.aio` has the
    same."""
    at = desk()
    task = at.hf.tasks.create("greet").id
    at.hf.budgets.set("team")
    run = at.hf.with_id("one").with_task(task).with_budget("team").deliver(GOAL, yes=True, checks=["true"])
    assert run.result(PATIENCE_S)["files"] == ["app.py"]
    found = at.hf.get("one")
    assert (found.deliver.task, found.budget) == (task, "team")
    assert (
        at.hf.with_id("one").deliver(GOAL, yes=True, checks=["true"]).result(PATIENCE_S)["verified"] is True
    )

    async def again() -> Any:
        made = at.hf.aio.with_id("two").with_budget("team")
        return await (await made.deliver(GOAL, yes=True, checks=["true"]))

    assert asyncio.run(again())["verified"] is True
    assert at.hf.get("two").budget == "team"


# Work that only reads


def test_a_planner_that_changes_files(desk: Callable[..., Desk]) -> None:
    """Its changes are rolled back before the plan is shown, the gate says so, and no policy decides it."""
    at = desk(plan=lambda job: ({"app.py": "sly\n", "new.txt": "x"}, "1. change app.py"))
    at.deliver(policies=[Policy(name="all", stages=("plan",))])
    gate = at.gate()
    assert "the planner changed files, which was rolled back: app.py, new.txt" in gate.shown
    assert at.text() == 'TEXT = ""\n' and not (at.root / "new.txt").exists()
    at.hf.approve("d", gate.key, gate.digest)
    at.approve()
    at.result()


class Again(dict[str, str]):
    """Writes to one file, one after the other."""

    def items(self) -> Any:
        return [("app.py", "sly\n"), ("app.py", "slier\n"), ("app.py", "sliest\n")]


def test_a_planner_that_changes_a_file_again_and_again(desk: Callable[..., Desk]) -> None:
    """What each of its steps did is rolled back, the last first."""
    at = desk(plan=lambda job: (Again(), "1. change app.py"))
    at.deliver()
    assert "the planner changed files, which was rolled back: app.py" in at.gate().shown
    assert at.text() == 'TEXT = ""\n'


def test_a_person_may_edit_while_it_plans(desk: Callable[..., Desk]) -> None:
    """What others change outside of the planner's steps stays."""
    at = desk()

    def plan(job: Job) -> tuple[dict[str, str], str]:
        (at.root / "other.txt").write_text("mine\n")
        return {"app.py": "sly\n"}, "1. change app.py"

    at.agents._work["plan"] = plan
    at.deliver()
    at.gate()
    assert (at.text(), at.text("other.txt")) == ('TEXT = ""\n', "mine\n")


def test_a_reviewer_that_changes_files(desk: Callable[..., Desk]) -> None:
    """What is delivered is what was approved."""
    at = desk(review=lambda job: ({"app.py": "TEXT = 'reviewed'\n"}, APPROVED))
    at.deliver(yes=True)
    assert at.result()["verified"] is True
    assert at.text() == 'TEXT = "hello"\n'
    record = at.hf.get("d").deliver
    assert record is not None and record.review["rolled_back"] == ["app.py"]


def test_a_planner_that_commits(desk: Callable[..., Desk]) -> None:
    """Files and branch are rolled back, the gate and the record name both, and no policy decides it."""
    at = desk()
    first = at.git("rev-parse", "HEAD")
    plan = {SHELL: f"cd {at.root}; echo sly > app.py; {COMMIT}; git branch made"}
    at.agents._work["plan"] = lambda job: (plan, "1. change app.py")
    at.deliver(policies=[Policy(name="all", stages=("plan",))])
    shown = at.gate().shown
    assert "the planner changed files, which was rolled back: app.py" in shown
    moved = re.findall(r"the planner changed the repository: (\S+) (\S+), which was rolled back", shown)
    assert [name for name, _ in moved] == ["made", "master"]
    assert moved[1][1].startswith(f"{first[:12]}..")
    record = at.hf.get("d").deliver
    assert record is not None and len(record.plan["commits"]) == 2
    assert (at.git("rev-parse", "HEAD"), at.git("status", "--porcelain")) == (first, "")
    assert at.git("branch", "--format=%(refname:short)") == "master"
    kept = re.findall(r"kept under (refs/holdfast/\S+)", shown)
    tips = at.git("for-each-ref", "--format=%(contents:subject)", kept[0]).split()
    assert tips == ["sly", "sly"]


def test_a_reviewer_that_commits_what_the_developer_did(desk: Callable[..., Desk]) -> None:
    """The files are as they were approved, and the branch is where it was; the record names the commit."""
    at = desk()
    first = at.git("rev-parse", "HEAD")
    at.agents._work["review"] = lambda job: ({SHELL: f"cd {at.root}; {COMMIT}"}, APPROVED)
    at.deliver(yes=True)
    assert at.result()["verified"] is True
    record = at.hf.get("d").deliver
    assert record is not None and record.review["rolled_back"] == []
    (line,) = record.review["commits"]
    assert line.startswith(f"master {first[:12]}..") and "which was rolled back; kept under" in line
    assert (at.git("rev-parse", "HEAD"), at.text()) == (first, 'TEXT = "hello"\n')
    assert at.git("status", "--porcelain") == "M app.py"


def test_commits_of_a_planner_that_were_pushed_stay_and_are_named(desk: Callable[..., Desk]) -> None:
    """The gate says where the branch was and why it stays; the files are rolled back all the same."""
    at = desk()
    first = at.git("rev-parse", "HEAD")
    at.git("init", "-q", "--bare", "../remote")
    at.git("remote", "add", "origin", "../remote")
    plan = {SHELL: f"cd {at.root}; echo sly > app.py; {COMMIT}; git push -q origin master"}
    at.agents._work["plan"] = lambda job: (plan, "1. change app.py")
    at.deliver()
    shown = at.gate().shown
    last = at.git("rev-parse", "HEAD")
    assert last != first and at.text() == 'TEXT = ""\n'
    assert f"the planner changed the repository: master {first[:12]}..{last[:12]}, which stays: " in shown
    assert f"`git reset --soft {first[:12]}` undoes it" in shown


# Policies


def test_there_is_no_policy_by_default(desk: Callable[..., Desk]) -> None:
    at = desk()
    at.deliver()
    assert at.gate().outcome == ""


def test_a_policy_decides_and_is_recorded(desk: Callable[..., Desk]) -> None:
    """Both gates are decided by `policy:NAME` in the log, as by a person."""
    at = desk()
    at.deliver(policies=[Policy(name="small", paths=("*.py",), files=2)])
    at.result()
    said = [(one.gate, one.outcome, one.by, one.reason) for one in at.hf.get("d").deliver.approvals]
    assert said == [
        ("plan#1", "approved", "policy:small", "1 file named"),
        ("implementation#1", "approved", "policy:small", "1 file, 2 lines"),
    ]
    decided = [event for event in at.hf.events("d") if event.type == "GateDecided"]
    assert [event.data["by"] for event in decided] == ["policy:small"] * 2


def test_a_policy_that_rejects_goes_back(desk: Callable[..., Desk]) -> None:
    """With the reason of the policy in the prompt."""

    def implement(job: Job) -> tuple[dict[str, str], str]:
        ok = "secret.txt must not be changed" in job.prompt
        return ({"secret.txt": "other\n"} if ok else {"secret.txt": "leak\n"}), ""

    at = desk(implement=implement)
    guard = Policy(name="guard", stages=("implementation",), paths=("secret.txt",), decide="reject")
    at.deliver(policies=[guard], rounds=1, yes=True)
    with pytest.raises(NotDelivered):
        at.result()
    record = at.hf.get("d").deliver
    assert record is not None
    assert [one.by for one in record.approvals] == ["policy:yes", "policy:guard", "policy:guard"]


# Task and memory


def test_its_task(desk: Callable[..., Desk]) -> None:
    """A task is made of the goal, claimed by the run, noted on, and completed with it."""
    at = desk()
    at.deliver(yes=True)
    at.result()
    (task,) = at.hf.tasks.list(status="completed")
    assert task.name == GOAL
    assert [note.kind for note in at.hf.tasks.show(task.id).notes] == [
        "plan", "review", "verification", "file"
    ]  # fmt: skip
    assert len(at.hf.memory.list(kind="decision", scope=f"task:{task.id}")) == 2


def test_a_secret_in_a_plan_is_hidden_in_its_task(desk: Callable[..., Desk]) -> None:
    """Notes and memories are redacted, as the log is."""
    token = "ghp_" + "a1B2" * 9
    at = desk(plan=lambda job: ({}, f"1. change app.py with {token}"))
    at.deliver(yes=True)
    at.result()
    (task,) = at.hf.tasks.list(status="completed")
    kept = [note.text for note in at.hf.tasks.show(task.id).notes]
    kept += [one.text for one in at.hf.memory.list(kind="decision", scope=f"task:{task.id}")]
    assert len(kept) == 6 and token not in " ".join(kept)


def test_a_task_that_was_there(desk: Callable[..., Desk]) -> None:
    """`task` takes one that exists, and makes none."""
    at = desk()
    task = at.hf.tasks.create("say hello")
    at.deliver(task=task.id, yes=True)
    at.result()
    assert [(one.id, one.status) for one in at.hf.tasks.list()] == [(task.id, "completed")]


def test_rewind_to_after_planning(desk: Callable[..., Desk]) -> None:
    """Files, task and memory are as they were then; the plan is asked for again, and the end is the same."""
    at = desk()
    at.deliver()
    at.approve()
    at.approve()
    at.result()
    at.hf.rewind("d", to="after_planning")
    assert at.text() == 'TEXT = ""\n'
    (task,) = at.hf.tasks.list()
    assert (task.status, task.claim is not None) == ("in_progress", True)
    assert at.hf.memory.list() == []
    assert at.hf.get("d").stage == "planning"
    at.run = at.hf.resume("d")
    at.approve()
    at.approve()
    assert at.result()["verified"] is True
    assert at.text() == 'TEXT = "hello"\n'
    assert at.hf.tasks.get(task.id).status == "completed"


def test_a_rewind_that_was_undone_can_be_done_again(desk: Callable[..., Desk]) -> None:
    """An undo is no change of another: the task moves with each rewind, also after an undo of the undo, and
    with a rewind after a rewind. What a person has edited meanwhile stays."""
    at = desk()
    at.deliver(yes=True)
    at.result()
    (task,) = at.hf.tasks.list()

    def status() -> str:
        return str(at.hf.tasks.get(task.id).status)

    for _ in range(2):
        done = at.hf.rewind("d", to="after_planning")
        assert (done.tasks.kept, status()) == ((), "in_progress")
        undone = at.hf.undo()
        assert (undone.tasks.kept, status()) == ((), "completed")
    again = at.hf.undo(undone.operation)
    assert (again.tasks.kept, status()) == ((), "in_progress")
    assert at.hf.undo(again.operation).tasks.kept == () and status() == "completed"
    first = at.hf.rewind("d", to="after_implementation")
    second = at.hf.rewind("d", to="workflow_start")
    assert (second.tasks.kept, status()) == ((), "in_progress")
    for done in (second, first):
        assert at.hf.undo(done.operation).tasks.kept == ()
    assert status() == "completed"
    at.hf.tasks.edit(task.id, priority=0)
    done = at.hf.rewind("d", to="after_planning")
    assert [one.id for one in done.tasks.kept] == [task.id] and status() == "completed"


# What is refused


@pytest.mark.parametrize(
    ("goal", "options"),
    [
        (" ", {}),
        ("x", {"checks": ["a && b"]}),
        ("x", {"checks": ["'"]}),
        ("x", {"rounds": -1}),
        ("x", {"checks": "make"}),
        ("x", {"checks": ["true", "nosuchprog --fast"]}),
        ("x", {"checks": ["/nosuch/prog"]}),
        ("x", {"run_id": "a b"}),
        ("x", {"run_id": "ok", "budget": "nosuch", "max_usd": Decimal(1)}),
        ("x", {"run_id": "ok", "budget": "no such"}),
        ("x", {"run_id": "ok", "max_usd": Decimal(-1)}),
        ("x", {"run_id": "ok", "task": "00000000-0000-0000-0000-000000000000", "max_usd": Decimal(1)}),
    ],
)
def test_bad_input(desk: Callable[..., Desk], goal: str, options: dict[str, Any]) -> None:
    """Nothing is written: no run, no task, no budget."""
    at = desk()
    with pytest.raises((BadInput, BadRunId, NotFound)):
        at.hf.deliver(goal, **options)
    assert at.hf.runs() == [] and at.hf.tasks.list() == [] and at.hf.budgets.list() == []


def test_a_check_may_be_a_program_that_the_work_makes(desk: Callable[..., Desk]) -> None:
    """A path in the workspace need not be there at the start; a name without a path must be."""
    at = desk(
        implement=lambda job: ({"check.sh": "#!/bin/sh\n", SHELL: f"chmod +x {at.root}/check.sh"}, ""),
    )
    at.deliver(yes=True, checks=[f"{at.root}/check.sh"])
    assert at.result()["verified"] is True
    with pytest.raises(ProgramNotFound, match=r"no program 'check.sh' on the PATH, which the check"):
        at.hf.deliver(GOAL, checks=["check.sh"])


def test_what_is_refused_claims_no_task(desk: Callable[..., Desk]) -> None:
    """An id that another goal or task has, or that a deleted run had, is refused before the task is claimed,
    and none is made."""
    at = desk()
    at.deliver(yes=True)
    at.result()
    spare = at.hf.tasks.create("spare").id
    with pytest.raises(RunExists, match="other arguments"):
        at.hf.deliver("Something else", run_id="d", task=spare)
    with pytest.raises(RunExists, match="another task"):
        at.hf.deliver(GOAL, run_id="d", yes=True, checks=[CHECK], task=spare)
    at.hf.delete("d")
    with pytest.raises(RunDeleted):
        at.hf.deliver(GOAL, run_id="d", max_usd=Decimal(1))
    assert (at.hf.tasks.get(spare).status, at.hf.tasks.get(spare).claim) == ("pending", None)
    assert len(at.hf.tasks.list()) == 2 and at.hf.budgets.list() == []


def test_another_goal_under_the_same_id(desk: Callable[..., Desk]) -> None:
    """An id that exists continues its run, and makes no second task; another goal is refused."""
    at = desk()
    at.deliver(yes=True)
    at.result()
    at.deliver(yes=True)
    assert at.result()["verified"] is True
    with pytest.raises(RunExists):
        at.hf.deliver("Something else", run_id="d")
    assert len(at.hf.tasks.list()) == 1


def test_a_plan_file_replaces_the_stages(desk: Callable[..., Desk]) -> None:
    """Its steps run with the goal as their input; the task moves with it."""
    at = desk()
    plan = at.root / "deliver.yaml"
    plan.write_text(
        "name: ours\ninput: {goal: }\nsteps:\n"
        "  - id: say\n    run: [sh, -c, 'echo \"$GOAL\" > said.txt']\n    env: {GOAL: '${input.goal}'}\n"
        f"    cwd: {at.root}\n"
    )
    at.run = at.hf.deliver(GOAL, run_id="d", plan=plan)
    at.result()
    assert at.text("said.txt") == f"{GOAL}\n"
    assert [(one.name, one.status) for one in at.hf.tasks.list()] == [(GOAL, "completed")]
    plan.write_text("name: ours\nsteps:\n  - id: a\n    run: ['true']\n")
    with pytest.raises(BadInput, match="takes no input `goal`"):
        at.hf.deliver(GOAL, plan=plan)
