"""Ctrl-C, SIGTERM, and two processes that want one run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from tests.acceptance.conftest import send_signal

SLOW = """
    @step
    def first(): note("first"); return 1
    @step
    def slow():
        note("slow")
        while not Path("go").exists(): time.sleep(0.01)
        return 2
    @step
    def last(): note("last"); return 3
    @workflow
    def main(): return [first(), slow(), last()]
"""
HANGS = """
    @step
    def hang():
        note("hang")
        while not Path("go").exists(): time.sleep(0.01)
        return "went"
    @workflow
    def main(): return hang()
"""

STOPPED_IN_A_WRITE = """
    import fcntl, os, signal
    @step
    def write():
        note("write")
        if Path("go").exists(): return "went"
        gate = os.open(Path(os.environ["HOLDFAST_HOME"]) / "write.lock", os.O_RDWR)
        fcntl.flock(gate, fcntl.LOCK_EX)
        note("stopped")
        os.kill(os.getpid(), signal.SIGSTOP)
        fcntl.flock(gate, fcntl.LOCK_UN)
        while not Path("end").exists(): time.sleep(0.01)
        return "continued"
    @workflow
    def main(): return write()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stops_at_a_step_boundary(cli, number):
    """A signal lets the running step end and be recorded, exits 130, and says how to continue."""
    cli.script(SLOW)
    process = cli.start("run", "--id", "s", "flow.py:main")
    cli.wait_for_note("slow")
    send_signal(process.pid, number)
    (cli.directory / "go").touch()
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, "")
    assert "`holdfast resume s` continues" in err
    assert "Traceback" not in err
    assert cli("resume", "s").json() == [1, 2, 3]
    assert cli.notes() == {"first": 1, "slow": 1, "last": 1}


@pytest.mark.parametrize("call", ["hf.with_id('s').run(main)", "hf.with_id('s').start(main).result()"])
def test_a_script_that_is_stopped_says_how_to_go_on(cli, call):
    """Ctrl-C in `python flow.py`: the last two lines name the run and the command."""
    # Where tests run in the background, SIGINT is ignored, and Python leaves that as it is.
    listens = "    import signal\n    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    runs = f"    if __name__ == '__main__':\n        with Holdfast() as hf: print({call})\n"
    script = cli.script(listens + SLOW + runs)
    process = subprocess.Popen(
        [sys.executable, script], cwd=cli.directory, env=cli.env, stderr=subprocess.PIPE, text=True
    )
    cli.wait_for_note("slow")
    send_signal(process.pid, signal.SIGINT)
    (cli.directory / "go").touch()
    _, err = process.communicate(timeout=20)
    assert process.returncode == -signal.SIGINT
    assert err.splitlines()[-2:] == [
        "holdfast: run s is interrupted; what it has recorded is kept",
        "`holdfast resume s` continues, and so does this program, started again",
    ]
    assert cli("resume", "s").json() == [1, 2, 3]


AT_A_GATE = """
    import asyncio
    @workflow
    def asks(): return approval("go").outcome
    @workflow
    async def awaits(): return (await approval.aio("go")).outcome
    async def await_it():
        async with Holdfast() as hf:
            try:
                async with asyncio.timeout(1.5): await hf.with_id("s").start(awaits)
            except TimeoutError: note("timeout")
            return await hf.with_id("s").start(awaits)
"""


def test_ctrl_c_reaches_a_loop_that_has_executed_a_run(cli):
    """A loop that waits in `select` is woken up by asyncio's handler."""
    script = cli.script("""
        import asyncio, threading
        @step
        async def one(): return 1
        @workflow
        async def flow(): return await one()
        async def main():
            async with Holdfast() as hf:
                await hf.start(flow)
                # The loop is in `select` then.
                threading.Timer(0.5, lambda: print("waits", flush=True)).start()
                await asyncio.Event().wait()
        if __name__ == "__main__":
            import signal
            signal.signal(signal.SIGINT, signal.default_int_handler)
            asyncio.run(main())
    """)
    process = subprocess.Popen(
        [sys.executable, script],
        cwd=cli.directory,
        env=cli.env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waits\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in err


@pytest.mark.parametrize("call", ["hf.with_id('s').run(asks)", "asyncio.run(await_it())"])
def test_a_script_that_waits_at_a_gate_says_so_and_how_to_go_on(cli, call):
    """A `def` script and one that awaits its run print the same: what the run waits for, and after Ctrl-C the
    run and the command. A cancel that is no Ctrl-C stays one."""
    listens = "    import signal\n    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    opens = "with Holdfast() as hf: " if call.startswith("hf") else ""
    script = cli.script(f"{listens}{AT_A_GATE}    if __name__ == '__main__':\n        {opens}print({call})\n")
    process = subprocess.Popen(
        [sys.executable, script], cwd=cli.directory, env=cli.env, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("run s waits for the approval of 'go': `holdfast show s`")
    if not opens:
        cli.wait_for_note("timeout")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == -signal.SIGINT
    assert err.count("Traceback") == 1 and "never retrieved" not in err and "threading.py" not in err
    assert err.splitlines()[-2:] == [
        "holdfast: run s is interrupted; what it has recorded is kept",
        "`holdfast resume s` continues, and so does this program, started again",
    ]
    cli("approve", "s")
    assert cli("resume", "s").json() == "approved"


BRANCHES_HANG = """
    import signal
    @step
    def hang(n):
        note(f"hang {n}")
        while not Path("go").exists(): time.sleep(0.01)
        return n
    @workflow
    def main(): return parallel(hang, [1, 2])
    @workflow
    def outer(): return main()
"""


def test_an_asyncio_script_tells_of_ctrl_c(cli):
    """As a plain one: at once, before the running step has ended; then the run can be resumed."""
    script = cli.script("""
        import asyncio, signal
        signal.signal(signal.SIGINT, signal.default_int_handler)
        @step
        async def hang(n):
            note(f"hang {n}")
            while not Path("go").exists(): await asyncio.sleep(0.01)
            return n
        @workflow
        async def main(): return await hang(1)
        async def program():
            async with Holdfast() as hf: print(await hf.with_id("s").start(main))
        if __name__ == "__main__": asyncio.run(program())
    """)
    process = subprocess.Popen(
        [sys.executable, script], cwd=cli.directory, env=cli.env, stderr=subprocess.PIPE, text=True
    )
    try:
        cli.wait_for_note("hang 1")
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert (
            process.stderr.readline()
            == "Ctrl-C: stopping at the next step boundary; a second one stops at once\n"
        )
        (cli.directory / "go").touch()
        _, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert "holdfast: run s is interrupted; what it has recorded is kept" in err
    assert cli("resume", "s").json() == 1


@pytest.mark.parametrize(
    "call",
    [
        "hf.with_id('s').run(main)",
        "hf.with_id('s').run(outer)",
        "hf.with_id('s').start(main).result()",
    ],
)
def test_a_script_tells_of_the_first_ctrl_c_and_stops_at_the_second(cli, call):
    """The first one waits for the running steps, and says so at once; the second one waits for nothing. The
    traceback shows the program's own lines, and the run can be resumed."""
    listens = "    import signal\n    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    runs = f"    if __name__ == '__main__':\n        with Holdfast() as hf: print({call})\n"
    script = cli.script(listens + BRANCHES_HANG + runs)
    process = subprocess.Popen(
        [sys.executable, script], cwd=cli.directory, env=cli.env, stderr=subprocess.PIPE, text=True
    )
    try:
        cli.wait_for_note("hang 1")
        cli.wait_for_note("hang 2")
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line == "Ctrl-C: stopping at the next step boundary; a second one stops at once\n"
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
    finally:
        process.kill()
    assert process.returncode == -signal.SIGINT
    assert "Exception ignored" not in err
    assert err.count("Traceback") == 1
    assert "crew.py" not in err and "threading.py" not in err
    assert err.splitlines()[-2:] == [
        "holdfast: run s is interrupted; what it has recorded is kept",
        "`holdfast resume s` continues, and so does this program, started again",
    ]
    (cli.directory / "go").touch()
    assert cli("resume", "s").json() == [1, 2]


def test_second_signal_stops_at_once(cli):
    """Twice: the process does not wait for the step, and the run can be resumed."""
    cli.script(HANGS)
    process = cli.start("run", "--id", "h", "flow.py:main")
    cli.wait_for_note("hang")
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=5)
    assert process.returncode == 130
    assert "holdfast resume h" in err
    (cli.directory / "go").touch()
    assert cli("resume", "h").json() == "went"


def test_a_signal_is_never_slept_through(cli):
    """A signal that does not wake the main thread (here another thread takes it) is acted on all the same."""
    code = """
        import signal, threading
        from holdfast.cli.foreground import Foreground

        class Engine:
            def stop(self, why): ended.set()
        class Run:
            id = "x"
            def quiet_result(self): ended.wait(); return "stopped"

        ended, engine = threading.Event(), Engine()
        def take():
            threading.Event().wait(0.3)  # by then the main thread waits
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            ended.wait()
        threading.Thread(target=take).start()
        with Foreground() as foreground:
            print(foreground.follow(engine, Run()).value)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=cli.env,
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    assert done.stdout == "stopped\n"


def test_interrupt_while_the_program_loads(tmp_path):
    """There is no traceback, and the code is that of every other interrupt."""
    (tmp_path / "click.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)")
    path = os.pathsep.join((str(tmp_path), *sys.path))
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "list"],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_interrupt_ends_a_command(cli, wait_until):
    """Ctrl-C ends the running command's tree; a `once` command is in doubt, and the program says so."""
    process = cli.start("run", "--id", "c", "--effect", "once", "--", "sh", "-c", "touch up; sleep 60")
    wait_until((cli.directory / "up").exists, "the command")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "holdfast settle c" in err
    assert cli.status("c") == "needs_attention"


def test_timeout_of_a_command(cli):
    """`--timeout` ends the command; a `once` command is then in doubt, every other one has failed."""
    once = cli("run", "--timeout", "0.3", "--effect", "once", "sleep 60", code=6)
    assert "took too long" in once.err
    for effect in ("idempotent", "workspace"):
        ran = cli("run", "--timeout", "0.3", "--effect", effect, "sleep 60", code=1)
        assert "took longer than 0.3 s" in ran.err


def test_held_run_names_the_process(cli):
    """A run that a live process executes is refused with exit 4 and that process's id."""
    cli.script(HANGS)
    process = cli.start("run", "--id", "h", "flow.py:main")
    cli.wait_for_note("hang")
    for words in (("resume", "h"), ("run", "--id", "h", "flow.py:main"), ("settle", "h", "hang", "--retry")):
        assert f"process {process.pid} " in cli(*words, code=4).err
    assert cli("show", "h", "--json").json()["owner_pid"] == process.pid
    assert cli("list", "--resumable", "--json").json() == []
    assert f"process {process.pid}" in cli("doctor").out


def test_take_over_of_a_stopped_owner(cli, wait_until):
    """`--take-over` goes past an owner under SIGSTOP; awake again, that one writes nothing more."""
    cli.script(HANGS)
    owner = cli.start("run", "--id", "h", "flow.py:main")
    cli.wait_for_note("hang")
    wait_until(
        lambda: cli("show", "h", "--json").json()["steps"], "the step in the log: no write is under way"
    )
    owner.send_signal(signal.SIGSTOP)
    os.waitpid(owner.pid, os.WUNTRACED)  # it does not see what comes next
    (cli.directory / "go").touch()
    assert cli("resume", "h", code=4).err
    assert cli("resume", "h", "--take-over").json() == "went"
    events = cli("show", "h", "--json", "--events").json()["events"]
    owner.send_signal(signal.SIGCONT)
    _, err = owner.communicate(timeout=10)
    assert (owner.returncode, "taken over by another owner" in err) == (4, True)
    assert cli("show", "h", "--json", "--events").json()["events"] == events
    assert cli("audit", "verify").code == 0


@pytest.mark.skipif(sys.platform != "linux", reason="who holds a lock is told by Linux only")
def test_take_over_of_an_owner_stopped_in_a_write(cli):
    """A process that was stopped while it held the write lock keeps nobody waiting: that its run is held is
    told at once, and a take-over lets it end that write, stops it again and goes past it."""
    cli.script(STOPPED_IN_A_WRITE)
    owner = cli.start("run", "--id", "h", "flow.py:main")
    cli.wait_for_note("stopped")
    (cli.directory / "go").touch()
    assert f"process {owner.pid}" in cli("resume", "h", code=4).err
    assert cli("resume", "h", "--take-over").json() == "went"
    state = Path(f"/proc/{owner.pid}/stat").read_text().rpartition(")")[2].split()[0]
    (cli.directory / "end").touch()
    owner.send_signal(signal.SIGCONT)
    _, err = owner.communicate(timeout=10)
    assert (state, owner.returncode) == ("T", 4), err
    assert cli("audit", "verify").code == 0


def test_several_can_be_resumed(cli):
    """`resume` without an id lists the runs and exits 2 when there is more than one, 3 when there is none."""
    cli("run", "true")
    assert "nothing to resume" in cli("resume", code=3).err
    for run_id in ("a", "b"):
        cli("run", "--id", run_id, "false", code=1)
    several = cli("resume", code=2)
    assert {line.split()[0] for line in several.out.splitlines()[1:]} == {"a", "b"}
