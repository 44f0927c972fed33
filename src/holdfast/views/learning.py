"""The statistics of router and skills, as plain data."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar

import msgspec

from holdfast.json_view import View
from holdfast.views.records import iso


class CandidateStats(msgspec.Struct, frozen=True):
    """The outcomes of one candidate for one kind of work. `value` and `share` are of the last outcomes, which
    the router learns from; the counts and `usd` are of all.

    good, bad     how often the work ended well, and not
    failed        how often it raised an exception; these are among `bad`
    usd           the sum of the costs that are known; None if none is
    value         successes per dollar, a failure counted at its price
    share         how often it would be chosen now among the candidates of its kind, from 0 to 1
    rests_until   until when it is not tried first; None if it does not rest
    last_at       when the last outcome was reported
    """

    kind: str
    candidate: str
    good: int
    bad: int
    failed: int
    usd: Decimal | None
    value: float
    share: float
    rests_until: datetime | None
    last_at: datetime

    JSON: ClassVar = {
        "kind": "the kind of work",
        "candidate": "the name of the model or agent",
        "good": "how often the work ended well",
        "bad": "how often it did not",
        "failed": "how often it raised an exception; these are among `bad`",
        "usd": "the sum of the costs that are known, a decimal number as text, or null",
        "value": "successes per dollar, by the last outcomes, a failure counted at its price",
        "share": "how often it would be chosen now, from 0 to 1; an estimate",
        "rests_until": "until when it is not tried first, or null",
        "last_at": "when the last outcome was reported",
    }

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "candidate": self.candidate,
            "good": self.good,
            "bad": self.bad,
            "failed": self.failed,
            "usd": None if self.usd is None else f"{self.usd:f}",
            "value": self.value,
            "share": self.share,
            "rests_until": iso(self.rests_until),
            "last_at": iso(self.last_at),
        }


class SkillInfo(View, frozen=True):
    """A skill of the project. `good` and `bad` are how often work with this text of it ended well, and not,
    of whatever kind. `text` is what a prompt gets; None in a list."""

    name: str
    description: str
    path: str
    kinds: tuple[str, ...] = ()
    good: int = 0
    bad: int = 0
    text: str | None = None

    JSON: ClassVar = {
        "name": "by which it is called",
        "description": "what it is for: its words are compared with those of a job",
        "path": "its file, relative to the project's root if it is in it",
        "kinds": "the kinds of work that it is for; empty for all",
        "good": "how often work with this text of it ended well",
        "bad": "how often it did not",
        "text": "what a prompt gets; null in a list",
    }


class SkillStats(View, frozen=True):
    """The outcomes of one text of a skill for one kind of work. `digest` is the beginning of the digest of
    that text; `current` says whether it is the text that the skill has now."""

    kind: str
    skill: str
    digest: str
    current: bool
    good: int
    bad: int
    last_at: datetime

    JSON: ClassVar = {
        "kind": "the kind of work",
        "skill": "the name of the skill",
        "digest": "the beginning of the digest of its text",
        "current": "whether that is the text that the skill has now",
        "good": "how often the work ended well",
        "bad": "how often it did not",
        "last_at": "when the last outcome was reported",
    }
