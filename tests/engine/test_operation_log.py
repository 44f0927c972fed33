"""The operation log: which operations still hold, and what finding that out costs."""

from types import SimpleNamespace

import pytest

from holdfast.errors import NotFound
from holdfast.operations.operation_log import last_undo_of, log
from holdfast.store.port import OperationRow


class Operations:
    """Operations on runs whose live generation is 7, as a store gives them. Counts the rows that it gives."""

    def __init__(self, *rows: OperationRow) -> None:
        self._rows = rows
        self.given = 0

    def operations(self, *, run=None, limit=None):
        found = [row for row in reversed(self._rows) if run in (None, row.run)][:limit]
        self.given += len(found)
        return found

    def run(self, _run_id):
        self.given += 1
        return SimpleNamespace(generation=7)


def operation(id, undoes="", *, opened=-1, status="done", by="ann", run="r"):
    kind = "undo" if undoes else "restore"
    return OperationRow(id, kind, run, by, "", undoes, -1, opened, status, 1)


@pytest.mark.parametrize(
    ("rows", "standing"),
    [
        ([operation("a")], ["a"]),
        ([operation("a", status="dropped")], []),
        ([operation("a", status="begun")], []),
        ([operation("a"), operation("b", "a")], ["b"]),
        ([operation("a"), operation("b", "a", status="dropped")], ["a"]),
        ([operation("a"), operation("b", "a"), operation("c", "b")], ["c", "a"]),
        ([operation("a", opened=7), operation("b", opened=8)], ["a"]),
        ([operation("a"), operation("b", "a", run="s")], ["b", "a"]),
    ],
)
def test_what_stands(rows, standing):
    """A restore, unless an undo that stands put it back; a rewind, if its generation is the live one."""
    assert [one.id for one in log(Operations(*rows)) if one.stands] == standing


def test_its_cost_is_linear():
    """A chain of undos, each of the one before, and many runs: each row is read a fixed number of times."""
    chain = [operation("0"), *(operation(str(n), str(n - 1)) for n in range(1, 2_000))]
    store = Operations(*chain)
    assert [one.stands for one in log(store)] == [n % 2 == 0 for n in range(2_000)]
    assert store.given <= 2 * len(chain) + 1
    store = Operations(*chain)
    assert last_undo_of(store, "ann").id == "1999"
    assert store.given <= 2 * len(chain) + 1
    store = Operations(*(operation(f"{n}", run=f"r{n}") for n in range(500)))
    assert all(one.stands for one in log(store))
    assert store.given <= 3 * 500


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([], "user ann has undone nothing"),
        ([operation("a")], "user ann has undone nothing"),
        ([operation("a"), operation("b", "a"), operation("c", "b", by="bob")], "was itself undone"),
        ([operation("a"), operation("b", "a", opened=3)], "no longer stands"),
    ],
)
def test_nothing_to_redo(rows, why):
    with pytest.raises(NotFound, match=why):
        last_undo_of(Operations(*rows), "ann")
