"""A conversation that is killed at every event of its log, and while each request is on its way.

What is recorded is never sent or called again. What was in flight is sent again alone, as another attempt
of its step and with the same idempotency key. The usage that is recorded is that of a conversation without
a kill: the answer to a request that was cut off is not in it, because nobody received it.
"""

import collections
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agents.llm.conversation import TURNS

from holdfast import Holdfast
from holdfast.testing import FakeProvider, Fault

HERE = Path(__file__).parent
PRICES = {"openai": "0.00270", "anthropic": "0.00360"}
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

    def __init__(self, directory: Path, provider: FakeProvider, protocol: str, stream: bool) -> None:
        self.directory = directory
        self.provider = provider
        self.protocol = protocol
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


@pytest.fixture(
    params=[("openai", False), ("openai", True), ("anthropic", False), ("anthropic", True)], ids=str
)
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Driver]:
    protocol, stream = request.param
    with FakeProvider(TURNS) as provider:
        made = Driver(tmp_path, provider, protocol, stream)
        try:
            yield made
        finally:
            made.close()


@pytest.mark.timeout(300)
def test_killed_at_every_event_and_in_every_request(driver: Driver):
    """Each kill is followed by one resume, and the outcome is that of a conversation without a kill."""
    driver.begin("whole")
    status, result = driver.ended()
    assert status == 0 and result is not None
    *answer, events = result
    whole = Past(driver, "whole")
    assert answer == ["all of it is done", 6, 600, 120]
    check(whole, whole.usage)
    assert [(one["input_tokens"], one["output_tokens"], one["usd"]) for one in whole.usage] == [
        (600, 120, PRICES[driver.protocol])
    ]

    for kill_at in range(1, events + 1):
        name = f"event-{kill_at}"
        driver.begin(name, kill_at)
        status, _ = driver.ended()
        assert status == -signal.SIGKILL, f"no event {kill_at}"
        driver.begin(name)
        status, result = driver.ended()
        assert (status, result and result[:-1]) == (0, answer), name
        check(Past(driver, name), whole.usage)

    for number in range(1, 7):
        name = f"request-{number}"
        caught = len(driver.provider.requests) + number
        driver.provider.faults[caught] = Fault(hang=True)
        pid = driver.begin(name)
        driver.provider.wait_for(caught)
        os.kill(pid, signal.SIGKILL)
        assert driver.ended()[0] == -signal.SIGKILL
        driver.begin(name)
        status, result = driver.ended()
        assert (status, result and result[:-1]) == (0, answer), name
        past = Past(driver, name)
        check(past, whole.usage)
        assert past.sent[MODEL_KEYS[number - 1]] == 2 and past.sent.total() == 7
