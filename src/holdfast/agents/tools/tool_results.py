"""Results of tools: typed for programs, and by `str()` the text that a model reads.

`left_out` says what is missing and why; empty means that nothing is.
"""

from __future__ import annotations

import msgspec

from holdfast.engine.primitives.command import CommandResult
from holdfast.sizes import amount


class FileText(msgspec.Struct, frozen=True):
    """Lines of a file, from `first` on. `lines` and `size` are those of the whole file."""

    path: str
    text: str
    first: int
    lines: int
    size: int
    encoding: str
    left_out: str = ""

    def __str__(self) -> str:
        return _with_remark(self.text, self.left_out)


class Written(msgspec.Struct, frozen=True):
    """A file that was written whole."""

    path: str
    size: int
    lines: int
    created: bool

    def __str__(self) -> str:
        did = "created" if self.created else "replaced"
        return f"{did} {self.path}: {self.lines} lines, {amount(self.size)}"


class Edited(msgspec.Struct, frozen=True):
    """A file in which text was replaced; `lines` are the numbers of the lines where the new text begins."""

    path: str
    replaced: int
    lines: tuple[int, ...]

    def __str__(self) -> str:
        where = ", ".join(map(str, self.lines[:20])) + (", ..." if len(self.lines) > 20 else "")
        return f"edited {self.path}: {self.replaced} replaced, at line {where}"


class FileEntry(msgspec.Struct, frozen=True):
    """A name in a directory: `kind` is file, directory, link or other."""

    path: str
    kind: str
    size: int

    def __str__(self) -> str:
        if self.kind == "directory":
            return f"{self.path}/"
        return f"{self.path}  {amount(self.size)}" if self.kind == "file" else f"{self.path}  ({self.kind})"


class FileList(msgspec.Struct, frozen=True):
    """The entries of a directory, in the order of the names."""

    path: str
    entries: tuple[FileEntry, ...]
    left_out: str = ""

    def __str__(self) -> str:
        return _with_remark("\n".join(map(str, self.entries)) or "nothing", self.left_out)


class Match(msgspec.Struct, frozen=True):
    """A line that matches; `before` and `after` are the lines around it."""

    path: str
    line: int
    text: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def __str__(self) -> str:
        first = self.line - len(self.before)
        around = [f"{self.path}-{first + n}- {text}" for n, text in enumerate(self.before)]
        behind = [f"{self.path}-{self.line + 1 + n}- {text}" for n, text in enumerate(self.after)]
        return "\n".join([*around, f"{self.path}:{self.line}: {self.text}", *behind])


class Found(msgspec.Struct, frozen=True):
    """The matches of a search, in the order of paths and lines; `files` were searched."""

    matches: tuple[Match, ...]
    files: int
    left_out: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that have a match, each once."""
        return tuple(dict.fromkeys(match.path for match in self.matches))

    def __str__(self) -> str:
        nothing = f"no match in {self.files} files"
        return _with_remark("\n".join(map(str, self.matches)) or nothing, self.left_out)


def text_of(result: object) -> str:
    """The result of a tool as a model reads it."""
    if not isinstance(result, CommandResult):
        return str(result)
    remark = f"{amount(result.left_out)} of earlier output left out" if result.left_out else ""
    parts = [f"exit code {result.exit_code}", result.stdout.rstrip("\n")]
    if result.stderr.strip():
        parts += ["stderr:", result.stderr.rstrip("\n")]
    return _with_remark("\n".join(part for part in parts if part), remark)


def _with_remark(text: str, left_out: str) -> str:
    if not left_out:
        return text
    return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}[{left_out}]"
