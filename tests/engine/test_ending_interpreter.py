"""Use of a Holdfast while the interpreter ends: the main thread is over, other threads and `atexit`
callbacks still run. A run is executed, or else interrupted; it never fails for that."""

import subprocess
import sys
import textwrap
import threading

import pytest

from holdfast import RunInterrupted, step, workflow
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

    @workflow
    def plain(wait: bool) -> list[int]:
        if wait:
            until_main_has_ended()
        return [one(1), one(2)]

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
