"""The analyzer of tasks: the right file, the same answer each time, and a plan that can be used as it is."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plans.labelled_tasks import HELD_OUT, TASKS, hits

from holdfast import Holdfast
from holdfast.errors import BadInput
from holdfast.plans import reading, word_index
from holdfast.plans.analyzer import analyze
from holdfast.plans.definitions import definitions, imports
from holdfast.plans.draft import draft, name_of
from holdfast.plans.test_command import test_command as command_of


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small project."""
    files = {
        "src/app/auth.py": "import os\nfrom app import session\n\ndef check_password(user):\n    return os\n",
        "src/app/session.py": "class SessionStore:\n    token = 1\n",
        "src/app/render.py": "def render_page(): ...\n",
        "tests/test_auth.py": "def test_check_password(): ...\n",
        "docs/login.md": "login password session token\n" * 20,
        "ignored/auth.py": "def check_password(): ...\n",
        ".gitignore": "ignored/\n",
        "Makefile": "test:\n\tpytest\n",
    }
    for name, text in files.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "project"


@pytest.mark.parametrize(("tasks", "least"), [(TASKS, 16), (HELD_OUT, 7)], ids=["tuned", "held-out"])
def test_the_right_file_is_among_the_first_five(
    tmp_path: Path, tasks: list[tuple[str, str, str]], least: int
) -> None:
    """Of installed packages, for tasks as people write them."""
    assert hits(tasks, tmp_path) >= least


def test_a_task_is_taken_apart(root: Path) -> None:
    """Keywords without filler, names of code, files checked against the tree, patterns, the test command."""
    found = analyze(
        root, "Fix `check_password` in auht.py: the session tokens of users expire, see docs/login.md"
    )
    assert found.keywords == ("check", "password", "session", "tokens", "expire")
    assert found.names == ("check_password",)
    assert [(one.text, one.path, one.exact) for one in found.named] == [
        ("auht.py", "src/app/auth.py", False),
        ("docs/login.md", "docs/login.md", True),
    ]
    assert found.patterns[0] == r"\bcheck_password\b"
    assert found.test == ("make", "test")
    assert [one.path for one in found.files][:2] == ["docs/login.md", "src/app/auth.py"]
    auth = found.files[1]
    assert [(one.name, one.line) for one in auth.definitions] == [("check_password", 4)]
    assert auth.imports == ("os", "app")
    assert not any("ignored" in one.path for one in found.files)


def test_tests_and_documents_come_behind_unless_the_task_is_about_them(root: Path) -> None:
    """What a task seldom is about must be asked for."""
    assert analyze(root, "check the password").files[0].path == "src/app/auth.py"
    assert analyze(root, "a test for check password").files[0].path == "tests/test_auth.py"
    assert analyze(root, "login in the documentation").files[0].path == "docs/login.md"


EDITS = st.lists(
    st.tuples(
        st.sampled_from(["a.py", "b.py", "d/c.py"]), st.sampled_from(["", "def login(): ...\n", "session\n"])
    ),
    max_size=4,
)


@settings(max_examples=25, deadline=None)
@given(st.lists(EDITS, min_size=1, max_size=3))
def test_a_kept_index_gives_the_same_analysis(rounds: list[list[tuple[str, str]]]) -> None:
    """As one without anything kept, whatever was written, emptied or removed in between."""
    with TemporaryDirectory() as made:
        tree, cache = Path(made, "tree"), Path(made, "cache")
        tree.mkdir()
        for n, edits in enumerate(rounds):
            for name, text in edits:
                path = tree / name
                path.parent.mkdir(exist_ok=True)
                if text:
                    path.write_text(text)
                    os.utime(path, ns=(n, n * 10**9 + len(text)))  # long ago: the index may trust it
                else:
                    path.unlink(missing_ok=True)
            task = "Fix the login session"
            assert analyze(tree, task, cache=cache) == analyze(tree, task)


def test_only_what_changed_is_read_again(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of files that were not written just now."""
    for path in root.rglob("*.*"):
        os.utime(path, ns=(0, 0))
    word_index.look(root, tmp_path / "cache")
    read: list[bytes] = []
    real = word_index._words_of
    monkeypatch.setattr(word_index, "_words_of", lambda *args: (read.append(args[1]), real(*args))[1])
    os.utime(root / "src/app/auth.py", ns=(1, 1))
    word_index.look(root, tmp_path / "cache")
    assert [one for one in read if one != b"Makefile"] == [b"src/app/auth.py"]


SOURCES = {
    "async def ask(self): ...\nclass Ask:\n    LIMIT = 3\nTOTAL: int = 1\n": ["ask", "Ask", "TOTAL"],
    "export async function load() {}\nexport const limit = 3\ninterface Shape {}\n": [
        "load",
        "limit",
        "Shape",
    ],
    "func (s *Store) Load() {}\ntype Store struct {}\n": ["Load", "Store"],
    "pub(crate) fn load() {}\npub struct Store;\nimpl Store {}\n": ["load", "Store", "Store"],
}


@pytest.mark.parametrize(("source", "names"), SOURCES.items())
def test_definitions_of_several_languages_are_found(source: str, names: list[str]) -> None:
    """With their lines."""
    found = definitions(source)
    assert [one.name for one in found] == names
    lines = source.split("\n")
    assert all(one.name in lines[one.line - 1] for one in found)


def test_imports_of_several_languages_are_found() -> None:
    """As the file names them, each once."""
    lines = (
        "from .a import b",
        "import os.path",
        'import x from "./y"',
        '#include "z.h"',
        'q = require("r")',
    )
    source = "\n".join([*lines, "import os.path"])
    assert imports(source) == [".a", "os.path", "x", "z.h", "r"]


@settings(max_examples=40, deadline=None)
@given(
    st.text(max_size=80)
    | st.sampled_from(["Add login", "Fix ${x} in `a.b`", "# - : {", "read_a: \x1b[1m\n- x"])
)
def test_a_new_plan_is_sound(text: str) -> None:
    """Whatever the task says: `plan check` finds no fault, and the plan has the task in it."""
    with TemporaryDirectory() as made:
        Path(made, "login.py").write_text("def login(): ...\n")
        Path(made, "Makefile").write_text("test:\n")
        plan = draft(analyze(Path(made), text), "x.yaml")
    assert [one for one in reading.check(plan) if not one.remark] == []
    assert reading.read(plan).name == name_of(" ".join(text.split())) or not text.isprintable()


def test_a_new_plan_runs_until_a_person_decides(
    home: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks at the files, and waits for the work to be done."""
    from holdfast.plans.interpreter import run_plan

    monkeypatch.chdir(root)
    with Holdfast(home, workspace=root, durability="process") as hf:
        plan = reading.read(draft(hf.analyze("Fix check_password"), "x.yaml"))
        run = hf.start(run_plan, plan, {})
        list(hf.follow(run.id, 0))
        names = [one.name for one in hf.steps(run.id)]
        assert names.count("read") >= 2 and "search" in names
        assert [gate.title for gate in hf.gates(run.id)] == ["Done? Fix check_password"]
        with pytest.raises(BadInput, match="the task is empty"):
            hf.analyze("  ")


def test_the_command_that_tests_a_project_is_recognised(tmp_path: Path) -> None:
    """By the files that projects have; a Makefile's target comes first."""
    assert command_of(tmp_path) == ()
    (tmp_path / "go.mod").write_text("module x\n")
    assert command_of(tmp_path) == ("go", "test", "./...")
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    assert command_of(tmp_path)[-2:] == ("pytest", "-q")
    (tmp_path / "package.json").write_text('{"scripts": {"test": "jest"}}')
    assert command_of(tmp_path) == ("npm", "test")
    (tmp_path / "Makefile").write_text("test: build\n\techo\n")
    assert command_of(tmp_path) == ("make", "test")
