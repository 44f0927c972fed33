"""`Code.title`: what people see instead of the name of a run's code."""

import json
import subprocess
import sys

import msgspec
import pytest

from holdfast import step, wait_for
from holdfast.engine.runs.code import code_of
from holdfast.kernel.events import Code, RunCreated, decode, encode


@step
def work(n: int) -> int:
    return n


@pytest.fixture
def cli(home):
    def run(*args):
        command = [sys.executable, "-m", "holdfast", "--home", str(home), *args]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    return run


def start(hf, flow, run_id, title, *args):
    code = msgspec.structs.replace(code_of(flow), title=title)
    return hf._engine.start(flow, args, {}, run_id, code)


def test_the_title_is_shown_instead_of_the_name(hf, act, cli):
    """Where one is set: in `list`, in `show`, and as `RunInfo.title`; `workflow` stays the name."""
    flow = act(lambda n: work(n))
    start(hf, flow, "titled", "Fix the login page", 1).result(30)
    hf.with_id("plain").run(flow, 2)
    assert [(run.id, run.title, run.workflow) for run in hf.runs()] == [
        ("plain", "play(2)", "play"),
        ("titled", "Fix the login page", "play"),
    ]
    listed = cli("list").splitlines()
    assert listed[1].endswith("  play(2)") and listed[2].endswith("  Fix the login page")
    assert [(one["title"], one["workflow"]) for one in json.loads(cli("list", "--json"))] == [
        ("play(2)", "play"),
        ("Fix the login page", "play"),
    ]
    shown = cli("show", "titled")
    assert "workflow  Fix the login page (" in shown and ":play)" in shown
    assert "workflow  play (" in cli("show", "plain")
    assert cli("list", "--workflow", "play").count("Fix the login page") == 1


def test_loading_uses_the_name(open_hf, act):
    """A run with a title is resumed by another process, and has its title there."""

    def plot():
        return [work(1), wait_for("go")]

    first = open_hf()
    start(first, act(plot), "x", "no such workflow")
    while first.get("x").status != "waiting":
        pass
    first.close()
    second = open_hf()
    second.signal("x", "go", 2)
    assert second.resume("x").result(30) == [1, 2]
    assert second.get("x").title == "no such workflow"


def test_a_title_is_redacted(hf, act):
    start(hf, act(lambda: 1), "x", "use sk-ant-api03-" + "a" * 90).result(30)
    assert "aaaa" not in hf.get("x").title


def test_the_title_does_not_tell_runs_apart(hf, act):
    """The same id with another title is the same run."""
    assert start(hf, act(lambda: work(1)), "x", "one").result(30) == 1
    assert start(hf, act(lambda: work(1)), "x", "two").result(30) == 1
    assert hf.get("x").title == "one"


def test_logs_without_titles_decode(hf):
    """Old events have no such field, and a code without a title writes none."""
    old = '{"code":{"name":"flow","module":"m"},"digest":"d"}'
    event = decode("RunCreated", old)
    assert event == RunCreated(Code("flow", "m"), "d")
    assert encode(event) == old
