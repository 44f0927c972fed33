"""`command`: a program as a step."""

import json
import os
import signal
import sys
import threading
import time

import pytest

from holdfast import InDoubt, Retry, command, parallel, step
from holdfast.engine.processes.process import Process, SupervisorLost, _Link
from holdfast.errors import (
    BadInput,
    CommandFailed,
    ProgramNotFound,
    RunInterrupted,
    StepTimeout,
    StoreError,
    WrongColour,
)
from holdfast.testing import FakeClock


def sh(script, **options):
    return command(["sh", "-c", script], **options)


def test_a_command_gives_its_end_and_output(hf, act):
    """Exit code, both texts and argv; replayed the same without running it."""
    result = hf.with_id("x").run(act(lambda: sh("echo out; echo err >&2")))
    assert (result.argv, result.exit_code, result.stdout, result.stderr) == (
        ("sh", "-c", "echo out; echo err >&2"),
        0,
        "out\n",
        "err\n",
    )
    assert hf.resume("x").result(30) == result
    assert [(info.key, info.kind, info.effect) for info in hf.steps("x")] == [("sh#1", "command", "once")]


def test_replay_does_not_run_it_again(twice, tmp_path):
    """The result is equal and of the same type, also after a crash."""
    trace = tmp_path / "trace"
    live, replayed = twice(lambda: sh(f"echo ran >> {trace}; cat {trace}"))
    assert live == replayed
    assert type(live) is type(replayed)
    assert trace.read_text() == "ran\n"


def test_output_goes_to_the_log(hf, act):
    """In order, by step and source; `step=` filters."""

    def plot():
        sh("echo one; echo two", name="first")
        sh("echo three >&2", name="second")

    hf.with_id("x").run(act(plot))
    assert [(line.step, line.source, line.text) for line in hf.logs("x")] == [
        ("first#1", "stdout", "one\ntwo\n"),
        ("second#1", "stderr", "three\n"),
    ]
    assert [line.text for line in hf.logs("x", step="second")] == ["three\n"]


def test_output_is_told_live(open_hf, act):
    """`on_output` hears of it while the command runs."""
    told = []
    hf = open_hf(on_output=lambda *piece: told.append(piece))
    hf.with_id("x").run(act(lambda: sh("echo one")))
    assert told == [("x", "sh#1", "stdout", "one\n")]


def test_secrets_in_output_are_redacted(hf, act):
    """Before the caller and the log see them; also in the text of the error."""
    token = "ghp_" + "a1B2" * 9

    def plot():
        result = sh(f"echo token={token}", effect="idempotent")
        try:
            sh(f"echo {token} >&2; exit 3")
        except CommandFailed as error:
            return [result.stdout, error.output]

    stdout, output = hf.with_id("x").run(act(plot))
    assert token not in stdout + output
    assert "[redacted" in stdout and "[redacted" in output
    assert token not in repr([event for event in hf.events("x") if event.type == "OutputCaptured"])


def test_an_exit_code_other_than_0_fails_the_step(hf, act):
    """With program, code and output; `check=False` gives the code instead."""

    def plot():
        unchecked = sh("exit 4", check=False).exit_code
        with pytest.raises(CommandFailed) as caught:
            sh("echo broken >&2; exit 3")
        return [unchecked, caught.value.program, caught.value.returncode, str(caught.value)]

    assert hf.run(act(plot)) == [4, "sh", 3, "sh ended with code 3: broken"]


def test_a_program_that_is_not_there(hf, act):
    """It is told by name, as a failure: nothing happened, so nothing is in doubt."""
    with pytest.raises(ProgramNotFound, match="no-such-program"):
        hf.with_id("x").run(act(lambda: command(["no-such-program"])))
    assert hf.get("x").status == "failed"


def test_environment_directory_and_input(hf, act, tmp_path):
    """`env` adds variables, `cwd` chooses the directory, `stdin` is its input; without it there is none."""

    def plot():
        return [
            sh("echo $KELP $HOME", env={"KELP": "green"}).stdout,
            sh("pwd", cwd=tmp_path).stdout,
            sh("cat", stdin="fed\n").stdout,
            sh("cat").stdout,
        ]

    home = os.environ.get("HOME", "")
    assert hf.run(act(plot)) == [f"green {home}\n", f"{tmp_path}\n", "fed\n", ""]


def is_dead(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "Z"


def until(happened, timeout=30.0):
    deadline = time.monotonic() + timeout
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


@pytest.mark.parametrize("effect", ["idempotent", "once"])
def test_a_timeout_ends_the_whole_tree(hf, act, tmp_path, effect):
    """Children in the background die too; a `once` command is then in doubt."""
    pids = tmp_path / "pids"
    script = f"sleep 600 & echo $! >> {pids}; (sleep 600 & echo $! >> {pids}); sleep 600"
    expected = {"idempotent": StepTimeout, "once": InDoubt}[effect]
    with pytest.raises(expected):
        hf.with_id("x").run(act(lambda: sh(script, timeout=0.5, effect=effect)))
    assert all(is_dead(int(pid)) for pid in pids.read_text().split())
    assert hf.get("x").status == {"idempotent": "failed", "once": "needs_attention"}[effect]


def test_an_idempotent_command_is_tried_again(open_hf, act, tmp_path):
    """With `retry`; output and attempts are kept apart."""
    hf = open_hf(clock=FakeClock())
    count = tmp_path / "count"
    script = f"echo x >> {count}; echo try $(wc -l < {count}); test $(wc -l < {count}) -ge 3"

    def plot():
        return sh(script, effect="idempotent", retry=Retry(attempts=5)).stdout.split()

    assert hf.with_id("x").run(act(plot)) == ["try", "3"]
    assert [(line.attempt, line.text.split()) for line in hf.logs("x")] == [
        (1, ["try", "1"]),
        (2, ["try", "2"]),
        (3, ["try", "3"]),
    ]


KILLED = """
    import sys
    from holdfast import Holdfast, command, workflow

    @workflow
    def job(effect: str, path: str) -> str:
        first = f"[ $(wc -l < {path}) -lt 2 ]"
        script = f"echo x >> {path}; if {first}; then echo $$ >> {path}.pid; sleep 600; fi"
        command(["sh", "-c", script], effect=effect)
        return "done"

    if __name__ == "__main__":
        with Holdfast() as hf:
            print(hf.with_id("job").run(job, *sys.argv[1:]))
"""


@pytest.mark.parametrize("effect", ["idempotent", "once"])
def test_a_command_whose_owner_was_killed(lab, open_hf, tmp_path, effect):
    """Its tree dies with the owner; idempotent: it runs again; once: it is in doubt."""
    trace = tmp_path / "trace"
    job = lab(KILLED, effect, str(trace))
    worker = job.start()
    pid = tmp_path / "trace.pid"
    until(lambda: pid.exists() and pid.read_text().strip())
    os.kill(worker.pid, signal.SIGKILL)
    worker.communicate()
    hf = open_hf()
    run = hf.resume("job")
    if effect == "once":
        with pytest.raises(InDoubt, match="sh#1 was cut off"):
            run.result(30)
        assert trace.read_text() == "x\n"
    else:
        assert run.result(30) == "done"
        assert trace.read_text() == "x\nx\n"
    assert is_dead(int(pid.read_text()))


def test_other_words_are_another_command(hf, act):
    """argv, cwd and env are its arguments: they are in the digest."""
    hf.with_id("x").run(act(lambda: [sh("true"), sh("true"), sh("true ")]))
    first, second, third = [e.data["digest"] for e in hf.events("x") if e.type == "StepStarted"]
    assert first == second != third


def test_commands_in_parallel_and_async(hf, act):
    """`parallel` runs them in threads; `await command.aio` in an async workflow."""

    def branch(word):
        return command(["echo", word]).stdout

    async def plot():
        return (await command.aio(["echo", "async"])).stdout

    async def wrong():
        command(["echo", "never"])

    assert hf.run(act(lambda: parallel(branch, ["a", "b"]))) == ["a\n", "b\n"]
    assert hf.run(act(plot)) == "async\n"
    with pytest.raises(WrongColour, match=r"await command\.aio"):
        hf.run(act(wrong))


def test_wrong_commands_are_refused(hf, act):
    """A string, nothing, a retry of a `once` command, a call outside a run or inside a body."""

    @step
    def body():
        command(["true"])

    for call, hint in [
        (lambda: command("echo hello"), "takes a list"),
        (lambda: command([]), "takes a list"),
        (lambda: command(["true"], retry=Retry()), 'effect="idempotent"'),
        (lambda: body(), "call it from a workflow"),
    ]:
        with pytest.raises(BadInput, match=hint):
            hf.run(act(call))
    with pytest.raises(BadInput, match="call it from a workflow"):
        command([sys.executable, "--version"])


@pytest.fixture
def ctrl_c():
    """Calls that interrupt the main thread as a terminal does."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread only")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("effect", ["idempotent", "once"])
def test_an_interrupt_ends_the_whole_tree(open_hf, act, tmp_path, home, ctrl_c, effect):
    """Ctrl-C returns when nothing of the command is alive; a `once` command is then in doubt."""
    pids = tmp_path / "pids"
    hf = open_hf(on_output=lambda *_: ctrl_c())
    script = f"sleep 600 & echo $! $$ > {pids}; echo ready; sleep 600"
    with pytest.raises({"idempotent": KeyboardInterrupt, "once": InDoubt}[effect]):
        hf.with_id("x").run(act(lambda: sh(script, effect=effect)))
    assert all(is_dead(int(pid)) for pid in pids.read_text().split())
    assert [line.text for line in hf.logs("x")] == ["ready\n"]
    assert hf.get("x").status == {"idempotent": "running", "once": "needs_attention"}[effect]
    assert not (home / "commands" / "x").exists()


def test_a_second_interrupt_does_not_leave_the_tree_alive(open_hf, act, tmp_path, ctrl_c, monkeypatch):
    """An impatient Ctrl-C kills what ignores SIGTERM, and still waits for it."""
    pid = tmp_path / "pid"
    terminate = Process.terminate

    def hurry(self, *args):
        terminate(self, *args)
        threading.Timer(0.2, ctrl_c).start()

    monkeypatch.setattr(Process, "terminate", hurry)
    hf = open_hf(on_output=lambda *_: ctrl_c())
    script = f"trap '' TERM; echo $$ > {pid}; echo ready; while :; do sleep 0.01; done"
    with pytest.raises(KeyboardInterrupt):
        hf.with_id("x").run(act(lambda: sh(script, effect="idempotent")))
    assert is_dead(int(pid.read_text()))


@pytest.mark.parametrize("effect", ["idempotent", "once"])
def test_a_supervisor_that_is_killed_before_it_speaks(hf, act, monkeypatch, effect):
    """The command may have begun: a `once` one is in doubt, any other was ended from outside."""

    def dies(*_):
        raise SupervisorLost("the supervisor of 'sh' died at its start; run it again")

    monkeypatch.setattr(_Link, "begin", dies)
    run = hf.with_id("x").start(act(lambda: sh("true", effect=effect)))
    expected = (
        (InDoubt, "was ended from outside") if effect == "once" else (CommandFailed, "was ended by signal")
    )
    with pytest.raises(expected[0], match=expected[1]):
        run.result(30)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("effect", ["idempotent", "once"])
def test_a_command_that_somebody_else_ends(hf, act, home, tmp_path, effect, number):
    """Whoever stops or kills its supervisor: a `once` command has not failed, it is in doubt."""
    began = tmp_path / "began"
    run = hf.with_id("x").start(act(lambda: sh(f"touch {began}; sleep 600", effect=effect)))
    until(began.exists)
    (lock,) = (home / "commands" / "x").iterdir()
    os.kill(json.loads(lock.read_text())["supervisor"], number)
    if effect == "once":
        with pytest.raises(InDoubt, match="was ended from outside"):
            run.result(30)
    else:
        with pytest.raises(CommandFailed, match="was ended by signal"):
            run.result(30)


def test_a_commands_lock_is_cleared_away(hf, act, home, tmp_path):
    """While it runs there is one, named by the owner's epoch; afterwards not even its directory."""
    began, go = tmp_path / "began", tmp_path / "go"
    run = hf.with_id("x").start(
        act(lambda: sh(f"touch {began}; while [ ! -e {go} ]; do sleep 0.01; done").exit_code)
    )
    until(began.exists)
    assert [lock.name.partition("-")[0] for lock in (home / "commands" / "x").iterdir()] == ["1"]
    go.touch()
    assert run.result(30) == 0
    assert not (home / "commands" / "x").exists()


def test_many_commands_at_once_share_the_directory(hf, act, home):
    """One that ends removes it under the feet of none that begins."""
    results = hf.with_id("x").run(act(lambda: parallel(lambda n: sh(f"echo {n}").stdout, range(40))))
    assert results == [f"{n}\n" for n in range(40)]
    assert not (home / "commands" / "x").exists()


def test_commands_run_where_the_run_was_started(hf, act, tmp_path, monkeypatch):
    """Whoever continues the run, and from where: also in a child that is begun only then."""
    there, elsewhere = tmp_path / "there", tmp_path / "elsewhere"
    fails = [True]

    @step
    def flaky() -> None:
        if fails:
            raise ValueError("not yet")

    child = act(lambda: sh("pwd").stdout, "child")

    def plot():
        flaky()
        return [sh("pwd").stdout, child()]

    for directory in (there, elsewhere):
        directory.mkdir()
    monkeypatch.chdir(there)
    with pytest.raises(ValueError, match="not yet"):
        hf.with_id("x").run(act(plot))
    fails.clear()
    monkeypatch.chdir(elsewhere)
    assert hf.resume("x").result(30) == [f"{there}\n", f"{there}\n"]


def test_output_of_a_slow_command_is_in_the_log_soon(hf, act, tmp_path):
    """A line does not wait for the next sixteen kilobytes, nor for more to come."""
    go = tmp_path / "go"
    script = f"echo one; while [ ! -e {go} ]; do sleep 0.01; done; echo two"
    run = hf.with_id("x").start(act(lambda: sh(script).exit_code))
    until(lambda: [line.text for line in hf.logs("x")] == ["one\n"], 10)
    go.touch()
    assert run.result(30) == 0
    assert "".join(line.text for line in hf.logs("x")) == "one\ntwo\n"


def test_output_that_keeps_coming_is_in_the_log_soon(hf, act, tmp_path):
    """A command that is never quiet is not kept back either."""
    go = tmp_path / "go"
    script = f"while [ ! -e {go} ]; do echo tick; sleep 0.05; done"
    run = hf.with_id("x").start(act(lambda: sh(script).exit_code))
    until(lambda: len(list(hf.logs("x"))) >= 2, 10)
    go.touch()
    assert run.result(30) == 0


def test_a_command_waits_for_the_log(hf, act, tmp_path, monkeypatch):
    """One that writes faster than the store takes it is held up, instead of filling the memory."""
    done, go = tmp_path / "done", threading.Event()
    append = hf._engine.store.append

    def slow(entry):
        if entry.events and entry.events[-1].type == "OutputCaptured":
            go.wait(30)
        append(entry)

    monkeypatch.setattr(hf._engine.store, "append", slow)
    script = f"head -c 3000000 /dev/zero | tr '\\0' x; touch {done}"
    run = hf.with_id("x").start(act(lambda: sh(script).exit_code))
    time.sleep(0.5)
    assert not done.exists()
    go.set()
    assert run.result(30) == 0
    assert sum(len(line.text) for line in hf.logs("x")) == 3000000


def test_a_command_begins_before_its_output(hf, act, monkeypatch):
    """Also an idempotent one: its beginning is in the log before anything that it says."""
    monkeypatch.setattr(hf._engine.flusher, "watch", lambda intent: None)
    hf.with_id("x").run(act(lambda: sh("echo one", effect="idempotent")))
    told = [event.type for event in hf.events("x")]
    assert told.index("StepStarted") < told.index("OutputCaptured") < told.index("StepCompleted")


@pytest.mark.parametrize("effect", ["idempotent", "once"])
def test_closing_ends_the_command_of_an_async_workflow(open_hf, act, tmp_path, effect):
    """The run is interrupted, or in doubt, and its event loop lives on."""
    began = tmp_path / "began"
    hf = open_hf()

    async def plot():
        await command.aio(["sh", "-c", f"touch {began}; sleep 600"], effect=effect)

    run = hf.with_id("x").start(act(plot))
    until(began.exists)
    closer = threading.Thread(target=hf.close, daemon=True)
    closer.start()
    with pytest.raises({"idempotent": RunInterrupted, "once": InDoubt}[effect]):
        run.result(30)
    closer.join(30)
    assert not closer.is_alive()


def test_a_lock_that_cannot_be_made_is_no_failure_of_the_command(hf, act, home, tmp_path):
    """The run stops with the store's error, nothing is recorded as the step's end, and it continues later."""
    trace = tmp_path / "trace"
    plot = act(lambda: sh(f"echo ran >> {trace}", effect="idempotent").exit_code)
    (home / "commands").write_text("in the way")
    with pytest.raises(StoreError, match="commands"):
        hf.with_id("x").run(plot)
    assert [info.status for info in hf.steps("x")] == ["running"]
    (home / "commands").unlink()
    assert hf.with_id("x").run(plot) == 0
    assert trace.read_text() == "ran\n"


def test_a_lock_that_cannot_be_removed_does_not_matter(hf, act, monkeypatch):
    """The command has its result."""

    def refuse(path, missing_ok=False):
        raise OSError(5, "Input/output error", str(path))

    monkeypatch.setattr("holdfast.engine.processes.tree_lock.Path.unlink", refuse)
    assert hf.run(act(lambda: sh("echo well").stdout)) == "well\n"
