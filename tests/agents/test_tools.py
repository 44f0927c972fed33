"""Tools: what they return, what they say to a model, and that each call is a step of its run."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Holdfast, workflow
from holdfast.agents import tools
from holdfast.agents.tools import TOOLS, ToolFailed, file_tools, searching
from holdfast.agents.tools.confinement import Confinement

LINE = st.text(st.sampled_from("ab .é"), max_size=6)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree"


@pytest.fixture
def inside(root: Path) -> Iterator[Confinement]:
    with Confinement(root) as opened:
        yield opened


@pytest.fixture
def hf(home: Path, root: Path) -> Iterator[Holdfast]:
    with Holdfast(home, workspace=root, durability="process") as opened:
        yield opened


@workflow
def every_tool() -> list[str]:
    written = tools.write("src/app.py", "def total(a, b):\n    return a + b\n")
    found = tools.search(r"def \w+")
    tools.edit(found.paths[0], "a + b", "a - b")
    said = tools.read("src/app.py", first=2)
    ran = tools.run(["cat", "app.py"], cwd="src")
    listed = tools.list("src")
    return [str(one) for one in (written, found, said, listed)] + [ran.stdout]


@workflow
async def every_tool_async() -> list[str]:
    written = await tools.write.aio("src/app.py", "def total(a, b):\n    return a + b\n")
    found = await tools.search.aio(r"def \w+")
    await tools.edit.aio(found.paths[0], "a + b", "a - b")
    said = await tools.read.aio("src/app.py", first=2)
    ran = await tools.run.aio(["cat", "app.py"], cwd="src")
    listed = await tools.list.aio("src")
    return [str(one) for one in (written, found, said, listed)] + [ran.stdout]


@pytest.mark.parametrize("code", [every_tool, every_tool_async], ids=["def", "async"])
def test_each_call_is_a_recorded_step(hf: Holdfast, root: Path, code: Any) -> None:
    """In workflows of both colours; a replay returns what was recorded, whatever the files are now."""
    run = hf.start(code)
    assert run.result() == [
        "created src/app.py: 2 lines, 34 bytes",
        "src/app.py:1: def total(a, b):",
        "    return a - b\n",
        "src/app.py  34 bytes",
        "def total(a, b):\n    return a - b\n",
    ]
    effects = {step.name: step.effect for step in hf.steps(run.id)}
    assert effects == {
        "write": "workspace", "search": "idempotent", "edit": "workspace", "read": "idempotent",
        "cat": "workspace", "list": "idempotent",
    }  # fmt: skip
    (root / "src/app.py").write_text("gone")
    assert [one.verdict for one in hf.replay(run.id)] == ["matches"]


@workflow
def failing() -> str:
    try:
        tools.read("src/ap.py")
    except ToolFailed as refused:
        return str(refused)
    return ""


def test_a_failure_is_recorded_and_caught(hf: Holdfast, root: Path) -> None:
    """As the class that a workflow or an agent catches, with a sentence that helps it."""
    (root / "src").mkdir()
    (root / "src/app.py").write_text("")
    assert hf.run(failing) == "there is no 'src/ap.py' in the workspace; nearest: src/app.py"


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [(b"", "utf-8"), (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_BE, "utf-16-be"), (b"", "latin-1")],
    ids=["utf-8", "utf-8 with mark", "utf-16-be", "latin-1"],
)
@pytest.mark.parametrize("breaks", ["\n", "\r\n"])
def test_an_edit_keeps_encoding_and_line_breaks(root: Path, mark: bytes, encoding: str, breaks: str) -> None:
    """Of any text, also if the text to replace is given with other line breaks."""

    @settings(max_examples=15, deadline=None)
    @given(st.lists(LINE, max_size=5), st.lists(LINE, max_size=5))
    def holds(before: list[str], after: list[str]) -> None:
        lines = [*before, "é1", "é2", *after]
        path = root / "file"
        path.write_bytes(mark + breaks.join(lines).encode(encoding))
        with Confinement(root) as inside:
            read = file_tools.read(inside, "file", 1, 0, 1000, None)
            edited = file_tools.edit(inside, "file", "é1\né2", "é3\né4\né5", False)
        assert (read.text, read.encoding) == (breaks.join(lines), encoding)
        assert edited.lines == (len(before) + 1,)
        changed = [*before, "é3", "é4", "é5", *after]
        assert path.read_bytes() == mark + breaks.join(changed).encode(encoding)

    holds()


@settings(max_examples=60, deadline=None)
@given(st.lists(LINE, max_size=8), st.text(st.sampled_from("ab "), min_size=1, max_size=3), st.booleans())
def test_an_edit_replaces_what_stands_there_once(lines: list[str], old: str, everywhere: bool) -> None:
    """As `str.replace` does; several are named by their lines, and nothing changes."""
    text = "\n".join(lines)
    with TemporaryDirectory() as made, Confinement(Path(made)) as inside:
        path = Path(made, "file")
        path.write_text(text)
        many = text.count(old) > 1
        if old in text and (everywhere or not many):
            edited = file_tools.edit(inside, "file", old, "X\nY", everywhere)
            assert path.read_text() == text.replace(old, "X\nY")
            assert edited.replaced == text.count(old)
            new = path.read_text().split("\n")
            assert all("X" in new[number - 1] for number in edited.lines)
        else:
            with pytest.raises(ToolFailed, match="times, at lines" if many else "does not have the text"):
                file_tools.edit(inside, "file", old, "X\nY", everywhere)
            assert path.read_text() == text


@settings(max_examples=60, deadline=None)
@given(st.lists(LINE, max_size=8), st.integers(1, 9), st.integers(0, 9), st.integers(1, 30))
def test_what_is_left_out_is_where_reading_on_begins(
    lines: list[str], first: int, count: int, limit: int
) -> None:
    """What was returned, and what `left_out` says to read next, are together the whole file."""
    text = "".join(line + "\n" for line in lines)
    with TemporaryDirectory() as made, Confinement(Path(made)) as inside:
        Path(made, "file").write_text(text)
        if first > 1 and first > len(lines):
            with pytest.raises(ToolFailed, match=f"has {len(lines)} lines, and no line {first}"):
                file_tools.read(inside, "file", first, count, limit, None)
            return
        read = file_tools.read(inside, "file", first, count, limit, None)
        wanted = "".join(line + "\n" for line in lines[first - 1 :])
        assert wanted.startswith(read.text) and len(read.text) <= limit and read.lines == len(lines)
        following = re.search(r"first=(\d+)", read.left_out)
        assert bool(following) == (read.text != wanted)
        if following is not None:
            rest = "".join(line + "\n" for line in lines[int(following[1]) - 1 :])
            assert wanted.endswith(rest) and len(read.text) + len(rest) >= len(wanted)


@settings(max_examples=15, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["a.py", "b.txt", "d/c.py"]), st.lists(LINE, max_size=4)),
    st.sampled_from(["a", "a.b", "^b|é$", " +", "A"]),
    st.booleans(),
    st.booleans(),
)
def test_a_search_finds_what_re_finds(
    files: dict[str, list[str]], pattern: str, literal: bool, ignore_case: bool
) -> None:
    """Line by line, in the order of paths and lines, in the files that a pattern names."""
    with TemporaryDirectory() as made, Confinement(Path(made)) as inside:
        for name, lines in files.items():
            Path(made, name).parent.mkdir(exist_ok=True)
            Path(made, name).write_text("\n".join(lines))
        query = searching.Query(pattern, "", ("*.py",), literal, ignore_case, 0, 100, 60.0)
        found = searching.search(inside, query)
        expression = re.compile(
            re.escape(pattern) if literal else pattern, re.IGNORECASE if ignore_case else 0
        )
        expected = [
            (name, number, line)
            for name, lines in sorted(files.items())
            if name.endswith(".py")
            for number, line in enumerate("\n".join(lines).split("\n"), 1)
            if expression.search(line)
        ]
        assert [(one.path, one.line, one.text) for one in found.matches] == expected


def test_a_pattern_that_never_ends_is_stopped(inside: Confinement, root: Path) -> None:
    """With the sentence that says why, and no process left behind."""
    (root / "a.txt").write_text("a" * 60 + "\n")
    query = searching.Query("(a+)+!", "", (), False, False, 0, 100, 0.3)
    found = searching.search(inside, query)
    assert "stopped after 0.3 s near a.txt" in found.left_out
    with pytest.raises(ToolFailed, match="no regular expression"):
        searching.search(inside, query._replace(pattern="(a"))


def test_ignored_files_are_left_out(inside: Confinement, root: Path) -> None:
    """By listing and searching, as the ignore files of the directory and of those around it say."""
    for name in ("a.log", "sub/b.log", "sub/keep.log", "sub/deep/c.txt", "node_modules/x.js", ".git/HEAD"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("needle\n")
    (root / ".gitignore").write_text("*.log\n")
    (root / "sub/.ignore").write_text("!keep.log\ndeep/\n")
    listed = [entry.path for entry in file_tools.list_files(inside, "sub", (), 0, False, 10).entries]
    assert listed == ["sub/.ignore", "sub/keep.log"]
    query = searching.Query("needle", "", (), True, False, 0, 100, 60.0)
    assert searching.search(inside, query).paths == ("sub/keep.log",)
    every = file_tools.list_files(inside, "", (), 0, True, 3)
    assert [entry.path for entry in every.entries] == [".gitignore", "a.log", "node_modules"]
    assert every.left_out == "7 more entries; name a directory or a pattern"


def test_a_binary_file_is_named(inside: Confinement, root: Path) -> None:
    """By its kind and size, instead of characters that mean nothing."""
    (root / "logo").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    with pytest.raises(ToolFailed, match=r"'logo' is a binary file \(PNG image, 108 bytes\)"):
        file_tools.read(inside, "logo", 1, 0, 1000, None)


def test_the_registry_says_what_tools_take() -> None:
    """Every fault of arguments at once; values that are not known yet are not looked at."""
    assert list(TOOLS) == ["read", "write", "edit", "list", "search", "run"]
    edit = TOOLS["edit"]
    assert edit.faults({"path": "a", "old": "x", "new": "y"}) == []
    assert edit.faults({"pth": "a", "old": 1, "new": "${x}"}, unknown={"new"}) == [
        "edit takes no 'pth'; did you mean 'path'?",
        "edit needs 'path': a path relative to the workspace, such as 'src/app.py'",
        "edit: 'old': Expected `str`, got `int`",
    ]
    for tool in TOOLS.values():
        assert tool.schema["properties"].keys() == tool.takes.keys()
        assert tool.does and all(one.description for one in tool.takes.values())
        assert not tool.schema["additionalProperties"]
