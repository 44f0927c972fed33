"""`stage`: what a run is busy with, for people, beside its status."""

import json
import subprocess
import sys
import threading
from datetime import timedelta

import pytest

from holdfast import DivergenceError, StoreError, checkpoint, gather, parallel, stage, step, wait_for
from holdfast.clock import SystemClock
from holdfast.errors import BadInput
from holdfast.kernel.evolve import fold
from holdfast.operations import archiving
from holdfast.store.oracle import run_row


@step
def work(n: int) -> int:
    return n


def entered(hf, run_id):
    return [event.data["name"] for event in hf.events(run_id) if event.type == "StageEntered"]


def by_fold(hf, run_id):
    """The stage by the kernel's own account, which the table must agree with."""
    state = fold(hf._store.history(run_id))
    assert state is not None
    return run_row(run_id, state.epoch, state).stage


def test_a_run_is_in_the_last_stage_that_it_entered(hf, act):
    """Each is recorded once; a run without any is in none; a name is any text of one line."""

    def plot():
        stage("plan")
        work(1)
        stage("write the tests, then the code")
        work(2)

    hf.with_id("x").run(act(plot))
    hf.with_id("x").run(act(plot))
    hf.with_id("none").run(act(lambda: work(1)))
    assert entered(hf, "x") == ["plan", "write the tests, then the code"]
    assert hf.get("x").stage == "write the tests, then the code"
    assert hf.get("none").stage == ""
    assert [one.key for one in hf.steps("x")] == ["work#1", "work#2"]
    assert list(hf._store.verify()) == []


def test_async_workflows_enter_stages_too(hf, act):
    """The same call, without `await`; in branches the last one in the log counts."""

    async def branch(name):
        stage(name)
        await work.aio(1)

    async def plot():
        stage("begin")
        await gather(branch("left"), branch("right"))

    hf.with_id("x").run(act(plot))
    assert entered(hf, "x") == ["begin", "left", "right"]
    assert hf.get("x").stage == by_fold(hf, "x") == "right"


def test_a_stage_rides_with_the_next_commit(hf, act):
    """It makes no commit of its own, and stands before what comes after it."""
    inside, go = threading.Event(), threading.Event()

    @step
    def slow() -> None:
        inside.set()
        go.wait(30)

    def plot():
        stage("one")
        stage("two")
        slow()

    run = hf.with_id("x").start(act(plot))
    assert inside.wait(30)
    go.set()
    run.result(30)
    types = [event.type for event in hf.events("x")]
    assert types[:4] == ["RunCreated", "RunClaimed", "StageEntered", "StageEntered"]
    assert hf.get("x").stage == "two"


def test_a_replayed_stage_is_not_recorded_again(twice, open_hf):
    """After a crash the same stages are entered, and the log has each once."""

    def plot():
        stage("one")
        work(1)
        stage("two")
        return work(2)

    assert twice(plot) == (2, 2)
    assert entered(open_hf(), "twice") == ["one", "two"]


@pytest.mark.parametrize("survivor", range(1, 5))
def test_a_crash_anywhere_loses_no_stage(open_hf, act, crashes, survivor):
    """Wherever the process died, the resumed run ends in the same stage with the same log of stages."""

    def plot():
        stage("one")
        work(1)
        stage("two")
        checkpoint("half")
        stage("three")
        work(2)

    first = open_hf()
    crashes.arm(first, survivor)
    with pytest.raises(StoreError):
        first.with_id("x").run(act(plot))
        raise StoreError("it has survived all of its appends")
    crashes.bury(first)
    second = open_hf()
    second.with_id("x").run(act(plot))
    assert entered(second, "x") == ["one", "two", "three"]


def test_another_stage_in_its_place_diverges(open_hf, act, crashes):
    """As another name of `emit` does: the message names both."""
    first = open_hf()
    store = crashes.arm(first)

    def plot(name):
        def played():
            stage(name)
            work(1)
            store.left = 0
            work(2)

        return act(played)

    with pytest.raises(StoreError):
        first.with_id("x").run(plot("plan"))
    crashes.bury(first)
    second = open_hf()
    with pytest.raises(DivergenceError, match=r"stage#1, entering 'plan'.*stage#1, entering 'build'"):
        second.with_id("x").run(plot("build"))
    assert second.get("x").status == "needs_attention"


def test_after_a_rewind_the_stage_is_that_of_the_point(hf, act):
    """And after an undo that of the generation that came back, also down several generations."""

    def plot():
        stage("one")
        work(1)
        stage("two")
        work(2)
        stage("three")
        work(3)

    def stages():
        found = hf.get("x").stage
        assert found == by_fold(hf, "x")
        return found

    hf.with_id("x").run(act(plot))
    assert stages() == "three"
    hf.rewind("x", to="work#2")
    assert stages() == "two"
    hf.undo()
    assert stages() == "three"
    hf.rewind("x", to="work#2")
    hf.rewind("x", to="work#1")
    assert stages() == "one"
    hf.undo()
    assert stages() == "two"
    hf.rewind("x", to="start")
    assert stages() == ""
    hf.undo()
    hf.rewind("x", to="work#1")
    hf.resume("x").result(30)
    assert stages() == "three"
    assert entered(hf, "x") == ["one", "two", "three", "two", "three"]
    assert list(hf._store.verify()) == []
    hf._store.rebuild()
    assert stages() == "three"


def test_a_fork_is_in_the_stage_of_its_point(hf, act):
    def plot():
        stage("one")
        work(1)
        stage("two")
        work(2)

    hf.with_id("x").run(act(plot))
    hf.fork("x", at="work#2", into="y")
    assert hf.get("y").stage == by_fold(hf, "y") == "two"
    hf.resume("y").result(30)
    assert entered(hf, "y") == ["one", "two"]
    hf.fork("x", at="start", into="z")
    assert hf.get("z").stage == ""


def test_an_archived_run_leaves_no_stages(hf, act, tmp_path):
    """The tables are what the log says, also after its events are gone."""
    hf.with_id("x").run(act(lambda: [stage("one"), work(1)][1]))
    later = hf.get("x").updated_at + timedelta(microseconds=1)
    archiving.archive(hf._store, hf.home, later, tmp_path / "archive", SystemClock())
    assert hf.runs() == []
    assert list(hf._store.verify()) == []


def test_stages_of_threads_in_turns(hf, act):
    """Branches of `parallel` enter stages of the run, each in its own scope."""

    def branch(name):
        stage(name)
        return work(1)

    hf.with_id("x").run(act(lambda: parallel(branch, ["a", "b"])))
    keys = [event.data["key"] for event in hf.events("x") if event.type == "StageEntered"]
    assert sorted(keys) == ["branch[1]/stage#1", "branch[2]/stage#1"]
    assert hf.get("x").stage == entered(hf, "x")[-1]


@pytest.mark.parametrize("name", ["", "  ", "two\nlines", "x" * 201, 7, "bell\x07"])
def test_a_name_that_nobody_could_show_is_refused(hf, act, name):
    with pytest.raises(BadInput, match=r"stage\("):
        hf.run(act(lambda: stage(name)))


def test_in_a_body_it_is_refused_and_outside_a_run_it_does_nothing(hf, act):
    """A body runs again with every attempt, so the stage would not be the workflow's."""

    @step
    def inside() -> None:
        stage("mine")

    with pytest.raises(BadInput, match="in a step's body"):
        hf.run(act(lambda: inside()))
    stage("nowhere")


def test_the_stage_is_shown(hf, act, home):
    """By `show`, `show --json` and `list --json`; secrets in it are redacted."""

    def plot():
        stage("talk to sk-ant-api03-" + "a" * 90)
        work(1)
        stage("reviewing")
        wait_for("go")

    hf.with_id("x").start(act(plot))
    while hf.get("x").status != "waiting":
        pass

    def cli(*args):
        command = [sys.executable, "-m", "holdfast", "--home", str(home), *args]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    assert "\nstage     reviewing\n" in cli("show", "x")
    assert json.loads(cli("show", "x", "--json"))["stage"] == "reviewing"
    assert [one["stage"] for one in json.loads(cli("list", "--json"))] == ["reviewing"]
    hf.signal("x", "go", None)
    hf.with_id("none").run(act(lambda: 1))
    assert "stage " not in cli("show", "none")
    assert json.loads(cli("show", "none", "--json"))["stage"] is None
    hf.rewind("x", to="work#1")
    assert "sk-ant" not in hf.get("x").stage
