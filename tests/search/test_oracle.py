"""The index and a naive search agree, whatever the history, and whatever becomes of the index in between."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.search import naive

from holdfast.errors import HoldfastError
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.redaction import Redactor
from holdfast.search import filling
from holdfast.search.finding import Filter
from holdfast.search.index import Index
from holdfast.search.searching import Search
from holdfast.store.port import Decision, new_event
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.histories import archived, perform
from holdfast.testing.strategies import commands_for, fitting, moved
from holdfast.views.reader import Reader
from holdfast.views.search_hit import FAMILIES, SearchPage

VOCABULARY = [
    "why",
    "quoted",
    "text",
    "a",
    "b",
    "x",
    "1",
    "valueerror",
    "flow",
    "r1",
    "paused",
    "zebra",
    "nul",
]
TERM = st.tuples(
    st.sampled_from([True, True, True, False]),
    st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=2),
    st.booleans(),
)
QUERIES = st.lists(TERM, max_size=3)


def written(query: list[tuple[bool, list[str], bool]]) -> str:
    """The query as a person types it."""
    parts = []
    for wanted, term, prefix in query:
        word = f'"{" ".join(term)}"' if len(term) > 1 else term[0]
        parts.append(f"{'' if wanted else '-'}{word}{'*' if prefix else ''}")
    return " ".join(parts)


def everything(search: Search, text: str, which: Filter, limit: int) -> list[tuple[str, str, int]]:
    """The places of all hits, page by page."""
    found: list[tuple[str, str, int]] = []
    page = SearchPage([], "")
    while True:
        page = search.page(text, which, limit=limit, after=page.after)
        found += [(hit.family, hit.id, hit.version) for hit in page.hits]
        if not page.after:
            return found


WRITES = st.sampled_from(["r1", "r2"]).flatmap(lambda run: st.tuples(st.just(run), commands_for(run)))
ACTIONS = st.one_of(
    *[WRITES] * 10,
    *[st.tuples(st.sampled_from(["r1", "r2"]), st.integers(1, 9))] * 2,
    st.tuples(st.just("index"), st.sampled_from(["delete", "damage", "cut off"])),
    st.tuples(st.just("archive"), st.sampled_from(["r1", "r2"])),
    st.tuples(st.just("search"), QUERIES),
)


class Machine:
    """A store, its index, and the naive search beside it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.store = SqliteStore(home, durability="process")
        self.reader = Reader(self.store, home, Redactor)
        self.search = Search(home, self.store, self.reader, history="h", patterns=())
        self.gone: set[str] = set()

    def act(self, what: str, how: object) -> None:
        if what == "search":
            self.compare(how)  # type: ignore[arg-type]
        elif what == "index":
            self.harm(str(how))
        elif what == "archive":
            self.archive(str(how))
        elif what not in self.gone:
            self.write(what, how)

    def write(self, run: str, how: object) -> None:
        state = self.reader.detail(run).state if self.reader.run(run) else None
        if isinstance(how, int):
            if state is not None:
                event = moved(state, how)
                self.store.command(run, lambda _: Decision("run", [new_event(event, 5)]))
            return
        try:
            perform(self.store, run, fitting(state, how))  # type: ignore[arg-type]
        except (HoldfastError, AssertionError):
            pass  # it does not fit what came before

    def archive(self, run: str) -> None:
        if self.reader.run(run):
            self.store.archive([[archived(self.store, run)]], 9)
            self.gone.add(run)

    def harm(self, how: str) -> None:
        path = self.home / "search.db"
        if how == "delete":
            path.unlink(missing_ok=True)
        elif how == "damage" and path.exists():
            path.write_bytes(path.read_bytes()[:100] + b"\xff" * 2000)
        elif how == "cut off":
            self.cut_off()

    def cut_off(self) -> None:
        """A fill that dies inside its transaction, after the first batch."""
        done = 0
        before = Index.read_up_to

        def dies(index: Index, cursor: str) -> None:
            nonlocal done
            done += 1
            if done > 1:
                raise RuntimeError("cut off")
            before(index, cursor)

        Index.read_up_to = dies  # type: ignore[method-assign]
        try:
            self.search.drain()
        except RuntimeError:
            pass
        finally:
            Index.read_up_to = before  # type: ignore[method-assign]

    def compare(self, query: list[tuple[bool, list[str], bool]]) -> None:
        docs = [doc for doc in naive.everything(self.store, self.reader) if naive.fits(doc, query)]
        found = everything(self.search, written(query), Filter(FAMILIES, hidden=True), 3)
        assert sorted(found) == sorted(doc.place for doc in docs), written(query)
        for kind in ("step", "error"):
            found = everything(self.search, written(query), Filter(FAMILIES, kinds=(kind,)), 50)
            assert sorted(found) == sorted(doc.place for doc in docs if doc.kind == kind)
        which = Filter(FAMILIES, ("paused", "failed"))
        found = everything(self.search, written(query), which, 50)
        assert sorted(found) == sorted(doc.place for doc in docs if doc.status in which.statuses)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(ACTIONS, min_size=10, max_size=30), st.lists(QUERIES, min_size=3, max_size=3))
def test_the_index_finds_what_a_naive_search_finds(actions, queries) -> None:
    """On random histories with rewinds, archived runs, and an index that is deleted, damaged or cut off."""
    batch = filling.AT_ONCE
    filling.AT_ONCE = 4  # type: ignore[misc]
    try:
        with tempfile.TemporaryDirectory() as directory:
            machine = Machine(Path(directory) / "store")
            for run in ("r1", "r2"):
                perform(machine.store, run, c.CreateRun(run, e.Code("flow"), "d"), c.ClaimRun(run, "ann"))
                perform(machine.store, run, c.StartStep("a#1", "a"), c.CompleteStep("a#1"))
                perform(machine.store, run, c.StartStep("a#2", "a"), c.AttendRun("in_doubt", "why", "a#2"))
            for what, how in actions:
                machine.act(what, how)
            for query in [[], *queries]:
                machine.compare(query)
            machine.store.close()
    finally:
        filling.AT_ONCE = batch  # type: ignore[misc]
