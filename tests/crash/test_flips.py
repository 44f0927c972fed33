"""Bit flips: a sample of them, and what a silent store would look like."""

import random
import sqlite3
from contextlib import closing
from itertools import pairwise

import pytest
from tests.crash import flips
from tests.crash.score import Budget, Score
from tests.crash.specimen import COVERED, DATABASE, TABLES, make_specimen

from holdfast.store.sqlite.store import SqliteStore

SEED = 1


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("flips") / "home"


@pytest.fixture(scope="module")
def truth(home):
    return make_specimen(home)


def test_no_table_is_left_out(home, truth):
    """What is flipped is all that a store has."""
    flips._write(home, truth.database)
    with closing(sqlite3.connect(home / DATABASE)) as db:
        tables = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    assert {name for (name,) in tables} == set(TABLES)


def test_every_column_holds_something(truth):
    """There is a bit to flip in each."""
    for table in COVERED:
        rows = truth.content[table]
        empty = [name for n, name in enumerate(truth.columns[table]) if all(row[n] == b"" for row in rows)]
        assert empty == [], table


def test_all_regions_of_the_file_are_there(truth):
    """Pages of every kind, and every byte of the file in one region."""
    regions = flips.regions_of(truth.database)
    assert {
        "file header", "table, header", "table, cells", "table interior, cells", "index, cells", "overflow",
        "freelist", "unused",
    } <= regions.keys()  # fmt: skip
    ranges = sorted(one for ranges in regions.values() for one in ranges)
    assert ranges[0][0] == 0 and ranges[-1][1] == len(truth.database)
    assert all(end == start for (_, end), (start, _) in pairwise(ranges))


@pytest.mark.parametrize("part", [flips.run_columns, flips.run_pages, flips.run_log])
def test_sample(home, truth, part):
    """A flip is found, refused or without effect."""
    print(f"seed {SEED}")
    score = part(Budget(SEED, 0.05), home, truth)
    assert score.violations == []
    assert score.points >= 5


def test_a_flip_that_nobody_finds_is_seen(home, truth, monkeypatch):
    """With an audit that finds nothing, a flip in a table is a violation."""
    monkeypatch.setattr(SqliteStore, "verify", lambda self: iter(()))
    score = Score("", "")
    flips._write(home, truth.database)
    flip = flips.flip_column(home / DATABASE, "runs", "status", random.Random(SEED))
    flips._judge_column(score, "runs", flip, home, truth)
    assert len(score.violations) == 1
