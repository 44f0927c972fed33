"""The names of streams that holdfast writes: text in a damaged page that has another form is no name."""

from __future__ import annotations

import re
from typing import Final

from holdfast.errors import BadRunId
from holdfast.kernel import budget, links, memory, operation, session, task
from holdfast.kernel.identity import check_run_id
from holdfast.store.streams import STORE_STREAM

LOST: Final = "@lost/"
"""Begins the name of a stream whose own name is lost; the version of the lost record follows."""
LOST_KIND: Final = "lost"
RUN: Final = "run"
_SINGLE: Final = {STORE_STREAM: "store", links.STREAM: links.KIND, memory.STREAM: memory.KIND}
_NAME: Final = re.compile(r"[A-Za-z0-9._:-]{1,200}")
_FAMILIES: Final = {
    task.PREFIX: (task.KIND, re.compile("[0-9a-f-]{36}")),
    session.PREFIX: (session.KIND, _NAME),
    budget.PREFIX: (budget.KIND, _NAME),
    operation.stream_of(""): (operation.KIND, re.compile("[0-9a-f]{12}")),
    LOST: (LOST_KIND, re.compile("[0-9]+")),
}


def kind_of(name: str) -> str:
    """The kind of the streams that have such names; empty if no stream has."""
    if not name.startswith("@"):
        try:
            check_run_id(name)
        except BadRunId:
            return ""
        return RUN
    family, slash, rest = name.partition("/")
    if not slash:
        return _SINGLE.get(name, "")
    kind, form = _FAMILIES.get(family + slash, ("", _NAME))
    return kind if form.fullmatch(rest) else ""
