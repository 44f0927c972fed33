"""The words of a task: keywords, names of code, and what looks like a file."""

from __future__ import annotations

import re
from typing import NamedTuple

STOP = frozenset(
    """a about above add added adding after again all allow allows also always an and another any are as at be
    because been
    before being below between both but by can cannot change changed changes changing code could create
    creates did do does doing done during each either else etc ever every few file files fix fixed fixes
    fixing for from get gets give given gives had has have having here how however i if implement implemented
    implementing in instead into is issue it its just keep keeps last let like make makes making many may more
    most much must my need needed needs never new no nor not now of off on once one only onto or other our out
    over own per please put really refactor remove removed removes same see seem seems set shall should show
    shows since so some still such sure support supports take takes task than that the their them then there
    these they thing things this those through to too under until up update updated updates use used user
    users uses using very want wants was way we well were what when where whether which while who why will
    with within without work works would write wrong yet you your bug problem feature correct correctly
    properly raise raises when whenever """.split()
)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NAME = re.compile(
    r"`([^`\n]{2,80})`"  # what a person marks as code
    r"|\b([a-z]\w*(?:\.[A-Za-z_]\w*)*\.?[A-Za-z_]\w*)\(\)"  # a call
    r"|\b(_*[a-z][a-z0-9]*(?:_[a-z0-9]+)+)\b"  # snake_case
    r"|\b([A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+)\b"  # CamelCase
    r"|\b([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)\b"  # CONSTANT_CASE
    r"|\b([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)\b"  # dotted.name
)
_FILE = re.compile(
    r"(?<![\w/])((?:[\w.@+-]+/)*[\w@+-][\w.@+-]*\.[A-Za-z][A-Za-z0-9]{0,5}|(?:[\w.@+-]+/)+[\w.@+-]*)(?![\w])"
)
_ENDINGS = (
    "ization", "isation", "ations", "ation", "ising", "izing", "ments", "ment", "ings", "ing", "ions", "ion",
    "ers", "ies", "ied", "ed", "es", "er", "ly", "s", "e",
)  # fmt: skip
_SHORTEST_STEM = 4
_MOST = 24


class Keyword(NamedTuple):
    """A word to look for: `stem` is what its forms have in common; `weight` is how much it counts."""

    word: str
    stem: str
    weight: float


class TaskWords(NamedTuple):
    """`names` are identifiers of code, `files` what looks like a path."""

    keywords: tuple[Keyword, ...]
    names: tuple[str, ...]
    files: tuple[str, ...]


def stem(word: str) -> str:
    """The stem of a word: `parsing`, `parsed` and `parser` are `pars`."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word[: -len(ending)]
    return word


def parts(name: str) -> list[str]:
    """The words that a name consists of: `parse_args`, `ParseArgs` → parse, args."""
    return [one.lower() for piece in re.split(r"[^A-Za-z0-9]+", name) for one in _PARTS.findall(piece)]


def words_of(text: str) -> TaskWords:
    """In the order of the text, each once."""
    files = tuple(dict.fromkeys(found.strip(".") for found in _FILE.findall(text) if _is_file(found)))
    text = _FILE.sub(lambda found: " " if found[0].strip(".") in files else found[0], text)
    names: dict[str, None] = {}
    for groups in _NAME.findall(text):
        name = next(one for one in groups if one).strip().removesuffix("()")
        if name not in files and re.fullmatch(r"[A-Za-z_][\w.]*", name):
            names[name] = None
    keywords: dict[str, Keyword] = {}
    for name in names:
        for part in parts(name):
            _add(keywords, part, 0.7)
    for word in _WORD.findall(text):
        for part in {word.lower(), *parts(word)} - ({word.lower()} if "_" in word else set()):
            _add(keywords, part, 1.0)
    return TaskWords(tuple(list(keywords.values())[:_MOST]), tuple(names), files)


def _add(keywords: dict[str, Keyword], word: str, weight: float) -> None:
    root = stem(word)
    if len(word) < 3 or word in STOP or word.isdigit():
        return
    known = keywords.get(root)
    if known is None or known.weight < weight:
        keywords[root] = Keyword(word, root, weight)


def _is_file(text: str) -> bool:
    """Not `e.g.`, a version, a dotted name or a fraction."""
    if "/" in text:
        return not re.fullmatch(r"\w{1,3}/\w{1,3}", text)
    return text.rpartition(".")[2].lower() in _EXTENSIONS


_EXTENSIONS = frozenset(
    """py pyi pyx js jsx ts tsx mjs cjs go rs java kt kts c h cc cpp hpp cs rb php swift scala sh bash zsh sql
    html css scss
    vue svelte md rst txt toml yaml yml json ini cfg xml proto ex exs erl hs ml lua pl r dart tf lock
    env""".split()
)
