"""`Agents`: the agents of the settings, found by name or role. The handler `agents` of an engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from holdfast.agent_settings import DEFAULT_ROLE, PRESETS, AgentSettings
from holdfast.agents.protocol import Agent
from holdfast.errors import AgentNotFound, BadInput, NotTrusted
from holdfast.kernel.naming import listed
from holdfast.redaction import Secret
from holdfast.spelling import did_you_mean

if TYPE_CHECKING:
    from holdfast.agents.backends.parsers import Parse
    from holdfast.engine.engine import Engine
    from holdfast.settings import Settings

WAYS: Final = """\
put one of these into holdfast.toml:
  a CLI agent:     [agent.claude]                # or codex, opencode, gemini
  a model:         [agent.model]
                   backend = "llm"
                   model = "anthropic:claude-sonnet-4-5"
  no model at all: [agent.rehearsal]
                   backend = "script"
                   file = "rehearsal.yaml"
"""
WAYS_IN_ONE_LINE: Final = (
    "put one into holdfast.toml: `[agent.claude]` (or codex, opencode, gemini) for a CLI agent, "
    '`[agent.model]` with `backend = "llm"` and `model = "..."` for a model, or `[agent.rehearsal]` with '
    '`backend = "script"` and `file = "..."` for no model at all'
)
_SECRET: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)


class Agents:
    """Makes each agent when it is first asked for, once for an engine."""

    def __init__(self, engine: Engine, settings: Settings) -> None:  # noqa: ARG002
        self._settings = settings
        self._agents: Mapping[str, AgentSettings] = settings.agent
        self._roles: Mapping[str, str] = settings.roles
        self._made: dict[str, Agent] = {}

    def find(self, name: str = "", role: str = "") -> Agent:
        """The agent of this name; without a name, that of the role.

        A role has the agent that `[roles]` names, else that of the role `default`, else the only agent that
        the settings have. The presets need no settings: `find("claude")`. Raises `AgentNotFound` with the
        ways to get one, and `NotTrusted` for one whose command came with the project.
        """
        chosen = name or self._of_role(role)
        made = self._made.get(chosen)
        if made is None:
            made = self._made[chosen] = self._make(chosen)
        return made

    def fault(self, name: str, adjusts: bool = False) -> str:
        """The fault of the agent that a plan names, see `agent_fault`."""
        return agent_fault(self._settings, name, adjusts)

    def names(self) -> tuple[str, ...]:
        """The agents of the settings, then the presets."""
        return (*self._agents, *(name for name in PRESETS if name not in self._agents))

    def _of_role(self, role: str) -> str:
        chosen = chosen_name(self._agents, self._roles, role)
        if not chosen:
            raise AgentNotFound(why_none(self._agents, role))
        return chosen

    def _make(self, name: str) -> Agent:
        found = self._agents.get(name)
        if found is None:
            if name not in PRESETS:
                raise AgentNotFound(unknown_agent(self._agents, name))
            found = AgentSettings(name=name, preset=name)
        if found.doubt:
            raise NotTrusted(f"the agent {name} is not trusted: {found.doubt}")
        return _BACKENDS[found.backend](found)


def agent_fault(settings: Settings, name: str, adjusts: bool = False) -> str:
    """The fault of the agent that a plan names, in one line, found without starting it; empty if
    nothing is. `adjusts` says that the plan sets options of a command agent."""
    chosen = name or chosen_name(settings.agent, settings.roles, "developer")
    if not chosen:
        return in_one_line(why_none(settings.agent, "developer"))
    found = settings.agent.get(chosen)
    if found is None:
        return "" if chosen in PRESETS else in_one_line(unknown_agent(settings.agent, chosen))
    if found.doubt:
        return f"the agent {chosen} is not trusted: {found.doubt}"
    if adjusts and found.backend != "command":
        return f"`retry` and `isolate` are for command agents, and {chosen} has the backend {found.backend}"
    return ""


def in_one_line(text: str) -> str:
    """The message of an `AgentNotFound` without its lines to copy."""
    if WAYS in text:
        return text.replace(WAYS, WAYS_IN_ONE_LINE)
    return " ".join(text.split())


def chosen_name(agents: Mapping[str, AgentSettings], roles: Mapping[str, str], role: str) -> str:
    """The name of the agent for a role; empty if the settings do not say."""
    only = next(iter(agents)) if len(agents) == 1 else ""
    return roles.get(role) or roles.get(DEFAULT_ROLE) or only


def why_none(agents: Mapping[str, AgentSettings], role: str) -> str:
    """The sentence for a role without an agent, with what to do."""
    if not agents:
        return f"no agent is configured; {WAYS}"
    what = f"the role {role}" if role else "this"
    return (
        f"there are several agents ({listed(list(agents))}), and none is named for {what}; put into "
        f'holdfast.toml:\n  [roles]\n  {role or DEFAULT_ROLE} = "{next(iter(agents))}"\n'
    )


def unknown_agent(agents: Mapping[str, AgentSettings], name: str) -> str:
    """The sentence for a name that no agent has."""
    known = [*agents, *(one for one in PRESETS if one not in agents)]
    otherwise = f"there are {listed(known)}" if agents else WAYS
    return f"there is no agent {name!r}; {did_you_mean(name, known, otherwise)}"


def _command(found: AgentSettings) -> Agent:
    from holdfast.agents.backends import command_agent

    preset = command_agent.PRESETS.get(found.preset)
    parse = found.parse or (preset.parse if preset is not None else "none")
    return command_agent.CommandAgent(
        found.argv or (preset.argv if preset is not None else ()),
        name=found.name,
        parse=cast("Parse", parse),
        reads=found.reads or (preset.reads if preset is not None else ()),
        timeout=found.timeout_s,
        isolate=found.isolate,
        env={name: _hidden(name, value) for name, value in found.env.items()},
        reserve_usd=found.reserve_usd,
    )


def _hidden(name: str, value: str) -> str | Secret:
    """A key is recorded by its name, so a new one changes no command."""
    return Secret(name, value) if _SECRET.search(name) else value


def _script(found: AgentSettings) -> Agent:
    from holdfast.agents.backends.script_agent import ScriptAgent

    return ScriptAgent.read(Path(found.file).expanduser(), name=found.name)


def _llm(found: AgentSettings) -> Agent:
    try:
        module = import_module("holdfast.agents.llm.agent")
    except ImportError as error:
        raise BadInput(
            f"the agent {found.name} needs the extra `llm` ({error}); install it with "
            "`pip install 'holdfast[llm]'`"
        ) from None
    given: dict[str, Any] = {
        "instructions": found.instructions, "tools": found.tools, "approve": found.approve,
        "fallbacks": found.fallbacks, "stream": found.stream, "base_url": found.base_url or None,
        "key_variable": found.key_variable or None, "settings": found.settings, "timeout": found.timeout_s,
    }  # fmt: skip
    if found.max_requests is not None:
        given["max_requests"] = found.max_requests
    made: Agent = module.LlmAgent(found.model, name=found.name, **given)
    return made


_BACKENDS: Final[Mapping[str, Callable[[AgentSettings], Agent]]] = {
    "command": _command, "script": _script, "llm": _llm,
}  # fmt: skip
