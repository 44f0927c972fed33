"""Use of a Holdfast while the interpreter ends: the main thread is over, other threads and `atexit`
callbacks still run. A run is executed, or else interrupted; it never fails for that."""

import asyncio
import gc
import subprocess
import sys
import textwrap
import threading

import pytest
from tests.engine.missing_threads import refusing_threads
from tests.engine.test_gates import parked

from holdfast import Holdfast, InDoubt, Retry, RunInterrupted, approval, command, parallel, step, workflow
from holdfast.thread_pool import ThreadPool

PROGRAM = """
    import asyncio, atexit, sys, threading
    from holdfast import Holdfast, parallel, step, workflow

    @step
    def one(number: int) -> int:
        return number

    @step
    def until_main_has_ended() -> bool:
        in_step.set()
        return over.wait(30)

    @step
    async def until_main_is_over() -> None:
        in_step.set()
        while not over.is_set():
            await asyncio.sleep(0.01)

    @step(timeout=30)
    def limited(number: int) -> int:
        return number

    @workflow
    def plain(wait: bool) -> list[int]:
        if wait:
            until_main_has_ended()
        return [one(1), limited(2)]

    @workflow
    def parent(wait: bool) -> list[int]:
        return parallel(plain, [wait, False])[0] + aplain.sync(False)

    @workflow
    async def aplain(wait: bool) -> list[int]:
        if wait:
            await until_main_is_over()
        return [await one.aio(1), await one.aio(2)]

    @workflow
    async def aparent(wait: bool) -> list[int]:
        return await aplain(wait) + await plain.aio(False)

    in_step, over = threading.Event(), threading.Event()
    # Called when Python has stopped the thread pools, and waits for the program's threads.
    threading._register_atexit(lambda: threading.Thread(target=later).start())

    def later():
        sys.modules["__main__"].__dict__.pop("__file__", None)  # as Python does
        over.set()

    def work(hf, flow, wait):
        if not wait:
            over.wait(30)
        hf = hf or Holdfast()
        try:
            print(hf.with_id("run").run(flow, wait))
            print(hf.get("run").status)
        finally:
            hf.close()

    if __name__ == "__main__":
        how, name = sys.argv[1:]
        flow = globals()[name]
        if how == "atexit":
            atexit.register(work, Holdfast(), flow, False)
            over.set()
        else:
            hf = None if how == "first use" else Holdfast()
            threading.Thread(target=work, args=(hf, flow, how == "begun")).start()
            if how == "begun":
                in_step.wait(30)
"""


@pytest.mark.parametrize("flow", ["plain", "parent", "aplain", "aparent"])
@pytest.mark.parametrize("how", ["begun", "opened", "first use", "atexit"])
def test_runs_are_executed_when_the_main_thread_has_ended(tmp_path, monkeypatch, how, flow):
    """In a thread that the program does not join, whether its run had begun before, or only its Holdfast was
    open, or neither; and in an `atexit` callback."""
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "store"))
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    ended = subprocess.run(
        [sys.executable, str(script), how, flow],
        capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False,
    )  # fmt: skip
    if how == "atexit" and sys.version_info >= (3, 12):
        pytest.skip("from Python 3.12 on, no thread can be started in an atexit callback")
    expected = [1, 2] * (2 if "parent" in flow else 1)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"{expected}\ncompleted\n", "")


@step
def number() -> int:
    return 7


@workflow
async def with_a_def_step() -> int:
    return await number.aio()


@workflow
def child() -> int:
    return 7


@workflow
async def with_a_def_child() -> int:
    return await child.aio()


@pytest.mark.parametrize("flow", [with_a_def_step, with_a_def_child])
def test_a_run_that_gets_no_thread_is_interrupted(open_hf, monkeypatch, flow):
    """The end of the interpreter is no failure of the workflow: another process continues the run."""

    def refuse(*_args, **_kwargs):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    hf = open_hf()
    with monkeypatch.context() as patched:
        patched.setattr(ThreadPool, "submit", refuse)
        with pytest.raises(RunInterrupted, match="no thread for"):
            hf.with_id("run").run(flow)
    assert hf.get("run").status == "running"
    assert [run.result(30) for run in open_hf().recover()] == [7]


@workflow
async def async_child() -> int:
    return 7


@workflow
def with_an_async_child() -> int:
    return async_child.sync()


@workflow
def with_a_step() -> int:
    return number()


@step(timeout=30)
def limited() -> int:
    return 7


@workflow
def with_a_limited_step() -> int:
    return limited()


@workflow
async def with_a_limited_step_aio() -> int:
    return await limited.aio()


@pytest.mark.parametrize("flow", [with_a_limited_step, with_a_limited_step_aio])
def test_a_run_is_interrupted_if_a_step_with_a_limit_gets_no_thread(open_hf, monkeypatch, flow):
    """Such a step has a thread of its own. That there is none is no failure of the step."""
    hf = open_hf()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refusing_threads("holdfast-limited"))
        with pytest.raises(RunInterrupted, match="no thread for step limited#1"):
            hf.with_id("run").run(flow)
    assert [run.result(30) for run in open_hf().recover()] == [7]


noted: list[str] = []
in_both_branches = threading.Barrier(3)


@step
def note(name: str) -> str:
    noted.append(name)
    if len(noted) < 3:
        in_both_branches.wait(10)
    return name


@workflow
def noting() -> list[str]:
    return parallel(note, ["a", "b", "c"])


@step
def add_one(number: int) -> int:
    return number + 1


@step
def end(value: list[int]) -> list[int]:
    if limit[0] > 1:
        raise KeyboardInterrupt
    return value


def add_two(number: int) -> int:
    return add_one(add_one(number))


limit = [6]


@workflow
def adding() -> list[int]:
    return end(parallel(add_two, range(6), limit=limit[0]))


@workflow
def with_a_command(effect: str) -> int:
    return len(command(["printf", "1234567"], effect=effect).stdout)


def test_a_run_is_interrupted_if_parallel_gets_no_thread(open_hf, monkeypatch):
    """The branches that have a thread end first. The resumed run does not repeat their steps."""
    noted.clear()
    hf = open_hf()
    start = threading.Thread.start

    def start_or_refuse(thread):
        if thread.name == "holdfast-parallel_2":
            in_both_branches.wait(10)
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start_or_refuse)
        with pytest.raises(RunInterrupted, match="no thread for a branch of parallel: can't start"):
            hf.with_id("run").run(noting)
    assert sorted(noted) == ["a", "b"]
    assert [run.result(30) for run in open_hf().recover()] == [["a", "b", "c"]]
    assert sorted(noted) == ["a", "b", "c"]


def test_a_replay_is_interrupted_if_it_gets_no_thread_for_a_branch_beyond_the_limit(open_hf, monkeypatch):
    """A replay with a lower limit begins each branch that the history has, in the thread that needs it."""
    limit[0] = 6
    with pytest.raises(KeyboardInterrupt):
        open_hf().with_id("run").run(adding)
    limit[0] = 1
    others = tuple(f"holdfast-parallel_{number}" for number in range(1, 6))
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refusing_threads(*others))
        for run in open_hf().recover():
            with pytest.raises(RunInterrupted, match="no thread for a branch of parallel: can't start"):
                run.result(30)
    assert [run.result(30) for run in open_hf().recover()] == [[2, 3, 4, 5, 6, 7]]


tries: list[int] = []


@step(retry=Retry(attempts=3, initial=0.1))
async def twice() -> int:
    tries.append(1)
    if len(tries) < 2:
        raise ValueError("not yet")
    return 7


@workflow
async def trying() -> int:
    return await twice()


def test_a_run_is_interrupted_if_a_pause_before_a_retry_gets_no_thread(open_hf, monkeypatch):
    """After it, a thread looks whether another owner has taken the run over."""
    tries.clear()
    hf = open_hf()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refusing_threads("holdfast-aside"))
        with pytest.raises(RunInterrupted, match="no thread after a pause: can't start"):
            hf.with_id("run").run(trying)
    assert [run.result(30) for run in open_hf().recover()] == [7]


def test_a_run_is_interrupted_if_a_command_gets_no_thread(open_hf, monkeypatch):
    """A thread reads its output. Without one the command is killed: the resumed run starts it again, unless
    it is to run once."""
    hf = open_hf()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refusing_threads("holdfast-process"))
        with pytest.raises(RunInterrupted, match="no thread for command printf#1: can't start"):
            hf.with_id("run").run(with_a_command, "idempotent")
        with pytest.raises(InDoubt, match="was ended: no thread for command printf#1"):
            hf.with_id("doubt").run(with_a_command, "once")
    assert [run.result(30) for run in open_hf().recover()] == [7]


@step(effect="workspace")
def on_files() -> int:
    return 7


@workflow
def with_files() -> int:
    return on_files()


def test_a_run_on_files_is_interrupted_if_its_heartbeat_gets_no_thread(tmp_path, monkeypatch):
    """The next run that works on files starts the heartbeat."""
    (root := tmp_path / "root").mkdir()
    with Holdfast(tmp_path / "home", workspace=root) as hf:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refusing_threads("holdfast-heartbeat"))
            with pytest.raises(RunInterrupted, match="no thread for its heartbeat: can't start"):
                hf.with_id("run").run(with_files)
        assert hf.get("run").status == "running"
        assert hf.resume("run").result(30) == 7
        assert any(thread.name == "holdfast-heartbeat" for thread in threading.enumerate())


@pytest.mark.parametrize("flow", [with_a_step, with_an_async_child])
def test_a_run_is_interrupted_if_no_thread_can_be_started(open_hf, monkeypatch, flow):
    """From Python 3.12 on, that is so in `atexit` callbacks."""

    def refuse(_thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    hf = open_hf()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RunInterrupted, match="no thread for"):
            hf.with_id("run").run(flow)
    assert hf.get("run").status == "running"
    assert [run.result(30) for run in open_hf().recover()] == [7]


def refusing(start):
    """A `Thread.start` of a system that has no more for runs: others have some, such as the engine's own."""

    def refuse(thread):
        if not thread.name.startswith(("holdfast-loop", "holdfast-run", "holdfast-claim")):
            start(thread)
            return
        raise RuntimeError("can't start new thread")

    return refuse


def run_plainly(hf, flow):
    return hf.with_id("run").run(flow)


def start_plainly(hf, flow):
    return hf.with_id("run").start(flow).result(30)


def start_in_loop(hf, flow):
    async def main():
        return await hf.with_id("run").start(flow)

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("start", "flow"),
    [
        (run_plainly, async_child),
        (start_plainly, async_child),
        (start_plainly, child),
        (start_in_loop, async_child),
        (start_in_loop, child),
    ],
)
def test_a_run_that_cannot_begin_for_want_of_a_thread(open_hf, monkeypatch, start, flow):
    """Its caller gets what happened and what to do, not the error of a thread; nobody holds the run, and the
    same process continues it when there are threads again."""
    hf = open_hf()
    hf.run(with_a_step)  # the Holdfast has its owner and its own threads
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refusing(threading.Thread.start))
        with pytest.raises(
            RunInterrupted, match=r"no thread .*: can't start new thread.*; `holdfast resume run` continues"
        ):
            start(hf, flow)
    if start is start_in_loop:  # not even its claim had a thread
        assert not hf.has("run")
    else:
        assert hf.get("run").owner == ""
    gc.collect()
    assert start(hf, flow) == 7


@pytest.mark.parametrize("taken", [False, True], ids=["left in the queue", "taken from the queue"])
def test_a_claim_that_is_in_the_queue_when_no_thread_can_be_started(open_hf, monkeypatch, taken):
    """A thread pool queues a call before it finds that there is no thread for it. A claim that another thread
    took from there meanwhile counts; any other does nothing, ever: the run would have an owner that does not
    execute it."""
    hf = open_hf()
    hf.run(with_a_step)
    queue = []

    def queued(_pool, call):
        queue.append(call)
        if taken:
            call()
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(ThreadPool, "submit", queued)
        if taken:
            assert start_in_loop(hf, async_child) == 7
            return
        with pytest.raises(RunInterrupted, match="no thread"):
            start_in_loop(hf, async_child)
    for call in queue:
        call()
    assert not hf.has("run")


@workflow
def waits() -> str:
    return approval("go").outcome


def test_a_parked_run_that_gets_no_thread_stays_where_it_is(open_hf, monkeypatch):
    """Its gate is decided, and it cannot continue here."""
    hf = open_hf()
    run = hf.with_id("run").start(waits)
    parked(hf, "run")
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refusing(threading.Thread.start))
        hf.approve("run")
        with pytest.raises(RunInterrupted, match="no thread for it: can't start new thread"):
            run.result(30)
    assert hf.resume("run").result(30) == "approved"
