"""A step's identity: generation + scope path + name + occurrence in that scope.

It is fixed when the step is called, not when it is awaited, from counters that only the scope's
own thread of control moves. So timing cannot change it, and replay gives every call the identity
it had. A step in the root scope is `ask#1`; in a branch, `branch[2]/ask#1`, or `branch[reef]/ask#1` if the
branch has a key; with a key of its own, `ask@order-7`. `ordinal` counts all calls of a scope, whatever their
names: a call that comes in another place than the history says is a divergence.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.errors import BadInput, BadRunId

_RUN_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
NAME: Final = re.compile(r"[^\s/@#\[\]\x00-\x1f\x7f]{1,200}")
"""A name, or a key of the caller's choice, as a part of an identity."""


class Counters:
    """The counters of one scope. Not thread-safe: a scope belongs to one thread of control."""

    __slots__ = ("_calls", "_children", "_keyed", "ordinal", "path", "timers")

    def __init__(self, path: str = "") -> None:
        self.path = path
        self.ordinal = 0
        self.timers = 0
        """How many timers of its own the code has set here."""
        self._calls: dict[str, int] = {}
        self._children: dict[str, int] = {}
        self._keyed: set[str] | None = None
        """Branches with a key of the caller's choice."""

    def key(self, name: str) -> str:
        """The identity of the next call of `name` here; moves the ordinal."""
        n = self._calls.get(name, 0) + 1
        self._calls[name] = n
        self.ordinal += 1
        return f"{self.path}{name}#{n}"

    def last(self, name: str) -> str:
        """The identity of the last call of `name` here."""
        return f"{self.path}{name}#{self._calls[name]}"

    def child(self, name: str) -> Counters:
        """The scope of the next branch `name` that starts here."""
        n = self._children.get(name, 0) + 1
        while self._keyed is not None and f"{name}[{n}]" in self._keyed:
            n += 1
        self._children[name] = n
        return Counters(f"{self.path}{name}[{n}]/")

    def keyed_child(self, name: str, key: str) -> Counters:
        """The scope of the branch `name` with this key. Raises `BadInput` if this scope has it already."""
        label = f"{name}[{key}]"
        keyed = self._keyed = self._keyed or set()
        numbered = key.isdecimal() and str(int(key)) == key and 0 < int(key) <= self._children.get(name, 0)
        if numbered or label in keyed:
            raise BadInput(f"branch {self.path}{label} is opened twice: give each a key of its own")
        keyed.add(label)
        return Counters(f"{self.path}{label}/")


def scope_of(key: str) -> str:
    """The scope path of a step's identity: `branch[2]/` of `branch[2]/ask#1`."""
    return key[: key.rfind("/") + 1]


def matches(key: str, wanted: str) -> bool:
    """Whether a step's identity is what a person typed: whole, or its name, `ask` of `ask#1` and `ask@7`."""
    last = key.rpartition("/")[2]
    end = max(last.rfind("#"), last.rfind("@"))  # of the name; neither stands in what follows it
    return wanted in (key, last[:end])


def branch_name(key: str) -> str:
    """The name of the branch that a step is in, `ok` of `ok[1]/Ship?#1`; empty if it is in none. The branches
    of a plan have the ids of its steps."""
    return key.rpartition("/")[0].rpartition("/")[2].partition("[")[0]


def check_run_id(run_id: object) -> str:
    """The id itself if it is one that can name a run."""
    if not isinstance(run_id, str) or not _RUN_ID.fullmatch(run_id) or run_id in (".", ".."):
        raise BadRunId(f"{run_id!r} cannot be a run's id: use 1 to 128 of A-Z a-z 0-9 . _ -")
    return run_id


def check_text(text: object, what: str) -> str:
    """The text itself. A name, a title or a directory is stored and shown, so nothing secret is taken."""
    if not isinstance(text, str):
        secret = getattr(text, "__holdfast_digest__", None)
        shown = f"{text!r}" if secret is None else f"a secret ({secret()}): it is stored and shown"
        raise BadInput(f"{what} must be text, not {shown}")
    return text


def check_step_name(name: str) -> str:
    """The name itself if no identity made with it can be read as another's."""
    check_text(name, "a step's name")
    if not NAME.fullmatch(name):
        raise BadInput(f"{name!r} cannot be a step's name: 1 to 200 characters, no space, none of / @ # [ ]")
    return name


def name_of_program(program: str) -> str:
    """The default name of a command's step: `git` for `/usr/bin/git`."""
    return re.sub(r"[\s/@#\[\]\x00-\x1f\x7f]", "_", program.rpartition("/")[2][:200]) or "_"


def check_step_key(key: object) -> str:
    """The text form of a step key given by the user; refused where it would blur identities."""
    if hasattr(key, "__holdfast_digest__"):
        check_text(key, "a step's key")
    text = str(key)
    if not NAME.fullmatch(text):
        raise BadInput(f"{text!r} cannot be a step's key: 1 to 200 characters, no space, none of / @ # [ ]")
    return text
