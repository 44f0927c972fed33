"""A session, from its first task to its end, as the files of the project show it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.mirror.schema import misfits

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schemas/current.schema.json").read_text())

KILLED = """
import os, signal
with Holdfast() as hf:
    (id,) = [task.id for task in hf.tasks.list("in_progress")]
    hf.tasks.note(id, "Use async pattern", "decision")
    hf.tasks.note(id, "src/main.rs", "file")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def project(cli: Any) -> Any:
    """A project whose store is its own, so that it has a mirror."""
    del cli.env["HOLDFAST_HOME"]
    (cli.directory / "Cargo.toml").touch()
    return cli


def test_a_session_end_to_end(project: Any) -> None:
    """Create, start, decide, be killed, resume in a new process, change the scope, complete: current.json has
    every field, fits its schema, and is what the session is."""
    current = project.directory / ".holdfast/tasks/current.json"

    def read() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(current.read_text())
        assert misfits(found, SCHEMA, SCHEMA) == []
        return found

    session = project("session", "start").out.strip()
    first = project("task", "create", "Setup project", "--json").json()["id"]
    second = project("task", "create", "Implement feature X", "--needs", first, "--json").json()["id"]
    assert read()["session_id"] == session and read()["current_task"] is None
    project("task", "start", first)
    project("task", "complete", first, "--summary", "it builds")
    project("task", "start", second)
    assert read()["current_task"]["context"]["decisions"] == []
    killed = subprocess.run([project.python, project.script(KILLED)], env=project.env, cwd=project.directory)
    assert killed.returncode == -signal.SIGKILL
    project("task", "resume")
    project("task", "note", second, "feature Y, too", "--kind", "scope")
    project("task", "edit", second, "--name", "Implement features X and Y")
    project("remember", "one store per project", "--kind", "decision")
    found = read()
    task, (done,) = found["current_task"], found["completed_tasks"]
    assert (found["session_id"], found["started_at"][:2]) == (session, "20")
    assert (task["id"], task["status"]) == (second, "in_progress")
    assert task["name"] == "Implement features X and Y" and task["started_at"] > done["completed_at"]
    assert task["context"] == {
        "files_modified": ["src/main.rs"],
        "decisions": ["Use async pattern"],
        "scope_changes": ["feature Y, too"],
    }
    assert (done["id"], done["name"], done["summary"]) == (first, "Setup project", "it builds")
    assert done["duration_seconds"] > 0
    assert found["memory"] == {
        "project_type": "rust",
        "key_decisions": ["one store per project"],
        "learned_patterns": [],
    }
    project("task", "complete", second)
    project("session", "end", session)
    assert [one["id"] for one in read()["completed_tasks"]] == [first, second] and read()["ended_at"]
    project("run", "--id", "tide", "true")
    shutil.rmtree(project.directory / ".holdfast")
    project("task", "create", "Another one")
    assert project("mirror", "status", "--json").json()["is_current"]
    assert json.loads((project.directory / ".holdfast/runs/tide.json").read_text())["status"] == "completed"
    assert len(read()["completed_tasks"]) == 2


def test_an_edited_file_is_reported_and_imported(project: Any) -> None:
    """The command that finds the edit names the file that keeps it; that file can be imported."""
    id = project("task", "create", "Setup project").out.split()[0]
    project("task", "start", id)
    current = project.directory / ".holdfast/tasks/current.json"
    current.write_text(current.read_text().replace("Setup project", "Set it up"))
    status = project("mirror", "status").out
    assert "edited by hand" in status and f"holdfast mirror import {current}" in status
    said = project("task", "note", id, "on the way").err
    (kept,) = current.parent.glob("current.json.edited-*")
    assert said.count("was edited by hand") == 1 and kept.name in said
    status = project("mirror", "status").out
    assert kept.name in status and "holdfast mirror import" in status
    assert "Set it up" in project("mirror", "import", kept).out
    assert project("task", "show", id, "--json").json()["name"] == "Setup project"
    assert project("mirror", "import", kept, "--apply").out.startswith(
        f"recorded: edit {id} name 'Set it up'"
    )
    assert "mirror import" not in project("mirror", "status").out
    assert project("task", "show", id, "--json").json()["name"] == "Set it up"
    assert json.loads(current.read_text())["current_task"]["name"] == "Set it up"
    assert "it says nothing" not in project("mirror", "import", kept).out
    assert project("mirror", "import", "nothing.json", code=3).err.startswith("holdfast: there is no file")


def test_only_a_file_that_can_be_imported_is_advised(project: Any) -> None:
    """The file of a run cannot be imported, edited in place or kept aside: no command is named for it."""
    project("run", "--id", "tide", "true")
    run = project.directory / ".holdfast/runs/tide.json"
    for _ in range(2):
        run.write_text(run.read_text().replace("completed", "failed"))
        status = project("mirror", "status").out
        assert "runs/tide.json" in status and "mirror import" not in status
        project("mirror", "rebuild")
    assert list(run.parent.glob("tide.json.edited-*"))


GATED = """
@workflow
def ship(): return approval("ship it").outcome
"""
CHECKLIST = "# Kelp\n\n- [ ] Weigh it: `true`\n- [ ] Ship it?\n"


@pytest.mark.parametrize(
    "words",
    [
        [["approve", "k1"], ["resume", "k1"]],
        [["approve", "k1", "--resume"]],
        [["approve", "k1"], ["resume", "--all"]],
    ],
    ids=["resume", "approve --resume", "resume --all"],
)
@pytest.mark.parametrize(
    "begin",
    [["run", "--id", "k1", "flow.py:ship"], ["plan", "run", "--id", "k1", "kelp.md"]],
    ids=["run", "plan"],
)
def test_whichever_command_ends_a_run_writes_its_files(
    project: Any, begin: list[str], words: list[list[str]]
) -> None:
    """Also a command that executes the run on a store that it has opened by its directory: the run's file is
    written, the checklist is ticked, and the mirror is current."""
    project.script(GATED)
    (project.directory / "kelp.md").write_text(CHECKLIST)
    project(*begin, code=5)
    for line in words:
        project(*line)
    runs = project.directory / ".holdfast/runs"
    assert json.loads((runs / "k1.json").read_text())["status"] == "completed"
    if begin[0] == "plan":
        assert (runs / "k1.md").read_text().count("- [x]") == 2
    assert project("mirror", "status", "--json").json()["is_current"]


def test_a_run_of_another_directory_is_in_the_mirror_of_its_store(project: Any) -> None:
    """A run is resumed where it was started, which may be another project by now: its file is still written
    to the mirror of the store that has it, and nothing to the other project."""
    inner = project.directory / "inner"
    inner.mkdir()
    (inner / "flow.py").write_text(f"from holdfast import *\n{GATED}")
    project.directory, outer = inner, project.directory
    (outer / ".git").mkdir()
    project("run", "--id", "k1", "flow.py:ship", code=5)
    (inner / ".git").mkdir()
    project.directory = outer
    project("approve", "k1", "--resume")
    assert json.loads((outer / ".holdfast/runs/k1.json").read_text())["status"] == "completed"
    assert not (inner / ".holdfast").exists()


@pytest.mark.parametrize("mirror", ["true", "false"])
@pytest.mark.parametrize(
    "words",
    [
        "task note 1 x",
        "task edit 1 --name wrack",
        "undo",
        "mirror rebuild",
        "approve k1 --resume",
        "gc",
    ],
)
def test_each_command_that_writes_brings_the_pointer_back(project: Any, words: str, mirror: str) -> None:
    """After `git clean -fdx` git sees nothing of `.holdfast`, and a project that is moved finds its store."""
    project.script(GATED)
    project("task", "create", "Weigh kelp")
    project("run", "--id", "k1", "flow.py:ship", code=5)
    shutil.rmtree(project.directory / ".holdfast")
    project(*words.split(), code=None, HOLDFAST_MIRROR=mirror)
    assert (project.directory / ".holdfast/.gitignore").read_text() == "*\n"
    moved = project.directory.with_name("moved")
    project.directory.rename(moved)
    project.directory = moved
    assert [run["id"] for run in project("list", "--json").json()] == ["k1"]


def test_a_clone_begins_with_the_mirror_of_its_repository(project: Any, tmp_path: Path) -> None:
    """Where there is no store yet, a file of the mirror can be imported: shown, which makes no store, and
    recorded, which makes one. A file that is not there makes none either."""
    project("remember", "use kelp", "--kind", "decision")
    memory = project.directory / ".holdfast/tasks/memory.json"
    project.env["XDG_DATA_HOME"] = str(tmp_path / "data")
    shutil.copytree(project.directory, tmp_path / "clone")
    project.directory, original = tmp_path / "clone", project.directory
    shutil.rmtree(original)
    name = ".holdfast/tasks/memory.json"
    content = (project.directory / name).read_bytes()
    project("mirror", "import", "nothing.json", "--apply", code=3)
    assert "use kelp" in project("mirror", "import", name).out
    assert project("list", "--json").json() == [] and memory.name in os.listdir(
        project.directory / ".holdfast/tasks"
    )
    assert (project.directory / name).read_bytes() == content
    project("mirror", "import", name, "--apply")
    assert [one["text"] for one in project("recall", "kelp", "--json").json()] == ["use kelp"]
    (kept,) = (project.directory / ".holdfast/tasks").glob("memory.json.replaced-*")
    assert kept.read_bytes() == content
    assert "mirror import" not in project("mirror", "status").out  # all of it was recorded


def test_an_import_that_is_refused_in_part_says_so(project: Any) -> None:
    """A task that another has cannot be completed by an import: that is refused, and not listed as done; the
    rest is recorded, and the exit code is that of a refusal."""
    id = project("task", "create", "Weigh kelp", "--json").json()["id"]
    project("task", "start", id, HOLDFAST_ACTOR="another")
    file = project.directory / "edited.json"
    done = [{"id": id, "name": "Weigh kelp"}, {"name": "Weigh wrack"}]
    file.write_text(json.dumps({"completed_tasks": done}))
    assert f"complete   {id}" in project("mirror", "import", file).out
    found = project("mirror", "import", file, "--apply", code=2)
    first, second, *_ = found.out.splitlines()
    assert first.startswith("recorded: create name 'Weigh wrack'") and second.startswith(
        f"refused    complete {id}: "
    )
    assert sorted(one["status"] for one in project("task", "list", "--json").json()) == [
        "in_progress",
        "pending",
    ]
    again = project("mirror", "import", file, "--apply", "--json", code=2).json()
    assert again["changes"] == [] and len(again["refused"]) == 1  # the task is there


# A clone of a repository that has a mirror


@pytest.fixture
def clone(project: Any, tmp_path: Path) -> Any:
    """The CLI in a clone of a project with a task and a memory; the project is there, too."""
    project.env["XDG_DATA_HOME"] = str(tmp_path / "data")
    project("task", "create", "weigh kelp")
    project("remember", "use kelp", "--kind", "decision")
    git = ("git", "-c", "user.name=k", "-c", "user.email=k@example.org")
    subprocess.run([*git, "init", "-q"], cwd=project.directory, check=True)
    subprocess.run([*git, "add", "-f", ".holdfast"], cwd=project.directory, check=True)
    subprocess.run([*git, "commit", "-qm", "kelp"], cwd=project.directory, check=True)
    subprocess.run([*git, "clone", "-q", project.directory, tmp_path / "clone"], check=True)
    project.original, project.directory = project.directory, tmp_path / "clone"
    return project


@pytest.mark.parametrize("home", ["the same", "another"])
def test_a_store_of_a_clone_is_rebuilt_from_its_journal(clone: Any, tmp_path: Path, home: str) -> None:
    """`repair --from` makes a store of the clone's own, with what the journal has. Without `--from` nothing
    is made, and the refusal names the option; a dry run changes nothing."""
    if home == "another":
        clone.env["XDG_DATA_HOME"] = str(tmp_path / "other")
    journal = clone.directory / ".holdfast/tasks/journal.jsonl"
    assert f"holdfast repair --from {journal}" in clone("repair", code=3).err
    examined = clone("repair", "--from", journal, "--dry-run", code=8)
    assert "found holdfast.db: it is missing or empty" in examined.out
    assert "there is no project" in clone("show", "x", code=3).err
    done = clone("repair", "--from", ".holdfast/tasks/journal.jsonl")
    assert "lost" not in done.out
    assert [task["name"] for task in clone("task", "list", "--json").json()] == ["weigh kelp"]
    clone("task", "create", "dry kelp")
    clone.env["XDG_DATA_HOME"] = str(tmp_path / "data")
    clone.directory = clone.original
    assert [task["name"] for task in clone("task", "list", "--json").json()] == ["weigh kelp"]


@pytest.mark.parametrize("words", ["# kelp\n", '{"name": "kelp"}\n', ""])
def test_a_file_that_is_no_copy_makes_no_store_of_a_clone(clone: Any, words: str) -> None:
    """Nothing is changed, and the journal can still be named."""
    (clone.directory / "README.md").write_text(words)
    for more in ([], ["--dry-run"]):
        assert "neither a backup nor a journal" in clone("repair", "--from", "README.md", *more, code=2).err
    clone("repair", "--from", ".holdfast/tasks/journal.jsonl")
    assert [task["name"] for task in clone("task", "list", "--json").json()] == ["weigh kelp"]


def test_a_copy_does_not_lose_the_runs_of_its_original(project: Any, tmp_path: Path) -> None:
    """The files of runs in a copy are those of another store: `repair --from` reports none of them as lost,
    and keeps no id for them."""
    project.env["XDG_DATA_HOME"] = str(tmp_path / "data")
    project("run", "--id", "tide", "true")
    project("task", "create", "weigh kelp")
    shutil.copytree(project.directory, tmp_path / "copy")
    project.directory = tmp_path / "copy"
    assert "tide" not in project("repair", "--from", ".holdfast/tasks/journal.jsonl").out
    project("run", "--id", "tide", "true")


@pytest.mark.parametrize("where", ["beside the original", "alone"])
@pytest.mark.parametrize(
    ("words", "code"),
    [("task list", 0), ("list", 0), ("prime", 0), ("search kelp", 0), ("show x", 3), ("doctor", 0)],
)
def test_reading_names_the_mirror_of_another_store(clone: Any, where: str, words: str, code: int) -> None:
    """Where there is no store yet and `.holdfast` has the mirror of another one, each command that reads
    names the commands that make a store of it."""
    if where == "alone":
        shutil.rmtree(clone.original)
        clone.env["XDG_DATA_HOME"] = str(clone.original.with_name("other"))
    found = clone(*words.split(), code=code)
    said = found.out + found.err
    tasks = clone.directory / ".holdfast/tasks"
    assert f"holdfast repair --from {tasks / 'journal.jsonl'}" in said
    if words != "doctor" or where == "beside the original":
        assert f"holdfast mirror import {tasks / 'memory.json'}" in said


def test_a_repair_of_a_store_that_was_gone_keeps_no_files(project: Any, tmp_path: Path) -> None:
    """Its directory has the report alone, and so says the command; a dry run says what the repair says."""
    project.env["XDG_DATA_HOME"] = str(tmp_path / "data")
    project("task", "create", "weigh kelp")
    (store,) = (tmp_path / "data/holdfast").glob("*-*")
    shutil.rmtree(store)
    (first, *_) = project("repair", "--dry-run", code=8).out.splitlines()
    done = project("repair").out
    assert done.splitlines()[0] == first == "found holdfast.db: it is missing or empty"
    assert "nothing was left of the files; the report is in" in done
    (store / "holdfast.db").write_bytes(b"")
    assert "the files as they were are in" in project("repair").out
