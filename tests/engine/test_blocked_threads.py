"""When a branch of a `def` workflow loses its turn: only if it is blocked by what holdfast does not do."""

import itertools
import operator
import os
import queue
import sys
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from holdfast import parallel, workflow
from holdfast.engine.execution import thread_delivery
from holdfast.engine.execution.thread_delivery import ThreadTurn
from holdfast.package import ROOT


@contextmanager
def looked_at(work):
    """The turn of a thread that runs this."""
    turn, begun = ThreadTurn(ready=True), threading.Event()

    def body():
        turn.thread, turn.native = threading.get_ident(), threading.get_native_id()
        begun.set()
        work()

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    begun.wait()
    yield turn
    thread.join()


@pytest.fixture
def busy():
    """Three threads compete for the interpreter."""
    ended = threading.Event()

    def spin():
        while not ended.is_set():
            sum(range(500))

    threads = [threading.Thread(target=spin) for _ in range(3)]
    for one in threads:
        one.start()
    yield
    ended.set()
    for one in threads:
        one.join()


def test_a_thread_that_waits_for_the_interpreter_is_not_blocked(busy):
    """One that wants to compute keeps its turn, however long it has to wait until others let it."""
    ended = []

    def work():
        while not ended:
            pass

    with looked_at(work) as turn:
        seen = []
        for _ in range(30):
            seen.append(turn.is_blocked())
            time.sleep(0.005)
        ended.append(True)
    assert not any(seen)


@pytest.fixture(params=["asked", "not asked"])
def system(request, monkeypatch):
    """What the system says about threads, and nothing, as where there is no /proc."""
    if request.param == "not asked":
        monkeypatch.setattr(thread_delivery, "_waits_of", lambda native: None)
    elif sys.platform != "linux":
        pytest.skip("the system does not say it")


def until_blocked(turn):
    for _ in range(4000):
        if turn.is_blocked():
            return
        time.sleep(0.005)
    pytest.fail("never blocked")


@contextmanager
def locked_out():
    """The turn of a thread that waits for a lock."""
    lock = threading.Lock()
    lock.acquire()
    with looked_at(lock.acquire) as turn:
        try:
            yield turn
        finally:
            lock.release()


def test_a_thread_that_waits_for_a_lock_is_blocked(system):
    with locked_out() as turn:
        until_blocked(turn)


@pytest.mark.skipif(sys.platform != "linux", reason="the system is not asked elsewhere")
def test_a_thread_that_waits_for_a_lock_is_blocked_while_others_compute(busy):
    with locked_out() as turn:
        until_blocked(turn)


def test_a_thread_that_polls_is_blocked(system, monkeypatch):
    """`while not there: time.sleep(0.001)` gives its turn up after a while."""
    monkeypatch.setattr(thread_delivery, "_POLLING_S", 0.1)
    ended = []

    def work():
        while not ended:
            time.sleep(0.001)

    with looked_at(work) as turn:
        until_blocked(turn)
        ended.append(True)


@pytest.mark.skipif(sys.platform != "linux", reason="the system is not asked elsewhere")
@pytest.mark.parametrize(
    ("waits", "is_blocked"),
    [
        ([7, 7, 7, 7, 7], True),
        ([7, 8, 9, 10, 11], False),
        ([7, -1, 7, 7, 8], False),
        ([7] * 3 + [-1] * 2, False),
    ],
)
def test_a_thread_that_has_run_since_the_last_look_is_not_blocked(monkeypatch, waits, is_blocked):
    """A starved process is not an idle one: its threads wait for the interpreter, and run now and then."""
    now, left = itertools.count(), iter(waits)
    with locked_out() as turn:
        until_blocked(turn)
        turn = same_thread(turn)
        clock = SimpleNamespace(monotonic=lambda: next(now) * 0.3, process_time=lambda: 0.0)
        monkeypatch.setattr(thread_delivery, "time", clock)
        monkeypatch.setattr(thread_delivery, "_waits_of", lambda native: next(left))
        assert [turn.is_blocked() for _ in waits][-1] is is_blocked
        monkeypatch.undo()


def same_thread(turn):
    fresh = ThreadTurn(ready=True)
    fresh.thread, fresh.native = turn.thread, turn.native
    return fresh


@pytest.mark.parametrize(
    ("files", "is_engine"),
    [
        (["<frozen importlib._bootstrap>", "{engine}/router/choosing.py", "/home/ann/flow.py"], True),
        (["{python}/random.py", "{engine}/router/choosing.py", "/home/ann/flow.py"], True),
        (["{python}/queue.py", "/home/ann/flow.py", "{engine}/engine/primitives/fanout.py"], False),
        (["{python}/site-packages/requests/api.py", "{engine}/engine/primitives/fanout.py"], False),
        (["{engine}_flows/flow.py", "{engine}/engine/primitives/fanout.py"], False),
    ],
)
def test_what_holdfast_calls_is_its_own_work(files, is_engine):
    """An import, or a module of Python's that holdfast uses, takes no turn away."""
    python = os.path.dirname(threading.__file__)
    call = sys._getframe
    for file in files:
        scope = {"call": call}
        exec(compile("def named():\n return call()", file.format(python=python, engine=ROOT), "exec"), scope)
        call = scope["named"]
    assert thread_delivery._is_in_engine(call()) is is_engine


ASKED: queue.Queue[int] = queue.Queue()
TOLD: queue.Queue[str] = queue.Queue()


@workflow
def exchange() -> list[object]:
    return parallel(operator.call, [TOLD.get, tell_and_ask, answer])


def tell_and_ask() -> int:
    TOLD.put("word")
    return ASKED.get()


def answer() -> None:
    ASKED.put(1)


def test_a_branch_of_pythons_own_code_loses_its_turn(hf):
    """The code of a branch need not be the user's: here the functions of a queue wait for each other."""
    assert hf.run(exchange) == ["word", 1, None]
