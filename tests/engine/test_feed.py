"""`hf.feed`: the events of all streams, page by page, redacted."""

import threading
import time

import pytest

from holdfast import FeedPage, step
from holdfast.errors import BadInput, Resync


@step
def note(text):
    return text


def pages(hf, **options):
    cursor, found = "", []
    while (page := hf.feed(cursor, **options)).events:
        found.append(page)
        cursor = page.cursor
    return found


def test_pages_are_the_whole_log_in_order(hf, act):
    """Small pages hold the same events as a large one, each once, in the order of the log."""
    for name in ("a", "b"):
        hf.with_id(name).run(act(lambda: [note(n) for n in range(3)]))
    whole = hf.feed().events
    small = pages(hf, limit=2)
    assert [event for page in small for event in page.events] == whole
    assert {len(page.events) for page in small[:-1]} == {2}
    for name in ("a", "b"):
        own = [(one.version, one.type, one.at, one.data) for one in whole if one.stream == name]
        assert own == [(one.version, one.type, one.at, one.data) for one in hf.events(name)]


def test_only_some_types(hf, act):
    hf.with_id("a").run(act(lambda: note("x")))
    page = hf.feed(types=["RunCreated", "RunCompleted"])
    assert [one.type for one in page.events if one.stream == "a"] == ["RunCreated", "RunCompleted"]
    assert page.to_json()["events"][-1]["stream"] == "a"
    assert hf.feed(page.cursor) == FeedPage([], page.cursor), "what was left out is passed, too"


def test_secrets_are_redacted(hf, act):
    key = "sk-" + "a1b2c3d4" * 6
    hf.with_id("a").run(act(lambda: note(f"key {key}")))
    assert key not in str(hf.feed().events)


def test_an_empty_page_is_waited_for(hf, open_hf, act):
    """It comes back as soon as another Holdfast has written something, else when the time is over."""
    other = open_hf(read_only=True)
    hf.with_id("a").run(act(lambda: note("x")))
    cursor = other.feed().cursor
    began = time.monotonic()
    assert other.feed(cursor, wait_s=0.2) == FeedPage([], cursor)
    assert time.monotonic() - began >= 0.2
    writing = threading.Timer(0.2, lambda: hf.with_id("b").run(act(lambda: note("y"))))
    writing.start()
    page = other.feed(cursor, wait_s=60)
    writing.join()
    assert "b" in {one.stream for one in page.events}
    assert time.monotonic() - began < 40


def test_waiting_passes_over_what_was_not_asked_for(hf, open_hf, act):
    """Events of other types do not end the waiting; the one that was asked for does."""
    other = open_hf(read_only=True)
    hf.with_id("a").run(act(lambda: note("x")))
    cursor = other.feed().cursor
    release = threading.Event()
    run = hf.with_id("b").start(act(lambda: (note("y"), release.wait(30), note("z"))[0]))
    threading.Timer(0.2, release.set).start()
    page = other.feed(cursor, types=["RunCompleted"], wait_s=60)
    run.result()
    assert [(one.stream, one.type) for one in page.events] == [("b", "RunCompleted")]


def test_a_cursor_of_another_store(hf, act):
    hf.run(act(lambda: note("x")))
    with pytest.raises(Resync):
        hf.feed("kelp")


def test_a_page_of_nothing(hf):
    with pytest.raises(BadInput, match="at least 1"):
        hf.feed(limit=0)
