"""Programs with agents as users write them end the same, killed or not, and no recorded request is sent
again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.acceptance import agent_programs

KNOWN: dict[str, dict[str, Any]] = {
    "structured": {
        "result": {"species": "kelp", "kilograms": 3.5},
        "runs": [["structured", "completed", 240]],
        "files": {"effects.txt": ["weighed kelp"]},
    },
    "handover": {
        "result": ["half a metre a day", "half a metre", "2"],
        "runs": [["handover", "completed", 480]],
        "files": {},
    },
    "report": {
        "result": ["published 26", "published 25"],
        "runs": [["report", "completed", 0], ["write", "completed", 120], ["write", "completed", 120]],
        "files": {
            "effects.txt": [
                "published notes on eel: a last word",
                "published notes on kelp: a last word",
                "read eel",
                "read kelp",
            ]
        },
    },
    "fan": {
        "result": ["a last word", "a last word", "a last word", "a last word", "a last word"],
        "runs": [["fan", "completed", 600]],
        "files": {},
    },
    "group": {"result": ["one is wrong", "a last word"], "runs": [["group", "completed", 360]], "files": {}},
    "loop": {
        "result": {
            "goal": "a harbour",
            "node": "end",
            "round": 3,
            "drafts": ["one 1", "two 2", "three 3"],
            "plan": "three",
        },
        "runs": [["loop", "completed", 720]],
        "files": {"effects.txt": ["act 1", "act 2", "act 3"]},
    },
    "tidy": {"result": "tidy", "runs": [["tidy", "completed", 240]], "files": {"effects.txt": ["removed a"]}},
    "harvest": {
        "result": {"describe": ["first: Describe kelp", "second: Describe wrack"], "ok": "approved"},
        "runs": [["run_plan", "completed", 0]],
        "files": {
            "effects.txt": ["shipped"],
            "first.md": ["Describe kelp"],
            "second.md": ["Describe wrack"],
        },
    },
    "daily": {
        "result": ["published 23", "published 23"],
        "runs": [["daily", "completed", 120], ["daily", "completed", 120]],
        "files": {"effects.txt": ["published 2026-11-17: a last word", "published 2026-11-18: a last word"]},
    },
    "workers": {
        "result": [
            ["job 0", "completed", "a last word"],
            ["job 1", "completed", "a last word"],
            ["job 2", "completed", "a last word"],
            ["job 3", "completed", "a last word"],
        ],
        "runs": [
            ["handle", "completed", 120],
            ["handle", "completed", 120],
            ["handle", "completed", 120],
            ["handle", "completed", 120],
        ],
        "files": {},
    },
}


@pytest.mark.parametrize("name", KNOWN)
def test_killed_program_with_agents_leaves_what_a_whole_one_does(name: str, tmp_path: Path) -> None:
    """Killed right after a commit and started again: the same result, files and usage. A request that was cut
    off is sent again with its key, no other one is."""
    found = agent_programs.lives(name, tmp_path)
    assert found["whole"] == KNOWN[name]
    requests = found["requests"].pop("whole", {})
    assert set(requests.values()) <= {1}
    assert len(found["killed"]) == 2, "it was killed twice, each time in a life of its own"
    for at, killed in found["killed"].items():
        assert killed == KNOWN[name], at
        sent = found["requests"].pop(f"killed{at}", {})
        assert len(sent) == len(requests), at
        assert set(sent.values()) <= {1, 2}, at
