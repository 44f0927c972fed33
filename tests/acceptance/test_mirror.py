"""A session, from its first task to its end, as the files of the project show it."""

from __future__ import annotations

import json
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
    project("mirror", "import", kept, "--apply")
    assert project("task", "show", id, "--json").json()["name"] == "Set it up"
    assert json.loads(current.read_text())["current_task"]["name"] == "Set it up"
    assert "it says nothing" not in project("mirror", "import", kept).out
    assert project("mirror", "import", "nothing.json", code=3).err.startswith("holdfast: there is no file")
