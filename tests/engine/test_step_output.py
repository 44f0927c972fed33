"""What steps print and log is kept with their runs, and nothing else is touched by that."""

from __future__ import annotations

import asyncio
import copy
import inspect
import io
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, Retry, Secret, command, gather, parallel, snapshot, step, workflow
from holdfast.engine.execution import notices, output_buffer
from holdfast.engine.execution.scope import InsideStep, current
from holdfast.redaction import Redactor

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
    monkeypatch.setattr(output_buffer, "_MOST", 1000)
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
    assert text == ("x" * 99 + "\n") * 10 + "\n[holdfast: later output is not kept]\n"
    assert len(passed.getvalue()) == 500 * 100


def test_a_secret_at_the_bound_is_not_cut(hf, monkeypatch):
    """What is kept is counted after redaction: no part of a secret is left at the end."""
    monkeypatch.setattr(output_buffer, "_MOST", 1000)
    secret = Secret("key", "the-value-of-a-known-secret-37-chars")

    @step
    def chatter() -> None:
        for _ in range(9):
            print("x" * 99)
        print("y" * 79, secret.reveal(), "z" * 99)
        print("never kept")

    def main() -> None:
        chatter()

    play(hf, main)
    text = "".join(text for *_, text in kept(hf))
    assert "the-value" not in text and "never kept" not in text
    assert text.startswith(("x" * 99 + "\n") * 9 + "y" * 79 + " [redacted] zzz")
    assert len(text) == 1000 + len(output_buffer._CUT)


def test_one_write_of_any_size_is_bounded(hf, monkeypatch):
    """No more of it is looked through than is kept."""
    monkeypatch.setattr(output_buffer, "_MOST", 1000)
    seen: list[int] = []
    spans = Redactor.spans
    monkeypatch.setattr(Redactor, "spans", lambda self, text: seen.append(len(text)) or spans(self, text))

    @step
    def chatter() -> None:
        print("x\n" * 10_000_000)

    def main() -> None:
        chatter()

    play(hf, main)
    assert sum(len(text) for *_, text in kept(hf)) == 1000 + len(output_buffer._CUT)
    assert max(seen) < 100_000


def test_lines_are_redacted_together(hf, monkeypatch):
    """Not each for itself: that is what makes a `print` cheap. Also where sources take turns."""
    looked: list[str] = []
    appended: list[object] = []
    spans, append_soon = Redactor.spans, type(hf._engine.store).append_soon
    monkeypatch.setattr(Redactor, "spans", lambda self, text: looked.append(text) or spans(self, text))
    monkeypatch.setattr(
        type(hf._engine.store),
        "append_soon",
        lambda self, entry, done: appended.append(entry) or append_soon(self, entry, done),
    )

    @step
    def chatter() -> None:
        for n in range(200):
            print("line", n)

    @step
    def mixed() -> None:
        for n in range(50):
            print("line", n)
            print("aside", n, file=sys.stderr)

    def main() -> None:
        chatter()
        assert len(looked) < 20
        appended.clear()
        mixed()
        assert len(appended) < 10

    play(hf, main)
    assert "".join(text for key, _, _, text in kept(hf) if key == "chatter#1").count("\n") == 200
    assert [text for key, *_, text in kept(hf) if key == "mixed#1"][:3] == [
        "line 0\n",
        "aside 0\n",
        "line 1\n",
    ]


def test_threads_that_print_first_at_once(hf, monkeypatch):
    """Nothing of either is lost."""
    barrier = threading.Barrier(2)
    make = output_buffer.OutputBuffer.__init__

    def slow(self, *args: Any) -> None:
        make(self, *args)
        time.sleep(0.1)

    monkeypatch.setattr(output_buffer.OutputBuffer, "__init__", slow)

    @step
    def start() -> None:
        def speak(n: int) -> None:
            barrier.wait(30)
            sys.stdout.write(f"thread {n}\n")

        threads = [threading.Thread(target=copy_context().run, args=(speak, n)) for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def main() -> None:
        start()

    play(hf, main)
    lines = "".join(text for *_, text in kept(hf))
    assert sorted(lines.splitlines()) == ["thread 0", "thread 1"]


def test_a_thread_that_outlives_its_attempt_prints_into_no_other(hf, capsys):
    """After the timeout of its attempt, what it prints is only passed on."""
    tries: list[int] = []
    second = threading.Event()
    late = threading.Event()

    @step(timeout=0.2, retry=Retry(attempts=2, initial=0, jitter=0))
    def slow() -> None:
        tries.append(1)
        mine = len(tries)
        print("attempt", mine)
        if mine > 1:
            second.set()
            assert late.wait(30)
            print("end of attempt", mine)
            return
        context = copy_context()

        def outlive() -> None:
            assert second.wait(30)
            context.run(print, "late words")
            late.set()

        threading.Thread(target=outlive).start()
        time.sleep(0.4)
        print("overdue")

    def main() -> None:
        slow()

    play(hf, main)
    assert [(attempt, text) for _, attempt, _, text in kept(hf)] == [
        (1, "attempt 1\n"),
        (2, "attempt 2\nend of attempt 2\n"),
    ]
    out = capsys.readouterr().out
    assert "overdue" in out and "late words" in out


def test_what_a_step_leaves_running_prints_for_nobody(hf):
    """Its output ends with its body."""
    go = threading.Event()
    threads: list[threading.Thread] = []

    def speak() -> None:
        assert go.wait(30)
        print("late")

    @step
    def leave(aloud: bool) -> None:
        if aloud:
            print("begun")
        threads.append(threading.Thread(target=copy_context().run, args=(speak,)))
        threads[-1].start()

    def main() -> None:
        leave(True)
        leave(False)
        go.set()
        for thread in threads:
            thread.join()
        talk(1)

    play(hf, main)
    assert [text for key, *_, text in kept(hf) if key.startswith("leave")] == ["begun\n"]


def test_what_a_verify_hook_prints_is_kept(hf):
    """With the attempt that it is asked about."""
    from holdfast import NOT_DONE

    asked: list[int] = []

    def look() -> Any:
        asked.append(1)
        print("looking")
        return NOT_DONE if len(asked) == 1 else "found"

    @step(effect="once", verify=look, retry=Retry(attempts=3, initial=0, jitter=0))
    def send() -> str:
        print("sending")
        raise ConnectionError("no")

    def main() -> str:
        return send()

    assert play(hf, main) == "found"
    assert [(attempt, text) for _, attempt, _, text in kept(hf)] == [
        (1, "sending\n"),
        (1, "looking\n"),
        (2, "sending\n"),
        (2, "looking\n"),
    ]


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
    before = sys.stdout, sys.stderr, logging.Logger.callHandlers, logging.Handler.handle
    with Holdfast(tmp_path / "a"), Holdfast(tmp_path / "b"):
        assert sys.stdout.encoding == before[0].encoding
        assert sys.stdout is not before[0]
    assert (sys.stdout, sys.stderr, logging.Logger.callHandlers, logging.Handler.handle) == before


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


@pytest.fixture
def app_log():
    """A logger that only its own handlers see."""
    logger = logging.getLogger("app.private")
    logger.setLevel(logging.DEBUG)
    yield logger
    logger.propagate = True
    logger.handlers.clear()
    logger.filters.clear()


def handle(logger: logging.Logger, *handlers: logging.Handler) -> None:
    """No handlers but these: without the one that pytest adds."""
    logger.propagate = False
    logger.handlers[:] = handlers


def logged(hf: Holdfast, *messages: Any, level: int = logging.INFO) -> str:
    @step
    def speak() -> None:
        for message in messages:
            logging.getLogger("app.private").log(level, message)

    def main() -> None:
        speak()

    play(hf, main)
    return "".join(text for *_, source, text in kept(hf) if source == "log")


def mask(record: logging.LogRecord) -> bool:
    record.msg = record.msg.replace("4111", "****")
    return True


@pytest.mark.parametrize("place", ["logger", "handler"])
def test_filters_of_the_program_count(hf, app_log, place):
    """What they mask is masked, and what they drop is not kept; on a logger or on a handler."""
    handler = logging.StreamHandler(io.StringIO())
    handle(app_log, handler)
    where = app_log if place == "logger" else handler
    where.addFilter(mask)
    where.addFilter(lambda record: "drop" not in record.msg)
    assert logged(hf, "card 4111", "drop 4111") == "INFO app.private: card ****\n"


def test_a_filter_that_replaces_a_record(hf, app_log):
    """The one that a handler gets from its filter is kept, and not the one before it. Before Python 3.12 a
    filter cannot replace a record, and the handler gets the first one."""

    def replace(record: logging.LogRecord) -> Any:
        other = copy.copy(record)
        mask(other)
        return other

    handler = logging.StreamHandler(io.StringIO())
    handler.addFilter(replace)
    handle(app_log, logging.StreamHandler(io.StringIO()), handler)
    kept = "****" if sys.version_info >= (3, 12) else "4111"
    assert logged(hf, "card 4111") == f"INFO app.private: card {kept}\n"


def test_a_record_that_no_handler_takes_is_not_kept(hf, app_log):
    """Because of their levels, or because there is none but one that does nothing."""
    handler = logging.StreamHandler(io.StringIO())
    handler.setLevel(logging.WARNING)
    handle(app_log, handler, logging.NullHandler())
    assert logged(hf, "unseen") == ""


def test_a_handler_that_logs(hf, app_log):
    """Its own record is no other's."""

    class Talking(logging.StreamHandler[Any]):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name == "app.private":
                log.warning("sent")
            super().emit(record)

    handle(app_log, Talking(io.StringIO()))
    assert logged(hf, "hello") == "INFO app.private: hello\n"


def test_records_that_are_only_made_are_not_kept(hf, app_log):
    """`makeLogRecord` logs nothing; what is handled later has its own level and name."""
    handle(app_log, logging.StreamHandler(io.StringIO()))

    @step
    def speak() -> None:
        record = logging.makeLogRecord(
            {"name": "far", "levelname": "ERROR", "levelno": 40, "msg": "from afar"}
        )
        logging.makeLogRecord({"msg": "dropped"})
        app_log.handle(record)

    def main() -> None:
        speak()

    play(hf, main)
    assert [text for *_, text in kept(hf)] == ["ERROR far: from afar\n"]


def test_others_wrap_logging_too(tmp_path, app_log, monkeypatch):
    """Record factories and wrappers that call the one before them, set while a Holdfast was open: after that
    was closed and others were opened, a record is handled once and kept once."""
    handle(app_log, logging.StreamHandler(handled := io.StringIO()))
    monkeypatch.setattr(logging.Logger, "callHandlers", logging.Logger.callHandlers)
    monkeypatch.setattr(logging, "_logRecordFactory", logging.getLogRecordFactory())
    calls: list[str] = []

    def wrap() -> None:
        factory, found = logging.getLogRecordFactory(), logging.Logger.callHandlers
        logging.setLogRecordFactory(lambda *args, **kwargs: factory(*args, **kwargs))

        def wrapped(self: logging.Logger, record: logging.LogRecord) -> None:
            calls.append(record.getMessage())
            found(self, record)

        logging.Logger.callHandlers = wrapped  # type: ignore[method-assign]

    for n in range(3):
        with Holdfast(tmp_path / f"home{n}") as hf:
            if n == 0:
                wrap()
            assert logged(hf, f"hello {n}") == f"INFO app.private: hello {n}\n"
    assert calls == ["hello 0", "hello 1", "hello 2"]
    assert handled.getvalue() == "hello 0\nhello 1\nhello 2\n"


FORKED = """
import logging, os, sys
from holdfast import Holdfast, step, workflow

@step
def speak():
    print("printed")
    logging.warning("logged")

@workflow
def main():
    speak()

with Holdfast(sys.argv[1]) as first:
    child = os.fork()
    with Holdfast(sys.argv[2]) if child == 0 else first as hf:
        if child:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        hf.with_id("r").run(main)
        assert [line.text for line in hf.logs("r")] == ["printed\\n", "WARNING root: logged\\n"]
    if child == 0:
        assert type(sys.stdout).__name__ != "Tee"
        sys.stdout.flush()
        os._exit(0)
"""


def test_a_forked_child_opens_its_own(tmp_path):
    """While its parent has one open: each keeps its steps in its own store, once, and so it is after that."""
    script = tmp_path / "flow.py"
    script.write_text(FORKED)
    done = subprocess.run(
        [sys.executable, script, tmp_path / "parent", tmp_path / "child"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "printed\nprinted\n"), done.stderr
    assert done.stderr == "WARNING:root:logged\n" * 2


def test_callbacks_and_notices_are_no_output_of_a_step(tmp_path, monkeypatch):
    """What `on_event` prints, and what Holdfast prints itself, is kept for no step, also where the thread of
    a step's body calls it."""
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setattr(logging.getLogger("holdfast"), "handlers", [logging.lastResort])
    where: set[str] = set()

    def on_event(event: Any) -> None:
        inside = current.get()
        if isinstance(inside, InsideStep):
            where.add(inside.key)
        print(event.type, file=sys.stderr)
        log.warning("seen %s", event.type)

    @step
    def noticed() -> None:
        print("before", file=sys.stderr)
        logging.getLogger("holdfast").warning("a warning of ours")
        notices.print_stopping()
        print("after", file=sys.stderr)

    def main() -> None:
        snapshot()  # its body appends, and so delivers events
        noticed()

    (tmp_path / "files").mkdir()
    with Holdfast(tmp_path / "home", workspace=tmp_path / "files", on_event=on_event) as hf:
        play(hf, main)
        assert kept(hf) == [("noticed#1", 1, "stderr", "before\nafter\n")]
    assert where == {"snapshot#1"}
    shown = written.getvalue()
    assert all(text in shown for text in ("FilesSaved\n", "a warning of ours\n", "Ctrl-C: stopping"))


def test_a_stream_can_be_used_as_a_file(tmp_path, capsys):
    """`with sys.stdout as file`, as programs write that take a file or the standard output."""
    with Holdfast(tmp_path):
        with sys.stdout as file:
            file.write("text\n")
        print("more")
    assert capsys.readouterr().out == "text\nmore\n"


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


CHATTER = """
import sys, threading
from holdfast.engine.execution import step_output

done = threading.Event()

def chatter():
    while not done.is_set():
        print("kelp", "rock", "tide")

threads = [threading.Thread(target=chatter) for _ in range(4)]
for thread in threads:
    thread.start()
sys.setswitchinterval(1e-6)
for _ in range(5000):
    engine = type("Engine", (), {})()
    step_output.begin(engine)
    step_output.end(engine)
done.set()
for thread in threads:
    thread.join()
"""


def test_threads_may_print_while_streams_are_wrapped():
    """`print` of CPython does not hold the stream that it writes to: that must not go."""
    done = subprocess.run(
        [sys.executable, "-c", CHATTER], stdout=subprocess.DEVNULL, check=False, timeout=100
    )
    assert done.returncode == 0
