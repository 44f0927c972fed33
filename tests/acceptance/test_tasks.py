"""Tasks on the command line: what it prints, and what the next step is."""

from __future__ import annotations

import re
from typing import Any


def test_a_person_is_told_what_is_ready(cli: Any) -> None:
    """A link is printed in words; a task that needs another is not offered, and is when that is completed."""
    empty = cli("task", "list").err
    assert "there is no store" in empty and "task create" in empty and "holdfast run" not in empty
    first = cli("task", "create", "Draft").out.strip()
    made = cli("task", "create", "Review", "--needs", first)
    second = made.out.strip()
    assert "it is ready when the task that it needs is completed" in made.err and "begins" not in made.err
    third = cli("task", "create", "Publish").out.strip()
    assert cli("task", "link", third, second).out == f"linked: {third} needs {second}\n"
    assert "ready now: Review" in cli("task", "complete", first).err
    run = cli("run", "--task", second, "true")
    assert f"task {second[:8]} is completed: Review" in run.err
    assert [one["id"] for one in cli("task", "list", "--json").json()] == [third]
    assert "ready now" not in cli("task", "complete", third).err
    assert cli("task", "list", "--json").json() == []
    assert "--all" in cli("task", "list").err and "task create" not in cli("task", "list").err
    assert len(cli("task", "list", "--all", "--json").json()) == 3


def test_the_log_of_operations_fits_a_terminal(cli: Any) -> None:
    """A task is named by the beginning of its id there, and by the whole id in a pipe."""
    id = cli("task", "create", "Draft").out.strip()
    assert f"edit of task {id}\n" in cli("op", "log").out
    _, told = cli.on_a_terminal("op", "log", columns=80, NO_COLOR="1")
    assert re.search(rf"edit of task {id[:8]}\s", told)
