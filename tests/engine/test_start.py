"""Starting: an id that exists continues that run, or gives its result or its error."""

import asyncio
import threading

import pytest

from holdfast import RunExists, RunHeld, RunInterrupted, RunNotFound, step, workflow
from holdfast.errors import BadInput, BadRunId


@workflow
def another(*args):
    return "another"


def test_a_second_start_gives_the_result_at_once(hf, open_hf, act, ran):
    """In the same process and in another one, without running anything."""

    @step
    def work(n: int) -> int:
        ran.append(n)
        return n + 1

    assert hf.with_id("x").run(act(lambda n: work(n)), 1) == 2
    assert hf.with_id("x").run(act(lambda n: work(n)), 1) == 2
    assert open_hf().with_id("x").start(act(lambda n: work(n)), 1).result(30) == 2
    assert ran == [1]


def test_other_arguments_or_another_workflow_raise_run_exists(hf, act):
    """An id names one piece of work: nothing is executed under a wrong name."""
    chosen = act(lambda *args: args)
    hf.with_id("x").run(chosen, 1)
    with pytest.raises(RunExists, match="other arguments"):
        hf.with_id("x").run(chosen, 2)
    with pytest.raises(RunExists, match="another workflow"):
        hf.with_id("x").start(another, 1)


def test_the_same_id_at_once_in_one_process_attaches(hf, act, ran):
    """Both callers get the one run's result."""
    inside, go = threading.Event(), threading.Event()

    @step
    def work() -> str:
        ran.append("work")
        inside.set()
        go.wait(30)
        return "done"

    chosen = act(lambda *args: work())
    first = hf.with_id("x").start(chosen)
    assert inside.wait(30)
    second = hf.with_id("x").start(chosen)
    results = []
    third = threading.Thread(target=lambda: results.append(hf.with_id("x").run(chosen)))
    third.start()
    with pytest.raises(RunExists, match="other arguments"):
        hf.with_id("x").run(chosen, "other")
    go.set()
    third.join(30)
    assert [first.result(30), second.result(30), *results] == ["done"] * 3
    assert ran == ["work"]


def test_attaching_with_other_arguments_raises(hf, act):
    """`start` of a live run compares the arguments as `run` does."""
    go = threading.Event()

    @step
    def work() -> None:
        go.wait(30)

    chosen = act(lambda *args: work())
    hf.with_id("x").start(chosen)
    try:
        with pytest.raises(RunExists, match="other arguments"):
            hf.with_id("x").start(chosen, "other")
    finally:
        go.set()


def test_threads_that_start_one_id_at_once_get_one_run(hf, act, ran):
    """Whoever comes first claims it; no process executes it a second time."""

    @step
    def work() -> str:
        ran.append("work")
        return "done"

    chosen = act(lambda: work())
    assert hf._engine.owner_id
    command = hf._engine.store.command
    calls, second = [], threading.Event()

    def slow(stream, *args, **kwargs):
        """The first claim is written, and its thread continues only when another has claimed too."""
        version = command(stream, *args, **kwargs)
        calls.append(stream)
        if calls.count("x") == 1:
            second.wait(0.5)
        else:
            second.set()
        return version

    hf._engine.store.command = slow
    results = []
    threads = [threading.Thread(target=lambda: results.append(hf.with_id("x").run(chosen))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (results, ran) == (["done"] * 4, ["work"])


def test_tasks_that_start_one_id_at_once_get_one_run(hf, act, ran):
    """The same in an event loop."""

    @step
    async def work() -> str:
        ran.append("work")
        return "done"

    async def plot():
        return await work()

    async def main():
        chosen = act(plot)
        first, second = hf.with_id("x").start(chosen), hf.with_id("x").start(chosen)
        return [await first, await second]

    assert asyncio.run(main()) == ["done", "done"]
    assert ran == ["work"]


def test_the_same_id_in_two_processes_is_held(lab, open_hf, tmp_path):
    """The second is told which process has it."""
    job = lab(
        """
        import sys, time
        from pathlib import Path
        from holdfast import Holdfast, step, workflow

        @step
        def slow(go: str) -> str:
            while not Path(go).exists():
                time.sleep(0.005)
            return "done"

        @workflow
        def job(go: str) -> str:
            return slow(go)

        if __name__ == "__main__":
            with Holdfast() as hf:
                print(hf.with_id("job").run(job, sys.argv[1]))
        """,
        str(tmp_path / "go"),
    )
    worker = job.start()
    job.wait_for("slow#1")
    second = job.run()
    assert second.exit_code == 1
    assert f"RunHeld: run job is held by the live process {worker.pid} on" in second.stderr
    with pytest.raises(RunHeld) as held:
        open_hf().resume("job")
    assert held.value.pid == worker.pid
    (tmp_path / "go").touch()
    assert worker.communicate(timeout=60) == ("done\n", "")


@pytest.mark.parametrize("run_id", ["", "a b", "a/b", "é", "x" * 129, "a\n"])
def test_bad_ids_are_refused(hf, run_id):
    """Ids go into paths, commands and URLs."""
    with pytest.raises(BadRunId):
        hf.with_id(run_id)


def test_programs_name_runs_in_full(hf, act):
    """The beginning of an id is not the run: another run could come to begin like that."""
    for run_id in ("kelp-1", "kelp-2", "moss-1"):
        hf.with_id(run_id).run(act(lambda: None))
    for refused in (hf.get, hf.resume, hf.steps, hf.events):
        with pytest.raises(RunNotFound, match="nearest: moss-1"):
            refused("moss-")
    with pytest.raises(RunNotFound, match="nearest: kelp-"):
        hf.get("kelpp-1")


def test_a_run_that_appears_while_it_is_looked_for(hf, act, monkeypatch):
    """It is not called its own nearest: the error says that there is a run now."""
    hf.with_id("kelp-1").run(act(lambda: None))
    monkeypatch.setattr(hf._store, "run", lambda _run_id: None)  # as it was a moment ago
    with pytest.raises(RunNotFound) as caught:
        hf.get("kelp-1")
    assert str(caught.value) == "run kelp-1 was created only after it was looked for; try again"
    assert caught.value.nearest == ()


def test_a_workflow_in_a_function_is_refused(hf):
    """No other process could find it."""

    @workflow
    def local():
        return 1

    with pytest.raises(BadInput, match="move it to the top level"):
        hf.run(local)


def test_ids_that_holdfast_mints_are_fresh(hf, act):
    """Without an id every start is a new run."""
    chosen = act(lambda: None)
    runs = {hf.start(chosen).id for _ in range(20)}
    assert len(runs) == 20


def test_a_run_for_which_there_is_no_thread_is_given_back(hf, act, monkeypatch):
    """The error is raised, and the run is not left with an owner that does not execute it."""

    def no_thread(self):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RunInterrupted, match="no thread for it: can't start"):
            hf.with_id("x").start(act(lambda: "done"))
    assert hf.with_id("x").run(act(lambda: "done")) == "done"


@pytest.mark.parametrize("how", ["run", "start"])
def test_what_is_no_workflow_is_refused(hf, how):
    """A step or a plain function could not be found again after a crash."""

    @step
    def work():
        return 1

    for given in (work, len, lambda: 1, 7):
        with pytest.raises(BadInput, match="put @workflow above it"):
            getattr(hf, how)(given)
    assert hf.runs() == []
