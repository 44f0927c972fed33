"""The next actions of a person, as data and as command lines.

    Way("resume", "kelp-1", {"take_over": True}).shell() == "holdfast resume kelp-1 --take-over"

An action is a command of the CLI, and where it acts on a run, a method of `Holdfast`; its arguments have the
same names in both. This is the only module below the CLI that knows how a command line is written.
"""

from __future__ import annotations

import shlex
from typing import Any, ClassVar

import msgspec

VALUE = "VALUE"
"""In place of an argument that only the person knows."""
_POSITIONAL = {
    "approve": ("gate",),
    "reject": ("gate",),
    "settle": ("step",),
    "signal": ("name", "value"),
    "backup restore": ("file",),
    "budget raise": ("name",),
    "mirror import": ("file",),
    "trust": ("directory",),
    "undo": ("operation",),
    "workspace restore": ("snapshot",),
}
"""Action → the arguments that are words of its command line; all others are options."""


class Way(msgspec.Struct, frozen=True):
    """One thing to do next.

    action     such as `resume`
    run        the run it is about; empty if it is about none
    arguments  by name, without those that have their defaults
    effect     what it does, in words
    """

    action: str
    run: str = ""
    arguments: dict[str, Any] = {}
    effect: str = ""

    JSON: ClassVar = {
        "action": "a command, and a method of `Holdfast`",
        "run": "the run it is about, or null",
        "arguments": "by name, without those that have their defaults",
        "effect": "what it does, in words",
    }

    def shell(self) -> str:
        """The command line, to be copied."""
        words = ["holdfast", self.action]
        if self.run:
            words.append(shlex.quote(self.run))
        positional = _POSITIONAL.get(self.action, ())
        arguments = dict(self.arguments)
        if "gate" in arguments and "digest" in arguments:
            arguments["gate"] = f"{arguments['gate']}@{arguments.pop('digest')}"
        words += [shlex.quote(str(arguments[name])) for name in positional if name in arguments]
        for name, value in arguments.items():
            if name not in positional:
                words.append(f"--{name.replace('_', '-')}")
                words += [] if value is True or value == "" else [shlex.quote(str(value))]
        return " ".join(words)

    def to_json(self) -> dict[str, Any]:
        return {
            "action": self.action,
            "run": self.run or None,
            "arguments": self.arguments,
            "effect": self.effect,
        }


def quoted(way: Way) -> str:
    """The command line inside a sentence."""
    return f"`{way.shell()}`"
