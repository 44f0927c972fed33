"""One thing that `doctor` has looked at."""

from __future__ import annotations

from typing import ClassVar, Literal

from holdfast.json_view import View


class Check(View, frozen=True):
    """`code` is the exit code if it is bad."""

    name: str
    verdict: Literal["good", "note", "bad"]
    says: str
    code: int = 0

    JSON: ClassVar = {
        "name": "what was checked: `settings`, `disk`, `integrity`, ...",
        "verdict": "`good`, `note` or `bad`",
        "says": "what was found, in words",
    }
