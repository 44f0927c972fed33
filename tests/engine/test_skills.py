"""Skills in runs: chosen by words and by outcomes, recorded with their texts."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import holdfast
from holdfast import Holdfast, step
from holdfast.agents import skills
from holdfast.agents.protocol import Job
from holdfast.errors import BadInput
from holdfast.operations.replaying import replay
from holdfast.testing import FakeClock

GOAL = "Write a report with a table"


def put(name: str, description: str, text: str = "", root: Path | None = None) -> Path:
    directory = (root or Path.cwd()) / "skills" / name
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "SKILL.md"
    path.write_text(f"---\nname: {name}\ndescription: {description}\n---\n{text or f'How to {name}.'}\n")
    return path


@pytest.fixture
def hf(tmp_path, monkeypatch):
    """A Holdfast for a project with two skills that fit the goal and one that does not."""
    (tmp_path / "p").mkdir()
    monkeypatch.chdir(tmp_path / "p")
    Path("holdfast.toml").touch()
    put("tables", "Draw tables in reports.")
    put("charts", "Draw charts in reports.")
    put("sql", "Write migrations of databases.")
    with Holdfast(tmp_path / "store", durability="process", clock=FakeClock()) as opened:
        yield opened


@step
def ask(prompt: str) -> str:
    return prompt


def outcomes(hf, run_id="r"):
    found = [event.data for event in hf.events(run_id) if event.type == "OutcomeReported"]
    names = [[name.partition("@")[0] for name in one["chosen"]] for one in found]
    return [(chosen, one["ok"], one.get("error", "")) for chosen, one in zip(names, found, strict=True)]


def test_skills_that_fit_are_chosen_and_reported(hf, act):
    """The text is for the prompt; the end of the block is the outcome of all that were chosen."""

    def plot():
        with skills.use(GOAL, kind="report") as chosen:
            said = ask(chosen.text)
        with skills.use(GOAL, kind="report", limit=1) as one:
            one.report(False)
        with pytest.raises(ValueError), skills.use(Job(goal=GOAL, prompt=""), limit=1):
            raise ValueError("bad")
        with skills.use("nothing that anyone knows") as none:
            assert none.text == "" and none.skills == ()
        return said, [one.name for one in chosen.skills]

    said, names = hf.with_id("r").run(act(plot))
    assert sorted(names) == ["charts", "tables"]
    assert "# Skill: tables\n\nHow to tables." in said and "sql" not in said
    first, second, third = outcomes(hf)
    assert (sorted(first[0]), *first[1:]) == (["charts", "tables"], True, "")
    assert second[1:] == (False, "") and third[1:] == (False, "ValueError")


def test_a_replay_has_the_texts_of_then(hf, act):
    """Whatever became of the files: the prompt is the recorded one, and nothing is chosen or reported
    again."""
    go = []

    def plot():
        with skills.use(GOAL) as chosen:
            ask(chosen.text)
        if not go:
            raise RuntimeError("not yet")
        return chosen.text

    with pytest.raises(RuntimeError):
        hf.with_id("r").run(act(plot))
    put("tables", "Something else", "Other text")
    (Path("skills/charts/SKILL.md")).unlink()
    assert replay(hf._engine, "r").verdict == "matches"
    go.append(1)
    text = hf.resume("r").result()
    assert "How to tables." in text and "How to charts." in text
    assert len(outcomes(hf)) == 1


def test_async_workflows_use_skills_too(hf, act):
    """The same calls, without `await`."""

    async def plot():
        with skills.use(GOAL, limit=1) as chosen:
            await ask.aio(chosen.text)
        return len(chosen.skills)

    assert hf.with_id("r").run(act(plot)) == 1
    assert len(outcomes(hf)) == 1


@pytest.mark.parametrize("alone", [True, False])
def test_a_skill_that_fails_is_hardly_chosen(hf, act, alone):
    """After 20 failures it is in less than 5% of the next 200 choices, also if no other skill fits."""
    goal = "tables" if alone else GOAL

    def fail():
        for _ in range(20):
            chosen = skills.choose(goal, limit=5).skills
            skills.Chosen("work", [one for one in chosen if one.name == "tables"]).report(False)

    def choose():
        return [[one.name for one in skills.choose(goal).skills] for _ in range(200)]

    before = hf.with_id("before").run(act(choose))
    assert sum("tables" in names for names in before) > 180
    hf.with_id("fail").run(act(fail))
    sums = hf._store.outcome_sums("skills")
    assert sum(one.bad for one in sums) == 20
    after = hf.with_id("after").run(act(choose))
    assert sum("tables" in names for names in after) < 10
    if not alone:
        assert sum("charts" in names for names in after) > 180


def test_the_best_is_first(hf, act):
    """Of skills with the same outcomes the one that fits better; of those that fit alike the one whose work
    succeeded more often."""
    put("all", "Draw pretty tables, legends, footnotes and borders.")
    put("any", "Draw pretty tables.")
    goal = "tables with legends, footnotes, borders, pretty"

    def choose():
        return {tuple(one.name for one in skills.choose(goal, limit=1).skills) for _ in range(50)}

    assert hf.with_id("fits").run(act(choose)) == {("all",)}

    def learn():
        for n in range(60):
            for one in skills.choose(GOAL).skills:
                skills.Chosen("work", [one]).report(one.name == "tables" or n % 3 != 0)

    def succeeds():
        return {skills.choose("charts, tables", limit=1).skills[0].name for _ in range(50)}

    hf.with_id("learn").run(act(learn))
    put("all", "Bind books.")
    put("any", "Bind books.")
    assert hf.with_id("succeeds").run(act(succeeds)) == {"tables"}


def test_an_edited_skill_begins_anew(hf, act):
    """Failures belong to the text that failed."""

    def fail():
        for _ in range(20):
            skills.choose("tables").report(False)

    def choose():
        return [len(skills.choose("tables").skills) for _ in range(50)]

    hf.with_id("fail").run(act(fail))
    assert sum(hf.with_id("a").run(act(choose))) < 5
    put("tables", "Draw tables in reports.", "A better text.")
    assert sum(hf.with_id("b").run(act(choose))) > 45


def test_a_file_with_a_fault_is_left_out_with_one_warning(hf, act, caplog):
    """With its file and line; the other skills are chosen."""
    Path("skills/bad").mkdir()
    Path("skills/bad/SKILL.md").write_text("---\nname: bad\ndescription: [reports\n---\n")

    def plot():
        skills.choose(GOAL)
        return [one.name for one in skills.choose(GOAL).skills]

    with caplog.at_level(logging.WARNING, "holdfast"):
        assert sorted(hf.with_id("r").run(act(plot))) == ["charts", "tables"]
    (warning,) = caplog.records
    assert warning.getMessage().startswith("a skill is left out: skills/bad/SKILL.md:3: this is no YAML")


def test_the_text_of_a_choice_is_bounded(hf, act):
    """Long texts are cut, with a note; short ones beside them are whole."""
    put("tables", "Draw tables in reports.", "x" * 100_000)

    def plot():
        return skills.choose(GOAL).text

    text = hf.with_id("r").run(act(plot))
    assert 20_000 < len(text) < 26_000
    assert "How to charts." in text and "characters are left out]" in text


def test_mistakes_are_refused(hf, act):
    """Wrong values, a report twice, and calls outside the code of a workflow."""

    def plot():
        for job, options in ((3, {}), (GOAL, {"limit": 0}), (GOAL, {"limit": 21}), (GOAL, {"limit": "x"})):
            with pytest.raises(BadInput):
                skills.choose(job, **options)
        with pytest.raises(BadInput, match="own kind"):
            skills.choose(Job(goal=GOAL, prompt="", kind="plan"), kind="review")
        chosen = skills.choose(GOAL)
        chosen.report(True)
        with pytest.raises(BadInput, match="already"):
            chosen.report(True)

    hf.with_id("r").run(act(plot))
    with pytest.raises(BadInput):
        skills.choose(GOAL)


def test_killed_at_every_append(tmp_path, act, crashes, monkeypatch):
    """The resumed run has the recorded skills, and reports each outcome once."""
    monkeypatch.chdir(tmp_path)
    Path("holdfast.toml").touch()
    put("tables", "Draw tables in reports.")

    def plot():
        texts = []
        for _ in range(3):
            with skills.use(GOAL) as chosen:
                texts.append(ask(chosen.text))
        return texts

    appends, died = 0, True
    while died:
        home = tmp_path / f"home{appends}"
        Holdfast(home, durability="process").close()
        hf = Holdfast(home, durability="process")
        crashes.arm(hf, appends)
        died = False
        try:
            hf.with_id("r").run(act(plot))
        except holdfast.StoreError:
            died = True
        crashes.bury(hf)
        with Holdfast(home, durability="process") as hf:
            assert len(hf.with_id("r").run(act(plot))) == 3
            assert len(outcomes(hf)) <= 3
            values = [one for one in hf.events("r") if one.type == "ValueRecorded"]
            chosen = [one for one in values if one.data["value"]]
            assert len(values) == 3 and len(outcomes(hf)) == len(chosen)
            assert list(hf._store.verify()) == []
        appends += 1
    assert appends > 3
