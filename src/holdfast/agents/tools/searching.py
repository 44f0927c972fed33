"""Searching the files of a workspace, in bounded time: a regular expression is matched by a process that can
be killed."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, cast

import msgspec

from holdfast.agents.tools import file_tools, regex_child, text_file
from holdfast.agents.tools.confinement import Confinement
from holdfast.agents.tools.tool_results import Found, Match
from holdfast.errors import ToolFailed
from holdfast.sizes import amount
from holdfast.workspace.fs import beneath
from holdfast.workspace.fs.beneath import shown

MOST_MATCHES = 10_000
MOST_SECONDS = 120.0
_LARGEST_FILE = 8 << 20
_LONGEST_LINE = 10_000
_SHOWN_LINE = 400
_LONGEST_PATTERN = 10_000
_BATCH_FILES, _BATCH_SIZE = 64, 512 << 10
_MOST_AROUND = 20


class Query(NamedTuple):
    """The pattern, and where to search."""

    pattern: str
    path: str
    patterns: tuple[str, ...]
    literal: bool
    ignore_case: bool
    around: int
    limit: int
    timeout_s: float

    def check(self) -> None:
        """Raises `ToolFailed`."""
        if not self.pattern:
            raise ToolFailed("the pattern is empty: name a text or a regular expression")
        if "\n" in self.pattern or len(self.pattern) > _LONGEST_PATTERN:
            raise ToolFailed(
                f"a pattern is one line of at most {_LONGEST_PATTERN} characters: lines are matched"
            )
        if not (0 <= self.around <= _MOST_AROUND and self.limit >= 1 and 0 < self.timeout_s <= MOST_SECONDS):
            raise ToolFailed(
                f"around is 0 to {_MOST_AROUND}, limit at least 1, timeout_s more than 0 and "
                f"at most {MOST_SECONDS:g}"
            )


class _TookTooLong(Exception):
    """The time is up."""


class _Texts(NamedTuple):
    paths: list[str]
    texts: list[str]


Matcher = Callable[[list[str]], list[list[int]]]
"""The numbers of the lines that match, for each text."""


def search(inside: Confinement, query: Query) -> Found:
    """The lines that match, in files that are text and not ignored. When the time or the number of matches is
    reached, returns those found so far, and says where it stopped."""
    query.check()
    deadline = time.monotonic() + query.timeout_s
    limit = min(query.limit, MOST_MATCHES)
    found = _Finding(inside, query.around, limit)
    start = inside.inner(query.path)
    if not _is_file(inside, start):
        inside.directory(query.path)
    with _matcher(query, limit, deadline) as matcher:
        for batch in found.batches(start, query.patterns):
            try:
                found.add(batch, matcher(batch.texts))
                if time.monotonic() > deadline:
                    raise _TookTooLong
            except _TookTooLong:
                found.stop(
                    f"the search was stopped after {query.timeout_s:g} s near {batch.paths[0]}; {_SLOW}"
                )
                break
            if found.is_full:
                break
    return found.result()


_SLOW = "simplify the pattern (repeats inside repeats, such as (a+)+, never end), or name fewer files"


class _Finding:
    """The matches so far, and the count of those left out."""

    def __init__(self, inside: Confinement, around: int, limit: int) -> None:
        self._inside = inside
        self._around = around
        self._limit = limit
        self._matches: list[Match] = []
        self._files = 0
        self._large: list[str] = []
        self._unread = 0
        self._stopped = ""

    @property
    def is_full(self) -> bool:
        return len(self._matches) >= self._limit

    def stop(self, why: str) -> None:
        self._stopped = why

    def batches(self, start: bytes, patterns: tuple[str, ...]) -> Iterator[_Texts]:
        walk = beneath.Walk(self._inside.fd)
        batch, size = _Texts([], []), 0
        try:
            for path in _paths(self._inside, start, patterns):
                text = self._text(walk, path)
                if text is None:
                    continue
                batch.paths.append(shown(path))
                batch.texts.append(text)
                size += len(text)
                if len(batch.texts) >= _BATCH_FILES or size >= _BATCH_SIZE:
                    yield batch
                    batch, size = _Texts([], []), 0
        finally:
            walk.close()
        if batch.texts:
            yield batch

    def _text(self, walk: beneath.Walk, path: bytes) -> str | None:
        data = self._inside.bytes_of(walk, path, _LARGEST_FILE + 1)
        if data is None:
            self._unread += 1
            return None
        if len(data) > _LARGEST_FILE:
            self._large.append(shown(path))
            return None
        try:
            return text_file.decode(data, shown(path), len(data)).text
        except ToolFailed:  # no text
            return None

    def add(self, batch: _Texts, numbers: list[list[int]]) -> None:
        for path, text, lines in zip(batch.paths, batch.texts, numbers, strict=True):
            self._files += 1
            if not lines or self.is_full:
                continue
            every = text.split("\n")
            for number in lines[: self._limit - len(self._matches)]:
                before = every[max(0, number - 1 - self._around) : number - 1]
                after = every[number : number + self._around]
                self._matches.append(
                    Match(
                        path,
                        number,
                        _cut(every[number - 1]),
                        tuple(map(_cut, before)),
                        tuple(map(_cut, after)),
                    )
                )

    def result(self) -> Found:
        remarks = [self._stopped] if self._stopped else []
        if self.is_full:
            remarks.append(f"stopped after {self._limit} matches; make the pattern narrower, or name files")
        if self._large:
            names = ", ".join(self._large[:3]) + (", ..." if len(self._large) > 3 else "")
            remarks.append(
                f"{len(self._large)} files of more than {amount(_LARGEST_FILE)} were not searched: {names}"
            )
        if self._unread:
            remarks.append(f"{self._unread} files could not be read, or are hard links to files outside")
        return Found(tuple(self._matches), self._files, "; ".join(remarks))


def _paths(inside: Confinement, start: bytes, patterns: tuple[str, ...]) -> Iterator[bytes]:
    if _is_file(inside, start):
        yield start
        return
    for entry in file_tools.selected(inside.walk(start), patterns):
        if entry.is_file:
            yield entry.path


def _is_file(inside: Confinement, path: bytes) -> bool:
    if not path:
        return False
    try:
        inside.read(shown(path), 0)
    except ToolFailed:
        return False
    return True


def _cut(line: str) -> str:
    line = line.rstrip("\r")
    return line if len(line) <= _SHOWN_LINE else f"{line[:_SHOWN_LINE]}... ({len(line)} characters)"


@contextmanager
def _matcher(query: Query, most: int, deadline: float) -> Iterator[Matcher]:
    if query.literal:
        yield _literal(query.pattern, query.ignore_case, most)
        return
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(regex_child.__file__))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        child = _Child(process, deadline)
        request = {
            "pattern": query.pattern, "ignore_case": query.ignore_case, "most": most, "width": _LONGEST_LINE,
            "cpu_s": query.timeout_s,
        }  # fmt: skip
        try:
            said = child.ask(json.dumps(request).encode())
        except _TookTooLong:
            raise ToolFailed(f"the pattern {query.pattern[:80]!r} takes too long to read; {_SLOW}") from None
        if isinstance(said, dict):
            raise ToolFailed(
                f"{query.pattern!r} is no regular expression: {said['error']}; literal=true takes it as text"
            )
        yield child.match
    finally:
        process.kill()
        process.communicate()


class _Child:
    """The process that matches, asked one question at a time."""

    def __init__(self, process: subprocess.Popen[bytes], deadline: float) -> None:
        assert process.stdin is not None and process.stdout is not None, "both are pipes"
        self._stdin, self._stdout = process.stdin, process.stdout
        self._deadline = deadline
        self._rest = b""

    def match(self, texts: list[str]) -> list[list[int]]:
        return cast("list[list[int]]", self.ask(msgspec.json.encode(texts)))

    def ask(self, frame: bytes) -> list[list[int]] | dict[str, str]:
        try:
            self._stdin.write(len(frame).to_bytes(4, "big") + frame)
            self._stdin.flush()
        except BrokenPipeError:
            raise _TookTooLong from None
        answer: list[list[int]] | dict[str, str] = json.loads(self._line())
        return answer

    def _line(self) -> bytes:
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                left = self._deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    raise _TookTooLong
                piece = os.read(self._stdout.fileno(), 65536)
                if not piece:
                    raise _TookTooLong  # by its limit of CPU time
                self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return line


def _literal(pattern: str, ignore_case: bool, most: int) -> Matcher:
    wanted = pattern.casefold() if ignore_case else pattern

    def matching(text: str) -> list[int]:
        searched = text.casefold() if ignore_case else text
        if wanted not in searched:
            return []
        return [n for n, line in enumerate(searched.split("\n"), 1) if wanted in line][:most]

    return lambda texts: [matching(text) for text in texts]
