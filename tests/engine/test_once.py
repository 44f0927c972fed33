"""`once` steps: never run again by themselves; what became of one that was cut off is told."""

import asyncio
import os
import shlex
from dataclasses import dataclass

import msgspec
import pytest

from holdfast import (
    NOT_DONE,
    CommandResult,
    Holdfast,
    InDoubt,
    Retry,
    RunHeld,
    Secret,
    StepError,
    StoreError,
    command,
    gather,
    step,
)
from holdfast.engine.outside import attempt as outside
from holdfast.engine.runs.claim import claim
from holdfast.errors import BadInput, StepNotFound
from holdfast.kernel import codec
from holdfast.kernel import commands as c


@pytest.fixture
def cut_off(open_hf, crashes, act):
    """Executes until the intent of the `once` step is durable, and dies inside its body."""

    def crash(plot, survivors=2):
        first = open_hf()
        crashes.arm(first, survivors)
        with pytest.raises(StoreError):
            first.with_id("x").run(act(plot))
        crashes.bury(first)
        return open_hf()

    return crash


@pytest.fixture
def pay(ran):
    @step(effect="once")
    def pay(amount: int) -> str:
        ran.append(amount)
        return f"paid {amount}"

    return pay


def types(hf):
    return [event.type for event in hf.events("x")]


def test_the_intent_is_in_the_log_before_the_body_runs(hf, act, ran):
    """That is what makes a cut-off visible."""

    @step(effect="once")
    def pay() -> None:
        ran.append([info.status for info in hf.steps("x")])

    hf.with_id("x").run(act(lambda: pay()))
    assert ran == [["running"]]


def test_the_intent_is_on_the_disk_before_the_body_runs(home, act, ran):
    """Not only in the log: a power cut in the middle must leave it in doubt, too."""

    @step(effect="once")
    def pay() -> None:
        ran.extend(entry.type for entry in hf._store.feed().entries if entry.stream == "x")

    with Holdfast(home) as hf:
        hf.with_id("x").run(act(lambda: pay()))
    assert ran[-1] == "StepStarted"


def test_a_finished_once_step_is_not_in_doubt(twice, pay, ran):
    """Its result is recorded like any other."""
    assert twice(lambda: pay(5)) == ("paid 5", "paid 5")
    assert ran == [5]


def test_a_failed_once_step_is_a_failure_not_a_doubt(hf, act, ran):
    """A body that raised has told what became of it."""

    @step(effect="once")
    def pay() -> None:
        raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        hf.with_id("x").run(act(lambda: pay()))
    assert (hf.get("x").status, hf.steps("x")[0].status) == ("failed", "failed")


def test_cut_off_without_verify_needs_attention(cut_off, act, pay, ran):
    """The run stops at exactly that step, names the command that settles it, and runs nothing."""
    hf = cut_off(lambda: pay(5))
    with pytest.raises(InDoubt) as caught:
        hf.with_id("x").run(act(lambda: pay(5)))
    assert (caught.value.run_id, caught.value.step) == ("x", "pay#1")
    assert "holdfast settle x 'pay#1'" in str(caught.value)
    assert (hf.get("x").status, hf.steps("x")[0].status) == ("needs_attention", "in_doubt")
    with pytest.raises(InDoubt):
        hf.resume("x")
    assert hf.recover() == []
    assert ran == [5]


@pytest.mark.parametrize("first", ["resume", "nothing"])
def test_settled_as_done(cut_off, act, pay, ran, first):
    """A person says it happened, with its value; also of a run that nobody has resumed yet."""
    hf = cut_off(lambda: pay(5))
    if first == "resume":
        with pytest.raises(InDoubt):
            hf.resume("x").result(30)
    assert hf.settle("x", "pay", done="paid by hand", by="ann") == "pay#1"
    assert hf.resume("x").result(30) == "paid by hand"
    assert ran == [5]
    settled = [event.data for event in hf.events("x") if event.type == "StepSettled"]
    assert [(data["outcome"], data["by"]) for data in settled] == [("done", "ann")]


def test_settled_as_retry(cut_off, act, pay, ran):
    """A person says it did not happen: it runs again, as another attempt."""
    hf = cut_off(lambda: pay(5))
    hf.settle("x", "pay#1", retry=True)
    assert hf.resume("x").result(30) == "paid 5"
    assert (ran, hf.steps("x")[0].attempt) == ([5, 5], 2)


def test_settled_as_failed(cut_off, act, pay, ran):
    """A person says it failed: the workflow gets the error, and may handle it."""

    def plot():
        try:
            return pay(5)
        except StepError as error:
            return f"handled {error.message}"

    hf = cut_off(plot)
    hf.settle("x", "pay", fail="the bank said no")
    assert hf.resume("x").result(30) == "handled the bank said no"
    assert ran == [5]


def test_wrong_settlements(cut_off, act, pay, hf):
    """Exactly one outcome, a step that exists, and one that is in doubt."""
    other = cut_off(lambda: pay(5))
    with pytest.raises(BadInput, match="exactly one"):
        other.settle("x", "pay")
    with pytest.raises(BadInput, match="exactly one"):
        other.settle("x", "pay", retry=True, fail="no")
    with pytest.raises(StepNotFound, match="nearest: pay#1"):
        other.settle("x", "pay#2", retry=True)
    other.settle("x", "pay", done=None)
    with pytest.raises(BadInput, match="completed, not in doubt"):
        other.settle("x", "pay", retry=True)


@dataclass
class Receipt:
    id: int


@pytest.mark.parametrize("given", [Receipt(7), {"id": 7}])
def test_a_value_for_a_step_is_not_converted(cut_off, given):
    """The code receives what was given, of the same type, whatever the annotation of the step is."""

    @step(effect="once")
    def pay() -> Receipt:
        return Receipt(1)

    seen = []
    hf = cut_off(lambda: seen.append(pay()))
    hf.settle("x", "pay", done=given)
    hf.resume("x").result(30)
    assert seen == [given]


@pytest.mark.parametrize("colour", ["def", "async"])
@pytest.mark.parametrize(
    "given", [{"exit_code": 3}, {"exit_code": 3, "stdout": "sent", "stderr": "", "duration_s": 2}]
)
def test_a_command_is_settled_with_the_result_of_a_command(cut_off, colour, given):
    """The code receives a `CommandResult`: its words are those of the call, fields left out are empty."""

    def plot():
        result = command(["sh", "-c", "exit 3"], effect="once", check=False)
        return [type(result).__name__, result.argv, result.exit_code, result.stdout, result.duration_s]

    async def async_plot():
        result = await command.aio(["sh", "-c", "exit 3"], effect="once", check=False)
        return [type(result).__name__, result.argv, result.exit_code, result.stdout, result.duration_s]

    hf = cut_off(plot if colour == "def" else async_plot)
    assert hf.settle("x", "sh", done=given) == "sh#1"
    expected = [
        "CommandResult",
        ("sh", "-c", "exit 3"),
        3,
        given.get("stdout", ""),
        given.get("duration_s", 0),
    ]
    assert hf.resume("x").result(30) == expected


@pytest.mark.parametrize("size", [1, 300_000], ids=["short", "long"])
@pytest.mark.parametrize("shape", ["dict", "CommandResult"])
def test_texts_of_a_settled_command_are_redacted(cut_off, shape, size):
    """A person may paste its output as it is: neither the log nor the code has a secret of it, and the digits
    around it stay."""
    secret = Secret("token", "tides of hunter2")
    text = "1" * size + secret.reveal() + "2"
    given = {"argv": ("sh", text), "exit_code": 0, "stdout": text, "stderr": text}

    def plot():
        result = command(["sh", "-c", "exit 0"], effect="once")
        return [result.argv[1], result.stdout, result.stderr]

    hf = cut_off(plot)
    hf.settle("x", "sh", done=given if shape == "dict" else CommandResult(duration_s=1.0, **given))
    assert hf.resume("x").result(30) == ["1" * size + "[redacted]2"] * 3
    hf.close()
    on_disk = b"".join(path.read_bytes() for path in hf.home.rglob("*") if path.is_file())
    assert b"[redacted]2" in on_disk
    assert secret.reveal().encode() not in on_disk


def test_the_reason_of_a_settled_command_is_redacted(cut_off):
    """Why it counts as failed may quote its output."""
    secret = Secret("token", "tides of hunter2")
    hf = cut_off(lambda: command(["sh", "-c", "exit 0"], effect="once"))
    hf.settle("x", "sh", fail=f"it printed {secret.reveal()}")
    with pytest.raises(StepError, match=r"it printed \[redacted\]"):
        hf.resume("x").result(30)
    hf.close()
    assert not any(
        secret.reveal().encode() in path.read_bytes() for path in hf.home.rglob("*") if path.is_file()
    )


@pytest.mark.parametrize(
    "given", [None, "done", 0, [], {}, {"exit_code": "0"}, {"exit_code": 0, "stdout": None}, {"exitcode": 0}]
)
def test_another_value_for_a_command_is_refused(cut_off, given):
    """The step stays in doubt, and the sentence shows what the result of a command looks like."""
    hf = cut_off(lambda: command(["sh", "-c", "exit 3"], effect="once").exit_code)
    with pytest.raises(
        BadInput, match=r'sh#1 is a command: .*\{"exit_code": 0, "stdout": "", "stderr": ""\}'
    ):
        hf.settle("x", "sh", done=given)
    hf.settle("x", "sh", done=CommandResult(("sh",), 0, "", "", 1.0))
    assert hf.resume("x").result(30) == 0


@pytest.mark.parametrize(
    ("given", "code"), [({"exit_code": 3, "stdout": "", "stderr": ""}, 3), (None, 0), ("done", 0), ({}, 0)]
)
def test_a_command_with_another_value_in_the_store_goes_on(cut_off, given, code):
    """Releases that took any value left some in stores: what was settled as done counts as exit code 0 if it
    names none."""
    hf = cut_off(lambda: command(["sh", "-c", "exit 3"], effect="once").exit_code)
    value = msgspec.Raw(codec.encode(given))
    settled = c.SettleStep("x", "sh#1", "done", "ann", value, abandoned=True)
    outside.command(hf._engine, "x", lambda state, live: settled)
    assert hf.resume("x").result(30) == code


@pytest.mark.parametrize(
    ("answer", "result", "bodies"),
    [("found", "found", 1), (NOT_DONE, "paid 5", 2)],
    ids=["it happened", "it did not"],
)
def test_verify_answers(cut_off, act, ran, answer, result, bodies):
    """The hook is called with the step's arguments and settles the doubt without a person."""
    asked = []

    def look(amount):
        asked.append(amount)
        return answer

    @step(effect="once", verify=look)
    def pay(amount: int) -> str:
        ran.append(amount)
        return f"paid {amount}"

    def plot():
        return pay(5)

    hf = cut_off(plot)
    assert hf.resume("x").result(30) == result
    assert (asked, len(ran)) == ([5], bodies)
    settled = [event.data for event in hf.events("x") if event.type == "StepSettled"]
    assert [(data["outcome"], data["by"]) for data in settled] == [
        ("retry" if answer is NOT_DONE else "done", "verify")
    ]


def test_a_verify_hook_that_cannot_tell_leaves_the_doubt(cut_off, act, ran):
    """The run needs attention; resume asks the hook again, until it knows."""
    knows = []

    def look():
        if not knows:
            raise ConnectionError("bank is closed")
        return "found"

    @step(effect="once", verify=look)
    def pay() -> str:
        ran.append("pay")
        return "paid"

    hf = cut_off(lambda: pay())
    with pytest.raises(InDoubt, match="bank is closed"):
        hf.resume("x").result(30)
    assert hf.get("x").status == "needs_attention"
    knows.append(True)
    assert hf.resume("x").result(30) == "found"
    assert ran == ["pay"]


def test_verify_of_an_async_step(cut_off, act, ran):
    """Hook and body may both be coroutines."""

    async def look():
        return "found"

    @step(effect="once", verify=look)
    async def pay() -> str:
        ran.append("pay")
        return "paid"

    async def plot():
        return await pay()

    hf = cut_off(plot)
    assert hf.resume("x").result(30) == "found"
    assert ran == ["pay"]


def test_two_steps_in_doubt_are_settled_one_by_one(open_hf, act, crashes, ran):
    """The run stays in needs_attention until the last doubt is settled."""

    @step(effect="once")
    async def pay(name: str) -> str:
        ran.append(name)
        while len(ran) < 2:
            await asyncio.sleep(0)
        store.left = 0
        return name

    async def plot():
        return list(await gather(pay("a"), pay("b")))

    first = open_hf()
    store = crashes.arm(first)
    with pytest.raises(StoreError):
        first.with_id("x").run(act(plot))
    crashes.bury(first)
    hf = open_hf()
    with pytest.raises(InDoubt):
        hf.resume("x").result(30)
    assert sorted(info.status for info in hf.steps("x")) in (
        ["in_doubt", "in_doubt"],
        ["in_doubt", "running"],
    )
    hf.settle("x", "pay#1", done="A")
    with pytest.raises(InDoubt, match="pay#2"):
        hf.resume("x").result(30)
    hf.settle("x", "pay#2", done="B")
    assert hf.resume("x").result(30) == ["A", "B"]


def test_once_with_retries_needs_a_verify_hook():
    """A failed attempt of a payment may have happened."""
    with pytest.raises(BadInput, match="give a verify hook"):
        step(effect="once", retry=Retry())(lambda: None)
    step(effect="once", retry=Retry(), verify=lambda: NOT_DONE)(lambda: None)


@pytest.mark.parametrize("status", ["running", "in_doubt"])
def test_a_run_that_is_executed_is_not_settled(cut_off, open_hf, act, pay, ran, status):
    """Its live owner may be about to say what became of the step: RunHeld names it."""
    hf = cut_off(lambda: pay(5))
    if status == "in_doubt":
        with pytest.raises(InDoubt):
            hf.resume("x").result(30)
    owner = open_hf()
    claim(owner._engine, "x")
    with pytest.raises(RunHeld) as held:
        hf.settle("x", "pay", retry=True)
    assert (held.value.pid, hf.steps("x")[0].status) == (os.getpid(), status)
    owner.close()


def test_a_run_that_is_taken_while_it_is_settled(cut_off, open_hf, act, pay, ran, monkeypatch):
    """Whoever got it between the look and the write is looked at too, and nothing is written."""
    hf = cut_off(lambda: pay(5))
    with pytest.raises(InDoubt):
        hf.resume("x").result(30)
    owner, store = open_hf(), hf._engine.store
    command = store.command

    def taken(*args, **kwargs):
        monkeypatch.undo()
        claim(owner._engine, "x")
        return command(*args, **kwargs)

    monkeypatch.setattr(store, "command", taken)
    with pytest.raises(RunHeld):
        hf.settle("x", "pay", done="by hand")
    assert "StepSettled" not in types(hf)


@pytest.mark.parametrize("key", ["pay#1", "branch[2]/pay#1", "it's#1"])
def test_the_hint_can_be_pasted_into_a_shell(key):
    """Identities have signs that a shell would take for its own."""
    hint = str(InDoubt("x", key, "was cut off")).split("`")[1]
    assert shlex.split(hint)[:4] == ["holdfast", "settle", "x", key]
