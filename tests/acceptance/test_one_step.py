"""`show --step`: what a step got, each of its attempts, and what it gave."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

DOCUMENTED = (Path(__file__).parents[2] / "docs" / "json.md").read_text()

FLOW = """
    from dataclasses import dataclass

    @dataclass
    class Draft:
        title: str
        words: int

    @step(retry=Retry(attempts=3, initial=0.001))
    def ask(question, words=10):
        note("ask")
        if Path("side.txt").read_text().count("ask") < 2: raise ValueError("no JSON in what the model said")
        return Draft(question, words)
    @step
    def asks(n): return list(range(n))
    @step
    def takes(text): return len(text)
    @step
    def breaks(): raise KeyError("the key")
    @workflow
    def chapter(): return asks(2)
    @workflow
    def book():
        draft = ask("kelp", 20)
        checkpoint("drafted", draft=draft)
        asks(500)
        takes("long " * 1000)
        command(["sh", "-c", "echo to out; echo API_TOKEN=abcdef123456; echo to err >&2"], name="build")
        chapter()
        sleep(0.001)
        approval("send it", show=draft)
        return draft
    @workflow
    def fails(): breaks()
"""


@pytest.fixture(scope="module")
def library(make_cli, tmp_path_factory):
    """A run of every kind of step, and one that failed; nobody changes them."""
    made = make_cli(tmp_path_factory.mktemp("library"))
    made.script(FLOW)
    made("run", "--id", "r", "flow.py:book", code=5)
    made("approve", "r", "--by", "ann", "--comment", "good")
    made("resume", "r")
    made("run", "--id", "bad", "flow.py:fails", code=1)
    return made


def step(cli, name, run="r"):
    return cli("show", run, "--step", name, "--json").json()


def test_arguments_attempts_and_result(library):
    """What it was called with, each try with its times and its error, and what the log has as its result."""
    found = step(library, "ask#1")
    assert (found["run"], found["key"], found["status"]) == ("r", "ask#1", "completed")
    assert found["args"] == {"question": "kelp", "words": 20}
    first, second = found["attempts"]
    assert (first["attempt"], first["status"], first["error"]["type"]) == (1, "failed", "ValueError")
    assert first["started_at"] <= first["ended_at"] <= first["retry_at"] <= second["started_at"]
    assert (second["attempt"], second["status"], second["error"]) == (2, "completed", None)
    assert found["result"] == {"$dataclass": ["__main__:Draft", {"title": "kelp", "words": 20}]}
    told = library("show", "r", "--step", "ask#1").out
    for text in (
        'args      {"question":"kelp","words":20}',
        "failed: ValueError: no JSON in what the model said; again after",
        'result    Draft(title="kelp", words=20)',
    ):
        assert text in told


def test_what_is_long_is_cut(library):
    """With a word on how to see all of it; arguments over 2 KB are kept as their beginning."""
    told = library("show", "r", "--step", "asks").out.splitlines()
    assert len(told) < 30
    assert told[-1].strip().startswith("... ") and "--all shows all" in told[-1]
    assert "499" in library("show", "r", "--step", "asks", "--all").out
    assert step(library, "asks")["result"] == list(range(500))
    large = step(library, "takes")
    assert (large["args"], large["args_bytes"] > 5000) == (None, True)
    assert large["args_preview"].startswith('{"text":"long long')
    assert "only the beginning is kept" in library("show", "r", "--step", "takes").out


def test_a_command_and_its_output(library):
    """In the order in which it came, redacted."""
    found = step(library, "build")
    assert {piece["source"] for piece in found["output"]} == {"stdout", "stderr"}
    told = library("show", "r", "--step", "build").out
    assert "output    to out" in told and "to err" in told
    assert "abcdef" not in told + json.dumps(found)


def test_a_gate_and_who_decided_it(library):
    """By whom, when and why; and what it showed."""
    found = step(library, "send it")
    gate = found["gate"]
    assert (gate["outcome"], gate["by"], gate["comment"]) == ("approved", "ann", "good")
    assert gate["opened_at"] < gate["decided_at"]
    told = library("show", "r", "--step", "send").out
    assert "approved by ann: good" in told and "decided   " in told and "shown     Draft(" in told


def test_checkpoints_sleeps_and_child_runs(library):
    """A checkpoint has its data, a sleep its times, a child run its id."""
    assert step(library, "drafted")["result"]["draft"]["$dataclass"][1]["words"] == 20
    assert 'data      {"draft":' in library("show", "r", "--step", "drafted").out
    assert "ended     " in library("show", "r", "--step", "sleep").out
    assert step(library, "chapter")["child"] == "r.chapter-1"
    assert "holdfast show r.chapter-1" in library("show", "r", "--step", "chapter").out


def test_an_error_with_its_traceback(library):
    """As `show` of the run has it: without frames of holdfast's own."""
    assert step(library, "breaks", "bad")["error"]["type"] == "KeyError"
    told = library("show", "bad", "--step", "breaks").out
    assert "KeyError: 'the key'" in told and "in breaks" in told
    assert "holdfast/engine" not in told


def test_a_step_is_found_by_its_beginning(library):
    """If only one step begins so; otherwise those that do, or the nearest, or the child run that has it."""
    assert step(library, "dra")["key"] == "drafted#1"
    assert step(library, "ask")["key"] == "ask#1", "a whole name comes before the beginning of another"
    several = library("show", "r", "--step", "as", code=2).err
    assert "'as' is 2 steps of run r: ask#1, asks#1; name one" in several
    assert "has no step 'biuld'; nearest: build" in library("show", "r", "--step", "biuld", code=3).err
    told = library("show", "bad", "--step", "asks", code=3).err
    assert "run bad has no step 'asks'" in told
    assert "--step goes with" in library("show", "r", "--step", "ask", "--events", code=2).err


def test_a_step_of_a_child_run_is_named_with_that(cli):
    """The run that has it is the one to look at, to rewind, to fork."""
    cli.script("""
        @step
        def inner(): return 1
        @workflow
        def chapter(): return inner()
        @workflow
        def book(): return chapter()
    """)
    cli("run", "--id", "r", "flow.py:book")
    told = cli("show", "r", "--step", "inner", code=3).err
    assert "run r has no step 'inner'; its child run r.chapter-1 has inner#1" in told


def test_a_doubt_and_what_was_said_of_it(cli):
    """Why it was in doubt, who settled it and how; then the attempt that followed."""
    cli.script("""
        @step(effect="once")
        def pay():
            note("paying")
            if not Path("fast").exists(): time.sleep(60)
            return "paid"
        @workflow
        def buys(): return pay()
    """)
    process = cli.start("run", "--id", "r", "flow.py:buys")
    cli.wait_for_note("paying")
    assert step(cli, "pay")["attempts"][0]["status"] == "running"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert step(cli, "pay")["attempts"][0]["status"] == "cut_off"
    cli("resume", "r", code=6)
    assert step(cli, "pay")["attempts"][0]["why"]
    cli("settle", "r", "pay", "--retry")
    (cli.directory / "fast").touch()
    cli("resume", "r")
    found = step(cli, "pay")
    assert [one["status"] for one in found["attempts"]] == ["in_doubt", "completed"]
    assert [one["outcome"] for one in found["settled"]] == ["retry"]
    told = cli("show", "r", "--step", "pay").out
    assert "in doubt: " in told and "settled   it did not happen" in told and 'result    "paid"' in told


def test_only_what_counts_is_shown(cli):
    """After a rewind a step has the attempts of its new life, and not those that were left."""
    cli.script("""
        @step
        def one(): return 1
        @step(retry=Retry(attempts=2, initial=0.001))
        def two():
            note("two")
            if Path("side.txt").read_text().count("two") == 1: raise ValueError("no")
            return Path("side.txt").read_text().count("two")
        @workflow
        def main(): return one() + two()
    """)
    cli("run", "--id", "r", "flow.py:main")
    assert len(step(cli, "two")["attempts"]) == 2
    cli("rewind", "r", "--to", "one")
    assert "has no step 'two'" in cli("show", "r", "--step", "two", code=3).err
    cli("resume", "r")
    found = step(cli, "two")
    assert (len(found["attempts"]), found["result"]) == (1, 3)
    cli("undo")
    assert len(step(cli, "two")["attempts"]) == 2


def test_every_field_is_documented(library):
    """Also those of attempts and settlements."""
    found = step(library, "ask")
    names = {*found, *found["attempts"][0], *step(library, "build")["output"][0], "settled"}
    assert {name for name in names if f"`{name}`" not in DOCUMENTED} == set()


def test_a_result_is_json_whatever_it_holds(library):
    """What `run` prints to a program is what the log has: a dataclass is tagged, and `jq` can read it. `show`
    and a terminal get it as people read it."""
    ran = library("run", "--id", "r", "flow.py:book")
    assert ran.json() == {"$dataclass": ["__main__:Draft", {"title": "kelp", "words": 20}]}
    assert library("show", "r", "--json").json()["result"] == ran.json()
    assert 'result    Draft(title="kelp", words=20)' in library("show", "r").out
    assert library.on_a_terminal("run", "--id", "r", "flow.py:book")[1].endswith(
        'Draft(title="kelp", words=20)\r\n'
    )
