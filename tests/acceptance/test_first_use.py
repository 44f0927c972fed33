"""The first minutes with the program: run, list, show, resume, logs."""

from __future__ import annotations

import json
import shlex
import subprocess
from datetime import datetime
from textwrap import dedent

import pytest

from holdfast import LogEvent
from holdfast.shell_syntax import shell_syntax

RUN_FIELDS = {
    "id", "workflow", "status", "interrupted", "reason", "parent", "owner_pid", "created_at", "updated_at",
    "completed_at", "title", "input", "stage", "number", "duration_seconds",
}  # fmt: skip


def test_echo_hello(cli):
    """`run "echo hello"` prints hello; the store exists; list shows it; resume says done, writes nothing."""
    ran = cli("run", "echo hello")
    assert ran.out == "hello\n"
    assert (cli.home / "holdfast.db").exists()
    (row,) = cli("list", "--json").json()
    assert (row["workflow"], row["status"]) == ("echo hello", "completed")
    before = cli("show", row["id"], "--events", "--json").json()["events"]
    resumed = cli("resume", row["id"])
    assert "done" in resumed.out
    assert cli("show", row["id"], "--events", "--json").json()["events"] == before


def test_list_json_has_stable_fields(cli):
    """`list --json` is a list of objects with the documented fields; times are ISO 8601 with an offset."""
    cli("run", "true")
    (row,) = cli("list", "--json").json()
    assert set(row) == RUN_FIELDS
    assert datetime.fromisoformat(row["created_at"]).tzinfo is not None
    assert datetime.fromisoformat(row["updated_at"]) >= datetime.fromisoformat(row["created_at"])


def test_show_json_has_stable_fields(cli):
    """`show --json` has the fields of the list and result, error, steps, gates, measured, what it spent and
    the record of a delivery; `--events` adds events."""
    cli.script("""
        @step
        def double(n): return n * 2
        @workflow
        def main(n, add=0): return {"n": double(n) + add}
    """)
    assert json.loads(cli("run", "--id", "one", "flow.py:main", "4", "--arg", "add=1").out) == {"n": 9}
    shown = cli("show", "one", "--json").json()
    more = {"result", "error", "steps", "gates", "measured", "budget", "spent", "deliver", "tasks"}
    assert set(shown) == RUN_FIELDS | more
    assert (shown["result"], shown["error"], shown["gates"]) == ({"n": 9}, None, [])
    (only,) = shown["steps"]
    assert (only["key"], only["status"], only["attempt"]) == ("double#1", "completed", 1)
    events = cli("show", "one", "--json", "--events").json()["events"]
    assert all(event.keys() == LogEvent.JSON.keys() and event["run"] == "one" for event in events)
    assert [event["version"] for event in events] == list(range(1, len(events) + 1))
    assert [event["type"] for event in events][0 :: len(events) - 1] == ["RunCreated", "RunCompleted"]


def test_arguments_are_json_or_text(cli):
    """A word that is JSON becomes that value, any other stays text; after `--` a dash is no option."""
    cli.script("@workflow\ndef main(*args, **kwargs): return [list(args), kwargs]")
    ran = cli(
        "run",
        "flow.py:main",
        "1",
        "two",
        '{"a": null}',
        "--arg",
        "x=[1]",
        "--arg",
        "y=a=b",
        "--",
        "-5",
        "--z",
    )
    assert ran.json() == [[1, "two", {"a": None}, -5, "--z"], {"x": [1], "y": "a=b"}]


def test_function_of_a_module(cli):
    """`module:function` is imported from the working directory."""
    cli.script("@workflow\ndef main(): return 'from a module'", "mod.py")
    assert cli("run", "mod:main").json() == "from a module"


def test_async_workflow(cli):
    """An `async def` workflow runs like any other."""
    cli.script("""
        @step
        async def one(n): return n
        @workflow
        async def main(): return await gather(one(1), one(2))
    """)
    assert cli("run", "flow.py:main").json() == [1, 2]


def test_command_forms(cli):
    """One string is split as a shell does it; words after `--` are taken as they are; no shell runs."""
    assert cli("run", "printf '%s|' 'a b' '$HOME'").out == "a b|$HOME|"
    assert cli("run", "--", "printf", "%s|", "a b", "-n").out == "a b|-n|"
    assert [row["workflow"] for row in cli("list", "--json").json()] == [
        "printf '%s|' 'a b' -n",
        "printf '%s|' 'a b' '$HOME'",
    ]


@pytest.mark.parametrize(
    ("line", "sign"),
    [
        ("echo hi && ls", "&&"),
        ("echo hi&&ls", "&&"),
        ("make | tee log", "|"),
        ("make 2>&1", "2>&1"),
        ("make; echo done", ";"),
        ("sleep 5 &", "&"),
        ("(cd src)", "("),
        ("echo one\necho two", "\n"),
        ("echo $HOME", "$HOME"),
        ('echo "in ${HOME}"', "${HOME}"),
        ("echo $(date)", "$("),
        ('echo "`date`"', "`"),
        ("ls *.py", "*.py"),
        ("ls ~/src", "~/src"),
        ("echo a # b", "#"),
        ("DEBUG=1 make", "DEBUG=1"),
        ("echo '&&' 'a;b' \"x|y\" a\\;b", None),
        ("echo '$HOME' '`date`' a~b a#b x=1", None),
        ("pytest t.py::test[a] -k 'a or b' http://x/?a=1", None),
        ("ls *.nothing '*.py' \\*.py", None),
    ],
)
def test_what_only_a_shell_understands_is_found(line, sign, tmp_path, monkeypatch):
    """Operators and expansions that are not quoted; patterns if they match files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").touch()
    assert shell_syntax(line) == sign


def test_shell_syntax_is_refused_with_the_command_that_has_a_shell(cli):
    """Nothing is run, and what is named to be copied does what was meant."""
    refused = cli("run", "echo hi && echo 'it is' done", code=2)
    assert refused.out == "" and "'&&' needs" in refused.err
    assert not cli.home.exists()
    copied = refused.err.partition("`holdfast ")[2].partition("`")[0]
    assert cli(*shlex.split(copied)).out == "hi\nit is done\n"


def test_command_streams_and_logs(cli):
    """A command's stdout is our stdout, its stderr our stderr; both are kept, secrets are not."""
    ran = cli("run", "--id", "c", "--", "sh", "-c", "echo out; echo err >&2; echo API_TOKEN=abcdef123456")
    assert ran.out == "out\nAPI_TOKEN=[redacted:secret]\n"
    assert "err\n" in ran.err
    assert cli("logs", "c").out.count("\n") == 3
    pieces = cli("logs", "c", "--step", "sh", "--json").json()
    assert {piece["source"] for piece in pieces} == {"stdout", "stderr"}
    assert "abcdef" not in json.dumps(pieces)


@pytest.mark.parametrize("postponed", ["", "from __future__ import annotations\n"])
def test_text_stays_text_where_the_workflow_takes_text(cli, postponed):
    """`version: str` gets "2.0" and no number, also with None, by name, in the rest, and where an annotation
    beside it cannot be resolved; other parameters get JSON if it is some."""
    flow = """
        from typing import Optional
        from holdfast import workflow
        @workflow
        def release(version: str, n: int, note: str | None = None, *tags: str, **more: str):
            return [version, n, note, *tags, more]
        @workflow
        def odd(n, other: "Missing" = 1, *, old: "Optional[str]" = None, table: "dict[str, None]" = 0):
            return [n, other, old, table]
    """
    (cli.directory / "flow.py").write_text(postponed + dedent(flow))
    ran = cli("run", "flow.py:release", "2.0", "2", "null", "true", "--arg", "by=1e3")
    assert ran.json() == ["2.0", 2, "null", "true", {"by": "1e3"}]
    ran = cli("run", "flow.py:release", "--arg", "version=2.0", "--arg", "n=2")
    assert ran.json() == ["2.0", 2, None, {}]
    ran = cli("run", "flow.py:odd", "2", "3", "--arg", "old=4", "--arg", "table=5")
    assert ran.json() == [2, 3, "4", 5]


def test_failing_command_is_told_in_words(cli):
    """A child's own exit code is reported, not returned."""
    ran = cli("run", "--id", "c", "--", "sh", "-c", "exit 42", code=1)
    assert "ended with code 42" in ran.err
    assert cli.status("c") == "failed"


def test_run_json_prints_the_run(cli):
    """`run --json` prints the object of `show`; a command's output then goes to stderr."""
    ran = cli("run", "--json", "echo hello")
    assert ran.json()["status"] == "completed"
    assert "hello" in ran.err


def test_lines_in_a_pipe(cli):
    """In a pipe each transition is one line on stderr, and nothing but the result is on stdout."""
    cli.script("""
        @step(retry=Retry(attempts=2, initial=0.01))
        def flaky():
            note("flaky")
            if Path("side.txt").read_text().count("flaky") < 2: raise ValueError("no")
            return 1
        @workflow
        def main(): return flaky()
    """)
    ran = cli("run", "flow.py:main", "--id", "p")
    assert ran.out == "1\n"
    assert [line.split(" in ")[0].strip() for line in ran.err.splitlines()] == [
        "run p: main",
        "flaky#1 started",
        "flaky#1 failed (attempt 1): ValueError: no; again",
        "flaky#1 started (attempt 2)",
        "flaky#1 completed",
        "completed p",
    ]
    assert "\x1b" not in ran.err


def test_quietly(cli):
    """`--quiet`: no line for a step, no tree, and nothing that commands print; the title and the end stay."""
    cli.script("""
        @step
        def one(): return 1
        @workflow
        def main(): command(["sh", "-c", "echo hello >&2"]); return one()
    """)
    ran = cli("run", "--quiet", "flow.py:main", "--id", "p")
    assert ran.out == "1\n"
    assert [line.split(" in ")[0] for line in ran.err.splitlines()] == ["run p: main", "completed p"]
    cli("rewind", "p", "--to", "sh")
    resumed = cli("resume", "-q", "p").err.splitlines()
    assert [line.split(" in ")[0] for line in resumed[1:]] == ["completed p"]
    _, screen = cli.on_a_terminal("run", "-q", "flow.py:main", NO_COLOR="1")
    assert "one#1" not in screen and "hello" not in screen and "completed" in screen


def test_a_prefix_of_an_id_is_enough(cli):
    """Ids may be cut short everywhere, as long as only one run begins so."""
    for run_id in ("kelp-1", "kelp-2", "rock"):
        cli("run", "--id", run_id, "true")
    assert cli("show", "ro", "--json").json()["id"] == "rock"
    assert "rock" in cli("resume", "r").out
    ambiguous = cli("show", "kelp", code=2)
    assert "kelp-1, kelp-2" in ambiguous.err


def test_list_filters(cli):
    """`--status`, `--resumable` and `--limit` choose; the newest comes first."""
    cli("run", "--id", "a", "true")
    cli("run", "--id", "b", "false", code=1)
    cli("run", "--id", "c", "true")
    ids = lambda *words: [row["id"] for row in cli("list", "--json", *words).json()]  # noqa: E731
    assert ids() == ["c", "b", "a"]
    assert ids("--status", "completed") == ["c", "a"]
    assert ids("--resumable") == ["b"]
    assert ids("--limit", "1") == ["c"]


def test_list_in_a_pipe_and_on_a_terminal(cli):
    """A pipe gets plain columns and whole times; a terminal gets colours and how long ago it was."""
    cli("run", "--id", "kelp", "true")
    piped = cli("list").out.splitlines()
    assert piped[0].split() == ["ID", "STATUS", "CREATED", "UPDATED", "TOOK", "NUMBER", "WORKFLOW"]
    assert piped[1].split()[:2] == ["kelp", "completed"]
    assert "\x1b" not in "".join(piped)
    code, screen = cli.on_a_terminal("list")
    assert code == 0
    assert "\x1b[32mcompleted" in screen
    assert "ago" in screen or "just now" in screen
    assert "\x1b" not in cli.on_a_terminal("list", NO_COLOR="1")[1]


def test_nothing_is_wider_than_the_terminal(cli):
    """On a narrow terminal lines are cut, not wrapped."""
    cli("run", "--id", "kelp", "echo " + "long " * 30)
    _, screen = cli.on_a_terminal("list", columns=60, NO_COLOR="1")
    assert all(len(line) <= 60 for line in screen.splitlines())


def test_live_tree_on_a_terminal(cli):
    """On a terminal the steps are drawn as a tree, and the result follows."""
    cli.script("""
        @step
        def one(): time.sleep(0.2)
        @workflow
        def main(): one(); return "the result"
    """)
    code, screen = cli.on_a_terminal("run", "flow.py:main")
    assert code == 0
    assert "✓" in screen
    assert "one#1" in screen
    assert '"the result"' in screen


def test_a_terminal_does_not_obey_a_name(cli):
    """Escape sequences in a command line are shown, not sent to the terminal."""
    cli("run", "--id", "x", "--", "true", "\x1b[2J\x1b]0;title\x07")
    for words in (("list",), ("show", "x")):
        assert "\x1b" not in cli(*words).out


@pytest.mark.parametrize("words", [["list"], ["task", "export", "-"]], ids=" ".join)
def test_closed_pipe_ends_quietly(cli, words):
    """`holdfast list | head -0` says nothing and is no failure."""
    import os
    import subprocess

    for n in range(3):
        cli("run", "--id", f"r{n}", "true")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        cli.argv(*words), cwd=cli.directory, env=cli.env, stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_same_id_again(cli):
    """Starting an id that exists gives its result without running anything again."""
    cli.script('@step\ndef one(): note("one"); return 1\n@workflow\ndef main(n): return one() + n')
    assert cli("run", "flow.py:main", "1", "--id", "x").json() == 2
    assert cli("run", "flow.py:main", "1", "--id", "x").json() == 2
    assert cli.notes()["one"] == 1
    assert "other arguments" in cli("run", "flow.py:main", "2", "--id", "x", code=2).err


def test_help_and_version(cli):
    """`-h` and `--help` work everywhere; every command has a line."""
    top = cli("--help").out
    assert cli("--version").out.startswith("holdfast ")
    for name in (
        "run",
        "resume",
        "settle",
        "list",
        "show",
        "logs",
        "audit",
        "repair",
        "doctor",
        "config",
        "demo",
    ):
        assert f"  {name} " in top
        assert cli(name, "-h").out.startswith("Usage: holdfast ")


def test_a_step_is_known_by_its_name(cli):
    """`ask` is enough for `ask#1`, for `ask@7`, which has a key of its own, and inside a branch."""
    cli.script("""
        @step
        def ask(n): return n
        @step
        def tell(n): return n
        @workflow
        def main(): return parallel(lambda n: ask.with_key(7)(n) + tell(n), [1])
    """)
    cli("run", "flow.py:main", "--id", "x")
    whole = [step["key"] for step in cli("show", "x", "--json").json()["steps"]]
    assert [key.rpartition("/")[2] for key in whole] == ["ask@7", "tell#1"]
    for name in ("ask", "tell", *whole):
        told = cli("logs", "x", "--step", name).err
        assert told == f"{name} of run x printed nothing\n"
    for name in ("as", "7", "tell#2", "ask@"):
        cli("logs", "x", "--step", name, code=3)


def test_resuming_can_be_switched_off(cli):
    """Then nothing is pointed out, and nothing is continued by itself; a run that is named, is."""
    cli.script(
        "import time\nfrom pathlib import Path\nfrom holdfast import step, workflow\n\n"
        "@step\ndef nap() -> None:\n    Path('napping').touch()\n"
        "    time.sleep(0 if Path('again').exists() else 600)\n\n"
        "@workflow\ndef flow() -> int:\n    nap()\n    return 1\n"
    )
    process = cli.start("run", "--id", "x", "flow.py:flow")
    while not (cli.directory / "napping").exists() or "x" not in cli("list").out:
        pass
    process.kill()
    process.wait()
    (cli.directory / "again").touch()
    assert "1 interrupted run: x" in cli("list").err
    assert cli("list", HOLDFAST_RESUME="false").err == ""
    assert "the setting `resume` is off" in cli("resume", "--all", HOLDFAST_RESUME="false", code=2).err
    assert cli("resume", "x", HOLDFAST_RESUME="false").out == "1\n"


def test_a_script_in_another_directory_has_another_store(cli):
    """Its ids mean other runs there: it says so before the first of them begins, and only then."""
    cli.script(
        """
        @workflow
        def main():
            return note("ran")

        if __name__ == "__main__":
            with Holdfast() as hf:
                hf.with_id("report").run(main)
        """
    )
    elsewhere = cli.directory.parent / "elsewhere"
    elsewhere.mkdir()
    del cli.env["HOLDFAST_HOME"]
    cli.env["XDG_DATA_HOME"] = str(cli.directory.parent / "data")
    said = [
        subprocess.run(
            [cli.python, str(cli.directory / "flow.py")],
            cwd=where, env=cli.env, capture_output=True, text=True, check=True,
        ).stderr
        for where in (cli.directory, cli.directory, elsewhere, elsewhere)
    ]  # fmt: skip
    assert ["a new store is made" in one for one in said] == [False, False, True, False]
    assert "HOLDFAST_HOME" in said[2]
