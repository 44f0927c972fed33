"""The memory through the Python API: remembering, recalling, withdrawing, in runs and from outside."""

import asyncio
from datetime import timedelta

import pytest

from holdfast import Holdfast, checkpoint, step
from holdfast.errors import BadInput, NotFound, Refused
from holdfast.testing import FakeClock


def texts(found) -> list[str]:
    return [one.text for one in found]


def test_what_is_remembered_is_recalled(hf):
    """By words in any order and case, by kind and scope, the newest first."""
    first = hf.memory.remember("Kelp grows FAST", kind="fact", source="the reef", cites=["reef.md"])
    task = hf.tasks.create("report").id
    hf.memory.remember("use kelp for reports", kind="decision", scope=f"task:{task[:8]}")
    assert texts(hf.memory.recall("kelp")) == ["use kelp for reports", "Kelp grows FAST"]
    assert texts(hf.memory.recall("fast KELP")) == texts(hf.memory.recall(kind="fact")) == ["Kelp grows FAST"]
    assert texts(hf.memory.recall("reef")) == ["Kelp grows FAST"], "its source and what it cites count"
    assert texts(hf.memory.list(scope=f"task:{task}")) == ["use kelp for reports"]
    assert texts(hf.memory.recall(limit=1)) == ["use kelp for reports"]
    assert hf.memory.get(first.id[:8]) == first
    assert (first.status, first.source, first.cites, first.run_id) == (
        "current",
        "the reef",
        ("reef.md",),
        "",
    )


def test_what_is_gone_is_kept_and_shown_on_request(hf):
    """Superseded and withdrawn memories say by what and why; `undo` of a withdrawal restores the memory."""
    old = hf.memory.remember("tabs")
    new = hf.memory.remember("spaces", supersedes=old.id[:6])
    hf.memory.withdraw(new.id, "the team voted")
    assert texts(hf.memory.recall()) == ["tabs"], "what nothing supersedes any more counts again"
    every = {one.text: (one.status, one.reason) for one in hf.memory.recall(every=True)}
    assert every == {"tabs": ("current", ""), "spaces": ("withdrawn", "the team voted")}
    hf.undo()
    assert {one.text: one.superseded_by for one in hf.memory.list(every=True)} == {
        "tabs": new.id,
        "spaces": "",
    }


def test_bad_input_has_a_sentence(hf):
    """Unknown ids name the nearest, what is superseded its successor; nothing is written."""
    old = hf.memory.remember("a")
    new = hf.memory.remember("b", supersedes=old.id)
    typo = new.id[:7] + ("0" if new.id[7] != "0" else "1")
    with pytest.raises(NotFound, match=rf"did you mean .*{new.id[:8]}"):
        hf.memory.get(typo)
    with pytest.raises(Refused, match=f"superseded by {new.id}"):
        hf.memory.remember("c", supersedes=old.id)
    with pytest.raises(Refused, match=f"superseded by {new.id}"):
        hf.memory.withdraw(old.id)
    for call, why in (
        (lambda: hf.memory.remember(" "), "has a text"),
        (lambda: hf.memory.remember("x" * (10 << 20)), "characters"),
        (lambda: hf.memory.remember("x", kind="idea"), "no kind"),
        (lambda: hf.memory.recall(kind="idea"), "no kind"),
        (lambda: hf.memory.recall(scope="reef"), "no scope"),
        (lambda: hf.memory.recall(at="yesterday"), "no moment"),
        (lambda: hf.memory.remember("x", scope="task:none"), "no task 'none'"),
        (lambda: hf.memory.recall(scope="session:none"), "no session 'none'"),
        (lambda: hf.memory.remember("x", cites="reef.md"), "list of texts"),
    ):
        with pytest.raises((BadInput, NotFound), match=why):
            call()
    assert len(hf.memory.list(every=True)) == 2 and len(hf.operations()) == 2


def test_no_secret_is_recorded(hf):
    """Text, source, citations and reasons are redacted before they reach the log."""
    secret = "sk-ant-api03-" + "A1b2" * 20
    made = hf.memory.remember(f"key {secret}", source=secret, cites=[secret])
    hf.memory.withdraw(made.id, secret)
    assert "[redacted" in made.text
    assert all("A1b2A1b2" not in entry.payload for entry in hf._store.entries("@memory"))


def test_the_memory_of_a_moment(tmp_path, act):
    """`at` is a time, or a checkpoint of a run: what was remembered or withdrawn after it does not count."""
    clock = FakeClock()
    with Holdfast(tmp_path / "home", durability="process", clock=clock) as hf:

        def plot():
            hf.memory.remember("before")
            checkpoint("half")
            hf.memory.withdraw(hf.memory.recall("before")[0].id)
            hf.memory.remember("after")

        hf.with_id("r").run(act(plot))
        assert texts(hf.memory.recall()) == ["after"]
        assert texts(hf.memory.recall(at="r:half")) == ["before"]
        assert texts(hf.memory.recall(at="2001-01-01")) == []
        clock.advance(1)
        hf.memory.remember("later")
        assert texts(hf.memory.recall(at=clock.now() - timedelta(seconds=1))) == ["after"]


@pytest.mark.parametrize("colour", ["def", "async"])
def test_a_call_in_a_workflow_is_a_step(hf, act, colour):
    """A replay neither repeats it nor sees another answer; its author names run and step."""
    lives = []

    def fail_first(found):
        lives.append(found)
        if len(lives) == 1:
            raise OSError("cut off")
        return found

    def plot():
        made = hf.memory.remember("kelp", kind="decision")
        return fail_first([made.run_id, made.step, *texts(hf.memory.recall("kelp"))])

    async def aplot():
        made = await hf.aio.memory.remember("kelp", kind="decision")
        return fail_first([made.run_id, made.step, *texts(await hf.aio.memory.recall("kelp"))])

    async def live(go):
        return await go()

    flow = act(plot if colour == "def" else aplot)
    with pytest.raises(OSError):
        asyncio.run(live(lambda: hf.aio.with_id("r").run(flow)))
    hf.memory.remember("more kelp")
    assert len(hf.operations()) == 1, "only what is done from outside is an operation"

    async def again():
        return await (await hf.aio.resume("r"))

    assert asyncio.run(again()) == lives[0] == ["r", "memory.remember#1", "kelp"]
    assert [one.key for one in hf.steps("r")] == ["memory.remember#1", "memory.recall#1"]
    assert len(hf.memory.list(every=True)) == 2


def test_a_step_that_is_tried_again_remembers_once(hf, act):
    """In a step's body it is a plain call; the same text of a second attempt is the same memory."""
    tries = []

    @step
    def learn():
        made = hf.memory.remember("kelp")
        tries.append(made.id)
        if len(tries) == 1:
            raise OSError("cut off")
        return made.step

    with pytest.raises(OSError):
        hf.with_id("r").run(act(lambda: learn()))
    assert hf.resume("r").result() == "learn#1"
    assert len(tries) == 2 and len(set(tries)) == 1 == len(list(hf._store.entries("@memory")))
