"""`repair_store` of a database in which single rows are damaged: nothing else is lost, moved or invented."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.store.sqlite.salvage.candidates import OWN, Candidates
from holdfast.store.sqlite.salvage.rows import EventRow

HASH = b"\1" * 32


@pytest.fixture
def candidates(tmp_path: Path) -> Iterator[Candidates]:
    with closing(Candidates(tmp_path / "candidates.db")) as candidates:
        yield candidates


def test_numbers_that_sqlite_cannot_store(candidates: Candidates) -> None:
    """An event with such a version or time is left out, whichever copy has it; the others are read."""
    copy = candidates.add_copy("the database", OWN)
    created = [json.dumps({"stream": name, "kind": "run"}) for name in ("first", "second")]
    candidates.add_rows(
        copy,
        [
            EventRow(1, (1 << 63) - 1, "StreamCreated", 1, created[0], HASH, 1, 5, 0),
            EventRow(1, 1, "StreamCreated", 1, created[1], HASH, 1, 6, 0),
        ],
    )
    for version, at in ((1 << 70, 1), (1, 1 << 70), (2, 1)):
        candidates.add_event(copy, "of an archive", version, "RunCreated", at, "{}", HASH)
    candidates.read_indexes()
    candidates.name_orphans()
    assert candidates.names() == ["@store", "of an archive", "second"]
    assert [one.version for one in candidates.of("of an archive")] == [2]


def test_names_that_are_no_unicode(candidates: Candidates) -> None:
    """A damaged record with half a surrogate pair is left out; the others are read."""
    copy = candidates.add_copy("the database", OWN)
    payloads = [
        ("StoreRepaired", '{"kept":"k","before":"\\ud800"}'),
        ("StoreRepaired", '{"kept":"k","before":"0123456789abcdef"}'),
        ("StreamArchived", '{"stream":"\\ud800","version":1,"hash":"","file":"runs"}'),
        ("StreamArchived", '{"stream":"old","version":1,"hash":"","file":"runs"}'),
    ]
    rows = [EventRow(1, n, type, 1, text, HASH, 1, n, 0) for n, (type, text) in enumerate(payloads, 1)]
    candidates.add_rows(copy, rows)
    assert candidates.earlier_incarnations() == {"0123456789abcdef"}
    assert candidates.archived_in("runs") == ["old"]
