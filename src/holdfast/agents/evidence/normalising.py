"""Normalisers: output without what differs from one run of a command to the next.

Times, durations, temporary paths, memory addresses, process ids, random ids and ports become marks such as
`<time>`; numbers that a result consists of (`3 passed`, `exit code 2`) stay. `normalise` of its own result
changes nothing. Every pattern takes linear time, whatever the text is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CLOCK = r"\d{1,2}:\d{2}:\d{2}(?:[.,]\d{1,9})?"
_ZONE = r"(?:[ ]?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2}))?"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}"
_GAP = r"[ \t]{1,3}"
_UNIT = r"(?:ns|us|\u00b5s|\u03bcs|ms|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?)"
_SPAN = rf"\d{{1,15}}(?:[.,]\d{{1,15}})?[ ]?{_UNIT}"

_RULES: Final = tuple(
    (re.compile(pattern), mark)
    for pattern, mark in (
        # The directory that a program was given, and not what it made in it.
        (r"(?:/private)?/var/folders/[^\s/:'\"]+/[^\s/:'\"]+/T/[^\s/:'\")\]>,;]+", "<tmp>"),
        (r"(?:/private)?(?:/var)?/tmp/pytest-of-[^\s/:'\"]+/pytest-\d+", "<tmp>"),
        (r"(?:/private)?(?:/var)?/tmp/[^\s/:'\")\]>,;]+", "<tmp>"),
        (r"/dev/shm/[^\s/:'\")\]>,;]+", "<tmp>"),
        (r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b", "<uuid>"),
        (rf"\b\d{{4}}-\d{{2}}-\d{{2}}[T ]{_CLOCK}{_ZONE}", "<time>"),
        (rf"\b(?:{_DAY},?{_GAP})?\d{{1,2}}{_GAP}{_MONTH}{_GAP}\d{{4}}(?:{_GAP}{_CLOCK}{_ZONE})?", "<time>"),
        (rf"\b(?:{_DAY},?{_GAP})?{_MONTH}{_GAP}\d{{1,2}}{_GAP}{_CLOCK}{_ZONE}(?:{_GAP}\d{{4}})?", "<time>"),
        (r"\b\d{4}[-/]\d{2}[-/]\d{2}\b", "<date>"),
        (rf"\b{_CLOCK}\b{_ZONE}", "<time>"),
        (r"\b1[6-9]\d{8}(?:\.\d+)?\b", "<time>"),
        (rf"\b(?:\d{{1,15}}{_UNIT}){{1,3}}\d{{1,15}}(?:\.\d{{1,15}})?{_UNIT}\b", "<duration>"),
        (rf"\b{_SPAN}(?:,?{_GAP}(?:and{_GAP})?{_SPAN})*\b", "<duration>"),
        (r"\b0x[0-9a-fA-F]{4,16}\b", "<address>"),
        (r"(?i:(?<![\w-])(p?pid|process(?: id)?|thread(?: id)?)([ \t:=#]{1,3}))\d{1,10}\b", r"\1\2<pid>"),
        (r"(?<=[\w)])\[\d{3,7}\](?=:)", "[<pid>]"),
        (r"\b(127\.0\.0\.1|localhost|\[::1\]|0\.0\.0\.0):\d{2,5}\b", r"\1:<port>"),
    )
)


class Normaliser:
    """Normalises the output of the commands of a workspace: its own path becomes `<workspace>`, wherever the
    workspace was."""

    def __init__(self, roots: Iterable[str] = (), patterns: Iterable[str] = ()) -> None:
        """`roots` are the paths of the workspace and of its copies, `patterns` are expressions for more."""
        known = sorted({root.rstrip("/") for root in roots} - {""}, key=len, reverse=True)
        every = "|".join(f"(?:{one})" for one in (*map(re.escape, known), *patterns))
        self._roots = re.compile(rf"(?:{every})(?![\w.-])") if every else None

    def __call__(self, text: str) -> str:
        text = _ESCAPES.sub("", text).replace("\x1b", "")
        if "\r" in text:  # a progress bar is what was drawn last
            text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
        if self._roots is not None:
            text = self._roots.sub("<workspace>", text)
        for pattern, mark in _RULES:
            text = pattern.sub(mark, text)
        return "\n".join(line.rstrip() for line in text.split("\n")).rstrip("\n")


normalise = Normaliser()
"""Of output that names no workspace."""
