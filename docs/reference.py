"""Writes the reference pages from the code: `python docs/reference.py`. A test fails when one is stale."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click
import msgspec

from holdfast import errors, settings
from holdfast.cli.app import SECTIONS
from holdfast.cli.app import program as cli

HERE = Path(__file__).parent
EXIT_CODES = {
    0: "done: the run completed, the command did what it was asked to",
    1: "the run failed or was cancelled; the code of a command that failed is in the message",
    2: "usage: the command line, or a request that does not fit the run's state",
    3: "not found: a run, a step, a program, the workflow's code, the store",
    4: "held: another live process has the run, or the store",
    5: "the run waits for a person or a signal",
    6: "the run needs attention: a step in doubt, or code that does not match the history",
    7: "the run is paused",
    8: "the store cannot be used: damaged, newer, full, read-only, on a network",
    9: "not trusted: settings or a store from somewhere else, or that others can change; see `holdfast trust`",
    70: "a fault of holdfast itself; `HOLDFAST_DEBUG=1` shows the traceback",
    74: "the output could not be written; what was done stands",
    130: "interrupted: Ctrl-C, SIGTERM, or no process executes the run any more",
}
OTHER_VARIABLES = {
    "HOLDFAST_DEBUG": "1: where a command fails, also print the traceback",
    "HOLDFAST_TRUST": "directories, separated by `:`, in which all settings and stores are trusted, whoever owns or can "
    "write them: for containers and CI jobs. Whole paths; counts in the environment alone, not in `.env`",
    "HOLDFAST_STEP_ROOT": "set by holdfast for a command that works on files, to the root that it has for itself: a "
    "`holdfast run` inside it that wants the same root is refused, because it would wait for itself",
}


_OF_STEPS = """\
What a step raises is recorded: class, message, arguments, attributes, traceback, cause. Live and in replay the
workflow sees the same class with the same attributes, so `except openai.RateLimitError` and
`except httpx.HTTPStatusError` work both times. The class is made again without its constructor.

What cannot be stored, the `response` of an SDK's error for one, has a stand-in, live as well: it keeps `status_code`,
`status`, `reason`, `code`, `method`, `url`, and of a response the headers (in any case of letters) and a body up to
16 KB as `text`, `content` and `json()`. Headers of requests, cookies and authorization are not kept. Every other
attribute raises an AttributeError that names it.

`Retry(on=...)` is asked with the error itself, before anything of it is left out. A filter that raises says no, and
the error has a note of that.

If the class cannot be found again (it is defined inside a function, or gone), both live and in replay a `StepError`
is raised that keeps the name, the message and what could be stored.
"""


def errors_page() -> str:
    lines = [
        "# Errors",
        "",
        "One tree under `HoldfastError`. `code` is stable, for programs; the exit code is the CLI's. A message is",
        "one sentence that names the thing, says what happened and what to do next.",
        "",
        "| error | code | exit | situation |",
        "|---|---|---|---|",
    ]
    situations = dict(_situations())
    for cls in _tree(errors.HoldfastError):
        lines.append(f"| `{cls.__name__}` | `{cls.code}` | {cls.exit_code} | {situations[cls.__name__]} |")
    lines += [
        "",
        "## Exit codes",
        "",
        "| code | what it says |",
        "|---|---|",
        *(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()),
        "",
        "## Errors of steps",
        "",
        *_OF_STEPS.splitlines(),
    ]
    return "\n".join(lines) + "\n"


def _situations() -> Iterator[tuple[str, str]]:
    """The lines of the tree in the docstring of `holdfast.errors`."""
    for line in (errors.__doc__ or "").splitlines():
        words = line.lstrip("│├└─ ").split(None, 1)
        if words and words[0].isidentifier() and hasattr(errors, words[0]):
            yield words[0], words[1] if len(words) > 1 else "the root of all"


def _tree(cls: type[errors.HoldfastError]) -> Iterator[type[errors.HoldfastError]]:
    """The class and all below it. Children stand in the order in which the docstring draws them."""
    yield cls
    drawn = [name for name, _ in _situations()]
    children = [
        child
        for name in errors.__all__
        if inspect.isclass(child := getattr(errors, name)) and child.__bases__[0] is cls
    ]
    for child in sorted(children, key=lambda one: drawn.index(one.__name__)):
        yield from _tree(child)


def settings_page() -> str:
    lines = [
        "# Settings",
        "",
        "From weakest to strongest: the default, `[tool.holdfast]` in `pyproject.toml`, `holdfast.toml`, `HOLDFAST_*`",
        "in `.env`, `HOLDFAST_*` in the environment, flags and arguments. Files are looked for in the project's root.",
        "An unknown key is an error that names the nearest one. `holdfast config show` says where each value came",
        "from.",
        "",
        "`home`, `workspace` and `backup_dir` in a file of the project count only once you have allowed them with",
        "`holdfast trust`, and so does every setting of a file that another user owns or can write: the exit code is 9",
        "until then ([decision 0012](decisions/0012-trust.md)). Where nothing is kept, `export HOLDFAST_TRUST=DIR` does the same.",
        "So does an agent that names a command, a script or an address, when it is used ([guide](guide-agents.md)).",
        "",
        "| key | variable | type | default | |",
        "|---|---|---|---|---|",
    ]
    for one in settings.reference():
        lines.append(
            f"| `{one.key}` | {f'`{one.variable}`' if one.variable else ''} | {one.type} | {_default(one.default)} | {one.description} |"
        )
    lines += ["", "Variables that are no settings:", "", "| variable | |", "|---|---|"]
    lines += [f"| `{name}` | {OTHER_VARIABLES[name]} |" for name in settings.OTHER_VARIABLES]
    return "\n".join(lines) + "\n"


def _default(value: object) -> str:
    return "none" if value is None else f"`{value}`" if value not in ((), [], {}) else "empty"


def cli_page() -> str:
    lines = [
        "# Command line",
        "",
        "`--home DIR`, before or after the command, names the store's directory. [JSON](json.md) has the fields of",
        "`--json`, [errors](errors.md#exit-codes) the exit codes, [pictures](captures.md) how it looks.",
        "",
    ]
    context = click.Context(cli, info_name="holdfast")
    for heading, section in SECTIONS.items():
        lines += [f"## {heading}", ""]
        for name in section:
            command = cli.get_command(context, name)
            assert command is not None
            lines += _command(command, click.Context(command, parent=context, info_name=name))
    return "\n".join(lines)


def _command(command: click.Command, context: click.Context) -> list[str]:
    if isinstance(command, click.Group):
        found: list[str] = []
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            found += _command(child, click.Context(child, parent=context, info_name=name))
        return found
    context.terminal_width = 100
    return [f"### {context.command_path}", "", "```", command.get_help(context), "```", ""]


def states_page() -> str:
    sys.path.insert(0, str(HERE))
    from states import changes, diagram

    runs, steps = changes()
    lines = [
        "# States",
        "",
        "Written by `docs/reference.py`, which tries every command of the kernel on every kind of state that it can",
        "reach (`docs/states.py`). Arrows are events in the log; what is not here cannot happen.",
        "",
        "## A run",
        "",
        *diagram(runs),
        "",
        "`running` without an owner is what a driver left that was stopped or that died: `list` shows it as",
        "`interrupted`. `waiting` and `sleeping` runs have no owner as a rule: they are parked. A rewind (`Rewound`)",
        "leads from every status to `paused`.",
        "",
        "## A step",
        "",
        *diagram(steps),
        "",
        "A gate and a sleep are steps, too. A recorded value, an emission and a patch have no status: they are done",
        "when they are in the log.",
    ]
    return "\n".join(lines) + "\n"


JSON_HEAD = """\
# JSON output

Every command that prints something takes `--json`. The fields below do not change their names or meanings;
new ones may be added. Times are ISO 8601 with an offset, durations are seconds. Everything is redacted. What
is said beside the output (how many more there are, what is interrupted) goes to standard error.

Each table is a view: what a method of `Holdfast` returns, and its `to_json()`. Written by `docs/reference.py`.
"""
JSON_SECTIONS: list[tuple[str, str, list[str]]] = [
    ("`list --json`", "A list of runs, the newest first.", ["RunInfo"]),
    (
        "`show --json`",
        "A run as above, and what follows; with `--events` also `events`; with `--depth N` also `children`, which are the "
        "child runs as objects of this kind, to that depth.",
        ["RunDetail", "RunError", "StepInfo", "Gate", "DeliverRecord", "ApprovalRecord", "StageRecord"],
    ),
    (
        "`show --step STEP --json`",
        "The step as above, and what follows. Only what counts is in it: not the attempts of a generation that a rewind "
        "has left.",
        ["StepDetail", "Attempt", "Settlement"],
    ),
    (
        "`search --json`",
        "A page of hits, the best first; `--after` with its `after` prints the next one.",
        ["SearchPage", "SearchHit"],
    ),
    (
        "`budget show --json`, `budget set --json`, `budget raise --json`, `budget list --json`",
        "A budget; `list` prints a list of them, by name.",
        ["Budget", "OpenReservation"],
    ),
    ("`gates --json`", "A list of gates as above, each with its `run`.", []),
    (
        "`approve --json`, `reject --json`, `signal --json`, `pause --json`, `cancel --json`",
        "With `--resume` they print the run as `resume --json` does. Otherwise all have `run`, and how it stands a moment "
        "later: `status`, `owner_pid` (the process that executes it now, or null). `approve` and `reject` also have `gate`, "
        "`digest`, `outcome`, `by`, `comment`; `signal` has `name`, and `taken`: whether a `wait_for` took it; otherwise it "
        "is kept.",
        [],
    ),
    (
        "`watch --json`, `show --events --json`",
        "`watch` prints every event of the run and of its child runs on a line. `show --events` prints the run as `show "
        "--json` does, with `events`: a list of the run's own. `resume --all` prints each run that it has "
        "served on a line, as `show --json` does.",
        ["LogEvent"],
    ),
    (
        "`logs --json`",
        "A list of pieces of output; with `--follow` one on each line, as it comes.",
        ["LogLine"],
    ),
    (
        "`router list --json`, `router show --json`",
        "A list, by kind of work and candidate.",
        ["CandidateStats"],
    ),
    (
        "`skills list --json`, `skills show --json`",
        "A list of skills, by name; `show` prints one of them, with its text.",
        ["SkillInfo"],
    ),
    ("`skills check --json`", "A list of faults; empty if there are none.", ["SkillFault"]),
    ("`skills stats --json`", "A list, by kind of work and skill.", ["SkillStats"]),
    ("`evidence list --json`", "A list.", ["EvidenceInfo"]),
    ("`evidence show --json`", "The evidence as above, and what follows.", ["Evidence"]),
    (
        "`evidence verify --json`",
        "A list, one for each milestone. `evidence export --json` prints a list of the files that it wrote.",
        ["Verification", "CommandCheck"],
    ),
    ("`delete --json`", "", ["Deletion"]),
    (
        "`rewind --json`",
        "`tasks` and `memory` are a `PartBack` each.",
        ["Rewind", "FilesBack", "GitBack", "PartBack"],
    ),
    ("`undo --json`, `redo --json`", "`files`, `git`, `tasks` and `memory` as above.", ["Undo"]),
    (
        "`task list --json`, `task ready --json`",
        "A list of tasks. `task create`, `claim`, `renew`, `release`, `complete`, `fail`, `reopen`, `edit`, `note`, `block`, "
        "`unblock` and `archive` print one such object; `claim` and `ready --claim` null if no task is ready.",
        ["Task", "TaskClaim"],
    ),
    (
        "`task show --json`, `task start --json`, `task resume --json`",
        "A task as above, and what follows; so does `ready --claim`.",
        ["TaskDetail", "TaskLink", "TaskNote"],
    ),
    ("`task show --events --json`", "A list, in order.", ["TaskEvent"]),
    (
        "`task tree --json`",
        "A list of tasks as above, each before its parts, and what follows.",
        ["TaskNode"],
    ),
    (
        "`task link --json`, `task unlink --json`, `task export --json`, `task import --json`",
        "`link` and `unlink`: `task`, `on`, `kind`, and `changed`: false if it was linked so already. `export`: `file`, `lines`. "
        "`import`: how many tasks were `created`, `extended`, `kept` as they were, how many `links` added, how many `checks` came along, and `not_taken`: each task that was changed here and in the file, as `task`, `name` and the `fields` that are different in the file.",
        [],
    ),
    ("`session list --json`", "A list, the newest first; `show` also has `tasks`.", ["WorkSession"]),
    ("`op log --json`", "A list, the newest first.", ["OperationInfo"]),
    ("`recall --json`", "A list, the newest first.", ["Memory"]),
    ("`remember --json`, `forget --json`", "The memory, as above.", []),
    ("`prime --json`", "`text` is what `prime` prints.", []),
    ("`fork --json`", "", ["Fork", "ForkedFiles"]),
    (
        "`plan analyze --json`, `plan new --json`",
        "`new` has `file` (null if it was only printed), `plan`, the text of the plan, and `analysis`, an object of this kind.",
        ["Analysis", "NamedFile", "Candidate"],
    ),
    (
        "`plan check --json`, `plan show --json`",
        "`check`: `plan`, `ok`, and `faults`, a list. `show`: `plan`, the plan as data, and `status`, the status of each "
        "step by id, null for a file. `show --follow`: an object on a line for each change, with `step`, `status` and `at`, null "
        "if the step did not begin. `plan run --json` is the run as `show --json` prints it.",
        ["Fault", "Plan"],
    ),
    ("`checkpoints --json`", "A list, in order.", ["CheckpointInfo"]),
    ("`diff --json`", "A list, a path each.", ["FileDiff"]),
    ("`replay --json`", "A list.", ["Replay"]),
    (
        "`stats --json`",
        "A child run is a run of its own, under its own workflow. Steps are what `show` lists, each with at least one attempt: "
        "also gates, sleeps, checkpoints, and the call of a child run. A fork's history is a copy, so the steps and attempts "
        "that it has from the other run count in both. What a rewind has left does not count; what was archived neither.",
        ["Statistics"],
    ),
    (
        "`stats RUN --json`",
        "Everything counts that the log has, also what a rewind has left. An attempt that was cut off counts as one, and its "
        "time, which is not known, as nothing.",
        ["RunStatistics", "Used", "StepUsed", "ChildUsed"],
    ),
    (
        "`backup create --json`, `backup list --json`",
        "`list` prints a list of these, the newest first.",
        ["Backup"],
    ),
    ("`backup restore --json`", "", ["RestoredBackup"]),
    ("`archive --json`", "", ["Archive"]),
    ("`audit verify --json`", "", ["Audit"]),
    (
        "`repair --json`",
        "`findings` is a list of `Finding`, `lost` one of `LostPart`. With `--rebuild`: `Repaired`.",
        ["RepairReport", "Finding", "LostPart", "Repaired"],
    ),
    ("`doctor --json`", "`ok`, and `checks`: a list of these.", ["Check"]),
    ("`du --json`", "", ["Usage"]),
    ("`gc --json`", "", ["Collected"]),
    ("`mirror status --json`", "", ["MirrorStatus", "MirrorFault"]),
    ("`mirror rebuild --json`", "", ["MirrorRebuilt"]),
    ("`mirror import --json`", "", ["MirrorImport", "ImportChange"]),
    ("`workspace status --json`", "", ["Coverage"]),
    ("`workspace verify --json`", "", ["FilesVerified"]),
    ("`workspace restore --json`", "`files` as in `rewind --json`.", ["Restored"]),
    (
        "`trust --json`, `untrust --json`",
        "`untrust --json` has `removed`, a list of directories; `trust --list --json` is a list of `TrustRecord`.",
        ["Granted", "GrantedSetting", "TrustRecord"],
    ),
    ("`config show --json`", "A list, a setting each.", ["SettingInForce"]),
]
"""Heading, what is said under it, the views."""


def views() -> dict[str, type]:
    """Every class of holdfast with a `to_json`, or with descriptions of its fields, by its name."""
    from importlib import import_module

    source = HERE.parent / "src"
    found: dict[str, type] = {}
    for path in sorted(source.rglob("*.py")):
        text = path.read_text()
        if "def to_json(" not in text and "JSON: ClassVar" not in text:
            continue
        module = import_module(".".join(path.relative_to(source).with_suffix("").parts))
        classes = inspect.getmembers(module, inspect.isclass)
        found |= {name: cls for name, cls in classes if cls.__module__ == module.__name__ and _has_json(cls)}
    return found


def _has_json(cls: type) -> bool:
    return cls.__name__ != "View" and ("to_json" in vars(cls) or "JSON" in vars(cls))


def json_page() -> str:
    found = views()
    lines = JSON_HEAD.splitlines()
    shown: set[str] = set()
    for heading, text, names in JSON_SECTIONS:
        lines += ["", f"## {heading}", *(["", text] if text else [])]
        for name in names:
            lines += _view(found[name], seen=shown)
            shown.add(name)
    others = [name for name in found if name not in shown and hasattr(found[name], "JSON")]
    if others:
        lines += ["", "## Views of the Python API"]
    for name in others:
        lines += _view(found[name], seen=shown)
    return "\n".join(lines) + "\n"


def _view(cls: type, seen: set[str]) -> list[str]:
    """The table of a view. What it has from a view that was described already is left out."""
    fields: dict[str, str] = dict(getattr(cls, "JSON", {}))
    inherited = INHERITED.get(cls.__name__, "")
    base = views()[inherited].JSON if inherited in seen else {}  # type: ignore[attr-defined]
    rows = [f"| `{key}` | {text} |" for key, text in fields.items() if base.get(key) != text]
    return ["", f"`{cls.__name__}`:", "", "| field | |", "|---|---|", *rows]


def schema_page(module: str, name: str) -> str:
    """The JSON Schema of a file of the mirror."""
    made = msgspec.json.schema(getattr(importlib.import_module(f"holdfast.{module}"), name))
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}
    return json.dumps(schema, indent=2) + "\n"


SCHEMAS = {
    "current": ("mirror.session_file", "SessionFile"),
    "memory": ("mirror.memory_file", "MemoryFile"),
    "run": ("mirror.run_file", "RunFile"),
    "mirror": ("mirror.card", "Card"),
    "journal": ("tracker.journal", "JournalLine"),
    "history": ("mirror.history", "EndedTask"),
}
"""The schemas of the mirror's files: of `journal` and `history`, that of one line."""

INHERITED = {
    "StepUsed": "Used",
    "ChildUsed": "Used",
    "RunDetail": "RunInfo",
    "StepDetail": "StepInfo",
    "Evidence": "EvidenceInfo",
}
"""Views that have the fields of another one, too."""

PAGES = {
    "errors.md": errors_page,
    "settings.md": settings_page,
    "cli.md": cli_page,
    "states.md": states_page,
    "json.md": json_page,
    **{f"schemas/{name}.schema.json": partial(schema_page, *place) for name, place in SCHEMAS.items()},
}

if __name__ == "__main__":
    for page, make in PAGES.items():
        (HERE / page).parent.mkdir(exist_ok=True)
        (HERE / page).write_text(make())
