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
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.agents.llm.conversation import TURNS

from holdfast import Holdfast
from holdfast.testing import FakeProvider, Fault

HERE = Path(__file__).parent
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


class Driver:
    """The process that forks the children, and the provider that they ask."""

    def __init__(
        self,
        directory: Path,
        provider: FakeProvider,
        protocol: str,
        stream: bool,
        library: Path | None = None,
    ) -> None:
        self.directory = directory
        self.provider = provider
        self.protocol = protocol
        self.stream = stream
        self.process = subprocess.Popen(
            [
                sys.executable,
                str(HERE / "kill_driver.py"),
                provider.url,
                protocol,
                "stream" if stream else "plain",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ if library is None else os.environ | {"PYTHONPATH": str(library)},
        )
        assert self._line() == "ready"

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def begin(self, name: str, kill_at: int = 0) -> int:
        """Execute the conversation in a child; returns its pid."""
        assert self.process.stdin is not None
        order = {
            "id": name,
            "home": str(self.directory / name),
            "ledger": str(self.directory / f"{name}.ledger"),
            "kill_at": kill_at,
        }
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return json.loads(self._line())["pid"]

    def ended(self) -> tuple[int, list | None]:
        """How the child ended, and the result if there is one."""
        result = None
        while True:
            line = json.loads(self._line())
            if "ended" in line:
                return line["ended"], result
            result = line["result"]


class Past:
    """What became of a conversation: what the log, the provider and the tools say of it."""

    def __init__(self, driver: Driver, name: str) -> None:
        with Holdfast(driver.directory / name, read_only=True) as hf:
            self.steps = {step.key: step for step in hf.steps(name)}
            self.usage = hf.get(name).to_json()["measured"]
            events = list(hf.events(name))
            self.budget = hf.budgets.get("default")
            self.gates = [event for event in events if event.type == "GateOpened"]
        claims = [number for number, event in enumerate(events) if event.type == "RunClaimed"]
        before = events[: claims[-1]] if len(claims) > 1 else []
        self.done_before = {e.data["key"] for e in before if e.type in ("StepCompleted", "StepRan")}
        begun = {e.data["key"] for e in before if e.type == "StepStarted"}
        self.in_flight = begun - self.done_before
        self.sent: collections.Counter[str] = collections.Counter()
        for request in driver.provider.requests:
            run, _, key = request.idempotency_key.split(":", 2)
            if run == name:
                self.sent[key] += 1
        ledger = driver.directory / f"{name}.ledger"
        self.called = collections.Counter(ledger.read_text().splitlines())


def check(past: Past, usage: list) -> None:
    """The promises, whatever was killed when."""
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


MODES = [("openai", False), ("openai", True), ("anthropic", False), ("anthropic", True)]


@contextmanager
def driving(directory: Path, provider: FakeProvider, *how: Any) -> Iterator[Driver]:
    made = Driver(directory, provider, *how)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with FakeProvider(TURNS) as opened:
        yield opened


def whole(driver: Driver) -> tuple[list, int, list]:
    """A conversation without a kill: its result, the number of its events, and its usage."""
    driver.begin("whole")
    status, result = driver.ended()
    assert status == 0 and result is not None
    *answer, events = result
    past = Past(driver, "whole")
    assert answer == ["all of it is done", 6, 600, 120]
    assert [(one["input_tokens"], one["output_tokens"]) for one in past.usage] == [(600, 120)]
    assert all(one["usd"] for one in past.usage)
    check(past, past.usage)
    return answer, events, past.usage


def resumed(driver: Driver, name: str, answer: list, usage: list) -> Past:
    driver.begin(name)
    status, result = driver.ended()
    assert (status, result and result[:-1]) == (0, answer), name
    past = Past(driver, name)
    check(past, usage)
    return past


@pytest.mark.timeout(500)
@pytest.mark.parametrize(("protocol", "stream"), MODES)
def test_killed_at_every_event_and_in_every_request(
    tmp_path: Path, provider: FakeProvider, protocol: str, stream: bool
):
    """Each kill is followed by one resume, and the outcome is that of a conversation without a kill."""
    with driving(tmp_path, provider, protocol, stream) as driver:
        answer, events, usage = whole(driver)
        assert events > 30
        if (protocol, stream) in (MODES[0], MODES[3]):  # each protocol, plain and as a stream, is one of them
            for kill_at in range(1, events + 1):
                driver.begin(f"event-{kill_at}", kill_at)
                assert driver.ended()[0] == -signal.SIGKILL, f"no event {kill_at}"
                resumed(driver, f"event-{kill_at}", answer, usage)
        for number in range(1, 7):
            kill_in_request(driver, number)
            past = resumed(driver, f"request-{number}", answer, usage)
            key = MODEL_KEYS[number - 1]
            assert past.sent[key] == past.steps[key].attempt == 2 and past.sent.total() == 7
            # The provider may charge for the first one: the budget has it as it was reserved, the usage not.
            more = past.budget.spent.usd - sum(Decimal(one["usd"]) for one in usage)
            assert more > 0 and not past.budget.reserved.usd


def kill_in_request(driver: Driver, number: int) -> None:
    """Kill a new conversation before the answer to a request, or in the middle of its stream."""
    caught = len(driver.provider.requests) + number
    driver.provider.faults[caught] = Fault(hang=True, cut=driver.stream)
    pid = driver.begin(f"request-{number}")
    driver.provider.wait_for(caught)
    os.kill(pid, signal.SIGKILL)
    assert driver.ended()[0] == -signal.SIGKILL


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
def test_a_run_is_resumed_under_another_version(tmp_path: Path, provider: FakeProvider, get: Any):
    """It begins under one version, is killed, and ends under another: keys and digests are the same in
    both."""
    library = tmp_path / "library"
    get(library)
    with (
        driving(tmp_path, provider, "openai", False) as one,
        driving(tmp_path, provider, "openai", False, library) as other,
    ):
        answer, events, usage = whole(one)
        for number, kill_at in enumerate(range(3, events, 6)):
            first, second = (one, other) if number % 2 else (other, one)
            first.begin(f"version-{kill_at}", kill_at)
            assert first.ended()[0] == -signal.SIGKILL
            resumed(second, f"version-{kill_at}", answer, usage)
