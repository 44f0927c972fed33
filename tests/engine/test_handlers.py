"""Handlers of one's own: given by the program, named by a setting, offered by a package."""

from __future__ import annotations

import importlib.metadata
import shutil
from pathlib import Path

import pytest
from tests.agents.routing_example import Always, LastFirst, NoRank

from holdfast import Amounts, Holdfast, command, milestone, step
from holdfast.agents import handlers, router, skills
from holdfast.agents.evidence import EvidenceWriter
from holdfast.agents.governor import Governor
from holdfast.errors import BadInput, NotTrusted, RunPaused, SettingsError
from holdfast.settings import HANDLERS

EXAMPLE = Path(__file__).parent.parent / "agents/routing_example.py"
NAMES = ["a", "b", "c"]


@step(reserve=Amounts(usd="0.01"))
def pay(model: str) -> str:
    return model


def plot():
    with router.route("draft", NAMES) as choice:
        pay(choice.candidate)
    return [choice.candidate, "".join(one.text for one in skills.choose("a report").skills)]


def test_every_handler_of_ours_can_be_made(hf):
    """Ours fulfil what others must, and the names are those of the setting."""
    assert tuple(handlers.OURS) == HANDLERS
    for name in handlers.PROTOCOLS:
        assert hf._engine.handler(name) is hf._engine.handler(name)


def test_the_programs_own_come_first(open_hf, act):
    """They are made once for each Holdfast, with its engine, and what they return is recorded."""
    made = []

    class Seen(LastFirst):
        def __init__(self, engine, settings):
            super().__init__(engine, settings)
            made.append(engine)

    hf = open_hf(handlers={"router": Seen, "skills": Always})
    assert hf.with_id("r").run(act(plot)) == ["c", "For a report: be brief."]
    assert hf.with_id("s").run(act(plot)) == ["c", "For a report: be brief."]
    assert made == [hf._engine]
    again = open_hf()
    assert again.with_id("r").run(act(plot)) == ["c", "For a report: be brief."], "the choice is recorded"


def test_a_governor_of_ones_own(open_hf, act):
    """It refuses, and the run is paused with its sentence; it allows, and the run continues."""
    allowed = []

    class Frugal(Governor):
        def reserve(self, call, amounts, paying):
            if not allowed:
                raise RunPaused(call.execution.id, f"not today: {amounts.usd} USD")
            return super().reserve(call, amounts, paying)

    hf = open_hf(handlers={"governor": Frugal})
    with pytest.raises(RunPaused, match=r"not today: 0[.]01 USD"):
        hf.with_id("r").run(act(plot))
    allowed.append(1)
    assert hf.resume("r").result()[0] in NAMES


def test_an_evidence_writer_of_ones_own(open_hf, act, tmp_path):
    """Its document is the evidence of the milestone."""

    class OneLine(EvidenceWriter):
        def render(self, record):
            return f"{record.reached.name}: {len(record.commands)} command"

    def proves():
        command(["true"], effect="idempotent")
        milestone("done")

    hf = open_hf(handlers={"evidence": OneLine})
    hf.with_id("r").run(act(proves))
    assert hf.evidence.get("r").document == "done: 1 command"


@pytest.mark.parametrize(
    "bad", [{name: NoRank} for name in ("router", "skills", "governor", "evidence", "agents")]
)
def test_a_handler_without_its_methods_is_refused(open_hf, act, bad):
    """By name, with the method that is missing, when it is first needed."""
    (name,) = bad
    hf = open_hf(handlers=bad)
    with pytest.raises(BadInput, match=rf"NoRank cannot be the handler '{name}': it has no method \w+\(\)"):
        hf._engine.handler(name)


def test_an_unknown_handler_is_refused(open_hf):
    """The names that there are are in the message."""
    with pytest.raises(BadInput, match="there are governor, router, skills, evidence, agents"):
        open_hf(handlers={"rooter": LastFirst})


@pytest.mark.parametrize("order", [[], ["a", "x"]])
def test_a_router_that_returns_no_order_is_refused(open_hf, act, order):
    """Its class and what it returned are in the message."""

    class Wrong(LastFirst):
        def rank(self, kind, candidates):
            return order

    hf = open_hf(handlers={"router": Wrong})
    with pytest.raises(BadInput, match=r"Wrong.rank\(\) returned"):
        hf.with_id("r").run(act(plot))


def test_a_package_offers_one(open_hf, act, monkeypatch):
    """An entry point in the group `holdfast.handlers`; one that the program gives comes before it."""
    place = "tests.agents.routing_example:LastFirst"
    point = importlib.metadata.EntryPoint("router", place, "holdfast.handlers")

    def entry_points(*, group, name):
        return [point] if (group, name) == ("holdfast.handlers", "router") else []

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    assert type(open_hf()._engine.handler("router")) is LastFirst

    class Own(LastFirst):
        pass

    assert type(open_hf(handlers={"router": Own})._engine.handler("router")) is Own


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a module of handlers in it."""
    root = tmp_path / "project"
    root.mkdir()
    shutil.copy(EXAMPLE, root / "routing.py")
    monkeypatch.chdir(root)
    monkeypatch.setenv("HOLDFAST_DURABILITY", "process")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))  # what it trusts is of this test alone
    return root


SETTING = 'handlers = {{router = "{}"}}\n'


@pytest.mark.parametrize("place", ["routing.py:LastFirst", "routing:LastFirst"])
def test_a_setting_names_one_once_it_is_trusted(project, act, place):
    """A file of the project that names code needs trust; then it counts, as a file or as a module."""
    (project / "holdfast.toml").write_text(SETTING.format(place))
    with pytest.raises(NotTrusted, match=r"holdfast.toml:1 sets handlers to \{'router'"):
        Holdfast()
    granted = Holdfast.trust(project)
    assert [one.key for one in granted.settings] == ["handlers"]
    with Holdfast() as hf:
        assert hf.with_id("r").run(act(plot))[0] == "c"
        assert type(hf._engine.handler("router")).__name__ == "LastFirst"


def test_a_setting_comes_before_a_package(project, monkeypatch):
    """Which packages are installed does not change what the user has named."""
    point = importlib.metadata.EntryPoint(
        "router", "tests.agents.routing_example:Nobody", "holdfast.handlers"
    )
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda *, group, name: [point])
    monkeypatch.setenv("HOLDFAST_HANDLERS", "router=routing.py:LastFirst")
    with Holdfast() as hf:
        assert type(hf._engine.handler("router")).__name__ == "LastFirst"


def test_a_variable_names_one(project, act, monkeypatch):
    """The environment is the user's own word; several are between commas; the program's own come first."""
    monkeypatch.setenv("HOLDFAST_HANDLERS", "router=routing.py:LastFirst, skills=routing.py:Always")
    with Holdfast() as hf:
        assert hf.with_id("r").run(act(plot)) == ["c", "For a report: be brief."]

    class First(LastFirst):
        def rank(self, kind, candidates):
            return list(candidates)

    with Holdfast(handlers={"router": First}) as hf:
        assert hf.with_id("s").run(act(plot))[0] == "a"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("rooter=a:B", "'rooter' is no handler"),
        ("router=nowhere", "write `module:Class`"),
        ("router", "write name=value"),
    ],
)
def test_a_wrong_setting_is_refused(project, monkeypatch, value, said):
    """Before anything is opened."""
    monkeypatch.setenv("HOLDFAST_HANDLERS", value)
    with pytest.raises(SettingsError, match=said):
        Holdfast()


@pytest.mark.parametrize("place", ["missing.py:X", "no_such_module:X", "routing.py:Missing", "broken.py:X"])
def test_code_that_cannot_be_loaded_is_named(project, monkeypatch, place):
    """When it is first needed: looking at the store does not load it."""
    (project / "broken.py").write_text("raise OSError('broken')")
    monkeypatch.setenv("HOLDFAST_HANDLERS", f"router={place}")
    with Holdfast() as hf:
        hf.runs()
        with pytest.raises(SettingsError, match=f"names '{place}' as the router, which cannot be loaded"):
            hf._engine.handler("router")
