"""Arguments with fields that are not set: runs of this holdfast and of an older one match their replay."""

import dataclasses

import pytest

from holdfast import RunWaiting, StoreError, approval, step
from holdfast.kernel import classes


@dataclasses.dataclass(init=False)
class Usage:
    tokens: int = 0
    cached: int = 0

    def __init__(self, tokens):
        self.tokens = tokens


@dataclasses.dataclass(slots=True)
class Note:
    text: str
    tags: list[str] = dataclasses.field(default_factory=list)


@step
def ask():
    note = Note("kelp")
    del note.tags
    return [Usage(51), note]


@step
def count(found, unit="token"):
    return found[0].tokens


def test_unset_fields_are_unset_in_the_replay(twice):
    """Live and replayed, the code gets the same value, and passes the same argument on."""

    def plot():
        found = ask()
        return vars(found[0]), hasattr(found[1], "tags"), count(found)

    live, replayed = twice(plot)
    assert live == replayed == ({"tokens": 51}, False, 51)


@pytest.fixture
def older(monkeypatch):
    """This holdfast decodes as an older one: it sets every field that has a default."""
    with monkeypatch.context() as patch:
        patch.setattr(classes, "_has_class_default", lambda cls, field: False)
        patch.setattr(classes, "unset_fields", lambda cls, parts: [])
        yield patch


def test_a_step_that_an_older_holdfast_recorded_in_a_resumed_run_matches(open_hf, crashes, act, older):
    """It digested the argument with all fields set."""

    def plot():
        return [count(ask()), count([Usage(1)], "word")]

    for appends in (2, 2):  # the run with `ask`; in the next life, the claim and `count`
        hf = open_hf()
        crashes.arm(hf, appends)
        with pytest.raises(StoreError):
            hf.with_id("x").run(act(plot))
        crashes.bury(hf)
    older.undo()
    hf = open_hf()
    assert [step.key for step in hf.steps("x")] == ["ask#1", "count#1"]
    assert hf.resume("x").result(30) == [51, 1]


def test_a_gate_that_an_older_holdfast_opened_in_a_resumed_run_matches(open_hf, crashes, act, older):
    """The digest of what it shows was made with all fields set."""

    def plot():
        return approval("publish?", show=ask()).outcome

    hf = open_hf()
    crashes.arm(hf, 2)
    with pytest.raises(StoreError):
        hf.with_id("x").run(act(plot))
    crashes.bury(hf)
    hf = open_hf()
    with pytest.raises(RunWaiting):
        hf.with_id("x").start(act(plot)).result(0.5)
    hf.close()
    older.undo()
    hf = open_hf()
    assert hf.get("x").status == "waiting"
    hf.approve("x")
    assert hf.resume("x").result(30) == "approved"
