"""`repair_store` and names of streams in damaged records and rows: only what holdfast writes is a name."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.operations.test_repairing import verified
from tests.operations.test_repairing_damaged_rows import home, order, streams

from holdfast import Holdfast
from holdfast.store.sqlite.salvage.stream_names import kind_of

__all__ = ["home"]

NAMES = {
    "run": ("run-1", "a", "A.b_c-9", "x" * 128),
    "task": ("@task/3f0e7cbe-3a1d-4c8e-9d6b-000000000001",),
    "session": ("@session/3f0e7cbe-3a1d-4c8e-9d6b-000000000001",),
    "operation": ("@op/b5126129dfd0",),
    "budget": ("@budget/team:a", "@budget/default"),
    "links": ("@links",),
    "memory": ("@memory",),
    "lost": ("@lost/12",),
    "store": ("@store",),
    "": (
        "", ".", "a b", "run-\x7f", "\0\0\0\0\0", "x" * 129, "@op/b5126129dfd\0",
        "@op/8b8dc8D1d8ab", "@task/1", "@lost/x", "@op/", "@op", "@other/1",
        "@", "@links/1", "run/1",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in NAMES.items() for name in names])
def test_names_of_streams(kind: str, name: str) -> None:
    """A name has the kind of its family; what holdfast does not write has none."""
    assert kind_of(name) == kind


@pytest.mark.parametrize("place", ["record", "row", "kind"])
def test_a_name_that_holdfast_does_not_write(home: Path, place: str) -> None:
    """Of a run whose events are lost, the only record or row has a control character in the name: the run has
    no name then. If its kind is damaged, the name tells the kind."""
    with Holdfast(home, durability="process") as hf:
        for name in ("run-a", "run-b", "run-c"):
            hf.with_id(name).run(order, 2)
        for n in range(30):
            hf.tasks.create(f"task {n}")
    before = streams(home)
    with closing(sqlite3.connect(home / "holdfast.db")) as db:
        hashes = [
            hash
            for (hash,) in db.execute(
                "SELECT e.hash FROM events AS e JOIN streams AS s ON s.id = e.stream WHERE s.name = 'run-b'"
            )
        ]
    data = (home / "holdfast.db").read_bytes()
    for hash in hashes:
        data = data.replace(hash, bytes(32))
    created, row = b'{"stream":"run-b","kind":"run"}', b"run-brun"
    if place == "row":
        data = data.replace(created, b"\xff" * len(created)).replace(row, b"run-\0run")
    elif place == "record":
        data = data.replace(created, b'{"stream":"run-\x7f","kind":"run"}').replace(row, bytes(8))
    else:
        data = data.replace(created, b'{"stream":"run-b","kind":"ru\x7f"}').replace(row, bytes(8))
    if place != "kind":
        data = data.replace(b"run-b", bytes(5))
    (home / "holdfast.db").write_bytes(data)
    report = Holdfast.repair_store(home)
    lost, number = {one.stream: one.what for one in report.lost}, before["run-b"][0]
    name = "run-b" if place == "kind" else f"@lost/{number - 1}"
    assert lost == ({"run-b": "run"} if place == "kind" else {"@store": lost.get("@store")})
    after = streams(home)
    assert {name for name in after if name not in before} == {name} - {"run-b"}
    assert after[name][:2] == (number, "archived")
    assert {one: after[one] for one in ("run-a", "run-c")} == {one: before[one] for one in ("run-a", "run-c")}
    verified(home)
