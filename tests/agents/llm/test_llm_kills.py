"""A conversation that is killed at every event of its log, and while each request is on its way.

What is recorded is never sent or called again. What was in flight is sent again alone, as another attempt
of its step and with the same idempotency key. The usage that is recorded is that of a conversation without
a kill: the answer to a request that was cut off is not in it, because nobody received it.
"""

import collections
import importlib.metadata
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.agents.llm.conversation import NOTE, NOTES, TURNS

from holdfast import Holdfast
from holdfast.testing import FakeProvider, Fault

HERE = Path(__file__).parent
SLOWEST_S = 120.0
"""No child takes so long, also on a machine that has much to do."""
MODEL_KEYS = [f"coder[1]/model#{number}" for number in range(1, 7)]
TOOL_LINES = ["read a", "read b", "write c", "write d", "delete a", "read c"]
TOOL_KEYS = {
    "coder[1]/read@1-call_0_0": "read a",
    "coder[1]/read@2-call_1_0": "read b",
    "coder[1]/write@2-call_1_1": "write c",
    "coder[1]/write@3-call_2_0": "write d",
    "coder[1]/delete@4-call_3_0": "delete a",
    "coder[1]/read@5-call_4_0": "read c",
}


class Mode(NamedTuple):
    """How the provider is asked."""

    protocol: str
    stream: bool

    def __str__(self) -> str:
        return f"{self.protocol}-{'stream' if self.stream else 'plain'}"


class Child:
    """A process that executes the conversation."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid: Future[int] = Future()
        self._ended: Future[tuple[int, list | None]] = Future()

    def said(self, message: dict[str, Any]) -> None:
        if "pid" in message:
            self.pid.set_result(message["pid"])
        else:
            self._ended.set_result((message["ended"], message["result"]))

    def lost(self) -> None:
        """The process that forked it has ended."""
        for promised in (self.pid, self._ended):
            if not promised.done():
                promised.set_exception(RuntimeError("the driver has ended; its standard error says why"))

    def ended(self) -> tuple[int, list | None]:
        """How it ended, and the result if there is one."""
        return self._ended.result(SLOWEST_S)

    def killed(self) -> None:
        """It was killed, by itself or from outside."""
        assert self.ended() == (-signal.SIGKILL, None), self.number


class Driver:
    """The process that forks the children, and the provider that they ask. Thread-safe."""

    def __init__(self, directory: Path, provider: FakeProvider, library: Path | None = None) -> None:
        self.directory = directory
        self.provider = provider
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "kill_driver.py"), provider.url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ if library is None else os.environ | {"PYTHONPATH": str(library)},
        )
        self._lock = threading.Lock()
        self._children: list[Child] = []
        self._ready: Future[None] = Future()
        self._reader = threading.Thread(target=self._read, name="kill-driver", daemon=True)
        self._reader.start()

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(SLOWEST_S)
        self._reader.join(SLOWEST_S)
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            if "ready" in message:
                self._ready.set_result(None)
            else:
                self._children[message["child"]].said(message)
        for child in self._children:
            child.lost()

    def begin(self, run: str, mode: Mode, kill_at: int = 0, goal: str = "go") -> Child:
        """Execute the conversation in a child."""
        assert self.process.stdin is not None
        self._ready.result(SLOWEST_S)
        with self._lock:
            child = Child(len(self._children))
            self._children.append(child)
            order = {
                "child": child.number,
                "run": run,
                "home": str(self.directory / run),
                "ledger": str(self.directory / f"{run}.ledger"),
                "protocol": mode.protocol,
                "stream": mode.stream,
                "goal": goal,
                "kill_at": kill_at,
            }
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
        return child


class Past:
    """What became of a conversation: what the log, the provider and the tools say of it."""

    def __init__(self, driver: Driver, run: str) -> None:
        with Holdfast(driver.directory / run, read_only=True) as hf:
            self.steps = {step.key: step for step in hf.steps(run)}
            self.usage = hf.get(run).to_json()["measured"]
            events = list(hf.events(run))
            self.budget = hf.budgets.get("default")
            self.gates = [event for event in events if event.type == "GateOpened"]
        claims = [number for number, event in enumerate(events) if event.type == "RunClaimed"]
        before = events[: claims[-1]] if len(claims) > 1 else []
        self.done_before = {e.data["key"] for e in before if e.type in ("StepCompleted", "StepRan")}
        begun = {e.data["key"] for e in before if e.type == "StepStarted"}
        self.in_flight = begun - self.done_before
        requests = list(driver.provider.requests)
        assert all(one.idempotency_key for one in requests), "a request was sent outside of a step"
        self.requests = [one for one in requests if one.idempotency_key.startswith(f"{run}:")]
        self.sent = collections.Counter(
            one.idempotency_key.removeprefix(f"{run}:0:") for one in self.requests
        )
        ledger = driver.directory / f"{run}.ledger"
        self.called = collections.Counter(ledger.read_text().splitlines())


class Undisturbed(NamedTuple):
    """What a conversation without a kill comes to."""

    answer: list
    events: int
    usage: list


def check(past: Past, mode: Mode, usage: list) -> None:
    """The promises, whatever was killed when."""
    assert {(one.protocol, one.stream) for one in past.requests} == {(PROTOCOL[mode.protocol], mode.stream)}
    assert sorted(past.sent) == MODEL_KEYS
    assert sorted(past.called) == sorted(TOOL_LINES)
    for key in MODEL_KEYS:
        assert past.sent[key] <= (2 if key in past.in_flight else 1), (key, past.in_flight)
        assert past.steps[key].attempt == (2 if key in past.in_flight else 1)
    for key, line in TOOL_KEYS.items():
        assert past.called[line] <= (2 if key in past.in_flight else 1), (key, past.in_flight)
        assert past.steps[key].attempt == (2 if key in past.in_flight else 1)
    assert len(past.gates) == 1
    assert past.usage == usage
    # The provider may charge for a request that was cut off: the budget has it as it was reserved, the usage
    # not. Otherwise both are the same.
    more = past.budget.spent.usd - sum(Decimal(one["usd"]) for one in usage)
    assert more > 0 if past.in_flight & set(MODEL_KEYS) else more == 0, (more, past.in_flight)
    assert not past.budget.reserved.usd


MODES = [Mode(protocol, stream) for protocol in ("openai", "anthropic") for stream in (False, True)]
PROTOCOL = {"openai": "openai-chat", "anthropic": "anthropic"}
"""The name that the fake provider has for each."""
SIDE_BY_SIDE = 3
"""Conversations at a time: while one waits for the disk or the provider, others use the processor."""


@contextmanager
def driving(directory: Path, provider: FakeProvider, library: Path | None = None) -> Iterator[Driver]:
    made = Driver(directory, provider, library)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """One for all modes: it takes seconds to start."""
    with (
        FakeProvider(TURNS, conversations={NOTE: NOTES}) as provider,
        driving(tmp_path_factory.mktemp("conversations"), provider) as made,
    ):
        yield made


def undisturbed(driver: Driver, run: str, mode: Mode) -> Undisturbed:
    """A conversation without a kill."""
    status, result = driver.begin(run, mode).ended()
    assert status == 0 and result is not None
    *answer, events = result
    past = Past(driver, run)
    assert answer == ["all of it is done", 6, 600, 120]
    assert [(one["input_tokens"], one["output_tokens"]) for one in past.usage] == [(600, 120)]
    assert all(one["usd"] for one in past.usage)
    check(past, mode, past.usage)
    return Undisturbed(answer, len(events), past.usage)


def resumed(driver: Driver, run: str, mode: Mode, whole: Undisturbed) -> Past:
    status, result = driver.begin(run, mode).ended()
    assert (status, result and result[:-1]) == (0, whole.answer), run
    past = Past(driver, run)
    check(past, mode, whole.usage)
    return past


def side_by_side(one: Callable[[int], None], numbers: Iterable[int]) -> None:
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        list(pool.map(one, numbers))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_killed_at_every_event(driver: Driver, mode: Mode):
    """Each kill is followed by one resume, and the outcome is that of a conversation without a kill."""
    whole = undisturbed(driver, f"{mode}-events", mode)
    cut_off: set[str] = set()

    def kill(number: int) -> None:
        run = f"{mode}-event-{number}"
        driver.begin(run, mode, kill_at=number).killed()
        cut_off.update(resumed(driver, run, mode, whole).in_flight)

    side_by_side(kill, range(1, whole.events + 1))
    assert whole.events > 30
    assert cut_off >= {*MODEL_KEYS, *TOOL_KEYS}, "each request and each tool call was cut off once"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_killed_in_every_request(driver: Driver, mode: Mode):
    """Before the answer, or in the middle of its stream: that request alone is sent again, with the same
    key."""
    whole = undisturbed(driver, f"{mode}-requests", mode)

    def kill(number: int) -> None:
        run, key = f"{mode}-request-{number}", MODEL_KEYS[number - 1]
        sent_key = f"{run}:0:{key}"
        driver.provider.faults[sent_key] = Fault(hang=True, cut=mode.stream)
        child = driver.begin(run, mode)
        driver.provider.wait_for(sent_key, held=True)
        os.kill(child.pid.result(SLOWEST_S), signal.SIGKILL)
        child.killed()
        del driver.provider.faults[sent_key]
        past = resumed(driver, run, mode, whole)
        assert past.in_flight == {key}
        assert past.sent[key] == past.steps[key].attempt == 2 and past.sent.total() == 7

    side_by_side(kill, range(1, 7))


# Tools of a server


@pytest.mark.timeout(300)
def test_tools_of_a_server_are_steps(driver: Driver):
    """Calls of a tool that a server on standard input and output has are recorded. Killed at each event of
    one: what was in flight is called again, what is recorded is not, and the server is started anew."""
    pytest.importorskip(
        "pydantic_ai.mcp", reason="tools of a server need pydantic-ai-slim[mcp]", exc_type=ImportError
    )
    mode = MODES[0]
    status, result = driver.begin("notes", mode, goal=NOTE).ended()
    assert status == 0 and result is not None
    *answer, events = result
    assert answer == ["both are noted", 2, 200, 40]
    assert Past(driver, "notes").called == {"note a": 1, "note b": 1}
    calls = {f"coder[1]/note@1-call_0_{call}": f"note {text}" for call, text in enumerate("ab")}
    places = [number for number, (_, key) in enumerate(events, start=1) if key in calls]
    assert len(places) == 4, "each call begins and ends"
    cut_off: set[str] = set()

    def kill(number: int) -> None:
        run = f"notes-{number}"
        driver.begin(run, mode, kill_at=number, goal=NOTE).killed()
        assert driver.begin(run, mode, goal=NOTE).ended()[1][:-1] == answer
        past = Past(driver, run)
        cut_off.update(past.in_flight)
        assert sorted(past.called) == ["note a", "note b"] and past.sent.total() == 2
        for key, line in calls.items():
            assert past.called[line] <= (2 if key in past.in_flight else 1)
            assert past.steps[key].attempt == (2 if key in past.in_flight else 1)

    side_by_side(kill, places)
    assert cut_off == set(calls)


# Another version of pydantic-ai


def installed() -> Path:
    spec = importlib.util.find_spec("pydantic_ai")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def altered(into: Path) -> None:
    """A copy of the installed one as a later version might be: tasks have other names, and prompts a field
    more."""
    shutil.copytree(installed(), into / "pydantic_ai", ignore=shutil.ignore_patterns("__pycache__"))
    for file, old, new in (
        ("agent/__init__.py", "_do_run", "_carry_out"),
        ("_tool_execution.py", "run_one", "run_each"),
        ("messages.py", '"""The timestamp of the prompt."""', '"""When."""\n\n    revision: int = 7'),
    ):
        path = into / "pydantic_ai" / file
        text = path.read_text("utf-8")
        assert old in text, (file, old)
        path.write_text(text.replace(old, new), "utf-8")


def fetched(into: Path) -> None:
    """Another version that the registry has."""
    version = importlib.metadata.version("pydantic-ai-slim")
    wanted = [f"{name}>=2.63,<2.80,!={version}" for name in ("pydantic-ai-slim", "pydantic-graph")]
    argv = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(into), *wanted]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    if done.returncode:
        pytest.skip(f"no other version of pydantic-ai can be fetched: {done.stderr.strip().splitlines()[-1]}")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("get", [altered, fetched])
def test_a_run_is_resumed_under_another_version(tmp_path: Path, get: Callable[[Path], None]):
    """It begins under one version, is killed, and ends under another: keys and digests are the same in
    both."""
    library = tmp_path / "library"
    get(library)
    with (
        FakeProvider(TURNS) as provider,
        driving(tmp_path, provider) as one,
        driving(tmp_path, provider, library) as other,
    ):
        mode = MODES[0]
        whole = undisturbed(one, "version", mode)

        def kill(number: int) -> None:
            first, second = (one, other) if number % 2 else (other, one)
            run = f"version-{number}"
            first.begin(run, mode, kill_at=3 + 6 * number).killed()
            resumed(second, run, mode, whole)

        side_by_side(kill, range((whole.events - 3) // 6 + 1))
