"""The memory's decisions, and what follows from its events."""

import pytest

from holdfast.errors import BadInput, NotFound, Refused
from holdfast.kernel import memory as m
from holdfast.kernel.author import Author
from holdfast.store.port import Recorded


def state(*events) -> m.MemoryState:
    return m.fold(Recorded(event, version, version * 10) for version, event in enumerate(events, 1))


def remembered(id: str, supersedes: str = "") -> m.Remembered:
    return m.Remembered(id, "fact", f"text of {id}", supersedes=supersedes)


def statuses(of: m.MemoryState) -> dict[str, str]:
    return {one.id: one.status for one in of}


def remember(of: m.MemoryState, text: str = "text", **options) -> m.Remembered:
    given = {"kind": "fact", "scope": "project", "author": Author()} | options
    return m.remember(of, "new", text, **given)


@pytest.mark.parametrize(
    ("text", "options", "why"),
    [
        ("", {}, "has a text"),
        (" \n", {}, "has a text"),
        ("x" * (10 << 20), {}, "10,485,760 characters.*name the file with cites"),
        (3, {}, "must be text"),
        ("t", {"kind": "guess"}, "use decision, pattern, fact"),
        ("t", {"scope": "task:"}, "use project, session:ID or task:ID"),
        ("t", {"scope": "run:r"}, "use project, session:ID or task:ID"),
        ("t", {"cites": ("c" * 1001,)}, "cites of a memory has at most 1,000"),
    ],
)
def test_what_cannot_be_remembered_is_refused(text, options, why):
    """A sentence for each, before anything is recorded."""
    with pytest.raises(BadInput, match=why):
        remember(m.EMPTY, text, **options)


def test_superseding_and_withdrawing_name_what_was_there_first():
    """What is gone cannot be superseded or withdrawn: the error names its successor, or why it is gone."""
    known = state(remembered("a"), remembered("b", "a"), remembered("c"), m.MemoryWithdrawn("c", "wrong"))
    for act in (
        lambda id: remember(known, supersedes=id),
        lambda id: m.withdraw(known, id, author=Author()),
    ):
        with pytest.raises(Refused, match="superseded by b"):
            act("a")
        with pytest.raises(Refused, match="withdrawn already: wrong"):
            act("c")
        with pytest.raises(NotFound, match="recall --all"):
            act("z")
    assert remember(known, supersedes="b").supersedes == "b"


def test_a_memory_is_superseded_while_its_successor_counts():
    """Withdrawn, the successor supersedes nothing; superseded itself, it still does."""
    events = [remembered("a"), remembered("b", "a")]
    assert statuses(state(*events)) == {"a": "superseded", "b": "current"}
    events += [m.MemoryWithdrawn("b", operation="op")]
    assert statuses(state(*events)) == {"a": "current", "b": "withdrawn"}
    events += [m.MemoryRestored("b", "op"), remembered("c", "b")]
    assert statuses(state(*events)) == {"a": "superseded", "b": "superseded", "c": "current"}
    events += [m.MemoryWithdrawn("b")]
    assert statuses(state(*events)) == {"a": "superseded", "b": "withdrawn", "c": "current"}


def test_the_state_before_an_event_is_left_as_it_is():
    """Threads decide from the same state at once."""
    log = [Recorded(event, n, n * 10) for n, event in enumerate([remembered("a"), remembered("b", "a")], 1)]
    before = m.fold(log[:1])
    after = m.evolve(before, log[1])
    assert (statuses(before), len(statuses(after))) == ({"a": "current"}, 2)
