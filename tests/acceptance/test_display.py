"""What people read: durations in columns, values, counts, and commands to copy that work."""

from __future__ import annotations

import re
import shlex
import subprocess
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace

import pytest

from holdfast import LogEvent
from holdfast.agents.deliver.policies import YES, decide
from holdfast.cli.commands import showing, stats
from holdfast.cli.drawing import step_showing
from holdfast.cli.drawing.picture import put_back
from holdfast.cli.drawing.steps import Look, tree
from holdfast.cli.drawing.terminal import cells, folded
from holdfast.cli.drawing.values import compact_text, data_text, shown_text
from holdfast.clock import microseconds
from holdfast.counts import counted, unit_for
from holdfast.sizes import amount
from holdfast.views.records import StepInfo
from holdfast.views.statistics import Durations, Statistics, StepTotals

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
FLOW = """
    import dataclasses, subprocess
    @dataclasses.dataclass
    class Reply:
        text: str
        tokens: int
    @step(effect="once")
    def email():
        note("mailing")
        if Path("slow").exists(): time.sleep(60)
    @step
    def ask(question, *more): return Reply(question, 9)
    @workflow
    def mails(): ask("q"); email()
    @workflow
    def asks(words: list): return ask("kelp")
    @workflow
    def stops():
        ask("q")
        if not Path("fixed").exists(): os._exit(9)
        return 3
    @workflow
    def fails(): ask("q"); raise ValueError("no")
    @workflow
    def commits():
        checkpoint("planned")
        command(["sh", "-c", "git commit -q --allow-empty -m agent && echo 1 > made"])
        email()
"""


def git(cli, *words: str) -> str:
    names = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    return subprocess.run(
        ["git", *names, *words], cwd=cli.directory, check=True, capture_output=True, text=True
    ).stdout


def ways(told: str) -> list[list[str]]:
    """The commands of ours that the rows named `next` give."""
    return [
        shlex.split(found)[1:] for found in re.findall(r"(?:next|^) +(holdfast .+?)  ", told, re.MULTILINE)
    ]


def took(*seconds: float) -> list[StepInfo]:
    began = microseconds(START)
    return [
        StepInfo(f"s{n}#1", status="completed", started_us=began, ended_us=began + int(one * 1e6))
        for n, one in enumerate(seconds)
    ]


def text_of(line) -> str:
    return line if isinstance(line, str) else "".join(p if isinstance(p, str) else p[0] for p in line)


def ends_of(lines, units: str = r"(?:ms|s|min|h)") -> set[int]:
    """The columns in which durations end."""
    return {
        found.end() for line in lines for found in [re.search(rf"\d {units}(?=  |$)", text_of(line))] if found
    }


def test_the_next_command_of_a_preview_is_not_refused(cli):
    """It has the flags that were given, and those that the preview itself says are needed."""
    cli.script(FLOW)
    cli.env |= {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    git(cli, "init", "-q")
    git(cli, "commit", "-q", "--allow-empty", "-m", "mine")
    mine = git(cli, "rev-parse", "HEAD")
    cli("run", "--id", "r", "flow.py:commits")
    told = cli("rewind", "r", "--to", "planned", "--theirs", "--dry-run").out
    (words,) = ways(told)
    assert words[:4] == ["rewind", "r", "--to", "planned"]
    assert set(words[4:]) == {"--git", "--theirs", "--rerun-once"}
    cli(*words)
    assert git(cli, "rev-parse", "HEAD") == mine


def test_a_cut_off_step_is_not_counted_as_running(cli):
    """And if it may have happened, the way on does not promise that the run continues."""
    cli.script(FLOW)
    (cli.directory / "slow").touch()
    process = cli.start("run", "--id", "r", "flow.py:mails")
    cli.wait_for_note("mailing")
    process.kill()
    process.wait()
    told = cli("show", "r").out
    assert "steps     2: 1 completed, 1 cut off\n" in told
    assert "running" not in told and "continues where it stopped" not in told
    assert re.search(r"next +holdfast resume r +email#1 may have happened: .*settle", told)
    cli("resume", "r", code=6)


def test_the_cursor_stays_visible(cli):
    """After `kill -9` of a live display nothing would show it again."""
    cli.script(FLOW)
    _, told = cli.on_a_terminal("run", "--id", "r", "flow.py:mails")
    assert "email#1" in told and "\x1b[?25l" not in told


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_sentence_is_not_broken_inside_a_word(cli, columns):
    """Nor inside a command to copy, on a terminal of any width."""
    cli.script(FLOW)
    cli("run", "--id", "r", "flow.py:stops", code=9)
    for words in (("list",), ("checkpoints", "r"), ("resume", "r"), ("show", "nothing-has-this-id")):
        _, told = cli.on_a_terminal(*words, columns=columns, NO_COLOR="1")
        for line in told.splitlines():
            assert len(line) <= columns or re.fullmatch(r"(?:holdfast:)? *`[^`]+`\S*", line), line


@pytest.mark.parametrize("columns", [40, 50, 60, 80])
def test_lists_fit_the_terminal(cli, columns):
    """Columns give way to the text of a row, and sentences are folded; what names a thing stays."""
    cli("run", "echo", "kelp", "and", "wrack")
    for n in range(3):
        cli("task", "create", f"Weigh the kelp of the outer coast {n}", "--label", "coast")
    cli("task", "start", "#2")
    cli("task", "edit", "#2", "--priority", "0", "--assignee", "kelp-weigher", "--body", "twice")
    cli("remember", "Kelp is weighed twice before it is dried")
    said = {}
    for words in (("list",), ("task", "list"), ("task", "tree", "#2"), ("search", "kelp"), ("op", "log")):
        _, told = cli.on_a_terminal(*words, columns=columns, NO_COLOR="1")
        assert all(cells(line) <= columns for line in told.splitlines()), (words, told)
        said[" ".join(words)] = " ".join(told.split())
    assert "#1" in said["list"] and "echo kelp" in said["list"]
    assert re.search(r"#2 +in progress +P0 .*Weigh the k", said["task list"])
    assert "edited body, priority, assignee of task" in said["op log"]
    _, told = cli.on_a_terminal("doctor", columns=columns, NO_COLOR="1")
    for line in told.splitlines():
        assert cells(line) <= columns or " " not in line.strip() or "`" in line or "/" in line, line


def test_rows_of_a_line():
    """They keep styles and indentation; a command is one word."""
    assert folded("  one two three four five", 20) == [["", "  one two three four"], ["  ", "five"]]
    assert folded([("one two ", "red"), "three four five six"], 20) == [
        ["", ("one two ", "red"), "three four"],
        ["", "five six"],
    ]
    assert folded("one `holdfast show run --all` shows", 20) == [
        ["", "one"],
        ["", "`holdfast show run --all`"],
        ["", "shows"],
    ]
    assert folded(["do ", ("holdfast show run --all", "cyan")], 20) == [
        ["", "do"],
        ["", ("holdfast show run --all", "cyan")],
    ]
    assert folded("as\nit is", 20) == ["as\nit is"]


def test_changes_that_were_taken_back():
    """Without any, only what was kept is told."""
    saved = {"place": "taken_back", "key": "sh#1", "instead_of": "f" * 64, "changes": 0, "kept": ("a", "b")}
    assert list(put_back(saved)) == ["sh#1: kept, because others changed them: a, b"]
    back = "sh#1: 1 change of the earlier attempt rolled back; "
    (told,) = put_back(saved | {"changes": 1})
    assert told.startswith(f"{back}`holdfast workspace restore ffffffffffff` brings it back; kept, because")
    (told,) = put_back(saved | {"changes": 1, "kept": ()})
    assert told == f"{back}`holdfast workspace restore ffffffffffff` brings it back"


def test_a_command_that_failed(cli):
    """No traceback without frames; and a way to roll its files back only if it has changed some."""
    cli("run", "--id", "r", "false", code=1)
    told = cli("show", "r").out
    assert "CommandFailed: false ended" in told
    assert "Traceback" not in told and "--to start" not in told
    cli("run", "--id", "s", "--", "sh", "-c", "echo 1 > made; false", code=1)
    assert "holdfast rewind s --to start" in cli("show", "s").out
    cli.script(FLOW)
    cli("run", "--id", "f", "flow.py:fails", code=1)
    told = cli("show", "f").out
    assert re.search(r'Traceback \(most.*\n +File ".*flow\.py"', told)


def test_the_time_in_which_a_run_waited_is_told(cli):
    """A run that waited for a person was not executed meanwhile."""
    cli.script('@workflow\ndef main():\n    approval("go", show="the letter")\n    return 1\n')
    parked = cli("run", "--id", "r", "flow.py:main", code=5).err
    assert "\nrun r waits for a decision: go\n    the letter\n  holdfast approve r " in parked
    created = datetime.fromisoformat(cli("show", "r", "--json").json()["created_at"])
    while datetime.now(UTC) < created + timedelta(seconds=1.5):
        pass
    cli("approve", "r")
    assert re.search(r"completed r in \d+\.\d s, executed for \d", cli("resume", "r").err)
    cli("run", "--id", "s", "true")
    assert "executed for" not in cli("run", "--id", "t", "true").err


def test_the_time_between_the_end_and_a_rewind_is_no_execution(cli):
    """A run that had completed was not executed until it was rewound."""
    cli.script('@workflow\ndef main():\n    checkpoint("here")\n    return 1\n')
    cli("run", "--id", "r", "flow.py:main")
    ended = datetime.fromisoformat(cli("show", "r", "--json").json()["completed_at"])
    while datetime.now(UTC) < ended + timedelta(seconds=3):
        pass
    cli("rewind", "r", "--to", "here")
    told = re.search(r"completed r in (\d+\.\d) s, executed for (\d+)( ms|\.\d+ s)", cli("resume", "r").err)
    assert told is not None and float(told[1]) >= 3
    assert told[3] == " ms" or int(told[2]) < 2


def test_a_run_that_exists_does_not_look_like_a_new_one(cli):
    """`run` with an id that is known says what `resume` does; a program still gets the result."""
    cli.script(FLOW)
    cli("run", "--id", "r", "flow.py:stops", code=9)
    (cli.directory / "fixed").touch()
    again = cli("run", "--id", "r", "flow.py:stops")
    assert "run r (stops) was interrupted: 1 step is done, " in again.err and "run r: stops" not in again.err
    events = cli("show", "r", "--json", "--events").json()["events"]
    done = cli("run", "--id", "r", "flow.py:stops")
    assert done.out == "3\n"
    assert done.err.startswith("run r is done: it completed ") and "completed r in" not in done.err
    assert cli("run", "--id", "r", "flow.py:stops", "--json").json() == cli("show", "r", "--json").json()
    assert cli("show", "r", "--json", "--events").json()["events"] == events
    assert "r" in cli("run", "--id", "r", "flow.py:mails", code=2).err
    first, second = (cli("run", "--id", "f", "flow.py:fails", code=1).err for _ in range(2))
    assert "run f: fails" in first and "run f failed: ValueError: no; `holdfast resume f`" in second
    assert "run f: fails" not in second
    cli("run", "--id", "c", "--", "echo", "hello")
    done = cli("run", "--id", "c", "--", "echo", "hello")
    assert done.err.startswith("run c is done: it completed ") and done.out == ""


def test_an_operation_that_changes_nothing_is_none(cli):
    """There is nothing to undo, and `undo` takes back the last operation that did something."""
    cli.script(FLOW)
    (cli.directory / "f").write_text("mine\n")
    cli("run", "--id", "r", "--", "sh", "-c", "echo agent > f")
    snapshot = cli("rewind", "r", "--to", "start", "--dry-run", "--json").json()["files"]["snapshot"]
    cli("workspace", "restore", snapshot, "--only", "f")
    before = cli("op", "log", "--json").json()
    for words in (["workspace", "restore", snapshot], ["rewind", "r", "--to", "start"]):
        told = cli(*words, "--only", "f").out
        assert "nothing to change" in told and "next" not in told and "would" not in told
    assert cli("op", "log", "--json").json() == before and len(before) == 1
    cli("undo")
    assert (cli.directory / "f").read_text() == "agent\n"


def test_none_is_nothing_at_a_terminal(cli):
    """A program that parses the output gets `null`."""
    cli.script(FLOW)
    assert cli("run", "flow.py:mails").out == "null\n"
    code, told = cli.on_a_terminal("run", "--id", "t", "flow.py:mails")
    assert code == 0 and "completed" in told and "null" not in told
    assert "null" not in cli.on_a_terminal("run", "--id", "t", "flow.py:mails")[1]


def test_values_are_written_for_people(cli):
    """Input on one line; a dataclass as Python writes it, wherever it is not JSON that was asked for."""
    cli.script(FLOW)
    cli("run", "--id", "r", "flow.py:asks", '["kelp","rock"]')
    told = cli("show", "r").out
    assert 'input     ["kelp","rock"]\n' in told
    assert 'result    Reply(text="kelp", tokens=9)\n' in told
    assert 'result    Reply(text="kelp", tokens=9)\n' in cli("show", "r", "--step", "ask").out
    tagged = cli("show", "r", "--step", "ask", "--json").json()["result"]
    assert tagged == {"$dataclass": ["__main__:Reply", {"text": "kelp", "tokens": 9}]}


def test_long_values_are_indented():
    """Also those that JSON has no form for."""
    reply = {"$dataclass": ["m:Reply", {"text": "a" * 30, "parts": {"$tuple": [1, 2]}}]}
    expected = f'{{\n  "reply": Reply(\n    text="{"a" * 30}",\n    parts=(1, 2)\n  )\n}}'
    assert data_text({"reply": reply}, 40) == expected
    assert data_text({"reply": reply}) == f'{{"reply": Reply(text="{"a" * 30}", parts=(1, 2))}}'
    assert data_text(["a" * 30, 1], 20) == f'[\n  "{"a" * 30}",\n  1\n]'
    assert (compact_text(None), compact_text("a"), compact_text([1, 2])) == ("null", "a", "[1,2]")
    assert (shown_text(None), shown_text("a"), shown_text([1])) == ("", "a", "[\n  1\n]")


@pytest.mark.parametrize("longest", [3599, 86_399, 9.9e7])
def test_durations_of_any_length_share_a_column(longest):
    """In the tree, in the attempts of a step, in the events of a run and in the statistics."""
    assert len(ends_of(tree(took(1.5, longest), Look(now=START)))) == 1

    events = [
        LogEvent("r", n, "StepStarted", START + timedelta(seconds=s), {}) for n, s in ((1, 0), (2, longest))
    ]
    starts = {text_of(line).index("StepStarted") for line in list(showing.timeline(events))[1:]}
    assert len(starts) == 1

    attempts = [
        SimpleNamespace(
            number=n,
            started=START,
            ended=START + timedelta(seconds=s),
            status="failed",
            error=None,
            why="",
            retry=None,
        )
        for n, s in ((1, 1.5), (2, longest))
    ]
    lines = step_showing._attempts(SimpleNamespace(attempts=attempts), whole=True)
    assert len({text_of(line).index("failed") for line in lines}) == 1

    spans = Durations(3, 1_500_000, 2_000_000, int(longest * 1e6))
    found = Statistics(None, [], spans, StepTotals(3, 0, {"completed": 3}), [], 0, "x", 10, 1024)
    lines = [text_of(line) for line in stats.describe(found)]
    ends = [
        line.index(f"  {what}") for what in ("p50", "p95", "longest") for line in lines if f"  {what}" in line
    ]
    assert len(ends) == 3 and len(set(ends)) == 1


def test_events_say_where_a_run_was_taken(cli):
    """A rewind, the undo of it, and a fork."""
    cli.script(FLOW)
    cli("run", "--id", "r", "flow.py:asks", "[]")
    cli("rewind", "r", "--to", "start")
    cli("undo")
    cli("rewind", "r", "--to", "ask")
    told = cli("show", "r", "--events").out
    assert re.search(r"Rewound +to version \d+, generation 1\n", told)
    assert re.search(r"GenerationRestored +to generation 0\n", told)
    assert re.search(r"Rewound +to version \d+ \(after ask#1\), generation 2\n", told)
    cli("fork", "r", "--at", "ask", "--into", "f")
    assert re.search(r"RunForked +of run r  ask#1", cli("show", "f", "--events").out)


def test_diff_stat_counts_lines(cli):
    """Of text; what is compared as a whole is named as such."""
    cli.script(FLOW)
    for name, content in (("a", "1\n2\n3\n"), ("long-name", "-- x\n++ y\n"), ("data", "\0")):
        (cli.directory / name).write_text(content)
    change = "printf '1\\n3\\n4\\n5\\n' > a; rm long-name; printf '\\0\\0' > data; touch empty"
    cli("run", "--id", "r", "--", "sh", "-c", change)
    assert cli("diff", "r", "start", "--stat").out.splitlines() == [
        "modified a         +2 -1",
        "modified data      binary or large",
        "added empty",
        "removed long-name  +0 -2",
    ]


# Lines that a command leaves open


def test_a_line_that_a_command_left_open_is_ended(cli):
    """What follows begins at the left, at a terminal and where both streams are one; standard output in a
    pipe is what the command printed, and nothing else."""
    done = cli("run", "--id", "a", "--", "printf", "kelp")
    assert done.out == "kelp" and "\n\n" not in done.err
    code, text = cli.on_a_terminal("run", "--id", "b", "--", "printf", "kelp", NO_COLOR="1")
    assert code == 0 and "kelp\r\ncompleted b in" in text
    both = subprocess.run(
        cli.argv("run", "--id", "c", "--", "printf", "kelp"),
        cwd=cli.directory, env=cli.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=True,
    ).stdout  # fmt: skip
    assert "kelp\n  printf#1 completed in" in both and "\n\n" not in both
    assert cli("logs", "a").out == "kelp"
    assert cli.on_a_terminal("logs", "a", NO_COLOR="1") == (0, "kelp\r\n")


def test_the_output_of_two_commands_does_not_share_a_line(cli):
    """The lines about steps between them begin at the left; the log shows each below its own heading."""
    cli.script("""
        @workflow
        def main(): command(["printf", "kelp"]); command(["printf", "wrack"])
    """)
    told = cli("run", "--id", "r", "flow.py:main").err
    assert "kelp\n  printf#1 completed" in told and "wrack\n  printf#2 completed" in told
    _, text = cli.on_a_terminal("logs", "r", NO_COLOR="1")
    assert [line.partition(",")[0] for line in text.splitlines()] == [
        "--- printf#1", "kelp", "--- printf#2", "wrack",
    ]  # fmt: skip


def test_quiet_prints_no_output_of_commands(cli):
    """It is recorded all the same. The output of a run that is one command is its result, and is printed."""
    cli.script("""
        @workflow
        def main(): return command(["sh", "-c", "echo kelp; echo wrack >&2"]).exit_code
    """)
    done = cli("run", "-q", "--id", "r", "flow.py:main")
    assert "kelp" not in done.err and "wrack" not in done.err and "completed r in" in done.err
    assert done.out == "0\n"
    assert sorted(cli("logs", "r").out.splitlines()) == ["kelp", "wrack"]
    _, text = cli.on_a_terminal("run", "-q", "--id", "t", "flow.py:main", NO_COLOR="1")
    assert "kelp" not in text and "completed t in" in text
    done = cli("run", "-q", "--id", "c", "--", "echo", "kelp")
    assert done.out == "kelp\n"


def test_nouns_fit_their_numbers():
    """One of a thing is not several, in sentences of every room."""
    assert [counted(count, "line") for count in (0, 1, 2, 1000)] == [
        "0 lines",
        "1 line",
        "2 lines",
        "1,000 lines",
    ]
    assert [unit_for(one, "steps") for one in (1, "1", 2, Decimal("0.5"))] == [
        "step",
        "step",
        "steps",
        "steps",
    ]
    assert unit_for(1, "usd") == "usd"
    assert [amount(size) for size in (0, 1, 2, 1024)] == ["0 bytes", "1 byte", "2 bytes", "1.0 KB"]
    assert [decide([YES], "implementation", ["a"], lines).comment for lines in (1, 2)] == [
        "1 file, 1 line", "1 file, 2 lines",
    ]  # fmt: skip


def test_a_step_is_started_before_it_emits(cli):
    """Also where the log has the emitted value before the start, which is written a moment later."""
    cli.script("""
        from holdfast import emit
        @step
        def count():
            emit("x", 1); emit("x", 2); time.sleep(0.2); emit("x", 3)
        @step
        def quick(): emit("y", 1)
        @workflow
        def main(): count(); quick()
    """)
    told = cli("run", "--id", "r", "flow.py:main").err.splitlines()
    lines = [re.sub(" in .*", "", line) for line in told if line.startswith("  ")]
    assert lines == [
        "  count#1 started", "  x: 1", "  x: 2", "  x: 3", "  count#1 completed",
        "  quick#1 started", "  y: 1", "  quick#1 completed",
    ]  # fmt: skip


# Help


@pytest.mark.parametrize("group", ["task", "plan", "workspace", "mirror", "session", "backup", "op"])
def test_help_is_not_cut(cli, group):
    """At 80 columns the first sentence of each command is whole, on several lines where it is long."""
    commands = cli(group, "--help", COLUMNS="80").out.partition("Commands:")[2]
    assert commands.strip() and "..." not in commands.replace('"..."', "")
    assert max(map(len, commands.splitlines())) <= 80


# Forks


def test_a_fork_names_steps_as_people_do(cli):
    """Not by keys: a step of a plan by its id, items and calls of one name once with their number."""
    (cli.directory / "p.yaml").write_text(
        "name: p\nsteps:\n- {id: list, run: [printf, 'a\\nb\\n']}\n"
        "- {id: each, foreach: list.stdout.lines, run: [echo, '${item}'], effect: idempotent}\n"
        "- {id: last, needs: [each], run: 'true'}\n"
    )
    cli("run", "p.yaml", "--id", "p")
    made = cli("fork", "p", "--at", "last").out
    assert "from p at last\n" in made and "list, each (2)\n" in made and "[1]" not in made
