"""`[agent.NAME]` and `[roles]` of the settings files: which agents there are, and who does what.

[agent.claude]              # a preset: claude, codex, opencode, gemini
reserve_usd = 0.5

[agent.mine]
backend = "command"         # the default
argv = ["my-agent", "--json"]
parse = "none"

[agent.small]
backend = "llm"
model = "openai:gpt-5-mini"

[agent.rehearsal]
backend = "script"
file = "rehearsal.yaml"

[roles]
reviewer = "small"
default = "claude"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal, get_args

import msgspec

from holdfast import typed_values

Backend = Literal["command", "script", "llm"]
BACKENDS: Final[tuple[str, ...]] = get_args(Backend)
PRESETS: Final = ("claude", "codex", "opencode", "gemini")
PARSERS: Final = (*PRESETS, "none")
DEFAULT_ROLE: Final = "default"
_TAKES: Final[dict[str, tuple[str, ...]]] = {
    "command": ("preset", "argv", "reads", "parse", "timeout_s", "env", "reserve_usd", "isolate"),
    "script": ("file",),
    "llm": (
        "model",
        "fallbacks",
        "instructions",
        "tools",
        "approve",
        "stream",
        "base_url",
        "key_variable",
        "settings",
        "timeout_s",
        "max_requests",
    ),
}
"""Backend → the keys that it takes beside `backend`."""

_SAMPLING: Final = frozenset(
    ("frequency_penalty", "logit_bias", "max_tokens", "parallel_tool_calls", "presence_penalty", "seed",
     "stop_sequences", "temperature", "thinking", "timeout", "top_k", "top_p")
)  # fmt: skip
"""Settings of a model that only say how it answers. Others may add headers, fields or tools of the provider
to each request, which carries the user's key."""

PlaceOf = Callable[[tuple[str, ...]], str]
"""Where a key stands, such as `holdfast.toml:3`; it is named by its table and itself."""


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One agent of the settings. `place` is the file and line of its table; `doubt` says why it is not
    trusted."""

    name: str
    place: str = ""
    doubt: str = ""
    backend: Backend = "command"
    preset: str = ""
    argv: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    parse: str = ""
    timeout_s: float | None = None
    env: dict[str, str] = {}
    reserve_usd: Decimal | None = None
    isolate: Literal["copy"] | None = None
    file: str = ""
    model: str = ""
    instructions: str = ""
    tools: bool | tuple[str, ...] = True
    approve: tuple[str, ...] = ()
    fallbacks: tuple[str, ...] = ()
    stream: bool = False
    base_url: str = ""
    key_variable: str = ""
    settings: dict[str, Any] = {}
    max_requests: int | None = None

    @property
    def needs_trust(self) -> bool:
        """Whether it starts a program, reads a script, sends a key to an address, adds to the requests, or
        prompts a model that may run commands, as the file says. A known CLI by its preset, or a model by its
        name, is the user's own affair."""
        named = (
            self.argv, self.reads, self.env, self.file, self.base_url, self.key_variable, self.instructions,
            self.settings.keys() - _SAMPLING,
        )  # fmt: skip
        return any(named)

    @property
    def summary(self) -> str:
        """One line for people."""
        said = {"command": " ".join(self.argv) or self.preset, "script": self.file, "llm": self.model}
        return f"{self.backend}: {said[self.backend]}"


def read_agents(
    tables: Mapping[str, Any], root: Path, place_of: PlaceOf, faults: list[str]
) -> dict[str, AgentSettings]:
    """The agents of `[agent]`; each fault is a line of `faults`."""
    found: dict[str, AgentSettings] = {}
    for name, table in tables.items():
        place = place_of(("agent", name))
        if not isinstance(table, dict):
            faults.append(f"{place}: agent.{name} must be a table: [agent.{name}]")
            continue
        if not name or any(char in name for char in "/@#[] \t\n"):
            faults.append(f"{place}: {name!r} cannot be the name of an agent: no space, none of / @ # [ ]")
            continue
        reader = _AgentReader(name, table, place_of)
        agent = reader.agent(place, root)
        faults += reader.faults
        if agent is not None:
            found[name] = agent
    return found


def read_roles(table: Mapping[str, Any], root: Path, place_of: PlaceOf, faults: list[str]) -> dict[str, str]:
    """The roles of `[roles]`: role → the name of its agent."""
    found: dict[str, str] = {}
    for role, name in table.items():
        if isinstance(name, str) and name:
            found[role] = name
        else:
            faults.append(f"{place_of(('roles', role))}: roles.{role} must be the name of an agent")
    return found


def role_faults(agents: Mapping[str, AgentSettings], roles: Mapping[str, str]) -> list[str]:
    """Roles whose agent is not there."""
    known = [*agents, *(name for name in PRESETS if name not in agents)]
    return [
        f"roles.{role} is {name!r}, and there is no such agent{_hint(name, known)}"
        for role, name in roles.items()
        if name not in known
    ]


class _AgentReader:
    """Reads one table; each fault is a line of `faults`, and reading continues."""

    def __init__(self, name: str, table: Mapping[str, Any], place_of: PlaceOf) -> None:
        self._name = name
        self._table = table
        self._place_of = place_of
        self.faults: list[str] = []

    def agent(self, place: str, root: Path) -> AgentSettings | None:
        backend = self._table.get("backend", "command")
        if backend not in BACKENDS:
            self._fault("backend", f"is {backend!r}; it must be one of {', '.join(BACKENDS)}")
            return None
        takes = ("backend", *_TAKES[backend])
        fields: dict[str, Any] = {}
        types = msgspec.structs.fields(AgentSettings)
        for key, value in self._table.items():
            if key not in takes:
                self._unknown(key, backend, takes)
                continue
            kind = next(one.type for one in types if one.name == key)
            given = str(value) if key == "reserve_usd" and isinstance(value, int | float) else value
            try:
                fields[key] = typed_values.convert(given, kind, strict=key != "reserve_usd")
            except msgspec.ValidationError:
                self._fault(key, f"must be {_WORDS[key]}")
        for key in ("argv", "reads"):
            if key in fields and not (fields[key] and fields[key][0].strip()):
                self._fault(key, "names no program; give one, or leave the key out")
        if self.faults:
            return None
        self._complete(backend, fields, root)
        return None if self.faults else AgentSettings(name=self._name, place=place, **fields)

    def _complete(self, backend: str, fields: dict[str, Any], root: Path) -> None:
        """Check keys that depend on each other."""
        if backend == "llm" and not fields.get("model"):
            self._fault("model", 'is missing; name one, such as model = "openai:gpt-5-mini"')
        if backend == "script":
            if not fields.get("file"):
                self._fault("file", 'is missing; name the script, such as file = "script.yaml"')
            elif not fields["file"].startswith("~"):
                fields["file"] = str(root / fields["file"])
        timeout, reserve = fields.get("timeout_s"), fields.get("reserve_usd")
        if timeout is not None and timeout <= 0:
            self._fault("timeout_s", "must be more than 0")
        if fields.get("max_requests") is not None and fields["max_requests"] < 1:
            self._fault("max_requests", "must be at least 1")
        if backend != "command":
            return
        if reserve is not None and not (reserve.is_finite() and reserve >= 0):
            self._fault("reserve_usd", "must be an amount of dollars, not less than 0")
        if fields.get("parse") not in (None, *PARSERS):
            self._fault("parse", f"is {fields['parse']!r}; it must be one of {', '.join(PARSERS)}")
        if not fields.get("argv"):
            preset = fields.setdefault("preset", self._name if self._name in PRESETS else "")
            if preset not in PRESETS:
                said = f"is {preset!r}{_hint(preset, PRESETS)}" if preset else "is missing"
                self._fault(
                    "preset", f'{said}; name one of {", ".join(PRESETS)}, or a command: argv = ["PROGRAM"]'
                )
        elif fields.get("preset"):
            self._fault("preset", "names a command line, and argv does too; leave one of them out")

    def _unknown(self, key: str, backend: str, takes: tuple[str, ...]) -> None:
        elsewhere = [one for one, keys in _TAKES.items() if key in keys]
        if elsewhere:
            self._fault(key, f"is for the backend {elsewhere[0]}, and this agent has {backend}")
        else:
            self._fault(key, f"is unknown{_hint(key, takes) or '; it takes ' + ', '.join(takes)}")

    def _fault(self, key: str, text: str) -> None:
        place = self._place_of(("agent", self._name, key)) if key in self._table else ""
        place = place or self._place_of(("agent", self._name))
        self.faults.append(f"{place}: agent.{self._name}.{key} {text}")


_WORDS: Final = {
    "backend": "text",
    "preset": f"one of {', '.join(PRESETS)}",
    "argv": 'a list of texts, the program and its arguments: ["my-agent", "--json"]',
    "reads": 'a list of texts, the program and its arguments: ["my-agent", "--read-only"]',
    "parse": f"one of {', '.join(PARSERS)}",
    "timeout_s": "a number of seconds",
    "env": 'variables by name, each text: {MODEL = "small"}',
    "reserve_usd": "an amount of dollars, such as 0.5",
    "isolate": '"copy"',
    "file": "a path",
    "model": "text",
    "instructions": "text",
    "tools": 'true, false, or a list of tools: ["read", "edit"]',
    "approve": 'a list of tools: ["run"]',
    "fallbacks": "a list of models",
    "stream": "true or false",
    "base_url": "an address",
    "key_variable": "the name of an environment variable",
    "max_requests": "a whole number, at least 1",
    "settings": "a table of settings of the model",
}


def _hint(name: str, known: tuple[str, ...] | list[str]) -> str:
    from holdfast.spelling import did_you_mean

    hint = did_you_mean(name, known)
    return f"; {hint}" if hint else ""
