"""Whose code a run is executed with: its own directory's modules, as they are, wherever its project is."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import venv
from pathlib import Path

import pytest
from tests.acceptance.conftest import send_signal

from holdfast import errors
from holdfast.cli.commands import serving

FLOW = """
from holdfast import approval, step, workflow
import os, sys, tools


@step
def pay() -> str:
    return tools.account()


@workflow
def main() -> list:
    approval("ok")
    return [pay(), sys.prefix, os.getcwd()]


@workflow
def lazy() -> str:
    approval("ok")
    import late

    return late.NAME


@workflow
def leaves() -> None:
    approval("ok")
    raise SystemExit(3)
"""


def make_project(directory: Path, account: str, flow: str = FLOW) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "flow.py").write_text(flow)
    (directory / "tools.py").write_text(f"def account():\n    return {account!r}\n")
    (directory / "late.py").write_text(f"NAME = {account!r}\n")
    return directory


@pytest.fixture
def wait(cli):
    """`wait(directory, run_id)`: a run of that directory that has come to its gate, and is approved."""

    def begin(directory: Path, run_id: str, target: str = "flow.py:main", approve: bool = True) -> None:
        here, cli.directory = cli.directory, directory
        cli("run", "--id", run_id, target, code=5)
        if approve:
            cli("approve", run_id)
        cli.directory = here

    return begin


def result(cli, run_id):
    return cli("show", run_id, "--json").json()["result"]


@pytest.fixture
def both(cli, wait):
    """Two projects with modules of the same names; each has runs that can continue."""
    for name in ("a", "b"):
        make_project(cli.directory / name, name)
        for workflow in ("main", "lazy"):
            wait(cli.directory / name, f"{name}-{workflow}", f"flow.py:{workflow}")
    return cli


# One process for each directory


@pytest.mark.parametrize("where", [".", "a", "b"])
def test_resume_all_never_mixes_modules(both, where):
    """`b`'s runs pay from `b`'s account, also where an import comes late, wherever it is typed."""
    both.directory = both.directory / where
    both("resume", "--all")
    assert [result(both, f"{name}-main")[0] for name in "ab"] == ["a", "b"]
    assert [result(both, f"{name}-lazy") for name in "ab"] == ["a", "b"]


def test_runs_of_one_working_directory_and_two_scripts(cli, wait):
    """Where they were started is the same; the directories of their scripts are not."""
    for name in ("a", "b"):
        make_project(cli.directory / name, name)
        for workflow in ("main", "lazy"):
            wait(cli.directory, f"{name}-{workflow}", f"{name}/flow.py:{workflow}")
    cli("resume", "--all")
    assert [result(cli, f"{name}-main") for name in "ab"] == [
        [name, sys.prefix, str(cli.directory)] for name in "ab"
    ]
    assert [result(cli, f"{name}-lazy") for name in "ab"] == ["a", "b"]


def test_modules_by_name_are_those_of_their_directory(cli, wait):
    """`holdfast run flow:main` in two directories: the same module name, two modules."""
    for name in ("a", "b"):
        wait(make_project(cli.directory / name, name), name, "flow:main")
    cli("resume", "--all")
    assert [result(cli, name)[0] for name in "ab"] == ["a", "b"]


def test_a_module_of_whoever_resumes_is_not_seen(cli, wait):
    """`resume b` typed in `a`: a module that only `a` has is as missing as it was."""
    flow = FLOW.replace("import late\n\n    return late.NAME", "import only_a")
    make_project(cli.directory / "b", "b", flow)
    (make_project(cli.directory / "a", "a") / "only_a.py").touch()
    wait(cli.directory / "b", "x", "flow.py:lazy")
    cli.directory = cli.directory / "a"
    assert "No module named 'only_a'" in cli("resume", "x", code=1).err


def test_replay_all_never_mixes_modules(cli, wait):
    """The verdict on `b`'s run is on `b`'s code."""
    flow = FLOW.replace("def main() -> list:\n", "def main() -> list:\n    tools.before()\n")
    for name in ("a", "b"):
        directory = make_project(cli.directory / name, name, flow)
        with (directory / "tools.py").open("a") as file:
            file.write(
                f"from holdfast import step\n@step\ndef before_{name}(): pass\nbefore = before_{name}\n"
            )
        wait(directory, name, approve=False)
    assert [one["verdict"] for one in cli("replay", "--all", "--json").json()] == ["matches", "matches"]
    tools = cli.directory / "b" / "tools.py"
    tools.write_text(tools.read_text().replace("before_b", "changed"))
    assert {one["run"]: one["verdict"] for one in cli("replay", "--all", "--json", code=6).json()} == {
        "a": "matches", "b": "diverges",
    }  # fmt: skip


def python(cli, directory, source):
    """Run a program of a user's own in that directory."""
    (directory / "own.py").write_text("from holdfast import Holdfast\n" + textwrap.dedent(source))
    done = subprocess.run(
        [sys.executable, "own.py"], cwd=directory, env=cli.env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


RECOVER = """
    with Holdfast() as hf:
        for run in sorted(hf.recover(), key=lambda run: run.id):
            try:
                print(run.id, run.result())
            except Exception as error:
                print(run.id, type(error).__name__, error)
"""


def test_recover_refuses_what_would_mix(both):
    """In a program's own process: its own directory's runs continue; others are named, with the command."""
    a, b = both.directory / "a", both.directory / "b"
    lines = python(both, b, RECOVER).splitlines()
    assert lines[0].startswith(f"a-lazy CodeClash {a}/flow.py:lazy cannot be loaded: ")
    assert "`holdfast resume a-lazy` resumes run a-lazy in a process of its own" in lines[0]
    assert [line.split()[0] for line in lines] == ["a-lazy", "a-main", "b-lazy", "b-main"]
    assert (lines[2], lines[3].split(",")[0]) == ("b-lazy b", "b-main ['b'")
    assert both.status("a-main") == "pending"
    both("resume", "a-main")
    assert result(both, "a-main")[0] == "a"


def test_recover_refuses_the_second_of_two(both):
    """A program that lies in neither: one directory's runs continue, and the other's are refused."""
    lines = python(both, both.directory, RECOVER).splitlines()
    own = {line.split()[0]: line for line in lines}
    refused = {run_id[0] for run_id, line in own.items() if "CodeClash" in line}
    assert len(refused) == 1
    for run_id, line in own.items():
        assert ("CodeClash" in line) == (run_id[0] in refused)
        if run_id[0] not in refused and run_id.endswith("main"):
            assert f"['{run_id[0]}'" in line


def test_a_result_is_not_read_as_another_class(cli, wait):
    """The class `tools:Draft` of `a` is not that of `b`."""
    flow = FLOW.replace("return tools.account()", "return tools.Draft('kelp')").replace("-> str", "")
    flow = flow.replace("return [pay(), sys.prefix, os.getcwd()]", "return pay()")
    for name in ("a", "b"):
        directory = make_project(cli.directory / name, name, flow)
        with (directory / "tools.py").open("a") as file:
            file.write("import dataclasses\n@dataclasses.dataclass\nclass Draft:\n    title: str\n")
        wait(directory, name)
    cli("resume", "--all")
    source = """
        import tools
        with Holdfast() as hf:
            print(type(hf.resume("b").result()) is tools.Draft)
            try:
                print(hf.resume("a").result())
            except Exception as error:
                print(error.code, error)
    """
    own, other = python(cli, cli.directory / "b", source).splitlines()
    assert own == "True"
    assert other.startswith("code_clash") and "`holdfast show a` shows the result" in other


MAIN = """
from holdfast import Holdfast
from flow import main

if __name__ == "__main__":
    with Holdfast() as hf:
        run = hf.with_id("x").start(main)
        while hf.get("x").status != "waiting":
            pass
"""


@pytest.fixture
def imported(cli):
    """A run of `python a/main.py`, whose workflow is in the module `flow` beside it; `b` has one, too. It can
    continue."""
    for name in ("a", "b"):
        (make_project(cli.directory / name, name) / "main.py").write_text(MAIN)
    subprocess.run([sys.executable, "a/main.py"], cwd=cli.directory, env=cli.env, check=True)
    cli("approve", "x")
    return cli


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("path", ["", "b", "b:a"])
def test_a_module_is_imported_from_its_own_directory(imported, everything, path):
    """Neither the working directory nor PYTHONPATH decides which `flow` it is, and which `tools`."""
    if path:
        imported.env["PYTHONPATH"] = ":".join(str(imported.directory / one) for one in path.split(":"))
    imported("resume", "--all" if everything else "x")
    assert result(imported, "x")[0] == "a"


def test_recover_refuses_a_module_of_another_directory(imported):
    """A program in `b` that has imported its own `flow`, and one that has not."""
    for first in ("", "import flow"):
        (line,) = python(imported, imported.directory / "b", first + textwrap.dedent(RECOVER)).splitlines()
        assert line.startswith("x CodeClash flow:main cannot be loaded: ")
        assert "`holdfast resume x` resumes run x in a process of its own" in line
    assert imported.status("x") == "pending"
    (line,) = python(imported, imported.directory / "a", RECOVER).splitlines()
    assert line.startswith("x ['a'")


def test_a_module_in_a_project_that_was_moved(imported):
    moved = imported.directory.rename(imported.directory.with_name("moved"))
    imported.directory = moved
    assert imported("replay", "x", "--json").json()[0]["verdict"] == "matches"
    assert imported("resume", "x").json() == ["a", sys.prefix, str(moved)]


def test_a_module_whose_directory_is_gone(imported):
    """It is named, and no other module is taken for it."""
    gone = imported.directory / "a"
    shutil.move(gone, imported.directory / "c")
    imported.env["PYTHONPATH"] = str(imported.directory / "b")
    assert f"the directory {gone} does not exist" in imported("resume", "x", code=3).err
    assert imported.status("x") == "pending"


def test_a_run_without_a_recorded_directory(cli, wait):
    """One that an older holdfast has begun: the module is looked for in its working directory."""
    flow = (
        FLOW
        + "\n\nif True:\n    from holdfast.engine.runs import code\n    code._directory_of = lambda _: ''\n"
    )
    for name in ("a", "b"):
        wait(make_project(cli.directory / name, name, flow), name, "flow:main")
        shown = json.loads(cli("show", name, "--events", "--json").out)
        assert "directory" not in shown["events"][0]["data"]["code"]
    cli("resume", "--all", PYTHONPATH=str(cli.directory / "b"))
    assert [result(cli, name)[0] for name in "ab"] == ["a", "b"]


# Today's code


@pytest.fixture
def following(cli):
    cli("run", "true")  # makes the store
    serving = cli.start("resume", "--all", "--follow")
    assert serving.stderr is not None
    assert "serves the runs" in serving.stderr.readline()
    yield serving
    serving.send_signal(signal.SIGINT)
    _, err = serving.communicate(timeout=20)
    assert (serving.returncode, "Traceback" in err) == (0, False), err


def serve(cli, wait_until, run_id):
    cli("approve", run_id)
    wait_until(lambda: cli.status(run_id) == "completed", f"the end of {run_id}")
    return result(cli, run_id)


def test_follow_executes_todays_code(cli, wait, following, wait_until):
    """An edited module is seen by the next run that is taken, also one of the same size and second."""
    project = make_project(cli.directory, "one")
    for number in range(4):
        wait(project, f"r{number}", approve=False)
    tools = project / "tools.py"
    seen = [serve(cli, wait_until, "r0")[0]]
    before = tools.stat()
    tools.write_text(tools.read_text().replace("one", "two"))
    os.utime(tools, ns=(before.st_atime_ns, before.st_mtime_ns))
    seen.append(serve(cli, wait_until, "r1")[0])
    (project / "tools").mkdir()  # a package of that name comes before the module
    (project / "tools" / "__init__.py").write_text("def account():\n    return 'three'\n")
    seen.append(serve(cli, wait_until, "r2")[0])
    flow = project / "flow.py"
    flow.write_text(flow.read_text().replace("tools.account()", "'four'"))
    seen.append(serve(cli, wait_until, "r3")[0])
    assert seen == ["one", "two", "three", "four"]


BESIDE = """
from holdfast import approval, step, workflow
from pathlib import Path
import os, time, tools


@step
def work(name: str) -> list:
    Path(f"{name}-began").touch()
    while name == "slow" and not Path("go").exists():
        time.sleep(0.01)
    return [tools.account(), os.getpid()]


@workflow
def main(name: str) -> list:
    approval("ok")
    return [work(name), work(f"{name}-again")]
"""


def test_a_run_under_way_is_let_end(cli, wait_until, following):
    """The worker with the old code ends with its last run; the next run has a new one, meanwhile. As long as
    nothing changes, one worker has them all."""
    project = make_project(cli.directory, "old", BESIDE)
    for name in ("slow", "first", "second", "third"):
        cli("run", "--id", name, "flow.py:main", name, code=5)
    first = serve(cli, wait_until, "first")
    cli("approve", "slow")
    wait_until((project / "slow-began").exists, "the slow step")
    (project / "tools.py").write_text("def account():\n    return 'new'\n")
    second, third = (serve(cli, wait_until, name) for name in ("second", "third"))
    (project / "go").touch()
    wait_until(lambda: cli.status("slow") == "completed", "the slow run")
    slow = result(cli, "slow")
    assert [[work[0] for work in one] for one in (first, slow, second, third)] == [
        ["old"] * 2, ["old"] * 2, ["new"] * 2, ["new"] * 2,
    ]  # fmt: skip
    old, new = first[0][1], second[0][1]
    assert {work[1] for one in (first, slow) for work in one} == {old}
    assert {work[1] for one in (second, third) for work in one} == {new} != {old}
    wait_until(lambda: not Path(f"/proc/{old}").exists(), "the old worker's end")


def test_a_workflow_that_exits_leaves_its_worker(cli, wait, following, wait_until):
    """The others of its directory continue."""
    project = make_project(cli.directory / "p", "one")
    wait(project, "leaves", "flow.py:leaves")
    wait(project, "stays", approve=False)
    assert serve(cli, wait_until, "stays")[0] == "one"


def children(pid):
    done = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(word) for word in done.stdout.split()]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_is_ended_is_replaced(cli, wait_until, following, number):
    """Its run is taken by another one."""
    project = make_project(cli.directory, "old", BESIDE)
    cli("run", "--id", "x", "flow.py:main", "slow", code=5)
    cli("approve", "x")
    wait_until((project / "slow-began").exists, "the step")
    (worker,) = children(following.pid)
    (project / "slow-began").unlink()
    send_signal(worker, number)
    if number == signal.SIGTERM:
        (project / "go").touch()  # it stops at the next step boundary
        wait_until(lambda: not Path(f"/proc/{worker}").exists(), "its end")
        cli("signal", "x", "wake")  # it is tried again at once when something is written to it
    else:
        wait_until((project / "slow-began").exists, "the step, again")
        (project / "go").touch()
    wait_until(lambda: cli.status("x") == "completed", "the end")


def test_workers_end_with_the_process_that_serves(cli, wait_until):
    """Killed, it takes them along: at the next step boundary, or soon."""
    project = make_project(cli.directory, "old", BESIDE)
    cli("run", "--id", "x", "flow.py:main", "slow", code=5)
    cli("approve", "x")
    serving = cli.start("resume", "--all", "--follow")
    wait_until((project / "slow-began").exists, "the step")
    (worker,) = children(serving.pid)
    serving.kill()
    serving.wait()
    (project / "go").touch()
    wait_until(lambda: not Path(f"/proc/{worker}").exists(), "the worker's end", 8)
    assert "interrupted" in cli("list").out
    cli("resume", "x")


DEADLY = """
from holdfast import step, workflow, approval
from pathlib import Path
import os, signal, time


@step
def deadly(how: str) -> None:
    Path("deadly").touch()
    while not Path("slow").exists():
        time.sleep(0.01)
    if how == "signal":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(int(how))


@step
def slow() -> str:
    Path("slow").touch()
    while not Path("deadly").exists():
        time.sleep(0.01)
    time.sleep(2)
    return "done"


@workflow
def bad(how: str) -> None:
    approval("ok")
    deadly(how)


@workflow
def good() -> str:
    approval("ok")
    return slow()
"""


@pytest.mark.parametrize("how", ["0", "3", "6", "signal"])
def test_a_run_that_ends_its_process(cli, how):
    """Whatever exit code it has chosen, `resume --all` exits with 1, and names the run and the command. A run
    that shared the process is resumed in one of its own, at once."""
    (cli.directory / "flow.py").write_text(DEADLY)
    cli("run", "--id", "bad", "flow.py:bad", "--", how, code=5)
    cli("run", "--id", "good", "flow.py:good", code=5)
    for run_id in ("bad", "good"):
        cli("approve", run_id)
    told = cli("resume", "--all", code=1).err
    ended = "was ended by signal 9" if how == "signal" else f"ended with exit code {how}"
    assert (
        f"run bad stopped: its process for {cli.directory} {ended}; `holdfast resume bad` continues" in told
    )
    assert result(cli, "good") == "done"
    assert cli("list", "--json").out.count('"interrupted": true') == 1


def test_no_crash_loop_of_the_others(cli, wait_until, following):
    """Served for long, one run kills its process until it is given up; the others make progress."""
    (cli.directory / "flow.py").write_text(DEADLY)
    cli("run", "--id", "bad", "flow.py:bad", "signal", code=5)
    cli("run", "--id", "good", "flow.py:good", code=5)
    for run_id in ("bad", "good"):
        cli("approve", run_id)
    wait_until(lambda: cli.status("good") == "completed", "the end")
    taken = [event["type"] for event in cli("show", "good", "--events", "--json").json()["events"]]
    assert taken.count("RunClaimed") <= 3


@pytest.mark.parametrize("what", ["resume", "replay"])
def test_a_worker_that_cannot_start_says_why(cli, wait, what):
    """One sentence with the run, and the exit code of `resume RUN`; other runs are not affected."""
    for name in ("a", "b"):
        wait(make_project(cli.directory / name, name), name)
        (cli.directory / name / ".holdfast").mkdir(exist_ok=True)
    (cli.directory / "b" / "holdfast.toml").write_text("durability = 3 4\n")
    if what == "replay":
        verdicts = {one["run"]: one for one in cli("replay", "--all", "--json", code=6).json()}
        assert [verdicts[name]["verdict"] for name in "ab"] == ["matches", "unloadable"]
        assert "holdfast.toml" in verdicts["b"]["why"]
        return
    told = cli("resume", "--all", code=2).err
    (line,) = [line for line in told.splitlines() if "run b" in line]
    assert line.startswith("holdfast: run b cannot continue: ") and "holdfast.toml" in line
    assert result(cli, "a")[0] == "a"
    assert "holdfast.toml" in cli("resume", "--all", "--json", code=2).err


def test_every_exit_code_of_an_error_is_ranked():
    """`resume --all` exits with that of the worst run."""
    found = {one for one in vars(errors).values() if isinstance(one, type)}
    codes = {one.exit_code for one in found if issubclass(one, errors.HoldfastError)}
    assert codes - set(serving._MILD_TO_GRAVE) == {errors.RunWaiting.exit_code, errors.RunPaused.exit_code}


def test_workers_make_no_backup_of_their_own(both):
    """The process that starts them has made it. One run at a time: the second worker finds a changed log."""
    both.env |= {"HOLDFAST_BACKUP_ON_START": "1", "HOLDFAST_RECOVER_LIMIT": "1"}
    both("resume", "--all")
    assert len(list((both.home / "backups").glob("*"))) == 1


def test_replay_all_survives_code_that_ends_its_process(cli, wait):
    """Its run is unloadable, with the reason; the verdicts on the others are there."""
    for name in ("a", "b", "c"):
        wait(make_project(cli.directory / name, name), name)
    (cli.directory / "b" / "flow.py").write_text("import os\nos._exit(3)\n")
    found = {one["run"]: one for one in cli("replay", "--all", "--json", code=6).json()}
    assert [found[name]["verdict"] for name in "abc"] == ["matches", "unloadable", "matches"]
    assert "ended with exit code 3" in found["b"]["why"]
    (cli.directory / "b" / "flow.py").unlink()
    (one,) = cli("replay", "b", "--json", code=6).json()
    assert one["verdict"] == "unloadable" and "does not exist" in one["why"]


# A project that was moved or copied


def test_a_moved_project_resumes_its_runs(cli, wait):
    """Scripts, modules and commands, one by one and all at once; the store is named by the environment."""
    make_project(cli.directory / "sub", "kelp")
    (cli.directory / ".holdfast").mkdir()
    for run_id, target in (("script", "flow.py:main"), ("module", "flow:main"), ("all", "flow.py:main")):
        wait(cli.directory / "sub", run_id, target)
    cli("run", "--id", "command", "--", "sh", "-c", "test -e go && pwd", code=1)
    moved = cli.directory.rename(cli.directory.with_name("moved"))
    cli.directory = moved
    (moved / "go").touch()
    for run_id in ("script", "module"):
        assert cli("resume", run_id).json() == ["kelp", sys.prefix, str(moved / "sub")]
    cli("resume", "command")
    assert cli("logs", "command").out.splitlines()[-1].endswith(str(moved))
    cli("resume", "--all")
    assert result(cli, "all") == ["kelp", sys.prefix, str(moved / "sub")]


@pytest.fixture
def own_store(cli):
    """The store is the project's own, in the data directory."""
    del cli.env["HOLDFAST_HOME"]
    cli.env["XDG_DATA_HOME"] = str(cli.directory.parent / "data")
    return cli


def test_a_project_on_another_disk_resumes_its_runs(own_store, wait):
    """Copied and removed, as `mv` does between disks: the directory is another one, the project the same."""
    cli = own_store
    wait(make_project(cli.directory, "kelp"), "x")
    moved = cli.directory.with_name("moved")
    shutil.copytree(cli.directory, moved)
    shutil.rmtree(cli.directory)
    cli.directory = moved
    assert cli("replay", "x", "--json").json()[0]["verdict"] == "matches"
    assert cli("resume", "x").json() == ["kelp", sys.prefix, str(moved)]


def test_a_copied_project_has_its_own_code(cli, wait):
    """Its store lies in it and is copied with it: the copy's runs are executed with the copy's code, in the
    copy."""
    del cli.env["HOLDFAST_HOME"]
    make_project(cli.directory, "original")
    cli.env["HOLDFAST_HOME"] = str(cli.directory / ".hf")
    wait(cli.directory, "x")
    copy = cli.directory.with_name("copy")
    shutil.copytree(cli.directory, copy)
    make_project(copy, "copy")
    original, cli.directory = cli.directory, copy
    cli.env["HOLDFAST_HOME"] = str(copy / ".hf")
    assert cli("resume", "x").json() == ["copy", sys.prefix, str(copy)]
    cli.directory = original
    cli.env["HOLDFAST_HOME"] = str(original / ".hf")
    cli("resume", "--all")
    assert result(cli, "x") == ["original", sys.prefix, str(original)]


def test_a_copy_of_a_moved_project_begins_with_a_store_of_its_own(own_store):
    """The moved directory was only read before it was copied: the store stays with it."""
    cli = own_store
    cli("task", "create", "one")
    elsewhere = cli.directory.parent / "elsewhere"
    elsewhere.mkdir()
    moved = cli.directory.rename(elsewhere / "moved")
    cli.directory = moved
    assert [task["name"] for task in cli("task", "list", "--json").json()] == ["one"]
    cli.directory = Path(shutil.copytree(moved, moved.with_name("copy")))
    assert cli("task", "list", "--json").json() == []
    cli("task", "create", "two")
    assert [task["name"] for task in cli("task", "list", "--json").json()] == ["two"]
    cli.directory = moved
    assert [task["name"] for task in cli("task", "list", "--json").json()] == ["one"]


def test_what_is_not_found_is_named_with_the_option(cli, wait):
    """A store that several projects share does not say where one of them went."""
    gone = make_project(cli.directory / "p", "kelp")
    (gone / ".holdfast").mkdir()
    wait(gone, "x")
    wait(gone, "y")
    now = cli.directory.with_name("now")
    shutil.copytree(gone, now)
    shutil.rmtree(gone)
    told = cli("resume", "x", code=3).err
    assert f"its working directory {gone} does not exist" in told
    assert "`holdfast resume x --root DIR`" in told
    assert f"its working directory {gone} does not exist" in cli("resume", "--all", code=3).err
    (one,) = cli("replay", "x", "--json", code=6).json()
    assert (one["verdict"], str(gone) in one["why"]) == ("unloadable", True)
    assert cli("replay", "x", "--root", now, "--json").json()[0]["verdict"] == "matches"
    assert cli("resume", "x", "--root", now).json() == ["kelp", sys.prefix, str(now)]
    cli("resume", "--all", "--root", now)
    assert result(cli, "y") == ["kelp", sys.prefix, str(now)]
    assert "does not exist" in cli("resume", "x", "--root", now / "no", code=2).err


def test_root_with_all_leaves_other_projects_alone(cli, wait):
    """Only what is gone from its own place is looked for there."""
    for name in ("a", "b"):
        wait(make_project(cli.directory / name, name), name)
    cli("resume", "--all", "--root", cli.directory / "b")
    assert [result(cli, name)[0] for name in "ab"] == ["a", "b"]


def test_a_run_without_a_recorded_root(own_store, wait):
    """One that an older holdfast has begun: the old root is known by the project's name."""
    cli = own_store
    flow = FLOW + (
        "\n\nif __name__ == '__main__':\n"
        "    from holdfast import Holdfast\n"
        "    from holdfast.engine.runs.code_location import Location\n"
        "    Location.record = lambda _, code: code\n"
        "    with Holdfast() as hf:\n"
        "        hf.with_id('x').start(main)\n"
        "        while hf.get('x').status != 'waiting': pass\n"
    )
    make_project(cli.directory, "kelp", flow)
    subprocess.run([sys.executable, "flow.py"], cwd=cli.directory, env=cli.env, check=True)
    assert "root" not in json.loads(cli("show", "x", "--events", "--json").out)["events"][0]["data"]["code"]
    cli("approve", "x")
    moved = cli.directory.rename(cli.directory.with_name("moved"))
    cli.directory = moved
    assert cli("resume", "x").json() == ["kelp", sys.prefix, str(moved)]


# Which interpreter


@pytest.fixture
def environment(cli):
    """`environment(name)`: a virtual environment that has holdfast by its path."""
    paths = [path for path in sys.path if path.endswith("site-packages")]
    holdfast = Path(__file__).parents[2] / "src"

    def make(name: str, source: Path = holdfast) -> str:
        directory = cli.directory.parent / name
        venv.create(directory, symlinks=True)
        (site,) = directory.glob("lib/python*/site-packages")
        (site / "here.pth").write_text("\n".join([str(source), *paths]) + "\n")
        return str(directory / "bin" / "python")

    return make


@pytest.fixture
def from_old(cli, wait, environment):
    """Runs that were started from a virtual environment `old`; (its interpreter, that of a new one)."""
    make_project(cli.directory, "kelp")
    old, new = environment("old"), environment("new")
    cli.python = old
    for run_id in ("x", "y"):
        wait(cli.directory, run_id)
    cli.python = new
    return old, new


def prefix(python):
    return str(Path(python).parents[1])


def test_the_recorded_interpreter_is_used_and_named(cli, from_old):
    """If it can be: with its versions, and the option for another one."""
    old, _ = from_old
    resumed = cli("resume", "x")
    assert resumed.json()[1] == prefix(old)
    assert f"run x was started with {old}, which resumes it (Python " in resumed.err
    assert ", holdfast " in resumed.err and "--python PATH names another" in resumed.err
    served = cli("resume", "--all")
    assert (result(cli, "y")[1], f"started with {old}" in served.err) == (prefix(old), True)


@pytest.mark.parametrize("everything", [False, True])
def test_python_names_another_interpreter(cli, from_old, everything):
    """By its path, or by the directory of its environment."""
    _, new = from_old
    if everything:
        assert "was started with" not in cli("resume", "--all", "--python", prefix(new)).err
        assert [result(cli, run_id)[1] for run_id in "xy"] == [prefix(new)] * 2
    else:
        assert cli("resume", "x", "--python", new).json()[1] == prefix(new)
        cli.python = sys.executable
        assert cli("resume", "y", "--python", prefix(new)).json()[1] == prefix(new)


def test_an_interpreter_that_is_gone_is_named(cli, from_old):
    """The one that was asked continues."""
    old, new = from_old
    shutil.rmtree(prefix(old))
    resumed = cli("resume", "x")
    assert resumed.json()[1] == prefix(new)
    assert f"started with {old}, which is not there any more: {new} resumes it instead" in resumed.err


@pytest.mark.parametrize(
    ("older", "why"),
    [
        ("none", "has no holdfast"),
        ("schema", "which cannot read the store that holdfast"),
        ("protocol", "the two are not compatible"),
        ("no worker", "the two are not compatible"),
        ("broken", "is not a working Python 3.11 or newer"),
    ],
)
def test_an_older_holdfast_is_named(cli, from_old, older, why):
    """The recorded environment was left as it was: which holdfast it has, and why it is not used. Nothing
    says that holdfast is to be upgraded where it is new."""
    old, new = from_old
    site = next(Path(prefix(old)).glob("lib/python*/site-packages"))
    package = site / "holdfast"
    if older == "broken":
        Path(old).unlink()
        Path(old).write_text("#!/bin/sh\necho no python here >&2; exit 9\n")
        Path(old).chmod(0o755)
    elif older == "none":
        (site / "here.pth").unlink()
    else:
        (site / "here.pth").unlink()
        shutil.copytree(Path(__file__).parents[2] / "src" / "holdfast", package)
        (site / "deps.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
        (package / "version.py").write_text('__version__ = "0.0.9"\n')
        if older == "schema":
            migrations = sorted((package / "store" / "sqlite" / "migrations").glob("*.sql"))
            migrations[-1].unlink()
        elif older == "protocol":
            (package / "serving" / "protocol.py").write_text("PROTOCOL = 1\n")
        else:
            shutil.rmtree(package / "serving")
    resumed = cli("resume", "x")
    assert resumed.json()[1] == prefix(new)
    note = next(line for line in resumed.err.splitlines() if line.startswith("note: run x was started with"))
    assert why in note and f"{new} resumes it instead" in note and "upgrade" not in note
    assert older in ("none", "broken") or "holdfast 0.0.9" in note
    refused = cli("resume", "y", "--python", old, code=3).err
    assert f"--python {old} cannot be used: it " in refused
    assert "no such program" in cli("resume", "y", "--python", "no-such-python", code=3).err
    served = cli("resume", "--all")
    assert (result(cli, "y")[1], why in served.err) == (prefix(new), True)


STEERED = """
from holdfast import *
import os, sys
from pathlib import Path


def note(what: str) -> None:
    with Path("notes.txt").open("a") as file:
        file.write(f"{what}\\n")


@step
def pay() -> list:
    note("pay")
    return [sys.prefix]


@step(effect="once")
def send() -> list:
    note("send")
    os._exit(9)


@workflow
def gated() -> list:
    if approval("ok").outcome == "rejected":
        note("rejected")
    return pay()


@workflow
def waits() -> list:
    note(wait_for("go"))
    return pay()


@workflow
def doubtful() -> list:
    send()
    return pay()
"""


@pytest.mark.parametrize("home", [False, True])
@pytest.mark.parametrize(
    ("workflow", "words", "notes"),
    [
        ("gated", ["approve", "x", "ok"], ["pay"]),
        ("gated", ["reject", "x", "ok"], ["rejected", "pay"]),
        ("waits", ["signal", "x", "go", "A"], ["A", "pay"]),
        ("doubtful", ["settle", "x", "send", "--done", "1"], ["send", "pay"]),
    ],
)
def test_steering_with_resume_is_done_once(cli, environment, workflow, words, notes, home):
    """The run is of another interpreter: that one resumes it, and the command is not given twice."""
    (cli.directory / "flow.py").write_text(STEERED)
    old = cli.python = environment("old")
    cli("run", "--id", "x", "flow.py:" + workflow, code=9 if workflow == "doubtful" else 5)
    cli.python = environment("new")
    before = []
    if home:  # said on the command line, and by nothing else
        before = ["--home", cli.env.pop("HOLDFAST_HOME")]
    told = cli(*before, *words, "--resume", "--json")
    assert told.json()["result"] == [prefix(old)]
    assert (cli.directory / "notes.txt").read_text().split() == notes
    kinds = [event["type"] for event in cli(*before, "show", "x", "--events", "--json").json()["events"]]
    steering = {"gated": "GateDecided", "waits": "SignalReceived", "doubtful": "StepSettled"}[workflow]
    assert kinds.count(steering) == 1


def test_the_options_of_resume_reach_the_other_interpreter(cli, from_old):
    """With the directory that was named for it."""
    old, _ = from_old
    moved = cli.directory.with_name("moved")
    shutil.copytree(cli.directory, moved)
    shown = cli("resume", "--root", moved, "--json", "--quiet", "x").json()
    assert shown["result"] == ["kelp", prefix(old), str(moved)]
