"""One thing that `doctor` has looked at."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec


class Check(msgspec.Struct, frozen=True):
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

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "verdict": self.verdict, "says": self.says}
