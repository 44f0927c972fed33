"""The entries of each source: TOML files, `.env`, the environment and flags, not yet checked."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

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
"""The kinds of origin that come with the project, which may be another person's."""


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


class Entry(msgspec.Struct, frozen=True):
    """A value as one source gives it, not yet checked; `text` when it has yet to be parsed."""

    key: str
    value: object
    origin: Origin
    text: bool = False
    place_of: Callable[[tuple[str, ...]], str] | None = None
    """Where the keys of a table stand."""


def entries(
    root: Path,
    environ: Mapping[str, str],
    flags: Mapping[str, object],
    faults: list[str],
    sources: list[Source],
) -> Iterator[Entry]:
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
            yield Entry(key, value_of, Origin("flag", "--" + key.replace("_", "-")))


def _from_variable(name: str, value: str, origin: Origin) -> Iterator[Entry]:
    if value and name not in OTHER_VARIABLES:
        # What is not all capitals is a misspelt name, not the setting: it stays whole, so that it is unknown.
        key = name.removeprefix(PREFIX).lower() if name == name.upper() else name
        yield Entry(key, value, origin, text=True)


def _from_toml(
    path: Path, table: tuple[str, ...], kind: Kind, faults: list[str], sources: list[Source]
) -> Iterator[Entry]:
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
        sources.append(Source(path.name, digest_of(said), status))

    def place_of(names: tuple[str, ...]) -> str:
        line = _line_of(text, names[-1], (*table, *names[:-1]))
        return f"{path.name}:{line}" if line else path.name

    for key, value in found.items():
        yield Entry(key, value, Origin(kind, place_of((key,))), place_of=place_of)


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


def _from_dotenv(path: Path, faults: list[str], sources: list[Source]) -> Iterator[Entry]:
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
        sources.append(Source(path.name, digest_of(said.encode("utf-8", "surrogateescape")), read[1]))
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


def digest_of(data: bytes) -> str:
    from hashlib import sha256

    return sha256(data).hexdigest()


def digest_of_file(path: Path) -> str:
    """Of a file that cannot be read, the reason: one that appears later is another content."""
    from hashlib import file_digest

    try:
        if not path.is_file():  # a pipe would block
            return "none"
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as exc:
        return str(exc.strerror)
