"""Analyzes a task without a model: its keywords, the files it names, and the files that are likely to matter.

The same text and files always give the same analysis. What is read of the files is kept (`word_index`), so
that a later analysis reads only what changed.
"""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Final

import msgspec

from holdfast.json_view import View
from holdfast.plans import word_index
from holdfast.plans.definitions import Definition, definitions, imports
from holdfast.plans.task_words import Keyword, TaskWords, parts, stem, words_of
from holdfast.plans.test_command import test_command
from holdfast.plans.word_index import FileWords, WordIndex
from holdfast.workspace.fs import beneath

_READ = 120
"""How many files are read for definitions: those that rank first by names and words."""
_CLOSER = 600
"""How many are ranked by names and words, of those that have any."""
_TELLS_NOTHING = 0.05
_SELDOM = (".md", ".rst", ".txt", ".json", ".toml", ".yaml", ".yml", ".html", ".css", ".pyi", ".csv", ".lock")
_SHOWN_DEFINITIONS = 5
_SHOWN_IMPORTS = 10
CACHE: Final = "analysis"
"""The cache in the store's directory. It can be deleted at any time."""
_SIMILAR = 0.75
_STEM, _STEM_PART, _DIRECTORY, _WORD, _PART_OF_WORD = 5.0, 3.0, 1.2, 1.0, 0.4
_NAME_DEFINED, _NAME_USED, _DEFINED = 14.0, 4.0, 2.2
_NAMED_FILE, _SIMILAR_FILE = 60.0, 30.0
_IMPORTED = 0.5

_TESTS = re.compile(
    r"(^|/)(tests?|testing|spec|__tests__)/|(^|/)(test_[^/]*|conftest\.py|[^/]*_test\.\w+|[^/]*\.(test|spec)\.\w+)$"
)
_DOCS = re.compile(
    r"(^|/)(docs?|changelogs?|licenses?)/|\.(md|rst|txt|adoc)$|(^|/)[^/]*(license|changelog|authors)[^/]*$",
    re.IGNORECASE,
)
_DATA = re.compile(
    r"\.(json|jsonl|ya?ml|toml|ini|cfg|csv|tsv|lock|xml|map|svg|html|css|pyi|typed)$|(^|/)\.[^/]+$"
)
_ASIDE = re.compile(
    r"(^|/)(vendor|_vendor|third_party|examples?|benchmarks?|[^/]+\.dist-info|[^/]+\.egg-info)/"
)


class NamedFile(View, frozen=True):
    """A file that the text names: `text` as it stands there, `path` in the tree, empty if there is none like
    it."""

    text: str
    path: str
    exact: bool

    JSON: ClassVar = {
        "text": "what the task says",
        "path": "the file in the workspace; null if there is none like it",
        "exact": "false: the name was matched in spite of a difference",
    }
    JSON_NULL: ClassVar = ("path",)


class Candidate(msgspec.Struct, frozen=True):
    """A file that is likely to matter, and the reasons. `definitions` are those that fit the task."""

    path: str
    score: float
    why: tuple[str, ...]
    definitions: tuple[Definition, ...] = ()
    imports: tuple[str, ...] = ()

    JSON: ClassVar = {
        "path": "the file, relative to the workspace",
        "score": "how well it fits; compare within one analysis only",
        "why": "the reasons, the strongest first",
        "definitions": "what it defines that fits the task: `name`, `line`",
        "imports": "what it imports",
    }

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "score": round(self.score, 2),
            "why": list(self.why),
            "definitions": [{"name": one.name, "line": one.line} for one in self.definitions],
            "imports": list(self.imports),
        }


class Analysis(View, frozen=True):
    """The analysis of a text against the files of a workspace. `files` begin with the most likely one.

    patterns  regular expressions to search for
    test      the command that tests the project, empty if none was recognised
    scanned   how many files were looked at; `left_out` were not, because there are too many
    """

    text: str
    keywords: tuple[str, ...]
    names: tuple[str, ...]
    named: tuple[NamedFile, ...]
    patterns: tuple[str, ...]
    files: tuple[Candidate, ...]
    test: tuple[str, ...]
    scanned: int
    left_out: int = 0

    JSON: ClassVar = {
        "text": "the task",
        "keywords": "its significant words, in its order",
        "names": "names of code in it",
        "named_files": "the files that it names",
        "patterns": "regular expressions to search for",
        "files": "the files that are likely to matter, the most likely first",
        "test": "the command that tests the project, as a list; empty if none was recognised",
        "scanned": "how many files were looked at",
        "left_out": "how many were not, because there are too many",
    }
    JSON_FROM: ClassVar = {"named_files": "named"}


def analyze(root: Path, text: str, *, limit: int = 10, cache: Path | None = None) -> Analysis:
    """`cache` is a directory in which to keep what was read. Raises OSError if the root cannot be read."""
    index = word_index.look(root, cache)
    words = words_of(text)
    named = tuple(_find_named(words.files, index))
    ranked = _Ranking(root, index, words, named, text).files(limit)
    return Analysis(
        text,
        tuple(one.word for one in words.keywords),
        words.names,
        named,
        tuple(_patterns(words)),
        tuple(ranked),
        test_command(root),
        len(index.files),
        index.left_out,
    )


def _find_named(texts: Sequence[str], index: WordIndex) -> Iterator[NamedFile]:
    """Exactly, by the end of a path, or by the most similar name."""
    if not texts:
        return
    paths = [one.path for one in index.files]
    by_name: dict[str, list[str]] = {}
    for path in paths:
        by_name.setdefault(path.rpartition("/")[2], []).append(path)
    known = set(paths)
    for text in texts:
        wanted = text.removeprefix("./").rstrip("/")
        ends = [wanted] if wanted in known else [one for one in paths if one.endswith(f"/{wanted}")]
        if not ends and any(path.startswith(f"{wanted}/") or f"/{wanted}/" in path for path in paths):
            continue  # a directory
        if ends:
            yield NamedFile(text, min(ends, key=lambda one: (one.count("/"), one)), exact=True)
            continue
        near = difflib.get_close_matches(PurePosixPath(wanted).name, sorted(by_name), 1, _SIMILAR)
        best = max(
            by_name[near[0]] if near else [],
            key=lambda one: (difflib.SequenceMatcher(None, one, wanted).ratio(), -len(one), one),
            default="",
        )
        yield NamedFile(text, best, exact=False)


def _patterns(words: TaskWords) -> Iterator[str]:
    """The patterns to search for: names as whole words, and definitions of what the rest is about."""
    for name in words.names:
        yield rf"\b{re.escape(name.rpartition('.')[2])}\b"
    stems = [one.stem for one in words.keywords if one.weight >= 1][:6]
    if stems:
        either = "|".join(map(re.escape, stems))
        yield rf"(?i)^\s*(?:async\s+)?(?:def|class|func|function|fn|type|interface)\s+\w*(?:{either})"


class _Score(msgspec.Struct):
    file: FileWords
    value: float = 0.0
    why: list[tuple[float, str]] = []
    definitions: list[Definition] = []
    imports: list[str] = []

    def add(self, points: float, why: str) -> None:
        self.value += points
        self.why.append((points, why))


class _Ranking:
    """One ranking of all files for one task."""

    def __init__(
        self, root: Path, index: WordIndex, words: TaskWords, named: Sequence[NamedFile], text: str
    ) -> None:
        self._root = root
        self._index = index
        self._words = words
        self._named = {one.path: one for one in named if one.path}
        lower = text.lower()
        self._wants_tests = bool(re.search(r"\btests?\b|\bpytest\b|\bfixture", lower))
        self._wants_docs = bool(
            re.search(r"\bdocs?\b|documentation|readme|changelog|guide\b|tutorial", lower)
        )
        self._wants_data = bool(
            re.search(r"\b(yaml|toml|json|config(uration)? file|stylesheet|css|html)\b", lower)
        )
        self._quick = [0.0] * len(index.files)
        self._paths = [one.path.lower() for one in index.files]
        self._keywords = [(one, one.stem.encode(), self._rarity(one)) for one in words.keywords]

    def _rarity(self, keyword: Keyword) -> float:
        """A word that few files have weighs more. On the way each file gets its quick score."""
        wanted = keyword.stem.encode()
        having = [n for n, one in enumerate(self._index.files) if wanted in one.words]
        rarity = keyword.weight * math.log((len(self._index.files) + 2) / (len(having) + 1))
        if rarity > _TELLS_NOTHING:
            for n in having:
                self._quick[n] += _WORD * rarity
        for n, path in enumerate(self._paths):
            if keyword.stem in path:
                self._quick[n] += _STEM_PART * rarity
        return rarity

    def _likely(self) -> list[FileWords]:
        """The files worth a closer look, by a score that is quick to compute for each."""
        names = [b" " + name.rpartition(".")[2].lower().encode() + b" " for name in self._words.names]
        scores = []
        for n, file in enumerate(self._index.files):
            value = self._quick[n] + sum(_NAME_USED for name in names if name in file.words)
            if file.path in self._named:
                value += _NAMED_FILE
            if value > 0:
                aside = file.path.endswith(_SELDOM) or "test" in file.path
                scores.append((-value * (0.4 if aside else 1.0), file.path, n))
        scores.sort()
        return [self._index.files[n] for _, _, n in scores[:_CLOSER]]

    def files(self, limit: int) -> list[Candidate]:
        scores = [score for one in self._likely() if (score := self._first(one)).value > 0]
        scores.sort(key=_order)
        best = scores[:_READ]
        fd = os.open(self._root, beneath.FLAGS)
        try:
            for score in best:
                self._look_inside(fd, score)
        finally:
            os.close(fd)
        self._add_imported(best)
        best.sort(key=_order)
        return [_candidate(score) for score in best[:limit] if score.value > 0]

    def _first(self, file: FileWords) -> _Score:
        """By the file's path and words."""
        score = _Score(file)
        named = self._named.get(file.path)
        if named is not None:
            points = _NAMED_FILE if named.exact else _SIMILAR_FILE
            score.add(points, "named in the task" if named.exact else f"like {named.text}, named in the task")
        path = PurePosixPath(file.path)
        name_parts = {stem(one) for one in parts(path.stem)}
        whole = stem(path.stem.lower().strip("_"))
        directories = {stem(one) for part in path.parts[:-1] for one in parts(part)}
        factor = self._factor(file.path)
        for keyword, wanted, rarity in self._keywords:
            if keyword.stem == whole:
                score.add(_STEM * rarity * factor, f"its name is {keyword.word!r}")
            elif keyword.stem in name_parts or (len(keyword.stem) >= 5 and keyword.stem in path.stem.lower()):
                score.add(_STEM_PART * rarity * factor, f"{keyword.word!r} in its name")
            elif keyword.stem in directories:
                score.add(_DIRECTORY * rarity * factor, f"{keyword.word!r} in its directory")
            if wanted in file.words:
                is_word = b" " + keyword.word.encode() + b" " in file.words
                score.add((_WORD if is_word else _PART_OF_WORD) * rarity * factor, f"has {keyword.word!r}")
        for name in self._words.names:
            last = name.rpartition(".")[2].lower().encode()
            if b" " + last + b" " in file.words:
                score.add(_NAME_USED * factor, f"uses {name}")
        return score

    def _factor(self, path: str) -> float:
        """Files that seldom are what a task is about count less, unless its words name them."""
        factor = 1.0
        if _TESTS.search(path):
            factor *= 1.3 if self._wants_tests else 0.35
        elif self._wants_tests:
            factor *= 0.8
        if _DOCS.search(path):
            factor *= 1.3 if self._wants_docs else 0.25
        elif _DATA.search(path):
            factor *= 1.0 if self._wants_data else 0.3
        return factor * 0.4 if _ASIDE.search(path) else factor

    def _look_inside(self, fd: int, score: _Score) -> None:
        """By what the file defines, and how often it has the words."""
        text = word_index.text_at(fd, score.file.path)
        if not text:
            return
        factor = self._factor(score.file.path)
        found = definitions(text)
        score.imports = imports(text)
        names = {name.rpartition(".")[2]: name for name in self._words.names}
        fits: dict[str, Definition] = {}
        for one in found:
            if one.name in names and one.name not in fits:
                score.add(_NAME_DEFINED * factor, f"defines {names[one.name]}")
                fits[one.name] = one
        by_part: dict[str, list[Definition]] = {}
        for one in found:
            for part in {stem(part) for part in parts(one.name)}:
                by_part.setdefault(part, []).append(one)
        lower = text.lower()
        breadth = 1 + math.log1p(len(text) / 20_000)
        for keyword, _, rarity in self._keywords:
            defined = by_part.get(keyword.stem, [])
            if defined:
                # Definitions whose names consist of little else say most.
                share = max(self._share(one) for one in defined)
                often = min(1.6, 1 + 0.2 * math.log2(len(defined)))
                score.add(_DEFINED * rarity * factor * share * often, f"defines {defined[0].name}")
                for one in sorted(defined, key=lambda one: -self._share(one))[:2]:
                    fits.setdefault(one.name, one)
            count = lower.count(keyword.stem)
            if count > 1:
                score.add(0.35 * rarity * factor * math.log2(count) / breadth, f"has {keyword.word!r}")
        score.definitions = sorted(fits.values(), key=lambda one: (-self._share(one), one.line))[
            :_SHOWN_DEFINITIONS
        ]

    def _share(self, definition: Definition) -> float:
        """How much of a name the task has words for."""
        own = [stem(part) for part in parts(definition.name)]
        stems = {keyword.stem for keyword, _, _ in self._keywords}
        covered = sum(1 for part in own if part in stems)
        return (covered / len(own)) * (1 + 0.5 * (covered - 1)) if own and covered else 0.0

    def _add_imported(self, best: Sequence[_Score]) -> None:
        """Raise the files that the likeliest files import."""
        leading = best[:5]
        for score in best:
            module = PurePosixPath(score.file.path).with_suffix("").as_posix().replace("/", ".")
            last = module.rpartition(".")[2]
            for one in leading:
                if one is not score and any(
                    name.lstrip(".").rpartition(".")[2] == last for name in one.imports
                ):
                    score.add(min(_IMPORTED, 0.05 * one.value), f"{one.file.path} imports it")


def _order(score: _Score) -> tuple[float, int, str]:
    return -round(score.value, 6), len(score.file.path), score.file.path


def _candidate(score: _Score) -> Candidate:
    reasons: dict[str, float] = {}
    for points, why in score.why:
        reasons[why] = reasons.get(why, 0.0) + points
    ordered = sorted(reasons, key=lambda why: (-reasons[why], why))
    return Candidate(
        score.file.path,
        score.value,
        tuple(ordered[:4]),
        tuple(score.definitions),
        tuple(score.imports[:_SHOWN_IMPORTS]),
    )
