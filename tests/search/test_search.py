"""`hf.search`: what is found, in which order, in which pages, with which marks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine import test_redaction
from tests.search import naive
from tests.search.test_oracle import QUERIES, written

from holdfast import Holdfast, SearchHit, approval, emit, step, workflow
from holdfast.errors import BadInput
from holdfast.facade import drain_thread
from holdfast.search import finding, snippet
from holdfast.search.index import Index
from holdfast.search.index_file import NAME
from holdfast.search.query import Query, read_query
from holdfast.search.searching import Search


@step
def ask(text: str) -> str:
    return text


@step
def fails(text: str) -> str:
    raise ValueError(text)


@workflow
def report(text: str) -> str:
    emit("progress", {"said": text})
    return ask(text)


@workflow
def breaks(text: str) -> str:
    return fails(text)


@workflow
def asks(text: str) -> bool:
    return bool(approval("publish", show={"draft": text}))


@pytest.fixture
def hf(home: Path) -> Iterator[Holdfast]:
    with Holdfast(home, durability="process") as opened:
        yield opened


def places(hf: Holdfast, query: str, **options: object) -> list[str]:
    """What is found, short: `runs r`, `events r ask#1`."""
    return [
        f"{hit.family} {hit.id} {hit.step}".rstrip()
        for hit in hf.search(query, **options).hits  # type: ignore[arg-type]
    ]


def test_each_family_is_found_by_its_texts(hf: Holdfast) -> None:
    """A task by name, body, label and note; a memory by its text and source; a run by input and error; an
    event by step, emitted text, gate and error."""
    task = hf.tasks.create("Mend the net", body="It has a hole", labels=["harbour"])
    hf.tasks.note(task.id, "the gulls did it")
    memory = hf.memory.remember("Nets are mended on Mondays", source="the harbour master")
    hf.with_id("r").run(report, "kelp")
    hf.with_id("g").start(asks, "a letter")
    with pytest.raises(ValueError, match="no wind"):
        hf.with_id("b").run(breaks, "no wind today")
    for query in ("mend net", "hole", "harbour mend", "gulls", task.id, task.id[:8]):
        assert places(hf, query, within="tasks") == [f"tasks {task.id}"], query
    for query in ("mondays", "harbour master", "fact", memory.id):
        assert places(hf, query, within="memory") == [f"memory {memory.id}"], query
    for query in ("kelp", "report", "r completed"):
        assert places(hf, query, within="runs") == ["runs r"], query
    assert places(hf, "no wind", status="failed") == ["runs b", "events b fails#1", "events b fails#1"]
    assert places(hf, "letter", within="events", kind="gate") == ["events g publish#1"]
    assert places(hf, "kelp", kind="emitted") == ["events r progress#1"]
    assert places(hf, "harbour") == [f"tasks {task.id}", f"memory {memory.id}"]


def test_current_values_are_found(hf: Holdfast) -> None:
    """An edited task by its new text; a superseded or withdrawn memory on request; an archived task not."""
    task = hf.tasks.create("Paint the boat")
    old = hf.memory.remember("The boat is blue")
    assert len(places(hf, "boat")) == 2
    hf.tasks.edit(task.id, name="Paint the ship")
    new = hf.memory.remember("The ship is red", supersedes=old.id)
    assert places(hf, "boat") == []
    assert places(hf, "boat", withdrawn=True) == [f"memory {old.id}"]
    assert places(hf, "", status="superseded") == [f"memory {old.id}"]
    hf.memory.withdraw(new.id, "wrong")
    assert places(hf, "boat") == [f"memory {old.id}"]
    hf.tasks.archive(task.id)
    assert places(hf, "ship") == []
    hf.tasks.reopen(task.id)
    assert places(hf, "ship") == [f"tasks {task.id}"]


def test_titles_come_before_texts_and_events(hf: Holdfast) -> None:
    """And of what is equal, the newest first."""
    in_event = hf.with_id("r").start(report, "x")
    in_event.result()
    body = hf.tasks.create("Something else", body="about kelp and more")
    title = hf.tasks.create("Look for kelp here")
    newer = hf.tasks.create("Look for kelp here")
    hf.tasks.note(hf.tasks.create("Third thing in the row").id, "kelp was seen there")
    found = [hit.title for hit in hf.search("kelp").hits]
    assert found == [title.name, newer.name, body.name, "Third thing in the row"]
    assert [hit.id for hit in hf.search("kelp").hits][:2] == [newer.id, title.id]


def test_pages_show_everything_once_while_others_write(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Items that come, or become better or worse, between two pages: none of the first moment is shown twice
    or left out. Also where there are more than are ranked."""
    monkeypatch.setattr(finding, "RANKED", 4)
    tasks = [hf.tasks.create(f"kelp {n}", body="kelp " * n) for n in range(12)]
    for query in ("kelp", ""):
        seen: list[str] = []
        after = ""
        while True:
            page = hf.search(query, limit=3, after=after)
            seen += [hit.id for hit in page.hits]
            after = page.after
            if not after:
                break
            hf.tasks.create("kelp kelp kelp")
            hf.tasks.edit(tasks[len(seen) % 12].id, body="other kelp " * (20 - len(seen)))
        assert len(seen) == len(set(seen))
        assert {task.id for task in tasks} <= set(seen)


def test_a_cursor_belongs_to_its_search(hf: Holdfast) -> None:
    """Another query, other filters, or no cursor at all: one sentence says what to do."""
    for n in range(3):
        hf.tasks.create(f"kelp {n}")
    after = hf.search("kelp", limit=1).after
    assert len(hf.search("kelp", limit=1, after=after).hits) == 1
    for query, options in (("cod", {}), ("kelp", {"within": "tasks"}), ("kelp", {"kind": "task"})):
        with pytest.raises(BadInput, match="another search"):
            hf.search(query, after=after, **options)  # type: ignore[arg-type]
    for text in ("nonsense", after[:-3], "é"):
        with pytest.raises(BadInput, match="no cursor"):
            hf.search("kelp", after=text)
    for options in ({"within": ()}, {"within": "files"}, {"limit": 0}):
        with pytest.raises(BadInput, match="search\\("):
            hf.search("kelp", **options)  # type: ignore[arg-type]


def test_since_and_interrupted(hf: Holdfast, home: Path) -> None:
    """What changed since then; a run without an owner counts as interrupted, and so do its events."""
    from holdfast.kernel import commands as c
    from holdfast.testing.histories import own, perform

    hf.tasks.create("kelp")
    assert len(places(hf, "kelp", since=datetime.now(UTC) - timedelta(hours=1))) == 1
    assert places(hf, "kelp", since=datetime.now(UTC) + timedelta(hours=1)) == []
    own(hf._store, "lost", "dead")
    perform(hf._store, "lost", c.StartStep("fetch#1", "fetch"))
    assert places(hf, "", status="interrupted") == ["events lost fetch#1", "runs lost"]
    assert {hit.status for hit in hf.search("lost fetch").hits} <= {"interrupted"}


async def _async_search(home: Path) -> list[str]:
    async with Holdfast(home, durability="process") as hf:
        return [hit.title for hit in (await hf.aio.search("net")).hits]


def test_the_same_from_an_event_loop_and_read_only(hf: Holdfast, home: Path) -> None:
    """`hf.aio.search`, and a Holdfast that is read-only."""
    import asyncio

    hf.tasks.create("A net")
    assert asyncio.run(_async_search(home)) == ["A net"]
    with Holdfast(home, read_only=True) as reading:
        assert [hit.title for hit in reading.search("net").hits] == ["A net"]


WORDS = st.sampled_from(["kelp", "cod", "otter", "Ünïted", "日本"])
EDITS = st.one_of(
    st.tuples(st.just("create"), WORDS, WORDS),
    st.tuples(st.just("edit"), st.integers(0, 9), WORDS),
    st.tuples(st.just("note"), st.integers(0, 9), WORDS),
    st.tuples(st.just("complete"), st.integers(0, 9), WORDS),
    st.tuples(st.sampled_from(["archive", "reopen"]), st.integers(0, 9), st.just("")),
    st.tuples(st.just("remember"), WORDS, st.sampled_from(["fact", "decision"])),
    st.tuples(st.just("supersede"), st.integers(0, 9), WORDS),
    st.tuples(st.just("withdraw"), st.integers(0, 9), st.just("")),
)
TERMS = [
    ["kelp"], ["cod"], ["united"], ["日"], ["日", "本"], ["kelp", "cod"], ["o"], ["completed"], ["fact"],
]  # fmt: skip
TRACKED = st.lists(
    st.tuples(st.sampled_from([True, True, False]), st.sampled_from(TERMS), st.booleans()), max_size=2
)


@settings(max_examples=20, deadline=None)
@given(st.lists(EDITS, min_size=3, max_size=15), st.lists(TRACKED, min_size=3, max_size=3))
def test_tasks_and_memory_as_a_naive_search_finds_them(
    tmp_path_factory: pytest.TempPathFactory,
    edits: list[tuple[str, object, str]],
    queries: list[list[object]],
) -> None:
    """On random edits, with a search in between, and with an index that is made at the end."""
    home = tmp_path_factory.mktemp("home") / "store"
    with Holdfast(home, durability="process") as hf:
        for n, (what, which, word) in enumerate(edits):
            _edit(hf, what, which, word)
            if n == len(edits) // 2:
                hf.search("kelp")
        docs = [*_task_docs(hf), *_memory_docs(hf)]
        for _ in range(2):
            for query in [[], *queries]:
                for hidden in (False, True):
                    text = written(query)  # type: ignore[arg-type]
                    found = {(hit.family, hit.id) for hit in hf.search(text, withdrawn=hidden, limit=99).hits}
                    fitting = {
                        (doc.family, doc.key)
                        for doc in docs
                        if naive.fits(doc, query) and (hidden or not doc.hidden)  # type: ignore[arg-type]
                    }
                    assert found == fitting, text
            (home / "search.db").unlink()


def _edit(hf: Holdfast, what: str, which: object, word: str) -> None:
    from holdfast.errors import HoldfastError

    tasks, memories = hf.tasks.list(archived=True), hf.memory.list(every=True)
    try:
        if what == "create":
            hf.tasks.create(str(which), body=f"about {word}")
        elif what == "remember":
            hf.memory.remember(f"{which} is known", kind=word)
        elif what in ("supersede", "withdraw"):
            id = memories[int(str(which)) % len(memories)].id if memories else "none"
            if what == "supersede":
                hf.memory.remember(f"{word} is better", supersedes=id)
            else:
                hf.memory.withdraw(id, "wrong")
        elif tasks:
            id = tasks[int(str(which)) % len(tasks)].id
            if what == "edit":
                hf.tasks.edit(id, name=f"new {word}")
            elif what == "note":
                hf.tasks.note(id, f"saw {word}")
            elif what == "complete":
                hf.tasks.complete(id, summary=f"found {word}")
            else:
                getattr(hf.tasks, what)(id)
    except HoldfastError:
        pass  # it does not fit


def _task_docs(hf: Holdfast) -> Iterator[naive.Doc]:
    for task in hf.tasks.list():
        notes = " ".join(note.text for note in hf.tasks.show(task.id).notes)
        columns = (f"{task.id} {task.name}", f"{task.body} {task.summary}", f"{task.status} {notes}")
        yield naive.Doc("tasks", task.id, 0, "task", task.status, 0, False, columns)


def _memory_docs(hf: Holdfast) -> Iterator[naive.Doc]:
    for memory in hf.memory.list(every=True):
        rest = f"{memory.kind} {memory.status} {memory.scope} {memory.reason}"
        hidden = memory.status != "current"
        yield naive.Doc(
            "memory", memory.id, 0, memory.kind, memory.status, 0, hidden, (memory.id, memory.text, rest)
        )


# Queries, marks and snippets


@pytest.fixture(scope="module")
def index() -> Iterator[Index]:
    made = Index("", "format")
    yield made
    made.close()


@given(st.text() | st.text(alphabet='"*-+^:(){}ab日 NEAROT\0\n\ud800'))
def test_no_query_is_an_error(index: Index, text: str) -> None:
    """Whatever is typed, and whatever FTS5 would take for syntax."""
    query = read_query(text, index.tokens)
    finding.find(index, query, finding.Filter(("runs",)), store="", limit=1, after="")
    for one in (query.wanted, query.unwanted):
        if one:
            index.rows("SELECT rowid FROM words WHERE words MATCH ?", (one,))


@given(QUERIES)
def test_a_query_means_what_it_says(index: Index, query: list[tuple[bool, list[str], bool]]) -> None:
    """Words, phrases, prefixes, and what must not be there."""
    read = read_query(written(query), index.tokens)
    assert {(term.words, term.prefix) for term in read.has} == {(tuple(w), p) for yes, w, p in query if yes}
    assert {(term.words, term.prefix) for term in read.lacks} == {
        (tuple(w), p) for yes, w, p in query if not yes
    }


def test_a_query_has_bounds(index: Index) -> None:
    """A pasted page is refused in one sentence; `--flag` and `a-b` are text."""
    with pytest.raises(BadInput, match="at most 64"):
        read_query("word " * 1000, index.tokens)
    assert read_query("--no-files a-b", index.tokens).wanted == '"no files" AND "a b"'
    assert read_query("!? --", index.tokens) == Query(is_hopeless=True)


@pytest.mark.parametrize(
    ("text", "query", "shown"),
    [
        ("the kelp forest", "kelp forest", "the [kelp] [forest]"),
        ("the kelp-forest, kelp", '"kelp forest"', "the [kelp-forest], kelp"),
        ("Ünïted kelps", "united kel*", "[Ünïted] [kelps]"),
        ("日本語の本", "日本", "[日本]語の本"),
        ("a\nb   kelp", "kelp", "a b [kelp]"),
        ("x " * 9000 + "kelp " + "y " * 200, "kelp", "…" + "x " * 25 + "[kelp] " + "y " * 52 + "y…"),
    ],
)
def test_hits_are_marked(index: Index, text: str, query: str, shown: str) -> None:
    """Where the words stand, in characters, on one line, near the first hit."""
    found = snippet.cut(text, read_query(query, index.tokens), index.tokens)
    assert found is not None
    line, marks = found
    for start, end in reversed(marks):
        line = f"{line[:start]}[{line[start:end]}]{line[end:]}"
    if len(text) < 100:
        assert line == shown
    else:
        assert "[kelp] y" in line and line.startswith("…") and line.endswith("…") and len(line) <= 164


# Secrets


SECRETS = [
    "sk-abcdefghijklmnopqrstuvwxyz", "sk-ant-api03-abc_DEF-123", "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "AKIAIOSFODNN7EXAMPLE", "xoxb-123456789012-abcdef", "AIzaSyA-1234567890abcdefghijklmnopqrstu",
    test_redaction.JWT, test_redaction.PEM.splitlines()[4], "p%40ss", "hunter2secret99",
]  # fmt: skip


@workflow
def leaks(text: str, login: dict[str, str]) -> str:
    emit("said", {"text": text, **login})
    approval("send", show=text, timeout=0.001)
    return fails(text)


def test_no_secret_is_in_the_index(hf: Holdfast, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Searched for as bytes, in the file and in its write-ahead log, also while it is filled; none of them
    finds anything."""
    text = " ".join(
        [*SECRETS[:6], f"jwt {SECRETS[6]}", f"{test_redaction.PEM}\n", f"https://me:{SECRETS[8]}@host/x"]
    )
    with pytest.raises(ValueError, match="redacted"):
        hf.with_id("r").run(leaks, text, {"password": SECRETS[9]})
    task = hf.tasks.create(f"Use {SECRETS[0]}", body=text)
    hf.tasks.note(task.id, f"password={SECRETS[9]}")
    hf.memory.remember(f"The key is {text}", source=f"token={SECRETS[9]}")
    seen: list[bytes] = []
    close = Index.close

    def look(index: Index) -> None:
        seen.extend(path.read_bytes() for path in sorted(home.glob("search.*")))
        close(index)

    monkeypatch.setattr(Index, "close", look)
    assert len(hf.search("redacted").hits) > 5
    assert sum(map(len, seen)) > 10_000
    for secret in SECRETS:
        assert all(secret.encode() not in data for data in seen), secret
        assert all(_halves(secret)[1].encode() not in data for data in seen), secret
        assert not hf.search(f'"{secret}"').hits
    page = hf.search("").to_json()
    assert all(secret not in str(page) for secret in SECRETS)


def _halves(secret: str) -> tuple[str, str]:
    return secret[: len(secret) // 2], secret[len(secret) // 2 :]


def test_other_patterns_make_it_anew(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the settings hide from now on is gone from the index, too."""
    with Holdfast(home, durability="process") as hf:
        hf.with_id("r").run(report, "customer 4711 called")
        assert places(hf, "4711", within="runs") == ["runs r"]
    monkeypatch.setenv("HOLDFAST_REDACT", '["customer [0-9]+"]')
    with Holdfast(home, durability="process") as hf:
        assert places(hf, "4711") == []
        assert places(hf, "called", within="runs") == ["runs r"]
        assert b"4711" not in (home / "search.db").read_bytes()


def test_a_hit_names_the_command_that_shows_it() -> None:
    """Ids can be pasted."""
    at = datetime.now(UTC)
    ways = [SearchHit(family, "x", "", "", at, "", step=step).way for family, step in
            (("runs", ""), ("events", "a#1"), ("tasks", ""), ("memory", ""))]  # fmt: skip
    assert [way and way.shell() for way in ways] == [
        "holdfast show x",
        "holdfast show x --step 'a#1'",
        "holdfast task show x",
        None,
    ]


# Serving


def test_serving_keeps_the_index_up_to_date(
    hf: Holdfast, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a store is served, what any process writes is in the index before anyone searches; the thread
    ends with the serving."""
    filled = threading.Semaphore(0)
    whole = Search.drain

    def drain(search: Search) -> bool:
        done = whole(search)
        filled.release()
        return done

    monkeypatch.setattr(Search, "drain", drain)
    monkeypatch.setattr(drain_thread, "DrainThread", partial(drain_thread.DrainThread, every_s=0.001))
    stop = threading.Event()
    serving = threading.Thread(target=hf.serve, kwargs={"follow": True, "stop": stop})
    serving.start()
    try:
        assert filled.acquire(timeout=30)
        hf.memory.remember("the forest of kelp")
        for _ in range(100):
            assert filled.acquire(timeout=30)
            with closing(Index(str(home / NAME), hf._open_search()._format)) as index:
                if index.cursor == hf._store.tail():
                    break
        else:
            pytest.fail("the index is behind")
    finally:
        stop.set()
        serving.join(30)
    assert not [one for one in threading.enumerate() if one.name == "holdfast-search"]


def test_an_index_that_cannot_be_written_is_not_filled_in_vain(
    hf: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drain makes no temporary index: that would be thrown away."""
    opened: list[str] = []

    def refused(_: Index, path: str, __: str) -> None:
        opened.append(path)
        raise apsw.FullError("database or disk is full")

    hf.memory.remember("kelp")
    with monkeypatch.context() as patch:
        patch.setattr(Index, "__init__", refused)
        assert hf._open_search().drain() is False and len(opened) == 1
    assert hf._open_search().drain() is True
