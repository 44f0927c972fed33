"""Typed settings, and where each value came from.

From weakest to strongest: the default, `[tool.holdfast]` in pyproject.toml, holdfast.toml, `.env`,
the environment, a flag. The files are looked for in the project root. A setting `recover_limit` is
the variable `HOLDFAST_RECOVER_LIMIT`. Every fault of every source is reported at once, also of a
source that a stronger one overrides: a wrong line that does no harm today does it tomorrow.

To add a setting, add a field to `Settings`: its type, limits and description are all there is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
from msgspec import Meta

from holdfast.agent_settings import AgentSettings, read_agents, read_roles, role_faults
from holdfast.deliver_settings import read_deliver
from holdfast.errors import SettingsError

PREFIX = "HOLDFAST_"
SETTINGS_FILE = "holdfast.toml"

OTHER_VARIABLES: tuple[str, ...] = (
    "HOLDFAST_DEBUG",  # tracebacks instead of one sentence; read by the CLI
    "HOLDFAST_TRUST",  # directories in which settings and stores are trusted; read from the environment alone
    "HOLDFAST_STEP_ROOT",  # the workspace of the step that a command runs in; set by the engine
)
"""Variables that begin with `HOLDFAST_` and are no settings, so that they are not taken for misspelt ones."""

Kind = Literal["default", "pyproject", "file", "dotenv", "environment", "flag"]
PROJECT_FILES = ("pyproject", "file", "dotenv")
"""The kinds of origin that come with the project, from whomever that is."""


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
_PATH: dict[str, Any] = {"path": True}


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
        Meta(description="Whether the files of the workspace are saved, and put back by `rewind`."),
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
        Meta(description="The name under which this process works on tasks; without one, the user's."),
    ] = None
    session: Annotated[
        _Text | None, Meta(description="The session that this process's work on tasks belongs to.")
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
            description="How goals are delivered: `checks`, `rounds`, `retries`, `plan`, and a table "
            "`[deliver.policy.NAME]` for each policy.",
            extra={"table": read_deliver},
        ),
    ] = {}


class Origin(msgspec.Struct, frozen=True):
    """Where a value came from: `place` is such as `holdfast.toml:3`, `HOLDFAST_HOME` or `--home`."""

    kind: Kind
    place: str


class Source(msgspec.Struct, frozen=True):
    """A file of the project that says something of holdfast: its name, a digest of what it says, and the
    status of the file that was read."""

    name: str
    digest: str
    status: os.stat_result


class Resolved(msgspec.Struct, frozen=True):
    """The settings in force, and for every key where its value came from."""

    settings: Settings
    origins: dict[str, Origin]
    sources: tuple[Source, ...] = ()

    @property
    def moved(self) -> list[str]:
        """What needs trust and a file of the project sets: paths of the store, the workspace, the backups;
        handlers."""
        keys = [key for key, field in _fields().items() if _meta(field, "path") or _meta(field, "code")]
        return [key for key in keys if self.origins[key].kind in PROJECT_FILES]

    @property
    def digest(self) -> str:
        """The contents of all settings files of the project, and of the scripts and the plan that they name,
        to which trust is bound."""
        said = [f"{source.name} {source.digest}" for source in self.sources]
        said += [f"{path} {_file_digest(path)}" for path in self._named_files()]
        return _hash("\n".join(said).encode())

    def _named_files(self) -> list[Path]:
        found = [one.file for one in self.settings.agent.values()] if self._is_of_project("agent") else []
        if self._is_of_project("deliver"):
            found.append(self.settings.deliver.get("plan", ""))
        return [Path(one).expanduser() for one in sorted(set(found)) if one]

    def _is_of_project(self, key: str) -> bool:
        return self.origins[key].kind in PROJECT_FILES


class Setting(msgspec.Struct, frozen=True):
    """One setting as `config show` and the reference list it."""

    key: str
    variable: str
    type: str
    default: Any
    description: str


class _Entry(msgspec.Struct, frozen=True):
    """A value as one source gives it, not yet checked; `text` when it has yet to be parsed."""

    key: str
    value: object
    origin: Origin
    text: bool = False
    place_of: Callable[[tuple[str, ...]], str] | None = None
    """Where the keys of a table stand."""


def reference() -> tuple[Setting, ...]:
    """Every setting, in the order of their definition."""
    return tuple(
        Setting(
            key=name,
            variable="" if _meta(field, "table") else variable(name),
            type=_words(field.type),
            default=_default(field),
            description=_meta(field, "description") or "",
        )
        for name, field in _fields().items()
    )


def variable(key: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + key.upper()


def load(*, root: Path, environ: Mapping[str, str], flags: Mapping[str, object] | None = None) -> Resolved:
    """Gather the settings of the project at `root`.

    A flag that is None was not given; an empty variable counts as not set. A relative path in a file
    counts from `root`; in a variable or flag it is left as it is, for the working directory.
    Raises SettingsError, with one line for each fault.
    """
    faults: list[str] = []
    sources: list[Source] = []
    values: dict[str, Any] = {}
    origins = dict.fromkeys(Settings.__struct_fields__, Origin("default", ""))
    for entry in _entries(root, environ, flags or {}, faults, sources):
        field = _fields().get(entry.key)
        if field is None:
            faults.append(_unknown(entry, Settings.__struct_fields__))
            continue
        read = _meta(field, "table")
        if read is not None:
            values[entry.key] = {**values.get(entry.key, {}), **_table(entry, read, root, faults)}
            origins[entry.key] = entry.origin
            continue
        try:
            value = _converted(entry, field)
        except ValueError as exc:
            faults.append(f"{_where(entry)}{exc}")
            continue
        if _meta(field, "path") and entry.origin.kind in PROJECT_FILES and not value.startswith("~"):
            value = str(root / value)
        values[entry.key], origins[entry.key] = value, entry.origin
    faults += role_faults(values.get("agent", {}), values.get("roles", {})) if not faults else []
    if faults:
        several = f"{len(faults)} settings are wrong:\n  " if faults[1:] else ""
        raise SettingsError(several + "\n  ".join(faults))
    return Resolved(Settings(**values), origins, tuple(sources))


def _table(
    entry: _Entry, read: Callable[..., dict[str, Any]], root: Path, faults: list[str]
) -> dict[str, Any]:
    if entry.place_of is None or not isinstance(entry.value, dict):
        faults.append(f"{_where(entry)}{entry.key} is a table of {SETTINGS_FILE}, and nothing else sets it")
        return {}
    return read(entry.value, root, entry.place_of, faults)


def _entries(
    root: Path,
    environ: Mapping[str, str],
    flags: Mapping[str, object],
    faults: list[str],
    sources: list[Source],
) -> Iterator[_Entry]:
    """The entries of each source, the weakest first: a later entry overrides an earlier one."""
    yield from _from_toml(root / "pyproject.toml", ("tool", "holdfast"), "pyproject", faults, sources)
    yield from _from_toml(root / SETTINGS_FILE, (), "file", faults, sources)
    yield from _from_dotenv(root / ".env", faults, sources)
    for name, value in environ.items():
        if name.startswith(PREFIX):
            yield from _from_variable(name, value, Origin("environment", name))
    for key, given in flags.items():
        if given is not None:
            value_of = os.fspath(given) if isinstance(given, os.PathLike) else given
            yield _Entry(key, value_of, Origin("flag", "--" + key.replace("_", "-")))


def _from_variable(name: str, value: str, origin: Origin) -> Iterator[_Entry]:
    if value and name not in OTHER_VARIABLES:
        # What is not all capitals is a misspelt name, not the setting: it stays whole, so that it is unknown.
        key = name.removeprefix(PREFIX).lower() if name == name.upper() else name
        yield _Entry(key, value, origin, text=True)


def _from_toml(
    path: Path, table: tuple[str, ...], kind: Kind, faults: list[str], sources: list[Source]
) -> Iterator[_Entry]:
    read = _read(path, faults)
    if read is None or (table and not re.search(_MENTIONS, read[0], re.MULTILINE)):
        return
    data, status = read
    import tomllib

    try:
        text = data.decode("utf-8-sig")
        found: object = tomllib.loads(text)
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        faults.append(f"{path.name}:{line}: the file is not UTF-8; save it as UTF-8")
        return
    except (tomllib.TOMLDecodeError, RecursionError) as exc:
        faults.append(_toml_fault(path.name, text, str(exc)))
        return
    for name in table:
        found = found.get(name, {}) if isinstance(found, dict) else found
    if not isinstance(found, dict):
        faults.append(f"{path.name}: {'.'.join(table)} must be a table")
        return
    if found or not table:
        # Of a file that says much else, only what it says of holdfast: other lines may change.
        said = repr(found).encode() if table else data
        sources.append(Source(path.name, _hash(said), status))

    def place_of(names: tuple[str, ...]) -> str:
        line = _line_of(text, names[-1], (*table, *names[:-1]))
        return f"{path.name}:{line}" if line else path.name

    for key, value in found.items():
        yield _Entry(key, value, Origin(kind, place_of((key,))), place_of=place_of)


_MENTIONS = rb"""^[^#\n]*\btool\b[^\n]*\bholdfast\b|^\s*\[\s*["']?tool["']?\s*\]"""
"""Whether a pyproject.toml can have our table: parsing a large one costs more than all the rest, and a
fault in one that says nothing of holdfast is not ours to report."""


def _toml_fault(name: str, text: str, message: str) -> str:
    place = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", message)
    if place is None:
        return f"{name}: not valid TOML: {message}"
    line = place[1] or str(text.count("\n") + 1)
    return f"{name}:{line}: not valid TOML: {message[: place.start()]}"


def _line_of(text: str, key: str, table: tuple[str, ...]) -> int | None:
    """The line that sets `key` in `table`, or None where it is written in an unusual way.

    tomllib keeps no positions; reading `[table]` and `key =` line by line is right for all but
    inline tables and keys inside multi-line strings.
    """
    spelling = re.compile(rf"""\s*["']?{re.escape(key)}["']?\s*[=.]""")
    current: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        header = re.match(r"\s*\[\[?\s*([^\[\]]+?)\s*\]", line)
        if header:
            current = tuple(part.strip().strip("\"'") for part in header[1].split("."))
            if current[: len(table) + 1] == (*table, key):
                return number
        elif current == table and spelling.match(line):
            return number
    return None


def _from_dotenv(path: Path, faults: list[str], sources: list[Source]) -> Iterator[_Entry]:
    """The HOLDFAST_* lines of a `.env`; all others belong to other programs and are not looked at.

    `KEY=VALUE`, `export KEY=VALUE`, 'literal' and "escaped" values, `# comments`; nothing is expanded.
    """
    read = _read(path, faults)
    if read is None or PREFIX.encode() not in read[0]:
        return
    lines = read[0].decode("utf-8-sig", "surrogateescape").split("\n")
    matches = [re.match(r"\s*(?:export\s+)?(HOLDFAST_\w*)\s*(=?)(.*)$", line) for line in lines]
    said = "\n".join(match[0] for match in matches if match is not None)
    if said:
        sources.append(Source(path.name, _hash(said.encode("utf-8", "surrogateescape")), read[1]))
    for number, match in enumerate(matches, 1):
        if match is None:
            continue
        place = f"{path.name}:{number}"
        try:
            if not match[2]:
                raise ValueError(f"{match[1]} has no value; write {match[1]}=VALUE")
            value = _dotenv_value(match[3].strip())
        except ValueError as exc:
            faults.append(f"{place}: {exc}")
            continue
        yield from _from_variable(match[1], value, Origin("dotenv", place))


def _dotenv_value(raw: str) -> str:
    if any("\udc80" <= char <= "\udcff" for char in raw):
        raise ValueError("the value is not UTF-8; save the file as UTF-8")
    if raw[:1] not in ("'", '"'):
        return re.split(r"(?:^|\s)#", raw, maxsplit=1)[0].strip()
    quoted = re.match(r"""(?:'([^']*)'|"((?:[^"\\]|\\.)*)")\s*(?:#.*)?$""", raw)
    if quoted is None:
        raise ValueError("the quotes of the value do not match, or something follows them")
    if quoted[1] is not None:
        return quoted[1]
    # An unknown escape keeps its backslash: regular expressions are full of them.
    escapes = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "$": "$"}
    return re.sub(r"\\(.)", lambda m: escapes.get(m[1], m[0]), quoted[2])


def _read(path: Path, faults: list[str]) -> tuple[bytes, os.stat_result] | None:
    """The content, and the status of the very file that it was read from."""
    try:
        # A directory `.env` is a virtual environment; a pipe would block.
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return file.read(), os.fstat(file.fileno())
    except FileNotFoundError:
        return None
    except OSError as exc:
        faults.append(f"{path.name}: cannot be read: {exc.strerror}; make {path} readable, or remove it")
        return None


def _file_digest(path: Path) -> str:
    """Of a file that cannot be read, the reason: one that appears later is another content."""
    from hashlib import file_digest

    try:
        if not path.is_file():  # a pipe would block
            return "none"
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as exc:
        return str(exc.strerror)


def _hash(data: bytes) -> str:
    from hashlib import sha256

    return sha256(data).hexdigest()


# Values


@cache
def _fields() -> dict[str, msgspec.structs.FieldInfo]:
    return {field.name: field for field in msgspec.structs.fields(Settings)}


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def _meta(field: msgspec.structs.FieldInfo, name: str) -> Any:
    """An entry of the field's Meta: its description, or a key of its `extra`."""
    for meta in getattr(field.type, "__metadata__", ()):
        if name == "description":
            return meta.description
        if meta.extra and name in meta.extra:
            return meta.extra[name]
    return None


def _converted(entry: _Entry, field: msgspec.structs.FieldInfo) -> Any:
    """The value in the field's type. Raises ValueError with what is expected."""
    value = entry.value
    if entry.text and _is_list(field.type):
        value = _listed(entry.key, str(value).strip())
    elif entry.text and _is_table(field.type):
        value = _paired(entry.key, str(value))
    try:
        converted = msgspec.convert(value, field.type, strict=not entry.text)
    except msgspec.ValidationError:
        raise ValueError(_misfit(entry.key, value, field.type)) from None
    check: Callable[[Any], None] | None = _meta(field, "check")
    if check is not None:
        try:
            check(converted)
        except ValueError as exc:
            raise ValueError(f"{entry.key}: {exc}") from None
    return converted


def _misfit(key: str, value: object, kind: Any) -> str:
    # Lists are not shown: what stands in `redact` may be the secret itself.
    is_ = f"is {value!r:.80}, but " if isinstance(value, str | int | float) and not _is_list(kind) else ""
    near = _nearest(str(value), _choices(kind))
    return f"{key} {is_}must be {_words(kind)}" + (f"; did you mean {near!r}?" if near else "")


def _listed(key: str, text: str) -> list[Any]:
    """A list out of a variable: a JSON array, or items between commas."""
    if not (text.startswith("[") and text.endswith("]")):
        return [item.strip() for item in text.split(",") if item.strip()]
    try:
        return msgspec.json.decode(text, type=list[Any])
    except msgspec.DecodeError:
        raise ValueError(f'{key}: what stands in [ ] must be a JSON array, such as ["a", "b"]') from None


def _paired(key: str, text: str) -> dict[str, str]:
    """A table out of a variable: `name=value` between commas."""
    pairs = [item.partition("=") for item in text.split(",") if item.strip()]
    if not all(sign for _, sign, _ in pairs):
        raise ValueError(f"{key}: write name=value, with commas between several")
    return {name.strip(): value.strip() for name, _, value in pairs}


# Words for types and faults


def _is_list(kind: Any) -> bool:
    return get_origin(getattr(kind, "__origin__", kind)) is list


def _is_table(kind: Any) -> bool:
    return get_origin(getattr(kind, "__origin__", kind)) is dict


def _choices(kind: Any) -> tuple[str, ...]:
    plain = getattr(kind, "__origin__", kind)
    return tuple(map(str, get_args(plain))) if get_origin(plain) is Literal else ()


def _words(kind: Any) -> str:
    """A type in words, such as `an integer >= 1` or `"full" or "process"`."""
    from msgspec import inspect

    info: Any = kind if isinstance(kind, inspect.Type) else inspect.type_info(kind)
    name = type(info).__name__.removesuffix("Type")
    if name == "Metadata":
        return _words(info.type)
    if name == "Dict":
        return "a table"
    if name == "Union":
        return " or ".join(words for part in info.types if (words := _words(part)) != "None")
    if name == "Dict":
        return "a table"
    if name == "Literal":
        return " or ".join(f'"{value}"' for value in info.values)
    if name == "List":
        return f"a list, each {_words(info.item_type)}"
    plain = {"Int": "an integer", "Float": "a number", "Bool": "true or false", "Str": "text"}
    limits = ((">=", getattr(info, "ge", None)), ("<=", getattr(info, "le", None)))
    bounds = " and ".join(f"{sign} {limit:g}" for sign, limit in limits if limit is not None)
    return f"{plain.get(name, name)} {bounds}".strip()


def _where(entry: _Entry) -> str:
    # A flag needs no place: the same way serves the arguments of `Holdfast`, and the key names both.
    return "" if entry.origin.kind == "flag" else f"{entry.origin.place}: "


def _unknown(entry: _Entry, keys: Sequence[str]) -> str:
    if entry.text:
        name = entry.key if entry.key.startswith(PREFIX) else variable(entry.key)
        keys = [*map(variable, keys), *OTHER_VARIABLES]
    else:
        name = entry.key
    near = _nearest(name, keys)
    place = "" if entry.origin.place == name else _where(entry)
    advice = f"did you mean {near}?" if near else "`holdfast config show` lists all"
    return f"{place}unknown setting {name!r}; {advice}"


def _nearest(name: str, candidates: Sequence[str]) -> str | None:
    import difflib

    plain = {candidate.lower(): candidate for candidate in candidates}
    close = difflib.get_close_matches(name.lower().replace("-", "_"), plain, n=1, cutoff=0.7)
    return plain[close[0]] if close else None
