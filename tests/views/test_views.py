"""What a view says of a run: its JSON, its outcome, and what to do next."""

from __future__ import annotations

import msgspec
import pytest

from holdfast import Holdfast, Way, approval, command, step, wait_for, workflow
from holdfast.errors import BadInput, CommandFailed, NotFound


@step
def ask(topic: str) -> str:
    return topic.upper()


@workflow
def report(topics: list[str]) -> list[str]:
    return [ask(topic) for topic in topics]


@workflow
def gated() -> str:
    approval("send it", show={"to": "ann"})
    return "sent"


@workflow
def waiting() -> str:
    return str(wait_for("go"))


@workflow
def failing() -> None:
    command(["sh", "-c", "exit 3"], effect="idempotent")


@pytest.fixture
def hf(home):
    with Holdfast(home, durability="process") as opened:
        yield opened


def test_a_run_has_its_outcome(hf):
    """`get` gives result, input, title and end; the history is read only when it is needed."""
    hf.with_id("r").run(report, ["kelp"])
    run = hf.get("r")
    assert (run.status, run.ended, run.title) == ("completed", True, 'report(["kelp"])')
    assert "state" not in vars(run)
    assert run.result == ["KELP"]
    assert run.error is None
    assert run.input.args == [["kelp"]]
    assert run.ended_at is not None
    assert [one.key for one in run.steps] == ["ask#1"]
    assert run.ways() == []


def test_a_failed_run_has_its_error_and_the_way_on(hf):
    """The error has its class, its sentence and the steps that failed; the way names the action as data."""
    with pytest.raises(CommandFailed):
        hf.with_id("f").run(failing)
    run = hf.get("f")
    assert run.error.type.endswith("CommandFailed")
    assert run.error.steps == ("sh#1",)
    assert run.ways() == [Way("resume", "f", {}, "tries sh#1 again")]


def test_gates_say_what_is_shown(home):
    """All open gates, or those of one run, with what each shows, its digest, and how to answer."""
    with Holdfast(home, durability="process") as hf:
        hf.with_id("g").start(gated)
        hf.with_id("w").start(waiting)
        while len(hf.gates()) < 2:
            pass
        [gate] = hf.gates("g")
        assert (gate.title, gate.shown, gate.is_open) == ("send it", {"to": "ann"}, True)
        assert gate.digest
        approve = gate.ways()[0]
        seen = {"gate": gate.key, "digest": gate.digest[:6]}
        assert approve == Way("approve", "g", seen, "approves what it shows")
        assert approve.shell() == f"holdfast approve g '{gate.place}'"
        hf.approve(approve.run, **approve.arguments)  # the same words for the facade
        [signal] = hf.gates("w")
        assert signal.ways()[0].shell() == "holdfast signal w go VALUE"


def test_json_of_a_run_is_json(hf):
    """Whatever a view gives as JSON can be written as such, and has the fields of the run first."""
    hf.with_id("r").run(report, ["kelp"])
    fields = hf.get("r").to_json()
    assert msgspec.json.decode(msgspec.json.encode(fields)) == fields
    assert list(fields)[:3] == ["id", "number", "workflow"]
    assert fields["result"] == ["KELP"]
    assert hf.step("r", "ask").to_json()["args"] == {"topic": "kelp"}


def test_a_reader_writes_nothing(home):
    """`read_only` has no owner, no engine until files are looked at, and refuses what writes."""
    with pytest.raises(NotFound):
        Holdfast(home, read_only=True)
    assert not home.exists()
    with Holdfast(home, durability="process") as hf:
        hf.with_id("r").run(report, ["kelp"])
    before = sorted(path.name for path in (home / "owners").iterdir())
    with Holdfast(home, read_only=True) as hf:
        assert hf.get("r").result == ["KELP"]
        assert hf._opened_engine is None
        writes = [
            lambda: hf.run(report, []), lambda: hf.resume("r"), lambda: hf.cancel("r"),
        ]  # fmt: skip
        for write in writes:
            with pytest.raises(BadInput, match="read_only"):
                write()
    assert sorted(path.name for path in (home / "owners").iterdir()) == before


@pytest.mark.parametrize(
    ("way", "line"),
    [
        (Way("resume", "a b", {"take_over": True}), "holdfast resume 'a b' --take-over"),
        (Way("settle", "r", {"step": "x#1", "done": "VALUE"}), "holdfast settle r 'x#1' --done VALUE"),
        (Way("settle", "r", {"step": "x#1", "fail": ""}), "holdfast settle r 'x#1' --fail"),
        (Way("rewind", "r", {"to": "before:x#1"}), "holdfast rewind r --to 'before:x#1'"),
        (Way("undo", arguments={"operation": "9f"}), "holdfast undo 9f"),
        (Way("backup list"), "holdfast backup list"),
    ],
)
def test_a_way_is_a_command_line(way, line):
    """Words first, then options; what a shell would read is quoted."""
    assert way.shell() == line


@pytest.mark.parametrize(
    "call",
    [
        lambda hf: hf.rewind("r", "start", only="*.py"),
        lambda hf: hf.rewind("r", "start", keep="notes.md"),
        lambda hf: hf.restore("abc", only="*.py"),
        lambda hf: hf.feed(types="RunCreated"),
        lambda hf: hf.start_command("make test"),
        lambda hf: hf.start_command([]),
        lambda hf: hf.start_command(["true"], output_limit=-1),
        lambda hf: hf.gc(quota=-1),
    ],
)
def test_wrong_values_are_refused_before_anything_happens(hf, call):
    """A text where a list is meant would count letter by letter; a negative size would mean everything."""
    hf.with_id("r").run(report, ["kelp"])
    with pytest.raises(BadInput):
        call(hf)
    assert [run.id for run in hf.runs()] == ["r"]
