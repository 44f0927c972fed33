"""How well an item fits a query: BM25, at a cost that does not grow with the index.

FTS5's own `bm25` counts every item that has a word, for each query. Here the number of items with a word is
estimated from the newest ones that have it: so many, over the part of the log that they lie in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from holdfast.search.query import Term

FUNCTION: Final = "relevance"
"""Its name in SQL: `relevance(words, weights)`, with the array of the `weights` of the terms. The smaller,
the better."""
_COLUMNS: Final = (10.0, 4.0, 1.0)
"""The weight of a hit in the names, the body and the rest."""
_SATURATION: Final = 1.2
_LENGTH: Final = 0.75
_COUNTED: Final = 100
_LEAST: Final = 1e-6
_OF_PREFIX: Final = math.log(10)
"""A prefix counts as a word that is in every tenth item: to count its items, FTS5 reads all of them."""


class _Corpus(NamedTuple):
    """The values that all items of a query share."""

    weights: list[float]
    mean_words: float


def weights(db: apsw.Connection, terms: Sequence[Term]) -> list[float]:
    """The weight of each term: the rarer, the more. A term by itself needs no counting."""
    if len(terms) == 1:
        return [1.0]
    extent = db.execute("SELECT coalesce(max(id), 0) FROM items").get
    return [_OF_PREFIX if term.prefix else _weight(db, term, extent) for term in terms]


def _weight(db: apsw.Connection, term: Term, extent: int) -> float:
    sql = (
        "SELECT count(*), min(id) FROM "
        "(SELECT rowid AS id FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?)"
    )
    row: tuple[Any, ...] = db.execute(sql, (term.expression, _COUNTED)).fetchall()[0]
    found, oldest = row
    share = 1.0 if found < _COUNTED else extent / (extent - oldest + 1)
    having = min(found * share, extent)
    return max(math.log((extent - having + 0.5) / (having + 0.5)), _LEAST)


def register(db: apsw.Connection) -> None:
    """Let the connection know `relevance`."""
    db.register_fts5_function(FUNCTION, _relevance)


def _relevance(item: apsw.FTS5ExtensionApi, *given: Any) -> float:
    corpus = item.aux_data
    if corpus is None:
        mean = item.column_total_size() / max(item.row_count, 1)
        corpus = item.aux_data = _Corpus(msgspec.json.decode(given[0], type=list[float]), max(mean, 1.0))
    length = 1 - _LENGTH + _LENGTH * item.column_size() / corpus.mean_words
    score = 0.0
    for phrase, weight in enumerate(corpus.weights):
        hits = 0.0
        for places, counts in zip(item.phrase_locations(phrase), _COLUMNS, strict=True):
            hits += counts * len(places)
        score -= weight * hits * (_SATURATION + 1) / (hits + _SATURATION * length)
    return score
