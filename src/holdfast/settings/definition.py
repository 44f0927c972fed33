"""The settings themselves: name, type, limits, default and description of each."""

# No `from __future__ import annotations`: every command reads these types, and to evaluate them as texts
# takes twice as long.

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from holdfast.agent_settings import AgentSettings, read_agents, read_roles
from holdfast.deliver_settings import read_deliver


def _regexes(patterns: Sequence[str]) -> None:
    for index, pattern in enumerate(patterns):
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as exc:
            # The pattern itself is not shown: people put the secret there that is to be redacted.
            raise ValueError(f"item {index + 1} is not a regular expression: {exc}") from None


HANDLERS = ("governor", "router", "skills", "evidence", "agents")
"""The handlers that can be replaced."""


def _handlers(places: Mapping[str, str]) -> None:
    for name, place in places.items():
        if name not in HANDLERS:
            raise ValueError(f"{name!r} is no handler; there are {', '.join(HANDLERS)}")
        code, _, attribute = place.rpartition(":")
        if not code or not attribute.isidentifier():
            raise ValueError(f"{name} is {place!r}; write `module:Class` or `path.py:Class`")


_Text = Annotated[str, Meta(min_length=1)]


def _own_home(path: str) -> None:
    if path.startswith("~") and not (path == "~" or path.startswith("~/")):
        raise ValueError(f"{path!r}: only the own home directory is known as ~; write the whole path")


_PATH: dict[str, Any] = {"path": True, "check": _own_home}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings. `extra` of a field: `check` is called with the converted value and raises
    ValueError; `path` marks a path, so that a relative one in a file counts from that file; `code` marks what
    names code to execute: both need trust in a file of the project; `table` reads a table of a settings
    file, which no variable and no flag can hold."""

    home: Annotated[_Text | None, Meta(description="The store's directory.", extra=_PATH)] = None
    durability: Annotated[
        Literal["full", "process"],
        Meta(description="What a commit survives: power loss (full), or only the process's death (process)."),
    ] = "full"
    redact: Annotated[
        list[str], Meta(description="More regexes whose matches are redacted.", extra={"check": _regexes})
    ] = []
    resume: Annotated[
        bool,
        Meta(
            description="Whether stopped runs are continued by themselves (`recover`, `resume --all`), "
            "and pointed out by `run` and `list`."
        ),
    ] = True
    workspace: Annotated[
        _Text | None,
        Meta(
            description="The directory whose files runs work on (none: the project's root).",
            extra=_PATH,
        ),
    ] = None
    save_files: Annotated[
        bool,
        Meta(description="Whether the files of the workspace are saved, and restored by `rewind`."),
    ] = True
    largest_ignored_mb: Annotated[
        float, Meta(ge=0, description="Files that git ignores are saved up to this size.")
    ] = 10.0
    workspace_quota_mb: Annotated[
        float,
        Meta(ge=0, description="What saved files may take on the disk before `gc` is due; 0 for no limit."),
    ] = 0.0
    checkpoint_every: Annotated[
        int, Meta(ge=0, description="A checkpoint after every so many steps of a run; 0 for none.")
    ] = 0
    capture_output: Annotated[
        bool, Meta(description="Whether what Python steps print and log is kept, for `holdfast logs`.")
    ] = True
    actor: Annotated[
        _Text | None,
        Meta(
            description="The name under which this process acts: on tasks, runs, gates, operations and "
            "budgets; without one, the user's."
        ),
    ] = None
    session: Annotated[
        _Text | None,
        Meta(description="The session, which must exist, that this process's work on tasks belongs to."),
    ] = None
    recover_limit: Annotated[int, Meta(ge=1, description="How many runs `recover` drives at once.")] = 8
    flush_after_ms: Annotated[
        float, Meta(ge=0, le=60_000, description="When a running step's intent is committed.")
    ] = 5.0
    blob_over_bytes: Annotated[int, Meta(ge=0, description="Values over this size become blobs.")] = 32768
    crash_loop_after: Annotated[
        int, Meta(ge=1, description="Takeovers without progress after which recovery leaves a run alone.")
    ] = 5
    tool_repeats: Annotated[
        int,
        Meta(
            ge=0,
            description="Calls of one tool with the same arguments, then the run is paused; 0: no limit.",
        ),
    ] = 20
    backup_on_start: Annotated[
        bool, Meta(description="Whether the store is backed up when it is opened to execute runs.")
    ] = False
    backup_keep: Annotated[
        int,
        Meta(ge=1, description="How many backups are kept in the backup directory; older ones are removed."),
    ] = 10
    backup_files: Annotated[
        bool, Meta(description="Whether backups hold the files that runs have saved.")
    ] = True
    backup_dir: Annotated[
        _Text | None,
        Meta(description="Where backups go (none: `backups` in the store's directory).", extra=_PATH),
    ] = None
    mirror: Annotated[
        bool,
        Meta(description="Whether tasks, memory and runs are mirrored as JSON files in the project."),
    ] = True
    mirror_dir: Annotated[
        _Text | None,
        Meta(
            description="Where the mirror is written (none: `.holdfast` in the project's root, and nowhere "
            "with an explicit `home`).",
            extra=_PATH,
        ),
    ] = None
    agent: Annotated[
        dict[str, AgentSettings],
        Meta(description="Agents by name, each a table `[agent.NAME]`.", extra={"table": read_agents}),
    ] = {}
    roles: Annotated[
        dict[str, str],
        Meta(
            description="The agent of each role: planner, developer, reviewer, verifier, or `default`.",
            extra={"table": read_roles},
        ),
    ] = {}
    handlers: Annotated[
        dict[str, str],
        Meta(
            description="Handlers of your own in place of ours: `router`, `skills`, `governor`, `evidence`, "
            "`agents`, each a class as `module:Class` or `path.py:Class`.",
            extra={"code": True, "check": _handlers},
        ),
    ] = {}
    router_failure_usd: Annotated[
        float,
        Meta(
            gt=0,
            description="What a failure costs beside the try itself, when the router compares candidates.",
        ),
    ] = 0.1
    router_rest_after: Annotated[
        int, Meta(ge=1, description="After so many exceptions in a row the router lets a candidate rest.")
    ] = 3
    router_rest_s: Annotated[
        float,
        Meta(ge=0, le=86_400, description="Seconds of that rest; each further exception doubles them."),
    ] = 60.0
    skills_dirs: Annotated[
        list[str],
        Meta(
            description="More directories of skills, beside `.holdfast/skills` and `skills` in the project."
        ),
    ] = []
    deliver: Annotated[
        dict[str, Any],
        Meta(
            description="How goals are delivered: `checks`, `rounds`, `retries`, `check_timeout_s`, `plan`, "
            "and a table `[deliver.policy.NAME]` for each policy.",
            extra={"table": read_deliver},
        ),
    ] = {}
