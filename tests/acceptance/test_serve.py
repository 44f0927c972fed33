"""`hf.serve`, `hf.replay` and `hf.attach` in programs of a user's own, with runs that real processes execute;
and what `holdfast resume RUN` reads of a store."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from holdfast.errors import CommandFailed, EndedElsewhere, InDoubt, RunHeld, RunPaused, StepError
from holdfast.serving.protocol import error_fields, error_of

FLOW = """
@step
def work(name):
    note(name)
    return name

@workflow
def main(name):
    decision = approval("ok")
    print(f"printed by {name}")
    return work(name)

@workflow
def slow():
    note("begun")
    while not Path("go").exists():
        time.sleep(0.01)
    return {"kelp": [1, 2]}

@workflow
def bad():
    note("begun")
    while not Path("go").exists():
        time.sleep(0.01)
    raise ValueError("no kelp")

@step
def tick(n):
    note(str(n))
    time.sleep(0.05)
    return Path("go").exists()

@workflow
def steps():
    n = 0
    while not tick(n):
        n += 1
    return "done"

@workflow
def long(count):
    for n in range(count):
        work(str(n))
    if not Path("go").exists():
        raise ValueError("not yet")
    return count
"""

BEFORE = """
import json, os, sys, threading, time
from holdfast import Holdfast

def report(**fields):
    print(json.dumps(fields), flush=True)
"""


@pytest.fixture
def flow(cli):
    cli.script(FLOW)
    return cli


@pytest.fixture
def program(cli):
    """`program(source)`: a program that prints JSON, one object on a line; what it printed."""

    def run(source):
        path = cli.directory / "own.py"
        path.write_text(BEFORE + textwrap.dedent(source))
        done = subprocess.run(
            [sys.executable, path.name],
            cwd=cli.directory,
            env=cli.env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        run.err = done.stderr
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    return run


def approved(flow, *names):
    for name in names:
        flow("run", "--id", name, "flow.py:main", name, code=5)
        flow("approve", name)


# Serving


def test_serve_executes_what_can_continue(flow, program):
    """The code in worker processes, each run reported; a run that waits for a person is left alone."""
    approved(flow, "a", "b")
    flow("run", "--id", "c", "flow.py:main", "c", code=5)
    found = program("""
        with Holdfast() as hf:
            served = hf.serve(
                on_started=lambda owner: report(owner=owner),
                on_served=lambda run, error: report(run=run.id, status=run.status, error=str(error)),
                on_taken=lambda taken: report(taken=taken.to_json(), here=os.getpid()),
                stdout=sys.stderr,
            )
            report(end=served.to_json())
    """)
    assert found[-1] == {"end": {"count": 2, "stopped": False}}
    assert len(found[0]["owner"]) > 4
    ended = {one["run"]: (one["status"], one["error"]) for one in found if "run" in one}
    assert ended == {"a": ("completed", "None"), "b": ("completed", "None")}
    taken = {one["taken"]["run"]: one for one in found if "taken" in one}
    assert sorted(taken) == ["a", "b"]
    for name in "ab":
        fields = taken[name]["taken"]
        assert fields.pop("pid") != taken[name]["here"], "a worker has it"
        assert fields == {
            "run": name, "workflow": "main", "status": "pending", "owner": None, "owner_pid": None,
        }  # fmt: skip
    assert "printed by a" in program.err
    assert flow.status("c") == "waiting"
    assert flow.notes() == {"a": 1, "b": 1}


@pytest.mark.parametrize("how", ["stop.set()", "hf.stop('enough')", "hf.close()"])
def test_serve_until_it_is_stopped(flow, program, how):
    """By an event, by `stop` or by `close`: the workflow in a worker and the command here stop at a step
    boundary and are left to be resumed. After the event this Holdfast still executes runs."""
    for words in (
        ("run", "--id", "w", "flow.py:steps"),
        ("run", "--id", "c", "--effect", "idempotent", "--", "sh", "-c", "echo command >> side.txt; sleep 1"),
    ):
        killed = flow.start(*words)
        flow.wait_for_note("command" if "c" in words else "0")
        killed.kill()
        killed.wait()
    found = program(f"""
        from holdfast import workflow

        @workflow
        def small():
            return "kelp"

        def count(what):
            return open("side.txt").read().split().count(what)

        stop = threading.Event()
        before = count("0"), count("command")
        with Holdfast() as hf:

            def serve():
                served = hf.serve(
                    follow=True, stop=stop, on_served=lambda run, error: report(run=run.id, error=str(error))
                )
                report(end=served.to_json(), live=list(hf._engine.live))

            serving = threading.Thread(target=serve)
            serving.start()
            deadline = time.monotonic() + 30
            while count("command") == before[1] or count("2") == 0:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            {how}
            serving.join(30)
            report(ended=not serving.is_alive())
            if stop.is_set() and not hf._engine.closing:
                report(result=hf.run(small))
    """)
    after = [{"result": "kelp"}] if how == "stop.set()" else []
    served = [one for one in found if "run" in one]  # the command may have come to its end
    assert {one["run"] for one in served} <= {"c"}
    end = {"end": {"count": len(served), "stopped": True}, "live": []}
    assert [one for one in found if "run" not in one] == [end, {"ended": True}, *after]
    shown = flow("show", "w", "--json").json()
    assert (shown["status"] in ("pending", "running"), shown["owner_pid"]) == (True, None)
    written = flow.notes()
    (flow.directory / "go").touch()
    assert flow("resume", "w").json() == "done"
    twice = [what for what, times in written.items() if what.isdigit() and times > 1]
    assert len(twice) <= 1, "only the step that the kill cut off ran again"


def test_a_callback_that_raises(flow, program):
    """Serving continues: the run is executed and its end is reported."""
    approved(flow, "a")
    found = program("""
        def fail(taken):
            raise ValueError("a fault of the program")

        with Holdfast() as hf:
            hf.serve(on_taken=fail, on_served=lambda run, error: report(run=run.id, status=run.status))
    """)
    assert found == [{"run": "a", "status": "completed"}]
    assert "a callback of `serve` raised; serving continues" in program.err


def test_serve_where_resuming_is_off(flow, program):
    flow.env["HOLDFAST_RESUME"] = "false"
    (found,) = program("""
        with Holdfast() as hf:
            try:
                hf.serve()
            except Exception as error:
                report(code=error.code, text=str(error))
    """)
    assert found["code"] == "refused" and "`resume` is off" in found["text"]


# Replay


def test_replay_of_one_and_of_all(flow, program):
    """Read-only; each verdict as `holdfast replay --json` has it."""
    for name in ("a", "b"):
        flow("run", "--id", name, "flow.py:main", name, code=5)
    source = """
        with Holdfast(read_only=True) as hf:
            for ids in (("a",), ()):
                found = hf.replay(*ids, on_progress=lambda *at: report(at=at))
                report(found=[one.to_json() for one in found])
    """
    one, _, _, several = [program(source)[n] for n in (1, 2, 3, 4)]
    assert [fields["verdict"] for fields in one["found"]] == ["matches"]
    assert several["found"] == flow("replay", "--all", "--json").json()
    path = flow.directory / "flow.py"
    path.write_text(path.read_text().replace('approval("ok")', 'approval("else")'))
    found = program(source)
    assert [fields["at"] for fields in found if "at" in fields] == [[1, 1, "a"], [1, 2, "a"], [2, 2, "b"]]
    assert [fields["verdict"] for fields in found[-1]["found"]] == ["diverges", "diverges"]


# Attached runs


@pytest.mark.parametrize(
    ("workflow", "end"),
    [("slow", {"result": {"kelp": [1, 2]}}), ("bad", {"error": "ValueError", "text": "no kelp"})],
)
def test_attach_to_a_run_of_another_process(flow, program, workflow, end):
    """It ends with the run, whichever process executes it; also if that process is killed in between."""
    first = flow.start("run", "--id", "x", f"flow.py:{workflow}")
    flow.wait_for_note("begun")
    first.kill()
    first.wait()
    flow.start("resume", "x")
    flow.wait_for_note("begun", 2)
    found = program("""
        with Holdfast(read_only=True) as hf:
            run = hf.attach("x")
            report(status=run.status, done=run.done())
            open("go", "w").close()
            try:
                report(result=run.result(timeout=30))
            except ValueError as error:
                report(error=type(error).__name__, text=str(error))
    """)
    assert found == [{"status": "running", "done": False}, end]


# One run


PROBE = """
import json, sys
from holdfast.kernel import events as e
from holdfast.kernel import evolve as folding
from holdfast.store.sqlite.store import SqliteStore

folds, stores = [], []
evolve, opened = folding.evolve, SqliteStore.__init__


def counted(state, event, version, at):
    if type(event) is e.RunCreated:
        folds.append(version)
    return evolve(state, event, version, at)


def counted_opening(self, *args, **kwargs):
    stores.append(1)
    opened(self, *args, **kwargs)


folding.evolve, SqliteStore.__init__ = counted, counted_opening
from holdfast.cli.app import run_program

code = run_program(sys.argv[1:])
with open("counts.json", "w") as file:
    json.dump({"folds": len(folds), "stores": len(stores), "code": code}, file)
"""


def test_resume_reads_a_long_history_twice_at_most(flow):
    """Once before the run, for its title and for the engine, and once at the end, for the outcome. The store
    is opened once."""
    flow("run", "--id", "x", "flow.py:long", "30", code=1)
    (flow.directory / "go").touch()
    counts = flow.directory / "counts.json"
    done = subprocess.run(
        [sys.executable, "-c", PROBE.replace('"counts.json"', repr(os.fspath(counts))), "resume", "x"],
        cwd=flow.directory,
        env=flow.env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "30\n"
    assert "run x (long) failed: 30 steps are done, what follows runs again" in done.stderr
    assert json.loads(counts.read_text()) == {"folds": 2, "stores": 1, "code": 0}


@pytest.mark.parametrize(
    "error",
    [
        CommandFailed("make", 2, "no rule"),
        StepError("app:Gone", "no answer", {"status": 503}),
        RunHeld("r", 7, "here"),
        RunPaused("r", "lunch", "ann"),
        InDoubt("r", "pay#1", "was cut off"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_crosses_the_socket(error):
    """What a worker ends with has its message and its ways in the process that asked for it."""
    back = error_of(json.loads(json.dumps(error_fields(error))))
    assert str(back) == str(error)
    assert back.ways == error.ways
    assert type(back) is type(error) or isinstance(back, EndedElsewhere)
