"""Programs as users write them leave the same tasks, memory and results behind, killed or not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

KNOWN: dict[str, dict[str, Any]] = {
    "queue": {
        "result": ["kelp", "wrack", "dulse"],
        "tasks": [
            [name, "completed", f"thought about {name}", 1, False] for name in ("dulse", "kelp", "wrack")
        ],
        "memory": [[f"thought about {name}", "fact", "task"] for name in ("dulse", "kelp", "wrack")],
        "runs": ["completed"],
    },
    "pool": {
        "result": [f"thought about job {n}" for n in range(5)],
        "tasks": [[f"job {n}", "completed", f"thought about job {n}", 0, False] for n in range(5)],
        "memory": [[f"thought about job {n}", "pattern", "project"] for n in range(5)],
        "runs": ["completed"],
    },
    "graph": {
        "result": [f"thought about kelp with {n} memories" for n in (1, 2, 3)],
        "tasks": [],
        "memory": [
            *([f"act {n} is good", "fact", "project"] for n in (1, 2, 3)),
            ["plan for kelp", "decision", "project"],
        ],
        "runs": ["completed"],
    },
    "agent": {
        "result": ["one", "one is hard", "two", "completed", "completed"],
        "tasks": [[name, "completed", "by tool", 0, False] for name in ("one", "two")],
        "memory": [["one is hard", "fact", "project"]],
        "runs": ["completed"],
    },
    "solve": {
        "result": 5,
        "tasks": [
            *([f"found {n}", "pending", "", 0, False] for n in range(3)),
            ["solve", "completed", "run r completed", 0, False],
        ],
        "memory": [],
        "runs": ["completed"] * 4,
    },
    "rewound": {
        "result": 2,
        "tasks": [["after", "completed", "", 0, False], ["before", "completed", "done", 0, False]],
        "memory": [["after", "decision", "project"], ["before", "fact", "project"]],
        "runs": ["completed"],
    },
    "nightly": {
        "result": {"weigh": ["KELP", "WRACK"], "note": "1 memory", "ok": "approved"},
        "tasks": [[f"weigh {name}", "completed", name, 0, False] for name in ("kelp", "wrack")],
        "memory": [["weighed KELP, WRACK", "fact", "project"]],
        "runs": ["completed"] * 2,
    },
    "board": {
        "result": 6,
        "tasks": [[f"job {n}", "completed", f"done job {n}", 0, False] for n in range(6)],
        "memory": [],
        "runs": [],
    },
    "careful": {
        "result": "approved",
        "tasks": [["risky", "completed", "approved", 0, False]],
        "memory": [],
        "runs": ["completed"],
    },
    "chord": {
        "result": 21,
        "tasks": [
            ["add [1, 2]", "completed", "3", 0, False],
            ["add [3]", "completed", "3", 0, False],
            ["add [4, 5, 6]", "completed", "15", 0, False],
            ["add all", "completed", "21", 0, False],
        ],
        "memory": [],
        "runs": ["completed"],
    },
    "edges": {
        "result": {
            "topic": "kelp",
            "round": 3,
            "next": "end",
            "draft": "thought about kelp, not as in round 2",
        },
        "tasks": [["announce kelp", "pending", "", 1, False]],
        "memory": [["not as in round 2", "decision", "project"]],
        "runs": ["completed"],
    },
    "stream": {
        "result": [f"part {n}" for n in range(4)],
        "tasks": [[f"part {n}", "completed", f"thought about part {n}", 1, False] for n in range(4)],
        "memory": [["4 parts are done", "pattern", "project"]],
        "runs": ["completed"],
    },
    "release": {
        "result": [["build-it", "publish-it", "shall-it-be-released"], "published\n"],
        "tasks": [
            ["build tools", "completed", "there", 0, False],
            ["release", "completed", "run r completed", 0, False],
        ],
        "memory": [["it is released", "decision", "project"]],
        "runs": ["completed"],
    },
}


@pytest.mark.parametrize("name", KNOWN)
def test_killed_program_leaves_what_a_whole_one_does(name: str, tmp_path: Path) -> None:
    """Killed right after a commit and started again: nothing twice, nothing lost, no claim left over."""
    words = [sys.executable, "-m", "tests.acceptance.user_programs", name, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["whole"] == KNOWN[name], done.stderr
    assert len(found["killed"]) == 2, "it was killed twice, each time in a life of its own"
    for at, killed in found["killed"].items():
        assert killed == KNOWN[name], (at, done.stderr)


def test_lists_have_the_same_items_as_text_and_as_json(cli):
    """Completed tasks are listed with --all. A memory whose text is its title is printed once."""
    done = cli("task", "create", "done").out.split()[0]
    cli("task", "create", "open")
    cli("task", "complete", done)
    assert [task["name"] for task in cli("task", "list", "--json").json()] == ["open"]
    assert [task["name"] for task in cli("task", "list", "--json", "--all").json()] == ["done", "open"]
    cli("remember", "kelp is brown")
    assert cli("search", "kelp").out.count("kelp is brown") == 1
