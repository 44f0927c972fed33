"""`hf.attach`: a handle on a run that another owner executes, or none does. It never executes the run."""

import asyncio
import shutil
import threading

import pytest
from tests.engine.test_gates import until

from holdfast import Holdfast, RunCancelled, RunNotFound, RunWaiting, approval, step
from holdfast.errors import NotTrusted


@pytest.fixture
def other(hf, open_hf):
    """A read-only Holdfast on the same store."""
    return open_hf(read_only=True)


@pytest.fixture
def held(act):
    """A workflow that waits inside a step until `held.release` is set, and then does what `held.end` does."""

    class Held:
        release = threading.Event()
        begun = threading.Event()

        @staticmethod
        def end():
            return {"kelp": [1, 2]}

    @step
    def work():
        Held.begun.set()
        assert Held.release.wait(30)
        return Held.end()

    Held.release, Held.begun = threading.Event(), threading.Event()
    Held.workflow = act(lambda: work())
    yield Held
    Held.release.set()


def pollers():
    return [thread for thread in threading.enumerate() if thread.name == "holdfast-attach"]


def test_the_result_comes_when_the_run_ends(hf, other, held):
    run = hf.start(held.workflow)
    assert held.begun.wait(30)
    attached = other.attach(run.id)
    assert (attached.done(), attached.status) == (False, "running")
    held.release.set()
    assert attached.result(timeout=30) == {"kelp": [1, 2]}
    assert (attached.done(), attached.status) == (True, "completed")
    assert other._engine._owner is None, "whoever only follows owns nothing"


def test_the_error_of_a_run_that_fails(hf, other, held):
    def end():
        raise ValueError("no kelp")

    held.end = end
    run = hf.start(held.workflow)
    attached = other.attach(run.id)
    held.release.set()
    with pytest.raises(ValueError, match="no kelp"):
        attached.result(timeout=30)
    with pytest.raises(ValueError, match="no kelp"):
        run.result()


def test_a_run_that_is_cancelled(hf, other, act):
    run = hf.start(act(lambda: approval("ok")))
    until(lambda: run.status == "waiting")
    attached = other.attach(run.id)
    hf.cancel(run.id, "too late")
    with pytest.raises(RunCancelled, match="too late"):
        attached.result(timeout=30)


def test_a_run_that_waits_is_waited_for(hf, other, open_hf, act):
    """A gate, a closed owner, another owner: the handle ends with the run and not before."""
    third = open_hf()
    run = third.start(act(lambda: approval("ok").outcome))
    until(lambda: run.status == "waiting")
    attached = other.attach(run.id)
    third.close()
    hf.approve(run.id)
    with pytest.raises(RunWaiting, match=r"not ended within 0\.2 s"):
        attached.result(timeout=0.2)
    assert (attached.done(), attached.status) == (False, "pending")
    assert hf.resume(run.id).result() == "approved"
    assert attached.result(timeout=30) == "approved"


def test_it_never_executes(hf, other, open_hf, act, ran):
    """Neither a run that is ready, nor when nobody else does."""
    third = open_hf()
    run = third.start(act(lambda: ran.append(approval("ok").outcome)))
    until(lambda: run.status == "waiting")
    third.close()
    hf.approve(run.id)
    ran.clear()
    for one in (other, hf):
        with pytest.raises(RunWaiting):
            one.attach(run.id).result(timeout=0.3)
    assert ran == []


def test_a_run_that_has_ended(hf, other, act):
    hf.with_id("x").run(act(lambda: "kelp"))
    assert other.attach("x").result(timeout=30) == "kelp"


def test_a_run_that_is_not_there(hf, other, act):
    hf.with_id("kelp").run(act(lambda: None))
    with pytest.raises(RunNotFound, match="kelp"):
        other.attach("kelq")


def test_closing_ends_the_waiting(hf, other, held):
    run = hf.start(held.workflow)
    attached = other.attach(run.id)
    raised = []

    def wait():
        try:
            attached.result()
        except RunWaiting as error:
            raised.append(str(error))

    waiting = threading.Thread(target=wait)
    waiting.start()
    other.close()
    waiting.join(30)
    why = "the Holdfast that followed it was closed; open another one, and attach to the run again"
    assert raised == [f"run {run.id} waits: {why}"]
    held.release.set()
    assert run.result() == {"kelp": [1, 2]}, "the run itself continues"


def test_one_thread_for_all(hf, other, held):
    """It ends with the last of them, and the next one starts another."""
    run = hf.start(held.workflow)
    attached = [other.attach(run.id) for _ in range(5)]
    assert len(pollers()) == 1
    held.release.set()
    assert [one.result(timeout=30) for one in attached] == [{"kelp": [1, 2]}] * 5
    until(lambda: not pollers())
    assert other.attach(run.id).result(timeout=30) == {"kelp": [1, 2]}


def test_await(hf, other, held):
    """Many at once in one event loop, which is not blocked."""
    run = hf.start(held.workflow)

    async def main():
        attached = [other.attach(run.id) for _ in range(3)]
        await asyncio.sleep(0.05)
        assert not any(one.done() for one in attached)
        held.release.set()
        return await asyncio.gather(*attached)

    assert asyncio.run(main()) == [{"kelp": [1, 2]}] * 3


def test_await_of_a_run_that_is_not_there(hf, other, act):
    hf.with_id("kelp").run(act(lambda: None))

    async def main():
        await other.attach("kelq")

    with pytest.raises(RunNotFound, match="kelp"):
        asyncio.run(main())


def test_control_c_does_not_stop_the_run(hf, other, held):
    run = hf.start(held.workflow)
    error = other.attach(run.id)._left(KeyboardInterrupt())
    assert error.__notes__ == [f"holdfast: run {run.id} was only followed here; Ctrl-C does not stop it"]


def test_a_store_from_elsewhere_is_refused(hf, home, tmp_path, act):
    """A result may need classes of the code that the store names, and that may be another's."""
    hf.with_id("x").run(act(lambda: "kelp"))
    hf.close()
    shutil.copytree(home, tmp_path / "copy", ignore=shutil.ignore_patterns("made-by"))
    with Holdfast(tmp_path / "copy", read_only=True) as copy, pytest.raises(NotTrusted):
        copy.attach("x")
