"""Skills as files: folders with a SKILL.md, found in the directories of a project.

    skills/tables/SKILL.md
        ---
        name: tables
        description: Draw tables in reports; align numbers; label units.
        kinds: [report, review]
        ---
        The text that a prompt gets.

`name` and `description` are needed. `kinds` limits a skill to kinds of work. Other keys are allowed and
ignored, so that folders made for other programs can be used. A file with a fault is left out and reported
with its place; the others are used.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.plans import document

FILE: Final = "SKILL.md"
DIRECTORIES: Final = (".holdfast/skills", "skills")
"""Where skills of a project are, beside those that a setting names."""
_MOST_BYTES: Final = 256 << 10
_MOST_FRONT: Final = 16 << 10
_MOST_FOLDERS: Final = 1000
_DESCRIPTION_CHARS: Final = 1024
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_KIND_CHARS: Final = 200
_FENCE: Final = "---"


class SkillFile(msgspec.Struct, frozen=True):
    """One skill. `digest` is that of the whole file: what was learned about a skill belongs to that text of
    it."""

    name: str
    description: str
    text: str
    path: str
    digest: str
    kinds: tuple[str, ...] = ()

    @property
    def candidate(self) -> str:
        """The name under which outcomes are recorded."""
        return f"{self.name}@{self.digest[:8]}"


class SkillFault(msgspec.Struct, frozen=True):
    """Why a file is not used. `line` counts from 1."""

    path: str
    line: int
    text: str

    JSON = {
        "path": "the file, relative to the project's root if it is in it",
        "line": "the line, from 1",
        "text": "what is wrong, and what to write instead",
    }

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "line": self.line, "text": self.text}


class Found(NamedTuple):
    skills: list[SkillFile]
    faults: list[SkillFault]


class _Wrong(Exception):
    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


def find(root: Path, directories: Sequence[str] = ()) -> Found:
    """The skills of a project, by name, and the faults of the files that are none. Relative directories
    count from `root`. Of two skills of one name the first counts: `.holdfast/skills`, `skills`, then
    `directories`."""
    by_name: dict[str, SkillFile] = {}
    faults: list[SkillFault] = []
    for path in _files(root, directories, faults):
        shown = _shown(path, root)
        try:
            skill = read(path, shown)
            other = by_name.setdefault(skill.name, skill)
            if other is not skill:
                raise _Wrong(1, f"the name {skill.name!r} is taken by {other.path}; give it another name")
        except _Wrong as wrong:
            faults.append(SkillFault(shown, wrong.line, str(wrong)))
    return Found(sorted(by_name.values(), key=lambda skill: skill.name), faults)


def read(path: Path, shown: str) -> SkillFile:
    """The skill in a file, which is called `shown` there."""
    data = _bytes(path)
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _Wrong(line, "the file is not UTF-8; save it as UTF-8") from None
    front, body = _split(text)
    fields = _fields(front)
    name = _text(fields, "name")
    if not _NAME.fullmatch(name.value):
        raise _Wrong(
            name.line, f"the name {name.value!r} has other characters than A-Z a-z 0-9 . _ -, or more than 64"
        )
    description = _text(fields, "description")
    if len(description.value) > _DESCRIPTION_CHARS:
        raise _Wrong(description.line, f"the description has more than {_DESCRIPTION_CHARS} characters")
    digest = hashlib.sha256(data).hexdigest()
    return SkillFile(name.value, description.value, body.strip("\n"), shown, digest, _kinds(fields))


def _files(root: Path, directories: Sequence[str], faults: list[SkillFault]) -> Iterator[Path]:
    for name in (*DIRECTORIES, *directories):
        directory = root / Path(name).expanduser()
        try:
            folders = sorted(os.listdir(directory))  # noqa: PTH208
        except (FileNotFoundError, NotADirectoryError):
            if name not in DIRECTORIES:
                faults.append(SkillFault(_shown(directory, root), 1, "there is no such directory of skills"))
            continue
        except OSError as error:
            faults.append(SkillFault(_shown(directory, root), 1, f"it cannot be listed: {error.strerror}"))
            continue
        if len(folders) > _MOST_FOLDERS:
            text = f"it has more than {_MOST_FOLDERS} entries, and only the first of them are read"
            faults.append(SkillFault(_shown(directory, root), 1, text))
        for folder in folders[:_MOST_FOLDERS]:
            path = directory / folder / FILE
            if os.path.lexists(path):
                yield path


def _bytes(path: Path) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe would wait for its writer
        with open(fd, "rb") as file:  # noqa: PTH123
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise _Wrong(1, "it is not a regular file")
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise _Wrong(1, f"it cannot be read: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise _Wrong(1, f"it is larger than {_MOST_BYTES >> 10} KB; put details into files beside it")
    return data


def _split(text: str) -> tuple[str, str]:
    """The front matter, after an empty line so that its lines have the numbers of the file, and the text."""
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        raise _Wrong(1, f"it does not begin with a line `{_FENCE}`; write `name` and `description` there")
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == _FENCE:
            front = "\n".join(["", *lines[1:number]])
            if len(front) > _MOST_FRONT:
                raise _Wrong(1, f"what stands before the text is larger than {_MOST_FRONT >> 10} KB")
            return front, "\n".join(lines[number + 1 :])
    raise _Wrong(1, f"there is no second line `{_FENCE}`, where the text begins")


def _fields(front: str) -> document.Mapping:
    if not front.strip():
        raise _Wrong(1, "`name` and `description` are missing")
    try:
        node, twice = document.parse(front)
    except document.Unreadable as error:
        raise _Wrong(error.line, error.text) from None
    if twice:
        raise _Wrong(twice[0].line, twice[0].text)
    if not isinstance(node, document.Mapping):
        raise _Wrong(node.line, "write keys and values: `name: ...`, `description: ...`")
    return node


class _Text(NamedTuple):
    value: str
    line: int


def _text(fields: document.Mapping, key: str) -> _Text:
    entry = fields.value.get(key)
    if entry is None:
        raise _Wrong(1, f"`{key}` is missing")
    value = entry.node.value
    if not isinstance(value, str) or not value.strip():
        raise _Wrong(entry.line, f"`{key}` must be a text that is not empty")
    return _Text(" ".join(value.split()), entry.line)


def _kinds(fields: document.Mapping) -> tuple[str, ...]:
    entry = fields.value.get("kinds")
    if entry is None:
        return ()
    kinds = document.plain(entry.node)
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not isinstance(kinds, list) or not all(
        isinstance(kind, str) and 0 < len(kind) <= _KIND_CHARS for kind in kinds
    ):
        raise _Wrong(entry.line, "`kinds` must be a list of texts, such as [plan, review]")
    return tuple(kinds)


def _shown(path: Path, root: Path) -> str:
    try:
        return str(path.relative_to(root))
    except ValueError:
        return str(path)
