"""What steps print and log is kept with their runs, and nothing else is touched by that."""

from __future__ import annotations

import asyncio
import inspect
import io
import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, Retry, command, gather, parallel, step, workflow
from holdfast.engine import step_output

log = logging.getLogger("app.part")


def kept(hf: Holdfast, run_id: str = "r") -> list[tuple[str, int, str, str]]:
    return [(line.step, line.attempt, line.source, line.text) for line in hf.logs(run_id)]


_played: list[Any] = []


@workflow
def played() -> Any:
    return _played[-1]()


@workflow
async def played_async() -> Any:
    return await _played[-1]()


def begin(hf: Holdfast, body: Callable[[], Any]) -> Any:
    """Start a run whose workflow has this body."""
    _played.append(body)
    return hf.with_id("r").start(played_async if inspect.iscoroutinefunction(body) else played)


def play(hf: Holdfast, body: Callable[[], Any]) -> Any:
    _played.append(body)
    return hf.with_id("r").run(played_async if inspect.iscoroutinefunction(body) else played)


@pytest.fixture
def hf(tmp_path: Path):
    with Holdfast(tmp_path / "home") as one:
        yield one


@step
def talk(n: int) -> int:
    print("number", n)
    sys.stderr.write("aside\n")
    log.warning("careful %s", n)
    return n


def test_print_and_logging_are_kept(hf, capsys):
    """Each by its source, in order; what the workflow prints between its steps is not kept."""

    def main() -> int:
        print("between")
        return talk(1)

    play(hf, main)
    assert kept(hf) == [
        ("talk#1", 1, "stdout", "number 1\n"),
        ("talk#1", 1, "stderr", "aside\n"),
        ("talk#1", 1, "log", "WARNING app.part: careful 1\n"),
    ]
    print("outside")
    assert len(kept(hf)) == 3
    assert capsys.readouterr().out == "between\nnumber 1\noutside\n"


def test_a_replay_keeps_nothing_again(hf):
    """The body does not run, so nothing is printed."""

    def main() -> int:
        return talk(1)

    play(hf, main)
    play(hf, main)
    assert len(kept(hf)) == 3


def test_branches_in_threads_are_told_apart(hf):
    """Also while they print at the same time."""
    barrier = threading.Barrier(4)

    @step
    def count(n: int) -> None:
        barrier.wait(30)
        for i in range(50):
            print(n, i)

    def main() -> None:
        parallel(count, range(4))

    play(hf, main)
    texts: dict[str, str] = {}
    for key, _, _, text in kept(hf):
        texts[key] = texts.get(key, "") + text
    assert texts == {f"count#{n + 1}": "".join(f"{n} {i}\n" for i in range(50)) for n in range(4)}


def test_branches_in_tasks_are_told_apart(hf):
    """Async steps that take turns on one thread; a task that a step starts prints for that step."""

    async def inner(n: int) -> None:
        await asyncio.sleep(0)
        print("inner", n)

    @step
    async def say(n: int) -> None:
        for i in range(3):
            print(n, i)
            await asyncio.sleep(0.001)
        await asyncio.create_task(inner(n))

    async def main() -> None:
        print("between")
        await gather(say(1), say(2))

    play(hf, main)
    assert [(key, text) for key, _, _, text in kept(hf)] == [
        ("say#1", "1 0\n1 1\n1 2\ninner 1\n"),
        ("say#2", "2 0\n2 1\n2 2\ninner 2\n"),
    ]


def test_threads_that_a_step_starts(hf):
    """With its context they print for it; without, what they print is only passed on."""

    @step
    def start() -> None:
        for target in (lambda: print("without"), lambda: copy_context().run(print, "without, too")):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
        thread = threading.Thread(target=copy_context().run, args=(print, "with"))
        thread.start()
        thread.join()

    def main() -> None:
        start()

    play(hf, main)
    # From Python 3.14 on, free-threaded builds give a thread the context of whoever starts it.
    if not getattr(sys.flags, "thread_inherit_context", False):
        assert [text for *_, text in kept(hf)] == ["with\n"]


def test_attempts_have_their_own(hf):
    """What a failed attempt printed is kept, with its number; also of a step that fails for good."""
    tries = []

    @step(retry=Retry(attempts=3, initial=0, jitter=0))
    def flaky() -> None:
        tries.append(1)
        print("try", len(tries))
        if len(tries) < 3:
            raise ConnectionError("no")

    @step
    def fails() -> None:
        print("last words")
        raise ValueError("no")

    def main() -> None:
        flaky()
        fails()

    with pytest.raises(ValueError, match="no"):
        play(hf, main)
    assert [(key, attempt, text) for key, attempt, _, text in kept(hf)] == [
        ("flaky#1", 1, "try 1\n"),
        ("flaky#1", 2, "try 2\n"),
        ("flaky#1", 3, "try 3\n"),
        ("fails#1", 1, "last words\n"),
    ]


def test_secrets_are_redacted_also_when_they_come_in_pieces(hf):
    """Of a step whose result is secret, nothing is kept."""

    @step
    def leak() -> None:
        for piece in ("API_TO", "KEN=abc", "def123456\n"):
            sys.stdout.write(piece)

    @step(secret=True)
    def hidden() -> str:
        print("the answer")
        return "x"

    def main() -> None:
        leak()
        hidden()

    play(hf, main)
    assert kept(hf) == [("leak#1", 1, "stdout", "API_TOKEN=[redacted:secret]\n")]


def test_output_is_bounded(hf, monkeypatch):
    """Beyond so much of an attempt, one line says that no more is kept; all of it is passed on."""
    monkeypatch.setattr(step_output, "_MOST", 1000)
    passed = io.StringIO()
    monkeypatch.setattr(sys, "stdout", passed)

    @step
    def chatter() -> None:
        for _ in range(500):
            print("x" * 99)

    def main() -> None:
        chatter()

    play(hf, main)
    text = "".join(text for *_, text in kept(hf))
    assert text == ("x" * 99 + "\n") * 10 + "\n[holdfast: what it printed after this is not kept]\n"
    assert len(passed.getvalue()) == 500 * 100


def test_a_long_step_can_be_followed(hf):
    """What was printed is in the log while the step still runs."""
    printed, go = threading.Event(), threading.Event()

    @step
    def slow() -> None:
        print("begun")
        printed.set()
        assert go.wait(30)

    def main() -> None:
        slow()

    run = begin(hf, main)
    assert printed.wait(30)
    deadline = threading.Event()
    for _ in range(600):
        if kept(hf):
            break
        deadline.wait(0.02)
    assert kept(hf) == [("slow#1", 1, "stdout", "begun\n")]
    go.set()
    run.result()
    assert len(kept(hf)) == 1


def test_it_can_be_turned_off(tmp_path, monkeypatch):
    """By the setting: nothing is kept, and the streams are not touched."""
    monkeypatch.setenv("HOLDFAST_CAPTURE_OUTPUT", "false")
    before = sys.stdout

    def main() -> int:
        assert sys.stdout is before
        return talk(1)

    with Holdfast(tmp_path / "home") as hf:
        play(hf, main)
        assert kept(hf) == []


def test_the_program_has_its_streams_back(tmp_path):
    """After the last Holdfast is closed; also its log records."""
    before = sys.stdout, sys.stderr, logging.getLogRecordFactory()
    with Holdfast(tmp_path / "a"), Holdfast(tmp_path / "b"):
        assert sys.stdout.encoding == before[0].encoding
        assert sys.stdout is not before[0]
    assert (sys.stdout, sys.stderr, logging.getLogRecordFactory()) == before


def test_logging_is_configured_as_before(hf, monkeypatch):
    """No handler is added: `basicConfig` works, and its handler's output is not kept a second time."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)

    @step
    def speak() -> None:
        logging.basicConfig(format="%(message)s")
        log.warning("once")
        try:
            raise KeyError("k")
        except KeyError:
            log.exception("with a traceback")
        log.info("too little")

    def main() -> None:
        speak()

    play(hf, main)
    ((_, _, source, text),) = kept(hf)
    assert source == "log"
    assert text.startswith("WARNING app.part: once\nERROR app.part: with a traceback\nTraceback")
    assert text.endswith("KeyError: 'k'\n")
    assert written.getvalue().startswith("once\nwith a traceback\n")


def test_a_forked_child_of_a_step_keeps_nothing(hf):
    """Its store is the parent's; what it prints is passed on."""

    @step
    def fork() -> int:
        print("parent")
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            try:
                print("child")
            finally:
                os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def main() -> int:
        return fork()

    with pytest.warns(DeprecationWarning) if sys.version_info >= (3, 12) else nullcontext():
        assert play(hf, main) == 0
    assert [text for *_, text in kept(hf)] == ["parent\n"]


def test_commands_are_kept_once(hf):
    """A command's output is its own; a step beside it does not get it."""

    def main() -> None:
        command(["echo", "said"])
        talk(1)

    play(hf, main)
    assert [text for key, *_, text in kept(hf) if key == "echo#1"] == ["said\n"]
