"""`command`: a program as a step."""

import os
import signal
import sys
import time

import pytest

from holdfast import InDoubt, Retry, command, parallel, step
from holdfast.errors import BadInput, CommandFailed, ProgramNotFound, StepTimeout, WrongColour
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
