"""`watch`, and `resume --all`: runs of other processes, seen and served."""

from __future__ import annotations

import json
import re
import signal

import pytest

FLOW = """
    @step
    def talk():
        for word in ("one ", "two ", "three "):
            emit("words", word)
            note("said")
            while not Path(word.strip()).exists(): time.sleep(0.01)
        return "said"
    @workflow
    def talks():
        checkpoint("begun")
        emit("progress", {"done": 0})
        return talk()
    @workflow
    def family(): return talks()
    @workflow
    def asks(): return [approval("continue").outcome, after()]
    @step
    def after(): note("after"); return os.getcwd()
    @workflow
    def naps(): sleep(4); return after()
    @workflow
    def fails(): sleep(4); raise RuntimeError("oh no")
    @workflow
    def long(): return command(["sh", "-c", "echo from the command; sleep 0.3"]).exit_code
"""
WORDS = ("one", "two", "three")


@pytest.fixture
def flow(cli):
    cli.script(FLOW)
    return cli


def statuses(cli):
    return [(run["id"], run["status"]) for run in cli("list", "--json").json()]


def go(cli, *words):
    for word in words:
        (cli.directory / word).touch()


# watch


def test_watch_in_a_pipe(flow):
    """A line for each change and for each value, as they come and before the step ends; then the end."""
    flow.start("run", "--id", "x", "flow.py:talks")
    flow.wait_for_note("said")
    watching = flow.start("watch", "x")
    assert watching.stderr is not None
    title = watching.stderr.readline()
    assert title.startswith("run x: talks is running in process ")
    go(flow, "one")
    assert "words: two" in watching.stderr.readline()
    go(flow, "two", "three")
    out, err = watching.communicate(timeout=20)
    assert (watching.returncode, out) == (0, '"said"\n')
    assert "words: three" in err and "talk#1 completed in " in err and "completed x in " in err


def test_watch_at_a_terminal(flow):
    """The tree, and below it the streams: text joined, of other values the last; child runs too."""
    flow.start("run", "--id", "x", "flow.py:family")
    flow.wait_for_note("said")
    terminal = flow.at_a_terminal("watch", "x", NO_COLOR="1")
    terminal.expect("talks#1")
    terminal.expect("talk#1")
    go(flow, "one")
    terminal.expect("words: ")
    terminal.expect("one two")
    assert '{"done":0}' in terminal.text
    go(flow, "two", "three")
    code, text = terminal.end()
    assert (code, '"said"' in text, "Traceback" in text) == (0, True, False)


def test_ctrl_c_ends_the_watching(flow):
    """Only that: nothing is said of the run that reads like one of its states."""
    flow.start("run", "--id", "x", "flow.py:talks")
    flow.wait_for_note("said")
    terminal = flow.at_a_terminal("watch", "x", NO_COLOR="1")
    terminal.expect("talk#1")
    terminal.type("\x03")
    code, text = terminal.end()
    assert (code, "interrupted" in text) == (130, False)
    assert text.endswith("stopped watching; run x continues\r\n")
    go(flow, "one", "two", "three")


def test_watch_ends_where_nobody_goes_on(flow, wait_until):
    """With the exit code that `resume` would have: at a gate, when paused, when its process is dead."""
    flow("run", "--id", "x", "flow.py:asks", code=5)
    watched = flow("watch", "x", code=5)
    assert "waits for a decision: continue" in watched.err and "holdfast approve x" in watched.err
    flow("pause", "x")
    assert "run x is paused" in flow("watch", "x", code=7).err
    flow("cancel", "x", "--reason", "enough")
    assert "run x was cancelled: enough" in flow("watch", "x", code=1).err
    owner = flow.start("run", "--id", "y", "flow.py:talks")
    flow.wait_for_note("said")
    watching = flow.start("watch", "y")
    assert watching.stderr is not None and "is running" in watching.stderr.readline()
    owner.kill()
    _, err = watching.communicate(timeout=20)
    assert (watching.returncode, "`holdfast resume y` continues" in err) == (130, True)
    assert "no run has the id" in flow("watch", "z", code=3).err


def test_watch_shows_the_output_of_commands(flow):
    """If it is asked to."""
    flow("run", "--id", "x", "flow.py:long")
    whole = [json.loads(line) for line in flow("watch", "x", "--json").out.splitlines()]
    assert [event["version"] for event in whole] == list(range(1, len(whole) + 1))
    assert {"run", "version", "type", "at", "data"} == set(whole[0])
    flow.start("run", "--id", "y", "flow.py:long")
    while "y" not in flow("list").out:
        pass
    assert "from the command" in flow("watch", "y", "--logs").err or flow.status("y") == "completed"


# resume --all


def test_resume_all(flow, wait_until):
    """Every run that can continue does, in its own directory; what waits for a person is left."""
    other = flow.directory / "other"
    other.mkdir()
    (other / "flow.py").write_text((flow.directory / "flow.py").read_text())
    flow("run", "--id", "decided", "flow.py:asks", code=5)
    assert "nothing can continue by itself" in flow("resume", "--all").err
    flow("run", "--id", "open", "flow.py:asks", code=5)
    flow("approve", "decided")
    here, flow.directory = flow.directory, other
    flow("run", "--id", "elsewhere", "flow.py:asks", code=5)
    flow("approve", "elsewhere")
    flow.directory = here
    killed = flow.start("run", "--id", "killed", "flow.py:talks")
    flow.wait_for_note("said")
    killed.kill()
    killed.communicate()
    go(flow, *WORDS)
    resumed = flow("resume", "--all")
    assert {line for line in resumed.err.splitlines() if line.startswith("completed")} == {
        "completed decided", "completed elsewhere", "completed killed",
    }  # fmt: skip
    assert flow.status("open") == "waiting"
    assert flow("show", "elsewhere", "--json").json()["result"] == ["approved", str(other)]
    assert flow("show", "decided", "--json").json()["result"] == ["approved", str(here)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_resume_all_follow(flow, wait_until, number):
    """Serves until it is stopped: what is decided, what wakes up, what is orphaned."""
    flow("run", "--id", "gate", "flow.py:asks", code=5)
    for run_id, workflow in (("sleeper", "naps"), ("failer", "fails")):
        sleeping = flow.start("run", "--id", run_id, f"flow.py:{workflow}")
        wait_until(lambda run_id=run_id: (run_id, "sleeping") in statuses(flow), "the sleep")
        sleeping.kill()
        sleeping.communicate()
    serving = flow.start("resume", "--all", "--follow")
    assert serving.stderr is not None
    assert f"process {serving.pid} " in serving.stderr.readline()
    told = flow("approve", "gate").out
    assert re.search(r"process \d+ continues it", told) or "is completed" in told
    wait_until(
        lambda: (
            [flow.status(run_id) for run_id in ("gate", "sleeper", "failer")]
            == ["completed", "completed", "failed"]
        ),
        "all runs",
    )
    serving.send_signal(number)
    _, err = serving.communicate(timeout=20)
    assert serving.returncode == 0
    assert "completed gate" in err and "completed sleeper" in err and "run failer failed" in err


def test_following_waits_for_the_first_run(flow, wait_until):
    """Before there is a store: it waits, and serves what comes. Each line has the time."""
    serving = flow.start("resume", "--all", "--follow")
    assert f"process {serving.pid} " in serving.stderr.readline()
    flow("run", "--id", "gate", "flow.py:asks", code=5)
    flow("approve", "gate")
    wait_until(lambda: flow.status("gate") == "completed", "the run")
    serving.send_signal(signal.SIGTERM)
    _, err = serving.communicate(timeout=20)
    assert serving.returncode == 0
    at = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  "
    assert re.search(
        rf"^{at}process \d+ takes run gate \(asks\): no process held it, it was ready$",
        err,
        re.MULTILINE,
    )
    assert re.search(rf"^{at}completed gate in \d", err, re.MULTILINE)


def test_following_says_who_held_a_run(flow, wait_until):
    """The process that was killed, by its id; also for a run of another directory, which has a process of its
    own. A run that parks has its line, too."""
    flow.script(FLOW + '    @workflow\n    def talks_and_asks(): talk(); return approval("on").outcome\n')
    here, other = flow.directory, flow.directory / "other"
    other.mkdir()
    (other / "flow.py").write_text((here / "flow.py").read_text())
    pids = {}
    for run_id, directory in (("here", here), ("there", other)):
        flow.directory = directory
        killed = flow.start("run", "--id", run_id, "flow.py:talks_and_asks")
        flow.wait_for_note("said")
        killed.kill()
        killed.communicate()
        pids[run_id] = killed.pid
        go(flow, *WORDS)
    flow.directory = here
    serving = flow.start("resume", "--all", "--follow")
    told = [serving.stderr.readline() for _ in range(5)]
    serving.send_signal(signal.SIGTERM)
    serving.communicate(timeout=20)
    for run_id in ("here", "there"):
        (line,) = [line.rstrip() for line in told if f"takes run {run_id} (talks_and_asks)" in line]
        assert line.endswith(f"process {pids[run_id]} held it, and is gone")
        assert any(re.match(rf"\d{{4}}-.*  run {run_id} waits for a decision: on", line) for line in told)


def test_following_clears_what_it_draws(flow):
    """On a terminal: how many files were looked at is gone when they are saved, while the command still runs,
    and no line stands behind it."""
    flow.script(
        """
        @workflow
        def works(): approval("continue"); command(["sh", "-c", "echo works; sleep 1"])
        """
    )
    flow("run", "--id", "gate", "flow.py:works", code=5)
    terminal = flow.at_a_terminal("resume", "--all", "--follow", NO_COLOR="1")
    terminal.expect("Ctrl-C stops it")
    flow("approve", "gate")
    terminal.expect("looking at the files")
    terminal.expect("\r\x1b[K")
    assert flow.status("gate") == "running"
    terminal.expect("completed gate")
    terminal.type("\x03")
    code, screen = terminal.end()
    assert code == 0
    for line in screen.replace("\r\n", "\n").split("\n"):
        kept = line.rpartition("\x1b[K")[2].rpartition("\r")[2]
        assert not kept.startswith("looking"), screen


def test_resume_all_names_what_could_not_go_on(flow):
    """A workflow that is gone: its run is named with the reason, on one line, and the exit code is that of
    `resume` of it; a run that failed is not as bad, one that needs attention is worse."""
    for run_id in ("renamed", "fine"):
        flow("run", "--id", run_id, "flow.py:asks", code=5)
        flow("approve", run_id)
    flow.script(FLOW.replace("def asks", "def asked"))
    flow("run", "--id", "good", "flow.py:asked", code=5)
    flow("approve", "good")
    alone = flow("resume", "renamed", code=3).err
    resumed = flow("resume", "--all", code=3).err
    for run_id in ("renamed", "fine"):
        (line,) = [line for line in resumed.splitlines() if f"run {run_id} cannot continue" in line]
        assert "there is no asks in it" in line and line.endswith(alone.removeprefix("holdfast: ").strip())
    assert "completed good" in resumed
    told = flow("resume", "--all", "--json", code=3)
    assert {json.loads(line)["id"] for line in told.out.splitlines()} == {"renamed", "fine"}
    assert "run fine cannot continue" in told.err
    flow.script(FLOW.replace("after()]", "after(), 1 / 0]"))
    assert "run fine failed" in flow("resume", "--all", code=1).err


def test_what_goes_with_all(flow):
    """`--follow` alone, a run beside `--all`: a sentence."""
    flow("run", "true")
    assert "--follow goes with --all" in flow("resume", "--follow", code=2).err
    assert "--all takes no RUN" in flow("resume", "x", "--all", code=2).err


# list


def test_list_says_what_a_run_waits_for(flow):
    """On a terminal."""
    flow("run", "--id", "x", "flow.py:asks", code=5)
    _, screen = flow.on_a_terminal("list", NO_COLOR="1")
    assert "asks  continue" in screen
    assert all(
        len(line) <= 40 for line in flow.on_a_terminal("list", columns=40, NO_COLOR="1")[1].splitlines()
    )


def test_what_is_drawn_is_no_output_of_a_step(flow):
    """A step that runs when the picture of the run appears: the log has what it printed, and no drawing."""
    flow.script(
        """
        @step
        def talk():
            for n in range(4):
                print(f"line {n}", flush=True)
                time.sleep(0.2)

        @workflow
        def main():
            talk()
        """
    )
    assert flow.on_a_terminal("run", "--id", "x", "flow.py:main")[0] == 0
    lines = [(line["source"], line["text"]) for line in flow("logs", "x", "--json").json()]
    assert "".join(text for _, text in lines) == "".join(f"line {n}\n" for n in range(4))
    assert {source for source, _ in lines} == {"stdout"}
