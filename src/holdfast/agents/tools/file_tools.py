"""Reading, writing, editing and listing files of a workspace."""

from __future__ import annotations

import difflib
import stat
from collections.abc import Iterator
from itertools import islice

import pathspec

from holdfast.agents.tools import text_file
from holdfast.agents.tools.confinement import Confinement
from holdfast.agents.tools.tool_results import Edited, FileEntry, FileList, FileText, Written
from holdfast.errors import ToolFailed
from holdfast.sizes import amount
from holdfast.workspace.fs.beneath import shown
from holdfast.workspace.snapshots.visible_files import Entry

MOST_READ = 16 << 20
"""Of a longer file, tools see so many bytes from its beginning."""
MOST_TEXT = 1 << 20
"""No tool returns more characters, whatever limit is asked for."""
MOST_ENTRIES = 10_000
_NEARNESS = 0.6
_COMPARED = 5_000


def read(
    inside: Confinement, path: str, first: int, lines: int, limit: int, encoding: str | None
) -> FileText:
    """At most `lines` lines (0: all) of a file from line `first` on, at most `limit` characters."""
    _check(first >= 1, f"first={first}: lines are counted from 1")
    _check(lines >= 0 and limit >= 1, "lines is not less than 0, and limit at least 1")
    limit = min(limit, MOST_TEXT)
    data, status = inside.read(path, MOST_READ)
    said = text_file.decode(data, path, status.st_size, encoding)
    every = _lines(said.text)
    chosen = every[first - 1 : first - 1 + lines] if lines else every[first - 1 :]
    if first > 1 and not chosen:
        raise ToolFailed(f"{path!r} has {len(every)} lines, and no line {first}")
    text = "".join(chosen)
    remarks = []
    if len(text) > limit:
        text = text[:limit]
        ended = first + text.count("\n") - (1 if text.endswith("\n") else 0)
        remarks.append(
            f"cut after {limit} characters, in line {ended} of {len(every)}; read on with first={ended}"
        )
    elif first - 1 + len(chosen) < len(every):
        rest = len(every) - (first - 1 + len(chosen))
        remarks.append(f"{rest} more lines follow; read on with first={first + len(chosen)}")
    if status.st_size > len(data):
        remarks.append(
            f"the file has {amount(status.st_size)}, and only the first {amount(len(data))} can be read"
        )
    return FileText(path, text, first, len(every), status.st_size, said.encoding, "; ".join(remarks))


def write(inside: Confinement, path: str, text: str, encoding: str, new: bool) -> Written:
    """Replace a file by one with this text, or make it."""
    try:
        data = text_file.Text("", encoding).encode(text)
    except LookupError:
        raise ToolFailed(f"there is no encoding {encoding!r}") from None
    created = inside.replace(path, data, must_be_new=new)
    return Written(path, len(data), len(text.splitlines()), created)


def edit(inside: Confinement, path: str, old: str, new: str, everywhere: bool) -> Edited:
    """Replace `old`, which stands in the file exactly once, by `new`; with `everywhere`, each that is
    there."""
    _check(bool(old), "`old` is empty: name the text to replace, or use `write` for a whole file")
    _check(old != new, "`old` and `new` are the same: nothing would change")
    data, status = inside.read(path, MOST_READ)
    if status.st_size > len(data):
        raise ToolFailed(
            f"{path!r} has {amount(status.st_size)}: `edit` takes files up to {amount(MOST_READ)}"
        )
    said = text_file.decode(data, path, status.st_size)
    if old not in said.text:
        # A model that was shown a file seldom writes its `\r`.
        breaks = text_file.breaks_of(said.text)
        old, new = text_file.with_breaks(old, breaks), text_file.with_breaks(new, breaks)
    places = list(_places(said.text, old))
    if not places:
        raise ToolFailed(f"{path!r} does not have the text to replace{_nearest(said.text, old)}")
    numbers = [said.text.count("\n", 0, at) + 1 for at in places]
    if len(places) > 1 and not everywhere:
        listed = ", ".join(map(str, numbers[:10])) + (", ..." if len(numbers) > 10 else "")
        raise ToolFailed(
            f"{path!r} has the text to replace {len(places)} times, at lines {listed}; add lines around it "
            "until it is unique, or pass everywhere=true to replace all"
        )
    inside.replace(path, said.encode(said.text.replace(old, new)))
    added = new.count("\n") - old.count("\n")
    return Edited(path, len(places), tuple(number + added * n for n, number in enumerate(numbers)))


def list_files(
    inside: Confinement, path: str, patterns: tuple[str, ...], depth: int, ignored: bool, limit: int
) -> FileList:
    """The entries of a directory, `depth` levels deep (0: all)."""
    _check(depth >= 0 and limit >= 1, "depth is not less than 0, and limit at least 1")
    limit = min(limit, MOST_ENTRIES)
    start = inside.directory(path)
    chosen = selected(inside.walk(start, ignored=ignored, depth=depth), patterns)
    entries = [_entry(one) for one in islice(chosen, limit)]
    more = sum(1 for _ in islice(chosen, MOST_ENTRIES))
    rest = "" if not more else f"{'at least ' if more == MOST_ENTRIES else ''}{more} more entries"
    return FileList(shown(start), tuple(entries), f"{rest}; name a directory or a pattern" if rest else "")


def selected(entries: Iterator[Entry], patterns: tuple[str, ...]) -> Iterator[Entry]:
    """Those that a pattern names, in the syntax of `.gitignore`; without patterns all."""
    if not patterns:
        return entries
    try:
        spec = pathspec.GitIgnoreSpec.from_lines(patterns)
    except ValueError as error:
        raise ToolFailed(
            f"{', '.join(patterns)} is no pattern of files: {error}; '*.py' and 'src/**' are"
        ) from error
    return (one for one in entries if not one.is_directory and spec.match_file(shown(one.path)))


def _entry(entry: Entry) -> FileEntry:
    kind = (
        "directory"
        if entry.is_directory
        else "file"
        if entry.is_file
        else "link"
        if entry.is_link
        else "other"
    )
    return FileEntry(
        shown(entry.path), kind, 0 if stat.S_ISDIR(entry.status.st_mode) else entry.status.st_size
    )


def _check(holds: bool, sentence: str) -> None:
    if not holds:
        raise ToolFailed(sentence)


def _lines(text: str) -> list[str]:
    """Lines by `\\n` alone: a form feed or a lone `\\r` ends no line for an editor or a compiler."""
    return [line + "\n" for line in text.split("\n")[:-1]] + (
        [last] if (last := text.rpartition("\n")[2]) else []
    )


def _places(text: str, old: str) -> Iterator[int]:
    at = text.find(old)
    while at >= 0:
        yield at
        at = text.find(old, at + len(old))


def _nearest(text: str, old: str) -> str:
    """Where something stands that is nearly `old`, and in what it differs."""
    wanted = old.strip("\n").split("\n")
    lines = text.split("\n")
    for number in range(len(lines) - len(wanted) + 1):
        there = lines[number : number + len(wanted)]
        if [one.split() for one in there] == [one.split() for one in wanted]:
            return f"; lines {number + 1} to {number + len(wanted)} differ from it only in white space"
    near = difflib.get_close_matches(
        wanted[0].strip(), [line.strip() for line in lines[:_COMPARED]], 1, _NEARNESS
    )
    if not near:
        return "; read the file again, and copy the text exactly"
    number = next(n for n, line in enumerate(lines, 1) if line.strip() == near[0])
    return f"; the nearest to its first line is line {number}: {near[0][:200]!r}"
