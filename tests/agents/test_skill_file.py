"""Folders with a SKILL.md: what is read, and what is said of files with faults."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.agents.learning import skill_file
from holdfast.agents.protocol import Job
from holdfast.agents.skills import relevance

GOOD = "---\nname: tables\ndescription: Draw tables in reports.\n---\n\nUse Markdown.\n"


def put(root: Path, folder: str, text: str | bytes = GOOD) -> Path:
    directory = root / folder
    directory.mkdir(parents=True)
    path = directory / "SKILL.md"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_skills_are_found_in_the_directories_of_a_project(tmp_path: Path) -> None:
    """`.holdfast/skills`, `skills`, and those that a setting names, in the project or outside; by name."""
    for number, folder in enumerate((".holdfast/skills/b", "skills/a", "more/c", "../beside/d")):
        put(tmp_path / "p", folder, GOOD.replace("tables", f"s{number}"))
    outside = tmp_path / "beside"
    found = skill_file.find(tmp_path / "p", ["more", str(outside)])
    assert [(one.name, one.path) for one in found.skills] == [
        ("s0", ".holdfast/skills/b/SKILL.md"),
        ("s1", "skills/a/SKILL.md"),
        ("s2", "more/c/SKILL.md"),
        ("s3", str(outside / "d/SKILL.md")),
    ]
    assert found.faults == []
    assert skill_file.find(tmp_path / "none").skills == []


def test_a_skill_is_its_front_matter_and_its_text(tmp_path: Path) -> None:
    """Other keys are ignored; a byte order mark and Windows line ends do no harm; folded texts are one
    line."""
    text = (
        "\ufeff---\r\nname: tables\r\ndescription: >\r\n  Draw tables\r\n  in reports.\r\nkinds: [report]\r\n"
        "license: MIT\r\nmetadata: {author: ann}\r\n---\r\nUse Markdown.\r\n---\r\nMore.\r\n"
    )
    put(tmp_path, "skills/t", text)
    (skill,) = skill_file.find(tmp_path).skills
    assert (skill.description, skill.kinds) == ("Draw tables in reports.", ("report",))
    assert skill.text == "Use Markdown.\n---\nMore."
    assert skill.candidate == f"tables@{skill.digest[:8]}"


def test_an_edited_skill_is_another_candidate(tmp_path: Path) -> None:
    """What was learned about a text is not held against the next one."""
    path = put(tmp_path, "skills/t")
    before = skill_file.find(tmp_path).skills[0].candidate
    path.write_text(GOOD + "Better.\n")
    assert skill_file.find(tmp_path).skills[0].candidate != before


FAULTY = {
    "no front matter": ("Use Markdown.\n", 1, "does not begin with a line `---`"),
    "empty": ("", 1, "does not begin with a line `---`"),
    "no end": ("---\nname: x\n", 1, "no second line `---`"),
    "nothing in it": ("---\n---\ntext\n", 1, "missing"),
    "no name": ("---\ndescription: x\n---\n", 1, "`name` is missing"),
    "no description": ("---\nname: x\n---\n", 1, "`description` is missing"),
    "a list": ("---\n- name\n---\n", 2, "keys and values"),
    "a number": ("---\ndescription: x\nname: 3\n---\n", 3, "`name` must be a text"),
    "an empty text": ("---\nname: x\ndescription: ' '\n---\n", 3, "`description` must be a text"),
    "a bad name": ("---\nname: a b\ndescription: x\n---\n", 2, "'a b'"),
    "a long description": (f"---\nname: a\ndescription: {'x ' * 600}\n---\n", 3, "more than 1024"),
    "bad kinds": ("---\nname: a\ndescription: x\nkinds: {a: 1}\n---\n", 4, "`kinds` must be a list"),
    "twice": ("---\nname: a\ndescription: x\nname: b\n---\n", 4, "stands twice"),
    "no yaml": ("---\nname: a\ndescription: [x\n---\n", 3, "no YAML"),
    "an object": ("---\nname: !!python/object:os.system a\ndescription: x\n---\n", 2, "makes objects"),
    "a tab": ("---\nname: a\n\tdescription: x\n---\n", 3, "tab"),
    "not UTF-8": (b"---\nname: a\ndescription: \xff\n---\n", 3, "not UTF-8"),
    "too large": ("---\nname: a\ndescription: x\n---\n" + "x" * 300_000, 1, "larger than 256 KB"),
    "a bomb": (
        "---\na: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
        "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
        "e: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n---\n",
        2,
        "more than 10,000 values",
    ),
}


@pytest.mark.parametrize("case", FAULTY)
def test_a_fault_has_its_file_and_line_and_the_others_are_used(tmp_path: Path, case: str) -> None:
    """One sentence for each file; the skills beside it are there."""
    text, line, said = FAULTY[case]
    put(tmp_path, "skills/faulty", text)
    put(tmp_path, "skills/good")
    found = skill_file.find(tmp_path)
    assert [one.name for one in found.skills] == ["tables"]
    (fault,) = found.faults
    assert (fault.path, fault.line) == ("skills/faulty/SKILL.md", line)
    assert said in fault.text and str(fault).startswith(f"skills/faulty/SKILL.md:{line}: ")


def test_what_is_no_file_is_a_fault(tmp_path: Path) -> None:
    """A pipe is not waited for; a directory, a link to nothing and a name that is taken are said."""
    for name in ("directory", "link", "pipe"):
        (tmp_path / "skills" / name).mkdir(parents=True)
    (tmp_path / "skills/directory/SKILL.md").mkdir()
    (tmp_path / "skills/link/SKILL.md").symlink_to("nowhere")
    os.mkfifo(tmp_path / "skills/pipe/SKILL.md")
    (tmp_path / "skills/none").mkdir()
    (tmp_path / "skills/README.md").write_text("no folder")
    put(tmp_path, ".holdfast/skills/a")
    put(tmp_path, "skills/z")
    found = skill_file.find(tmp_path, ["missing"])
    first = ".holdfast/skills/a/SKILL.md"
    assert [one.path for one in found.skills] == [first]
    assert [(one.path, one.text.partition(":")[0]) for one in found.faults] == [
        ("skills/directory/SKILL.md", "it cannot be read"),
        ("skills/link/SKILL.md", "it cannot be read"),
        ("skills/pipe/SKILL.md", "it is not a regular file"),
        ("skills/z/SKILL.md", f"the name 'tables' is taken by {first}; give it another name"),
        ("missing", "there is no such directory of skills"),
    ]


def skill(name: str, description: str, *kinds: str) -> skill_file.SkillFile:
    return skill_file.SkillFile(name, description, "", "", "0" * 64, kinds)


def test_relevance_is_by_shared_words(tmp_path: Path) -> None:
    """Forms of a word are one; the goal and the prompt count; words that say nothing do not; a rare word
    counts more than one that many skills have; a skill for other kinds of work is left out."""
    known = [
        skill("tables", "Draw tables of the numbers in reports."),
        skill("charts", "Draw charts in reports."),
        skill("sql", "Write migrations for the database.", "migrate"),
    ]
    fits = relevance(Job(goal="A report with a table", prompt="Draw it"), known)
    assert fits["tables"] > fits["charts"] > 0
    assert "sql" not in relevance(Job(goal="migrate the database", prompt=""), known)
    assert set(relevance(Job(goal="migrate the database", prompt="", kind="migrate"), known)) == {"sql"}
    assert relevance(Job(goal="the of in and with", prompt="write it"), known) == {}
    assert relevance(Job(goal="", prompt=""), known) == {}
    assert set(relevance(Job(goal="prüfe die Größe", prompt=""), [skill("g", "Prüfe Größe")])) == {"g"}
