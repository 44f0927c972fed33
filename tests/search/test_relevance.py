"""`relevance` is BM25, with a count of items that is estimated where there are many."""

from __future__ import annotations

import random

import msgspec
import pytest

from holdfast.search import relevance
from holdfast.search.index import Index
from holdfast.search.item import Item
from holdfast.search.query import Term

WORDS = ["kelp", "harbour", "net", "gull", "boat"]
TERMS = [Term(("kelp",)), Term(("harbour", "net")), Term(("gull",))]


@pytest.fixture
def index():
    opened = Index("", "format")
    chance = random.Random(7)
    for n in range(1, 91):
        title, body, rest = (" ".join(chance.choices(WORDS, k=chance.randint(1, 12))) for _ in range(3))
        opened.put(Item(n, "tasks", f"id{n}", title=title, body=body, rest=rest))
    yield opened
    opened.close()


def test_it_is_that_of_fts5_where_all_items_are_counted(index: Index) -> None:
    """Words and phrases, alone and together."""
    for terms in (TERMS[:1], TERMS[1:2], TERMS[:2], TERMS):
        weights = msgspec.json.encode(relevance.weights(index.db, terms)).decode()
        wanted = " AND ".join(term.expression for term in terms)
        sql = "SELECT rowid, {} FROM words WHERE words MATCH ? ORDER BY 2, 1"
        theirs = index.rows(sql.format("bm25(words, 10.0, 4.0, 1.0)"), (wanted,))
        ours = index.rows(sql.format("relevance(words, ?)"), (weights, wanted))
        assert len(theirs) > 2
        if len(terms) == 1:  # a factor that is the same for all
            factor = theirs[0][1] / ours[0][1]
            ours = [(id, score * factor) for id, score in ours]
        assert [id for id, _ in ours] == [id for id, _ in theirs]
        assert [score for _, score in ours] == pytest.approx([score for _, score in theirs])


def test_a_word_of_many_items_is_estimated(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the newest that have it: the rarer word counts more, as if all were counted."""
    for n in range(91, 400):
        index.put(Item(n, "tasks", f"id{n}", body="harbour net" if n % 9 else "kelp"))
    exact = relevance.weights(index.db, TERMS)
    monkeypatch.setattr(relevance, "_COUNTED", 40)
    assert relevance.weights(index.db, TERMS) == pytest.approx(exact, abs=1.5)
    assert exact[0] > exact[1]
