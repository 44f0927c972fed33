"""Looking at runs: list, show, logs, stats, and what a shell completes."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.cli.drawing.picture import put_back
from holdfast.cli.drawing.scopes import Folding
from holdfast.cli.drawing.steps import Look, tree
from holdfast.cli.drawing.terminal import cells
from holdfast.clock import microseconds
from holdfast.counts import counted
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.store.port import Append, new_event
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.histories import failure, own, perform
from holdfast.views.records import StepInfo

DOCUMENTED = (Path(__file__).parents[2] / "docs" / "json.md").read_text()

FLOW = """
    @step
    def fetch(n): return n
    @step(retry=Retry(attempts=2, initial=0.001))
    def judge(n):
        if n == 2: raise ValueError("no JSON in what the model said")
        return n
    def branch(n): return fetch(n) + judge(n)
    @workflow
    def chapter(n): return [fetch(k) for k in range(n)]
    @workflow
    def book(n):
        fetch(0)
        chapter(2)
        return parallel(branch, range(n))
    @workflow
    def fails(): raise RuntimeError("oh no")
    @step(effect="once")
    def pay():
        note("paying")
        if Path("slow").exists(): time.sleep(60)
        return "paid"
    @workflow
    def buys(): return fetch(1), pay()
    @workflow
    def naps(): fetch(1); note("napping"); sleep(3600)
"""


def now_us() -> int:
    return time.time_ns() // 1000


@pytest.fixture
def store(cli):
    """The store of the command line, to be filled by hand; closed before a command reads it."""
    opened = SqliteStore(cli.home, durability="process")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def library(make_cli, tmp_path_factory):
    """A project with some runs that nobody changes."""
    made = make_cli(tmp_path_factory.mktemp("library"))
    made.script(FLOW)
    made("run", "--id", "good", "flow.py:book", "2")
    made("run", "--id", "bad", "flow.py:book", "6", code=1)
    made("run", "--id", "worse", "flow.py:fails", code=1)
    made("run", "--id", "shell", "echo hello")
    return made


def ids(cli, *words):
    return [row["id"] for row in cli("list", "--json", *words).json()]


# list


def test_list_chooses_by_status(library):
    """One status, several with commas or one by one; what does not exist has a nearest name."""
    assert ids(library) == ["shell", "worse", "bad", "good"]
    assert ids(library, "--status", "failed") == ["worse", "bad"]
    assert ids(library, "--status", "completed, failed", "--limit", "3") == ["shell", "worse", "bad"]
    assert ids(library, "--status", "failed", "--status", "running") == ["worse", "bad"]
    assert ids(library, "--status", "needs-attention,interrupted") == []


def test_list_chooses_by_workflow(library):
    """A whole name, or a pattern."""
    assert ids(library, "--workflow", "book") == ["bad", "good"]
    assert ids(library, "--workflow", "*o*") == ["shell", "bad", "good"]
    assert ids(library, "--workflow", "[!b]*") == ["shell", "worse"]
    assert ids(library, "--workflow", "Book") == []


def test_list_leaves_child_runs_to_their_parents(library):
    """They are listed with `--children`, or by their parent, whose id may be cut short."""
    everything = ids(library, "--children")
    assert {"bad.chapter-1", "good.chapter-1"} < set(everything)
    assert len(everything) == 6
    assert ids(library, "--parent", "bad") == ["bad.chapter-1"]
    assert ids(library, "--parent", "goo", "--status", "completed") == ["good.chapter-1"]
    assert ids(library, "--parent", "shell") == []
    rows = library("list", "--parent", "bad", "--json").json()
    assert [row["parent"] for row in rows] == ["bad"]


def test_list_chooses_by_time(cli, store):
    """Changed since, created until: how long ago, a day, a moment; a day as the end counts whole."""
    now = datetime.now(UTC)
    day = timedelta(days=1)
    for name, ago in (("old", 10 * day), ("week", 6 * day), ("new", timedelta(minutes=5))):
        at = now_us() - ago // timedelta(microseconds=1)
        perform(store, name, c.CreateRun(name, e.Code("flow"), "d"), c.ClaimRun(name, "me"), at=at)
    perform(store, "old", c.CompleteRun(), at=now_us())
    store.close()
    assert ids(cli) == ["new", "week", "old"]
    assert ids(cli, "--since", "2h") == ids(cli, "--since", "90min") == ["new", "old"]
    assert ids(cli, "--since", "1w") == ids(cli, "--since", "8.5d") == ["new", "week", "old"]
    assert ids(cli, "--until", "3d") == ["week", "old"]
    assert ids(cli, "--since", "7d", "--until", "2d") == ["week", "old"]
    then = (now - 6 * day).astimezone()
    assert ids(cli, "--until", then.date().isoformat()) == ["week", "old"]
    assert ids(cli, "--until", (then.date() - day).isoformat()) == ["old"]
    assert ids(cli, "--since", (now - timedelta(minutes=6)).isoformat()) == ["new", "old"]
    assert ids(cli, "--since", "yesterday", "--until", "today")[-1] == "old"


def test_list_says_how_many_more_there_are(cli, store):
    """Beside the output, on stderr; `--all` and `--limit 0` show them all."""
    for n in range(60):
        own(store, f"r{n:02}")
        perform(store, f"r{n:02}", c.CompleteRun())
    store.close()
    listed = cli("list")
    assert len(listed.out.splitlines()) == 51
    assert "10 more, 60 in all" in listed.err
    assert "55 more" in cli("list", "--limit", "5", "--json").err
    assert len(ids(cli, "--all")) == len(ids(cli, "--limit", "0")) == 60
    for words in (("--all",), ("--limit", "60"), ("--status", "failed")):
        assert "more" not in cli("list", *words).err


def test_interrupted_runs_are_pointed_out(cli, store):
    """By every other list, counted, the newest named, with the command that continues; children are not."""
    for n in range(5):
        own(store, f"lost{n}", "dead")
    perform(store, "kid", c.CreateRun("kid", e.Code("x"), "d", parent="lost1"), c.ClaimRun("kid", "dead"))
    store.close()
    for words in (["--resumable"], ["--status", "interrupted"]):
        assert "continues" not in cli("list", *words).err, "they are what was listed"
    told = cli("list", "--limit", "1").err
    assert "5 interrupted runs: lost4, lost3, lost2, ...; `holdfast resume ID` continues" in told
    assert (
        ids(cli, "--resumable")
        == ids(cli, "--status", "interrupted")
        == [f"lost{n}" for n in (4, 3, 2, 1, 0)]
    )
    assert ids(cli, "--resumable", "--children")[0] == "kid"
    assert "interrupted" in cli("list").out


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["list", "--status", "faild"], 2, "there is no status 'faild'; did you mean failed?"),
        (["list", "--status", "failed,needsattention"], 2, "did you mean needs_attention?"),
        (["list", "--status", "zzz"], 2, "there are pending, running,"),
        (["list", "--status", ""], 2, "there is no status ''"),
        (["list", "--since", "3x"], 2, "'3x' is no time; write how long ago (90s, 15min, 2h, 3d, 1w)"),
        (["list", "--since", "2026-02-30"], 2, "'2026-02-30' is no time"),
        (["list", "--until", "-2h"], 2, "'-2h' is no time"),
        (["list", "--since", "99999999999999999999d"], 2, "is no time"),
        (["list", "--since", "1970-01-01"], 0, ""),
        (["list", "--since", ""], 2, "'' is no time"),
        (["list", "--since", "1h", "--until", "2h"], 2, "--since is not before --until"),
        (["list", "--parent", "zzz"], 3, "no run has the id 'zzz'"),
        (["list", "--limit", "many"], 2, "many"),
        (["show", "good", "--depth", "-1"], 2, "depth"),
        (["logs", "good", "--since-version", "-1"], 2, "since-version"),
        (["logs", "-f", "good", "--step", "nope"], 3, "has no step 'nope'"),
        (["stats", "--since", "soon"], 2, "'soon' is no time"),
        (["completion", "tcsh"], 2, "tcsh"),
        (["completion"], 2, "SHELL"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_bad_input_is_one_sentence(library, words, code, says):
    """Names the thing and what can be written instead."""
    result = library(*words, code=code)
    assert says in result.err
    assert len([line for line in result.err.splitlines() if line.startswith("holdfast: ")]) == bool(code)


# show


def test_show_is_a_tree_by_scope(library):
    """Scopes with their steps, child runs below the step that started them, errors on the step's line."""
    shown = library("show", "good").out
    lines = [line.rstrip() for line in shown.splitlines()]
    drawn = [re.sub(r" +<?[\d.]+ (ms|s)\b", "", line) for line in lines if line.startswith("  ")]
    assert drawn == [
        "  ✓ fetch#1",
        "  ✓ chapter#1  run good.chapter-1",
        "  ├─ ✓ fetch#1",
        "  └─ ✓ fetch#2",
        "  branch[1]",
        "  ├─ ✓ fetch#1",
        "  └─ ✓ judge#1",
        "  branch[2]",
        "  ├─ ✓ fetch#1",
        "  └─ ✓ judge#1",
    ]
    assert "result    [0,2]" in lines


def test_show_folds_branches_that_completed(library):
    """Of many branches those are drawn that did not complete; `--all` draws all, `--depth 0` no child."""
    shown = library("show", "bad").out
    assert "✗ branch[1..6]" in shown
    assert "6 branches" in shown
    assert "└─ ✗ judge#1" in shown
    assert "2 attempts  ValueError: no JSON in what the model said" in shown
    assert "... 5 branches completed in" in shown
    assert "14: 13 completed, 1 failed; 15 attempts; --all shows each" in shown
    every = library("show", "bad", "--all", "--depth", "0").out
    assert [line.strip() for line in every.splitlines() if "branch[" in line and "/" not in line] == [
        f"branch[{n}]" for n in range(1, 7)
    ]
    assert "├─ ✓ fetch#2" not in every
    assert "shows each" not in every


def test_the_way_on_is_a_command_that_works(cli):
    """What `show` says to do next can be typed as it stands: for a failed run, for an interrupted one, and
    for a step in doubt."""
    cli.script(FLOW)
    (cli.directory / "slow").touch()
    process = cli.start("run", "--id", "b", "flow.py:buys")
    cli.wait_for_note("paying")
    process.kill()
    process.wait()
    assert next_command(cli, "b") == "holdfast resume b"
    cli(*shlex.split(next_command(cli, "b"))[1:], code=6)
    shown = cli("show", "b").out
    assert "needs attention" in shown
    assert "? pay#1" in shown
    ways = re.findall(r"^(?:next)? +(holdfast settle b \S+ --\w+(?: VALUE)?)", shown, re.MULTILINE)
    assert ways == [f"holdfast settle b 'pay#1' --{way}" for way in ("done VALUE", "retry", "fail")]
    cli(*shlex.split(ways[0].replace("VALUE", "paid"))[1:])
    assert cli(*shlex.split(next_command(cli, "b"))[1:]).json() == {"$tuple": [1, "paid"]}
    assert cli.status("b") == "completed"
    assert "next" not in cli("show", "b").out


def next_command(cli, run):
    (found,) = re.findall(r"^next +(holdfast \S+ \S+)", cli("show", run).out, re.MULTILINE)
    return found


def test_show_says_what_a_run_waits_for(cli):
    """A sleep with its end; nobody holds a run that only sleeps."""
    cli.script(FLOW)
    process = cli.start("run", "--id", "n", "flow.py:naps")
    cli.wait_for_note("napping")
    while "sleeping" not in (shown := cli("show", "n").out):
        pass
    assert re.search(r"status +sleeping\n", shown)
    assert re.search(r"waits +sleep#1  wakes in (59 min|1 h)", shown)
    assert "◷ sleep#1" in shown
    process.kill()
    process.wait()
    assert re.search(r"status +sleeping", cli("show", "n").out)


def test_show_of_three_thousand_steps_fits_on_a_screen(cli, store):
    """The beginning, the end, and what did not complete; in the middle it says how many did."""
    own(store, "long", "dead")
    ran = [e.StepRan(f"fetch#{n}", "fetch", now_us()) for n in range(1, 3001)]
    store.append(Append("long", 1, [new_event(one, one.started_at + 1000) for one in ran]))
    again = (c.StartStep("ask#1", "ask"), c.FailAttempt("ask#1", failure("busy"), retry_at=now_us()))
    perform(store, "long", *again, at=now_us())
    store.append(Append("long", 1, [new_event(e.StepRan("tell#1", "tell", now_us()), now_us())]))
    store.close()
    shown = cli("show", "long").out
    assert len(shown.splitlines()) < 40
    assert re.search(r"\.\.\. 2,986 completed in .* \.\.\.", shown)
    assert all(f"fetch#{n} " in shown for n in (1, 8, 2995, 3000))
    assert re.search(r"steps +3,002: 3,001 completed, 1 retrying; --all shows each", shown)
    assert "↻ ask#1" in shown
    assert len(cli("show", "long", "--all").out.splitlines()) > 3000
    assert len(cli("show", "long", "--json").json()["steps"]) == 3002


def test_a_long_or_secret_result_is_cut_and_hidden(cli):
    """On a terminal to some lines; `--json` has all of it; a secret is nowhere."""
    cli.script('@workflow\ndef main(): return ["API_TOKEN=abcdef123456", "word " * 3000]')
    cli("run", "--id", "x", "flow.py:main")
    _, screen = cli.on_a_terminal("show", "x", columns=80, NO_COLOR="1")
    assert len(screen.splitlines()) < 20
    assert re.search(r"\(15,\d\d\d characters; --json shows all\)", screen)
    whole = cli("show", "x", "--json")
    assert len(whole.json()["result"][1]) == 15_000
    for text in (screen, whole.out, cli("show", "x").out):
        assert "abcdef" not in text
        assert "[redacted:secret]" in text


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("run", ["good", "bad", "worse", "shell"])
def test_no_line_of_show_is_wider_than_the_terminal(library, run, columns):
    """Whatever the width; only a command to be copied stays whole."""
    code, screen = library.on_a_terminal("show", run, columns=columns, NO_COLOR="1")
    assert code == 0
    wide = [line for line in screen.splitlines() if cells(line) > columns and "holdfast re" not in line]
    assert [line for line in wide if not line.startswith(("workflow", " " * 10))] == []


def test_show_json_has_the_children_that_are_asked_for(library):
    """Each as `show --json` has it; without `--depth` they are ids of steps."""
    plain = library("show", "good", "--json").json()
    assert "children" not in plain
    assert [step["child"] for step in plain["steps"] if step["kind"] == "child"] == ["good.chapter-1"]
    (child,) = library("show", "good", "--json", "--depth", "2").json()["children"]
    assert (child["id"], child["parent"], child["children"]) == ("good.chapter-1", "good", [])
    assert [step["key"] for step in child["steps"]] == ["fetch#1", "fetch#2"]


def test_recorded_values_are_no_steps(cli):
    """`now` and `random` have a place among the steps and are not listed with them."""
    cli.script("@step\ndef one(): return 1\n@workflow\ndef main(): now(); random(); return one()")
    cli("run", "--id", "x", "flow.py:main")
    assert [step["key"] for step in cli("show", "x", "--json").json()["steps"]] == ["one#1"]


# The tree, drawn by itself

START = datetime(2026, 1, 31, tzinfo=UTC)


def step_view(key, status="completed", ms=10, **fields):
    began = microseconds(START)
    ended = began + ms * 1000 if status in ("completed", "failed") else 0
    return StepInfo(key, key.split("#")[0], status=status, started_us=began, ended_us=ended, **fields)


def drawn(steps, folding=Folding(), width=100, children=None, **look):  # noqa: B008
    lines = tree(steps, Look(width, now=START, **look), children, folding)
    return [
        "".join(piece if isinstance(piece, str) else piece[0] for piece in line).rstrip() for line in lines
    ]


def test_branches_are_drawn_in_the_order_of_their_numbers():
    """Not of what happened in them first; a branch of one step is one line."""
    steps = [step_view(f"b[{n}]/ask#1") for n in (3, 10, 1)] + [step_view("end#1")]
    assert [line.split()[1] for line in drawn(steps)] == ["b[1]/ask#1", "b[3]/ask#1", "b[10]/ask#1", "end#1"]


def test_branches_before_and_after_a_step_are_not_one():
    """What a later step separates stays apart."""
    steps = [step_view(f"b[{n}]/ask#1") for n in range(1, 8)]
    steps += [step_view("middle#1")] + [step_view(f"b[{n}]/ask#1") for n in range(8, 20)]
    assert [line.split()[1] for line in drawn(steps)] == ["b[1..7]", "middle#1", "b[8..19]"]


def test_only_what_did_not_complete_is_drawn_of_many_branches():
    """In full; if those are many too, some of them, and the others are counted by status."""
    steps = [
        step_view(f"b[{n}]/ask#1", "failed" if n <= 30 else "completed", note="no") for n in range(1, 101)
    ]
    lines = drawn(steps)
    assert len(lines) == 22
    assert lines[0].split()[:2] == ["✗", "b[1..100]"]
    assert lines[-1].strip() == "└─ ... 70 branches completed, 10 branches failed in 10 ms ..."


def test_a_fold_that_saves_no_line_is_none():
    """Two items are drawn rather than counted, and a short list is never folded."""
    assert not [line for line in drawn([step_view(f"a#{n}") for n in range(40)]) if "..." in line]
    folding = Folding(most=4, edge=2)
    assert len(drawn([step_view(f"a#{n}") for n in range(6)], folding)) == 6
    assert [line.strip() for line in drawn([step_view(f"a#{n}", ms=10) for n in range(8)], folding)][2:3] == [
        "... 4 completed in 10 ms ..."
    ]


def test_steps_of_interest_are_not_folded():
    """Each stays at its place, with what completed around it counted; attempts are told."""
    steps = [step_view(f"a#{n}", attempt=1 + (n == 30)) for n in range(100)]
    steps[50] = step_view("a#50", "in_doubt", note="was cut off")
    steps[60] = step_view("a#60", "running")
    lines = [line.strip() for line in drawn(steps, stopped=True)]
    assert lines[8:13] == [
        "... 42 completed, 1 retried in 10 ms ...",
        "? a#50            in doubt  was cut off",
        "... 9 completed in 10 ms ...",
        "◌ a#60            cut off",
        "... 31 completed in 10 ms ...",
    ]


def test_a_narrow_tree_keeps_names_and_cuts_notes():
    """At forty columns nothing wraps, and signs without Unicode are letters."""
    steps = [step_view("branch[1]/" + "long_name_of_a_step" * 3 + "#1", "failed", note="x" * 200)]
    steps += [step_view(f"branch[1]/b[{n}]/ask#1") for n in range(20)]
    for unicode in (True, False):
        lines = drawn(steps, width=40, unicode=unicode)
        assert max(map(cells, lines)) <= 40
    assert drawn(steps, unicode=False)[-1].strip().startswith("`- + b[0..19]")


def test_child_runs_are_folded_more():
    """A child of a hundred steps takes few lines, and its own children are not drawn beyond the depth."""
    children = {"kid": [step_view(f"a#{n}", child="deep" if n == 99 else "") for n in range(100)]}
    children["deep"] = [step_view("b#1")]
    steps = [step_view("kid#1", child="kid")]
    assert len(drawn(steps, children=children)) == 1 + 9 + 1
    lines = tree(steps, Look(now=START), children, Folding(), 1)
    assert len(lines) == 1 + 9
    assert len(tree(steps, Look(now=START), children, Folding(), 0)) == 1
    assert len(tree(steps, Look(now=START), children)) == 102


# logs


TICK = """
    @workflow
    def main():
        command(["sh", "-c", "echo one; touch begun; while [ ! -e go ]; do sleep 0.02; done; echo two >&2"],
                name="build", effect="idempotent")
        command(["echo", "three"], name="test", effect="idempotent")
"""


def test_logs_mark_where_an_attempt_begins(cli):
    """On stderr: the output itself stays as it was printed. One attempt of one command has no mark."""
    cli("run", "--id", "one", "echo one")
    assert cli("logs", "one").err == ""
    cli.script(
        """
        @workflow
        def main():
            command(["sh", "-c", "echo tried; test -e go"], name="build", effect="idempotent")
            command(["echo", "tested"], name="test")
        """
    )
    cli("run", "--id", "x", "flow.py:main", code=1)
    (cli.directory / "go").touch()
    cli("resume", "x")
    told = cli("logs", "x")
    assert told.out == "tried\ntried\ntested\n"
    assert [line.rpartition(",")[0] for line in told.err.splitlines()] == [
        "--- build#1, attempt 1", "--- build#1, attempt 2", "--- test#1, attempt 1",
    ]  # fmt: skip
    _, screen = cli.on_a_terminal("logs", "x", NO_COLOR="1")
    assert [line.split(",")[0].rstrip() for line in screen.splitlines()] == [
        "--- build#1", "tried", "--- build#1", "tried", "--- test#1", "tested",
    ]  # fmt: skip


def test_list_and_show_have_the_input_and_a_title(cli):
    """What a run was started with, redacted; of a command its words. A large one is in `show` only."""
    cli.script("@workflow\ndef main(a, b=None, *, c=1): return None\n@workflow\ndef plain(): return None")
    cli("run", "--id", "r", "flow.py:main", '["kelp"]', "--arg", "c=API_TOKEN=abcdef123456")
    cli("run", "--id", "p", "flow.py:plain")
    cli("run", "--id", "c", "echo a b")
    cli("run", "--id", "large", "flow.py:main", json.dumps("x" * 100_000))
    rows = {row["id"]: row for row in cli("list", "--json").json()}
    assert rows["r"]["input"] == {"args": [["kelp"]], "kwargs": {"c": "API_TOKEN=[redacted:secret]"}}
    assert rows["r"]["title"] == 'main(["kelp"], c="API_TOKEN=[redacted:secret]")'
    assert (rows["p"]["input"], rows["p"]["title"]) == ({"args": [], "kwargs": {}}, "plain")
    assert (rows["c"]["input"]["args"], rows["c"]["title"]) == (["echo", "a", "b"], "echo a b")
    assert (rows["large"]["input"], rows["large"]["title"]) == (None, "main(…)")
    assert cli("show", "large", "--json").json()["input"]["args"] == ["x" * 100_000]
    assert "abcdef" not in cli("list").out + cli("show", "r").out
    assert 'main(["kelp"]' in cli("list").out
    shown = cli("show", "r").out
    assert re.search(r"^input +\[\n? *\"kelp\"", shown, re.MULTILINE) and "c=API_TOKEN=[redacted" in shown


def test_logs_follow_a_run_to_its_end(cli, wait_until):
    """What a command prints in another process comes while it runs; when the run ends, so does this."""
    cli.script(TICK)
    cli.start("run", "--id", "x", "flow.py:main")
    wait_until((cli.directory / "begun").exists, "the command")
    follower = cli.start("logs", "-f", "x")
    assert follower.stdout.readline() == "one\n"
    assert follower.poll() is None
    (cli.directory / "go").touch()
    rest, told = follower.communicate(timeout=30)
    assert (rest, follower.returncode) == ("two\nthree\n", 0)
    assert told.splitlines()[0].startswith("--- test#1, attempt 1, ")
    assert told.splitlines()[1:] == ["run x is completed"]
    assert cli("logs", "--follow", "x").out == "one\ntwo\nthree\n"


def test_followed_logs_as_json_lines(cli, wait_until):
    """One object on each line, at once: what is in the log is told within a fifth of a second."""
    cli.script(TICK)
    cli.start("run", "--id", "x", "flow.py:main")
    wait_until((cli.directory / "begun").exists, "the command")
    follower = cli.start("logs", "-f", "x", "--json", "--step", "build")
    pieces = [json.loads(follower.stdout.readline())]
    (cli.directory / "go").touch()
    pieces.append(json.loads(follower.stdout.readline()))
    late = datetime.now(UTC) - datetime.fromisoformat(pieces[1]["at"])
    assert follower.stdout.read() == ""
    assert [(piece["step"], piece["source"], piece["text"]) for piece in pieces] == [
        ("build#1", "stdout", "one\n"), ("build#1", "stderr", "two\n"),
    ]  # fmt: skip
    assert late < timedelta(seconds=2)  # of a busy machine; alone it is 30 ms
    since = cli("logs", "x", "--since-version", pieces[0]["version"], "--json").json()
    assert [piece["text"] for piece in since] == ["two\n", "three\n"]
    assert "printed nothing after version" in cli("logs", "x", "--since-version", "99").err


def test_following_ends_where_nobody_goes_on(cli, store):
    """An interrupted run, a failed one, one that needs attention: what it printed, and what can be done."""
    for name, end in (("lost", ()), ("bad", (c.FailRun(failure()),)), ("odd", (c.AttendRun("x", "look"),))):
        own(store, name, "dead")
        perform(store, name, c.StartStep("a#1", "a"), c.CaptureOutput("a#1", "stdout", "out\n"), *end)
    store.close()
    for name, says in (
        ("lost", "is interrupted; `holdfast resume lost` continues"),
        ("bad", "is failed; `holdfast show bad` says why"),
        ("odd", "needs attention; `holdfast show odd` says why"),
    ):
        told = cli("logs", "-f", name)
        assert (told.out, says in told.err) == ("out\n", True)


def test_following_waits_for_a_step_that_has_not_begun(cli, wait_until):
    """Its name may come later, as long as the run continues."""
    cli.script(TICK)
    cli.start("run", "--id", "x", "flow.py:main")
    wait_until((cli.directory / "begun").exists, "the command")
    follower = cli.start("logs", "-f", "x", "--step", "test")
    (cli.directory / "go").touch()
    assert follower.communicate(timeout=30)[0] == "three\n"


# stats


def test_stats_add_up(library):
    """Runs by status and by workflow, durations, steps, attempts, what fails, the store's size."""
    found = library("stats", "--json").json()
    assert found["runs"] == {"total": 6, "by_status": {"completed": 4, "failed": 2}, "interrupted": 0}
    totals = {one["workflow"]: one["total"] for one in found["workflows"]}
    assert totals == {"book": 2, "chapter": 2, "fails": 1, "echo hello": 1}
    assert found["durations"]["count"] == 4
    assert 0 < found["durations"]["p50_s"] <= found["durations"]["p95_s"] <= found["durations"]["max_s"] < 60
    assert found["steps"]["by_status"] == {"completed": 24, "failed": 1}
    assert (found["steps"]["total"], found["steps"]["attempts"], found["steps"]["retried"]) == (25, 26, 1)
    assert found["failing_steps"] == [
        {"workflow": "book", "step": "judge", "steps": 1, "lost_attempts": 2, "failed": 1}
    ]
    assert found["store"]["bytes"] >= 4096
    assert found["store"]["path"] == str(library.home / "holdfast.db")
    assert found["store"]["events"] > 40
    listed = library("stats").out
    for text in ("completed", "p95", "book / judge", "2 completed", "events"):
        assert text in listed or text == "2 completed"


def test_stats_since(library):
    """Only runs that changed since; the store is whole."""
    found = library("stats", "--since", "1h", "--json").json()
    assert found["runs"]["total"] == 6
    assert datetime.fromisoformat(found["since"]) < datetime.now(UTC) - timedelta(minutes=59)
    assert library("stats", "--since", datetime.now(UTC).isoformat(), "--json").json()["runs"]["total"] == 0
    assert "runs               0" in library("stats", "--since", "0s").out


def test_stats_count_what_is_interrupted(cli, store):
    """Which is no status, and is told beside them."""
    own(store, "lost", "dead")
    own(store, "done")
    perform(store, "done", c.CompleteRun())
    store.close()
    assert cli("stats", "--json").json()["runs"] == {
        "total": 2, "by_status": {"completed": 1, "running": 1}, "interrupted": 1,
    }  # fmt: skip
    assert re.search(r"1  interrupted  among these", cli("stats").out)
    for columns in (50, 120):
        _, screen = cli.on_a_terminal("stats", columns=columns, NO_COLOR="1")
        table = screen[screen.index("workflow") :]
        assert all(cells(line) <= columns for line in table.splitlines())


def test_stats_count_what_the_page_says(cli):
    """Child runs as runs, whatever `show` lists as steps, and a fork's copy as its own."""
    cli.script("""
        @step
        def work(): return 1
        @workflow
        def inner(): return work()
        @workflow
        def outer(): checkpoint("begun"); now(); sleep(0.001); inner(); work(); return approval("go").outcome
    """)
    cli("run", "--id", "r", "flow.py:outer", code=5)
    listed = [len(cli("show", run, "--json").json()["steps"]) for run in ("r", "r.inner-1")]
    counted = cli("stats", "--json").json()
    assert (counted["runs"]["total"], counted["steps"]["total"]) == (2, sum(listed)) == (2, 6)
    kept = cli("fork", "r", "--at", "work", "--into", "s", "--json").json()["kept"]
    counted = cli("stats", "--json").json()
    assert (counted["runs"]["total"], counted["steps"]["attempts"]) == (3, 6 + len(kept))


def test_stats_of_no_store(cli):
    """There is nothing to count, and nothing is made."""
    assert "there is no store" in cli("stats", code=3).err
    assert not cli.home.exists()


# Numbers


def test_words_fit_their_number():
    """One of a thing is not many."""
    assert [counted(n, "step") for n in (0, 1, 2, 1000)] == ["0 steps", "1 step", "2 steps", "1,000 steps"]
    assert counted(2, "directory", "directories") == "2 directories"
    saved = {"place": "taken_back", "key": "sh#1", "instead_of": "ab12"}
    (one,) = put_back(saved | {"changes": 1})
    assert "1 change of the earlier attempt" in one and "it back" in one
    (two,) = put_back(saved | {"changes": 2, "kept": ["a"]})
    assert "them back" in two and "changed it: a" in two
    assert list(put_back(saved)) == []


# Fields


@pytest.mark.parametrize(
    "words",
    [
        ("list",), ("show", "bad", "--events", "--depth", "1"), ("logs", "shell"), ("stats",),
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_every_field_is_documented(library, words):
    """Each name in the JSON of a command is in the page of JSON."""

    def names(value, above=""):
        if isinstance(value, list):
            return {name for one in value for name in names(one, above)}
        if not isinstance(value, dict) or above in ("data", "by_status", "result"):
            return set()
        return set(value) | {name for key, one in value.items() for name in names(one, key)}

    missing = {name for name in names(library(*words, "--json").json()) if f"`{name}`" not in DOCUMENTED}
    assert missing == set()


# Completion


def complete(cli, line, code=0, **env):
    """What the shell is offered for the last word of the line."""
    words = line.split(" ")
    asked = {"_HOLDFAST_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    result = cli(code=code, **asked, **env)
    assert result.err == ""
    return [one.partition(",")[2] for one in result.out.split("\n") if one]


def test_open_gates_are_completed(cli):
    """With the digest of what they show; of signals, the names that are waited for."""
    cli.script("""
        def ask(n): return approval("send", show=n) if n else wait_for("paid")
        @workflow
        def main(): return parallel(ask, [0, 1])
    """)
    cli("run", "--id", "x", "flow.py:main", code=5)
    (offered,) = complete(cli, "holdfast approve x ")
    assert re.fullmatch(r"ask\[2\]/send#1@[0-9a-f]{6}", offered)
    assert complete(cli, "holdfast reject x z") == []
    assert complete(cli, "holdfast signal x ") == ["paid"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(library, shell):
    """It names the program and the variable, and is a script of that shell where there is one to ask."""
    script = library("completion", shell).out
    assert f"_HOLDFAST_COMPLETE={shell}_complete" in script
    assert "holdfast" in script
    try:
        done = subprocess.run([shell, "-n"], input=script, text=True, capture_output=True, check=False)
    except FileNotFoundError:
        return
    assert (done.returncode, done.stderr) == (0, "")


def test_bash_completes_with_the_script(library, tmp_path):
    """The function that it defines fills in the only run that fits."""
    program = tmp_path / "holdfast"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(library.argv())} "$@"\n')
    program.chmod(0o755)
    lines = [
        library("completion", "bash").out,
        "COMP_WORDS=(holdfast show wor); COMP_CWORD=2; _holdfast_completion holdfast",
        'echo "${COMPREPLY[@]}"',
    ]
    done = subprocess.run(
        ["bash", "--norc", "-c", "\n".join(lines)],
        env=library.env | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        cwd=library.directory, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "worse\n", done.stderr


def test_commands_options_and_statuses_are_completed(library):
    """Without a look at the store."""
    assert complete(library, "holdfast s") == [
        *("show", "search", "stats", "signal", "settle", "session", "skills")
    ]
    assert "--resumable" in complete(library, "holdfast list --res")
    assert complete(library, "holdfast list --status f") == ["failed"]
    assert complete(library, "holdfast list --status failed,ru") == ["failed,running"]


def test_run_ids_are_completed(library):
    """The newest first; for resume those that it would move on; children where one is being typed."""
    assert complete(library, "holdfast show ") == ["shell", "worse", "bad", "good"]
    assert complete(library, "holdfast logs b") == ["bad"]
    assert complete(library, "holdfast resume ") == ["worse", "bad"]
    assert complete(library, "holdfast list --parent g") == ["good"]
    assert complete(library, "holdfast show good.") == ["good.chapter-1"]
    assert complete(library, "holdfast show zzz") == []
    elsewhere = f"holdfast --home {library.home} show b"
    assert complete(library, elsewhere, HOLDFAST_HOME="/nowhere") == ["bad"]


def test_step_names_are_completed(library):
    """Of the run that the command line names; whole keys where one is being typed."""
    assert complete(library, "holdfast logs good --step ") == ["fetch", "chapter", "judge"]
    assert complete(library, "holdfast logs good --step ju") == ["judge"]
    assert complete(library, "holdfast settle good fetch#") == ["fetch#1"]
    assert complete(library, "holdfast settle good branch[2]/f") == ["branch[2]/fetch#1"]
    assert complete(library, "holdfast logs nope --step ") == []


def test_nothing_is_said_where_there_is_nothing_to_complete(cli):
    """No store, a broken one, bad settings: no completions, no words, no store made."""
    assert complete(cli, "holdfast show ") == complete(cli, "holdfast logs x --step ") == []
    assert not cli.home.exists()
    cli.home.mkdir()
    (cli.home / "holdfast.db").write_bytes(b"no database" * 1000)
    assert complete(cli, "holdfast show ") == []
    assert complete(cli, "holdfast show ", HOLDFAST_DURABILITY="odd") == []


def test_what_steps_used_is_shown_and_added_up(cli):
    """Per step and run in `show --json`, for all runs in `stats`; money as text, never as a float."""
    cli.script(
        """
        from decimal import Decimal
        @step(retry=Retry(attempts=2, initial=0.001))
        def ask(n):
            measure(model="small", input_tokens=1000, output_tokens=20, usd=Decimal("0.1"))
            if n == 2 and not Path("tried").exists():
                Path("tried").touch()
                raise ValueError
            measure(pages=n)
        @workflow
        def report():
            ask(1)
            ask(2)
        """
    )
    told = cli("run", "flow.py:report", "--id", "x").err
    assert "running" not in told  # a measure is no news of a step
    shown = cli("show", "x", "--json").json()
    small = {"model": "small", "input_tokens": 1000, "output_tokens": 20, "usd": "0.1", "units": {}}
    pages = {"model": None, "input_tokens": 0, "output_tokens": 0, "usd": None, "units": {"pages": 1}}
    assert shown["steps"][0]["measured"] == [small, pages]
    assert shown["steps"][1]["measured"][0] == small | {
        "input_tokens": 2000,
        "output_tokens": 40,
        "usd": "0.2",
    }
    total = small | {"input_tokens": 3000, "output_tokens": 60, "usd": "0.3"}
    assert shown["measured"] == [total, pages | {"units": {"pages": 3}}]
    assert cli("stats", "--json").json()["measured"] == [pages | {"units": {"pages": 3}}, total]
    told = cli("stats").out
    assert re.search(r"\$0\.3\s+small, 3,000 tokens in, 60 out", told)
    assert re.search(r"used\s+3 pages", told)
    assert {"measured"} <= set(re.findall(r"`(\w+)`", DOCUMENTED))


def test_search_finds_what_it_prints_the_ids_of(cli):
    """A table in a pipe, JSON with marks, pages by cursor; a sentence for what cannot be searched."""
    cli("run", "--id", "tides", "printf", "%s", "harbour tables")
    cli("run", "--id", "nets", "printf", "%s", "harbour nets")
    listed = cli("search", "harbour", "nets").out.splitlines()
    assert listed[0].split() == ["FAMILY", "ID", "KIND", "STATUS", "CHANGED", "TEXT"]
    assert listed[1].split()[:4] == ["runs", "nets", "run", "completed"]
    assert "nets" in cli("show", listed[1].split()[1]).out
    first = json.loads(cli("search", "harbour", "--in", "run", "--limit", "1", "--json").out)
    (hit,) = first["hits"]
    assert [hit["title"][start:end] for start, end in hit["title_marks"]] == ["harbour"]
    second = cli("search", "harbour", "--in", "run", "--limit", "1", "--after", first["after"], "--json").out
    assert {hit["id"], json.loads(second)["hits"][0]["id"]} == {"tides", "nets"}
    assert json.loads(second)["after"] == ""
    assert "no hits" in cli("search", "--", "harbour", "-harbour").err
    for words, sentence in (
        (("--in", "files"), "there are tasks, runs, memory, events"),
        (("--status", "finished"), "no status 'finished'"),
        (("--after", "x"), "no cursor of a search"),
    ):
        assert sentence in cli("search", "harbour", *words, code=2).err
