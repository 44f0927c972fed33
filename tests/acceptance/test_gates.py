"""Approvals and signals with the installed program: from other processes, at a terminal, under kill -9."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

FLOW = """
    @step
    def draft(): note("draft"); return "Dear all,\\nhere it is."
    @step
    def send(text): note("send"); return f"sent {len(text)}"
    @workflow
    def letter():
        text = draft()
        decision = approval("send the letter", show=text)
        return send(text) if decision.outcome == "approved" else f"{decision.outcome}: {decision.comment}"
    @workflow
    def order():
        paid = wait_for("paid")
        return [paid, wait_for("shipped")]
    @workflow
    def two():
        return [d.outcome for d in parallel(ask, ["first", "second"])]
    def ask(what): return approval(what, show={"amount": 12, "to": what})
    @workflow
    def outer(): note("outer"); return letter()
    @workflow
    def naps(): sleep(2.5); note("woke"); return "slept"
    @workflow
    def hurries(): return approval("now", timeout=1.5).outcome
    @step
    def slow():
        note("slow")
        while not Path("go").exists(): time.sleep(0.01)
        return 1
    @step
    def half_a_second(): time.sleep(0.5)
    @workflow
    def twice():
        first = approval("the first").outcome
        half_a_second()
        return [first, approval("the second").outcome]
    @workflow
    def slowly(): slow(); note("after"); return send("x")
"""


@pytest.fixture
def flow(cli):
    cli.script(FLOW)
    return cli


def gates(cli, run_id):
    return cli("show", run_id, "--json").json()["gates"]


def at_the_gate(cli, workflow="letter", run_id="x"):
    """A run that waits, and no process that lives."""
    return cli("run", "--id", run_id, f"flow.py:{workflow}", code=5)


# The documentation


def python_blocks(page):
    text = (Path(__file__).parents[2] / page).read_text()
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_example_of_the_guide(cli):
    """It waits for a decision, then for a signal, then it sends."""
    (cli.directory / "letter.py").write_text(python_blocks("docs/guide-approvals.md")[0])
    cli("run", "--id", "letter-1", "letter.py:letter", "kelp", code=5)
    cli("approve", "letter-1", "send-the-letter#1")
    cli("resume", "letter-1", code=5)
    cli("signal", "letter-1", "address", '"Rock 7"')
    assert cli("resume", "letter-1").json() == "sent: All there is to say about kelp. To Rock 7."


def test_the_approval_of_the_readme(cli):
    """Its example of a gate works where it is told to be put: at the end of the first."""
    first, *others = python_blocks("README.md")
    (second,) = [block for block in others if "approval(" in block]
    (cli.directory / "flow.py").write_text(first + second)
    cli("run", "--id", "kelp-2", "flow.py:reviewed", '["kelp"]', code=5)
    cli("approve", "kelp-2")
    assert cli("resume", "kelp-2").json() == "sent 13 characters"


# Deciding and continuing at once


@pytest.mark.parametrize(
    ("workflow", "words", "result"),
    [
        ("letter", ["approve", "x", "--resume"], "sent 21"),
        ("letter", ["reject", "x", "--resume", "--comment", "no"], "rejected: no"),
        ("waits", ["signal", "x", "paid", "7", "--resume"], 7),
        ("outer", ["approve", "x.letter-1", "--resume"], "sent 21"),
    ],
)
def test_decide_and_resume(flow, workflow, words, result):
    """One command: what was decided is said on stderr, and the run's result is the output; a run that a child
    run of it waits in continues, too."""
    flow.script(FLOW + '    @workflow\n    def waits(): return wait_for("paid")\n')
    at_the_gate(flow, workflow)
    if workflow == "outer":
        (child,) = [run["id"] for run in flow("list", "--children", "--json").json() if run["parent"]]
        words = [child if word == "x.letter-1" else word for word in words]
    decided = flow(*words)
    assert decided.json() == result
    assert "it continues here" in decided.err
    assert flow.status("x") == "completed"


def test_decide_and_resume_as_json(flow):
    """The run as `resume --json` prints it; its exit code is that of `resume`."""
    at_the_gate(flow)
    assert flow("approve", "x", "--resume", "--json").json()["result"] == "sent 21"
    at_the_gate(flow, "order", "y")
    assert "waits for the signal shipped" in flow("signal", "y", "paid", "1", "--resume", code=5).err


@pytest.mark.parametrize(
    ("workflow", "words", "fields"),
    [
        ("letter", ["approve", "x"], {"outcome": "approved"}),
        ("waits", ["signal", "x", "paid", "7"], {"name": "paid", "taken": True}),
    ],
)
def test_decide_and_resume_what_a_live_process_resumes(flow, workflow, words, fields, wait_until):
    """Nothing is left to follow here: the output is the decision, as JSON or as a sentence."""
    flow.script(FLOW + '    @workflow\n    def waits(): return wait_for("paid")\n')
    at_the_gate(flow, workflow)
    serving = flow.start("resume", "--all", "--follow")
    assert "serves the runs" in serving.stderr.readline()
    decided = flow(*words, "--resume", "--json").json()
    assert {"run": "x", **fields}.items() <= decided.items()
    wait_until(lambda: flow.status("x") == "completed", "the end")
    flow("run", "--id", "y", f"flow.py:{workflow}", code=5)
    told = flow(*("y" if word == "x" else word for word in words), "--resume")
    assert "run y" in told.out and "it continues here" not in told.out + told.err


def test_settle_and_resume(cli):
    """The step that was cut off is settled, and the run ends."""
    cli.script(
        """
        @step(effect="once")
        def send(): note("send"); time.sleep(60)
        @workflow
        def main(): return send()
        """
    )
    run = cli.start("run", "--id", "x", "flow.py:main")
    cli.wait_for_note("send")
    run.kill()
    run.communicate()
    cli("resume", "x", code=6)
    assert cli("settle", "x", "send", "--done", '"sent"', "--resume").json() == "sent"


# Without a terminal


def test_a_run_at_a_gate_is_left(flow):
    """Exit code 5, and each command that moves it on; each of them works as it is printed."""
    left = at_the_gate(flow)
    assert "\nrun x waits for a decision: send the letter\n    " in left.err
    (gate,) = gates(flow, "x")
    approve = next(line.split("  ")[1] for line in left.err.splitlines() if "approve x" in line)
    assert approve == f"holdfast approve x 'send-the-letter#1@{gate['digest'][:6]}'"
    assert "holdfast reject x 'send-the-letter#1@" in left.err and "holdfast resume x " in left.err
    assert flow("resume", "x", code=5).err.count("holdfast approve x") == 1
    decided = flow("approve", "x", f"send-the-letter#1@{gate['digest'][:6]}", "--by", "ann")
    assert "is approved; `holdfast resume x` continues" in decided.out
    assert flow("resume", "x").json() == "sent 21"
    assert flow.notes() == {"draft": 1, "send": 1}


def test_show_json_has_the_gates(flow):
    """With the documented fields, open and decided; what was shown stays."""
    at_the_gate(flow)
    (gate,) = gates(flow, "x")
    opened_at, digest = gate.pop("opened_at"), gate.pop("digest")
    assert len(digest) == 64 and opened_at
    shown = {"key": "send-the-letter#1", "kind": "approval", "title": "send the letter", "until": None,
             "shown": "Dear all,\nhere it is."}  # fmt: skip
    assert gate == shown | {
        "status": "open",
        "outcome": None,
        "by": None,
        "comment": None,
        "decided_at": None,
    }
    rejected = flow("reject", "x", "--by", "ann", "--comment", "too short", "--json").json()
    assert rejected.pop("digest") == digest
    assert rejected == {"run": "x", "gate": "send-the-letter#1", "outcome": "rejected", "by": "ann",
                        "comment": "too short", "status": "pending", "owner_pid": None}  # fmt: skip
    (gate,) = gates(flow, "x")
    assert gate.pop("decided_at") > gate.pop("opened_at")
    del gate["digest"]
    assert gate == shown | {
        "status": "decided", "outcome": "rejected", "by": "ann", "comment": "too short"
    }  # fmt: skip
    assert flow("resume", "x").json() == "rejected: too short"


def test_a_run_whose_gate_is_decided_says_what_is_next(flow):
    """Nobody executes it: `show` has the command, and so has an approval that comes too late."""
    flow("run", "--id", "x", "flow.py:letter", code=5)
    flow("approve", "x")
    assert "next      holdfast resume x  continues, unless a live process does" in flow("show", "x").out
    late = flow("approve", "x", code=2).err
    assert "was decided before: approved by " in late and "; `holdfast resume x` continues" in late
    flow("run", "--id", "y", "flow.py:order", code=5)
    told = flow("approve", "y", code=2).err
    assert "run y has no open gate; `holdfast signal y paid VALUE` gives it the value" in told
    assert flow("resume", "x").json() == "sent 21"


PAYING = """
    @step(effect="once")
    def pay(): note("pay"); time.sleep(30)
    @workflow
    def pays(): return pay()
"""


def test_a_decision_on_a_run_that_needs_attention_names_the_command_that_says_why(cli):
    """It has no gate, and resuming it alone does not help."""
    cli.script(PAYING)
    process = cli.start("run", "--id", "z", "flow.py:pays")
    cli.wait_for_note("pay")
    process.kill()
    process.wait()
    cli("resume", "z", code=6)
    told = cli("approve", "z", code=None)
    assert told.code != 0
    assert "run z has no open gate: it needs attention; `holdfast show z` says what for" in told.err


def test_a_run_that_waits_for_a_signal(flow):
    """Named with its command; a value is JSON or text; one that comes too early is kept."""
    left = at_the_gate(flow, "order")
    assert "waits for the signal paid" in left.err and "holdfast signal x paid VALUE" in left.err
    assert "kept for the next wait_for('shipped')" in flow("signal", "x", "shipped", "by sea").out
    assert flow("signal", "x", "paid", '{"eur": 3}', "--json").json() == {
        "run": "x", "name": "paid", "taken": True, "status": "pending", "owner_pid": None,
    }  # fmt: skip
    assert flow("resume", "x").json() == [{"eur": 3}, "by sea"]


def test_a_live_process_goes_on(flow, wait_until):
    """A process that waits for its run takes it up; who decides is told which one."""
    script = flow.directory / "flow.py"
    script.write_text(script.read_text() + "\nwith Holdfast() as hf: print(hf.with_id('x').run(letter))\n")
    process = subprocess.Popen(
        [flow.python, "flow.py"], cwd=flow.directory, env=flow.env, stdout=subprocess.PIPE, text=True
    )
    try:
        wait_until(lambda: "waiting" in flow("list").out, "the gate")
        told = flow("approve", "x").out
        assert f"process {process.pid} continues it" in told or "continued, and is completed" in told
        assert process.communicate(timeout=20)[0] == "sent 21\n"
    finally:
        process.kill()


def test_what_does_not_fit_is_refused(flow):
    """Several gates and none named, another content, a second decision, a run that has ended: a sentence."""
    at_the_gate(flow, "two")
    several = flow("approve", "x", code=2).err
    (first, second) = gates(flow, "x")
    assert "several open gates, say which" in several
    assert first["digest"][:6] in several and second["digest"][:6] in several
    assert (
        "shows something else than what you have seen"
        in flow("approve", "x", f"first@{second['digest'][:6]}", code=2).err
    )
    assert "has no gate 'third'" in flow("approve", "x", "third", code=2).err
    assert "`holdfast resume x` continues" in flow("approve", "x", "first").out
    assert "was decided before: approved" in flow("reject", "x", "first", code=2).err
    assert [gate["outcome"] for gate in gates(flow, "x")] == ["approved", None]
    flow("reject", "x", f"{second['key']}@{second['digest']}")
    assert "was decided before: rejected" in flow("approve", "x", "second", code=2).err
    assert flow("resume", "x").json() == ["approved", "rejected"]
    for words in (("approve", "x"), ("signal", "x", "go"), ("cancel", "x"), ("pause", "x")):
        assert "run x has ended (completed); there is nothing to" in flow(*words, code=2).err
    assert "no run has the id 'y'" in flow("approve", "y", code=3).err


def test_a_gate_in_a_child_run(flow):
    """The parent waits too, and says whose gate it is; decided there, the parent continues."""
    left = at_the_gate(flow, "outer")
    assert "holdfast approve x.letter-1 " in left.err
    assert "its child runs have: x.letter-1 send-the-letter#1@" in flow("approve", "x", code=2).err
    assert "of run x.letter-1" in flow("show", "x").out
    assert "`holdfast resume x` continues" in flow("approve", "x.letter-1").out
    assert flow("resume", "x").json() == "sent 21"


def test_a_gate_whose_time_is_over(flow):
    """It is said until when; afterwards `resume` continues without an answer."""
    at_the_gate(flow, "hurries")
    assert " until 20" in flow("show", "x").out
    time.sleep(1.6)
    assert flow("resume", "x").json() == "unanswered"
    assert "unanswered" in flow("show", "x").out


def test_the_foreground_waits_for_a_sleep(flow):
    """It says until when, and continues."""
    ran = flow("run", "--id", "x", "flow.py:naps")
    assert ran.json() == "slept"
    assert "sleep#1 until 20" in ran.err
    assert flow.notes() == {"woke": 1}


def test_ctrl_c_while_it_sleeps(flow, wait_until):
    """130; the run sleeps on, and `resume` waits for its end."""
    process = flow.start("run", "--id", "x", "flow.py:naps")
    wait_until(lambda: "sleeping" in flow("list").out, "the sleep")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "run x sleeps until 20" in err and "`holdfast resume x`" in err
    assert flow("resume", "x").json() == "slept"


# Pause and cancel


def test_pause_and_cancel_of_a_live_run(flow):
    """The foreground ends with 7 and with 1, and says why."""
    process = flow.start("run", "--id", "x", "flow.py:slowly")
    flow.wait_for_note("slow")
    slow = flow("pause", "x", "--timeout", "0.2", "--reason", "lunch", code=4)
    assert f"process {process.pid} has not done it within 0.2 s" in slow.err
    (flow.directory / "go").touch()
    _, err = process.communicate(timeout=10)
    assert (process.returncode, "run x is paused: lunch" in err) == (7, True)
    assert flow("pause", "x").out == "run x is paused; `holdfast resume x` continues\n"
    assert flow("resume", "x").json() == "sent 1"
    process = flow.start("run", "--id", "y", "--effect", "once", "--", "sh", "-c", "touch up; sleep 60")
    while not (flow.directory / "up").exists():
        time.sleep(0.01)
    told = flow("cancel", "y", "--reason", "enough").out
    assert told == "run y is cancelled; sh#1 was cut off and may or may not have happened\n"
    _, err = process.communicate(timeout=10)
    assert (process.returncode, "run y was cancelled: enough" in err) == (1, True)
    assert flow.status("y") == "cancelled"


def test_pause_and_cancel_of_a_run_that_waits(flow):
    """Nobody needs to live for it."""
    at_the_gate(flow)
    assert flow("pause", "x", "--json").json() == {"run": "x", "status": "paused", "owner_pid": None}
    assert "is paused" in flow("show", "x").out or flow.status("x") == "paused"
    assert flow("resume", "x", code=5)
    assert flow("cancel", "x").out == "run x is cancelled\n"
    assert "there is nothing to decide" in flow("approve", "x", code=2).err


# At a terminal


def test_somebody_at_the_terminal_approves(flow):
    """Title and content are shown, the answer is asked for, and the run continues."""
    terminal = flow.at_a_terminal("run", "--id", "x", "flow.py:letter")
    terminal.expect("send the letter")
    terminal.expect("here it is.")
    terminal.expect("approve (a), reject (r), or decide later (l)?")
    terminal.type("what\n")
    terminal.expect("a, r or l?")
    terminal.type("a\n")
    code, text = terminal.end()
    assert (code, '"sent 21"' in text) == (0, True)
    assert "approved by " in text
    assert "draft#1" not in text.rpartition("a, r or l?")[2]  # it stands above the question
    assert flow.notes() == {"draft": 1, "send": 1}


def test_somebody_at_the_terminal_rejects(flow):
    """The comment is asked for."""
    terminal = flow.at_a_terminal("run", "--id", "x", "flow.py:letter")
    terminal.expect("later (l)?")
    terminal.type("reject\n")
    terminal.expect("why")
    terminal.type("too short\n")
    code, text = terminal.end()
    assert (code, '"rejected: too short"' in text) == (0, True)
    assert gates(flow, "x")[0]["comment"] == "too short"


@pytest.mark.parametrize("keys", ["l\n", "\x04", "\x03", "r\n\x04"])
def test_somebody_at_the_terminal_goes_away(flow, keys):
    """Later, the end of the input and Ctrl-C decide nothing: exit code 5, with the commands to continue."""
    terminal = flow.at_a_terminal("run", "--id", "x", "flow.py:letter")
    terminal.expect("later (l)?")
    for key in keys.split("\n"):
        if key:
            terminal.type(key if key < " " else f"{key}\n")
            time.sleep(0.1)
    code, text = terminal.end()
    assert (code, "holdfast approve x" in text) == (5, True)
    assert gates(flow, "x")[0]["status"] == "open"
    assert "Traceback" not in text


def test_somebody_else_decides_first(flow):
    """The question at the terminal ends, and the run continues there."""
    terminal = flow.at_a_terminal("run", "--id", "x", "flow.py:letter")
    terminal.expect("later (l)?")
    flow("approve", "x", "--by", "ann")
    terminal.expect("approved by ann")
    terminal.expect("meanwhile")
    code, text = terminal.end()
    assert (code, '"sent 21"' in text) == (0, True)


def test_an_answer_that_was_typed_ahead_decides_nothing(flow):
    """A key that was pressed twice answers the question that was there, not one that nobody has seen yet."""
    terminal = flow.at_a_terminal("run", "--id", "x", "flow.py:twice")
    terminal.expect("later (l)?")
    terminal.type("a\na\n")
    terminal.expect("the second")
    terminal.expect("later (l)?")
    time.sleep(0.3)
    first, second = gates(flow, "x")
    assert (first["outcome"], second["status"]) == ("approved", "open")
    terminal.type("r\n")
    terminal.expect("why")
    terminal.type("\n")
    assert terminal.end()[0] == 0
    assert [gate["outcome"] for gate in gates(flow, "x")] == ["approved", "rejected"]


LONG = """
    @workflow
    def long(lines: int, wide: int = 1):
        text = "\\n".join(f"line {n} of the diff " + "w" * wide + "." for n in range(1, lines + 1))
        return approval("apply the diff", show=text).outcome
"""


def test_what_was_not_shown_is_counted_in_the_question(flow):
    """Of 120 lines those that fit on the terminal; `s` shows all of them in the pager, and asks again."""
    flow.script(LONG)
    terminal = flow.at_a_terminal("run", "--id", "x", "flow.py:long", "120", PAGER="cat", NO_COLOR="1")
    text = terminal.expect("90 of 120 lines are not shown: show all (s), approve (a), reject (r), or decide")
    assert "line 30 of the diff w." in text and "line 31 " not in text
    terminal.type("what\n")
    terminal.expect("s, a, r or l?")
    terminal.type("s\n")
    terminal.expect("line 120 of the diff w.")
    text = terminal.expect("approve (a), reject (r), or decide later (l)?")
    assert "not shown" not in text.rpartition("line 120")[2]
    terminal.type("a\n")
    assert terminal.end()[0] == 0
    assert flow("show", "x", "--json").json()["result"] == "approved"


def test_wide_lines_are_wrapped_not_cut(flow):
    """All of a line is there, on as many rows as it takes; one that does not fit is counted as not shown."""
    flow.script(LONG)
    terminal = flow.at_a_terminal("run", "--id", "x", "flow.py:long", "2", "300", columns=60, NO_COLOR="1")
    text = terminal.expect("\napprove (a)")
    body = text.partition("line 1 ")[2].replace("\r\n  ", "")
    assert body.startswith("of the diff " + "w" * 300 + ".line 2 of the diff " + "w" * 300 + ".")
    assert max(map(len, text.partition("\r\napply the diff")[2].replace("\r", "").split("\n"))) <= 60
    terminal.type("l\n")
    terminal.end()
    terminal = flow.at_a_terminal("run", "--id", "y", "flow.py:long", "1", "9000", columns=60, NO_COLOR="1")
    terminal.expect("A part is not shown: show all (s)")


def test_ctrl_c_in_the_pager_is_not_for_the_run(flow):
    """The pager has the terminal; when it is left, the question stands. A decision from elsewhere ends it."""
    flow.script(LONG)
    pager = flow.directory / "pager.py"
    pager.write_text(
        "import sys, signal\n"
        "sys.stdin.read()\n"
        "tty = open('/dev/tty', 'rb+', 0)\n"
        "signal.signal(signal.SIGINT, lambda *_: (tty.write(b'PAGER LEFT\\n'), sys.exit()))\n"
        "tty.write(b'PAGER HERE\\n')\n"
        "tty.read(1)\n"
    )
    terminal = flow.at_a_terminal(
        "run", "--id", "x", "flow.py:long", "99", PAGER=f"{flow.python} {pager}", NO_COLOR="1"
    )
    terminal.expect("not shown")
    terminal.type("s\n")
    terminal.expect("PAGER HERE")
    terminal.type("\x03")
    terminal.expect("PAGER LEFT")
    terminal.expect("approve (a)")
    terminal.type("s\n")
    terminal.expect("PAGER HERE")
    flow("approve", "x", "--by", "ann")
    code, text = terminal.end()
    assert code == 0 and "stopping" not in text


def test_ctrl_z_in_the_pager_leaves_it(flow):
    """No shell would continue it: it ends, the terminal has its mode back, the question stands."""
    flow.script(LONG)
    pager = flow.directory / "pager.py"
    pager.write_text(
        "import sys, tty\n"
        "sys.stdin.read()\n"
        "terminal = open('/dev/tty', 'rb+', 0)\n"
        "tty.setcbreak(terminal)\n"
        "terminal.write(b'PAGER HERE\\n')\n"
        "terminal.read(1)\n"
    )
    terminal = flow.at_a_terminal(
        "run", "--id", "x", "flow.py:long", "99", PAGER=f"{flow.python} {pager}", NO_COLOR="1"
    )
    terminal.expect("not shown")
    before = terminal.mode()
    for _ in range(2):
        terminal.type("s\n")
        terminal.expect("PAGER HERE")
        assert terminal.mode() != before
        terminal.type("\x1a")
        terminal.expect("approve (a)")
        assert terminal.mode() == before
    terminal.type("a\n")
    assert terminal.end()[0] == 0


def test_what_is_approved_hides_no_line_end(flow):
    """Characters that end a line only for some programs are marked in the question, and no text vanishes."""
    flow.script(r"""
        @workflow
        def odd():
            return approval("apply", show="one\u2028two\x85three\x0cfour\x1cfive\rsix\nseven").outcome
    """)
    terminal = flow.at_a_terminal("run", "--id", "x", "flow.py:odd", NO_COLOR="1")
    text = terminal.expect("approve (a)")
    assert "  one<U+2028>two<U+0085>three\u240cfour\u241cfive\r\n  six\r\n  seven\r\n" in text
    terminal.type("l\n")
    terminal.end()


def test_a_signal_ends_the_pager(flow):
    """SIGTERM to a run whose question is in the pager: it stops, and so does the pager."""
    flow.script(LONG)
    terminal = flow.at_a_terminal(
        "run", "--id", "x", "flow.py:long", "99", PAGER="sh -c 'echo HERE; sleep 60'"
    )
    terminal.expect("not shown")
    terminal.type("s\n")
    terminal.expect("HERE")
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.end()[0] == 5


def test_two_questions_at_the_terminal(flow):
    """One after the other, data as indented JSON; and a gate of a child run is asked for too."""
    terminal = flow.at_a_terminal("run", "--id", "x", "flow.py:two")
    terminal.expect('"amount": 12')
    terminal.expect("later (l)?")
    terminal.type("a\n")
    terminal.expect('"amount": 12')
    terminal.expect("later (l)?")
    terminal.type("r\n")
    terminal.expect("why")
    terminal.type("\n")
    assert terminal.end()[0] == 0
    assert sorted(gate["outcome"] for gate in gates(flow, "x")) == ["approved", "rejected"]
    terminal = flow.at_a_terminal("run", "--id", "y", "flow.py:outer")
    terminal.expect("later (l)?")
    terminal.type("a\n")
    assert terminal.end()[0] == 0
    assert flow.status("y") == "completed"


def test_a_signal_at_the_terminal(flow):
    """It is said how to send it; the run waits, and continues by itself. Ctrl-C leaves it waiting."""
    terminal = flow.at_a_terminal("run", "--id", "x", "flow.py:order")
    terminal.expect("holdfast signal x paid VALUE")
    flow("signal", "x", "paid", "1")
    terminal.expect("holdfast signal x shipped VALUE")
    terminal.type("\x03")
    code, text = terminal.end()
    assert (code, "stopping at the next step" in text) == (5, False)
    flow("signal", "x", "shipped", "2")
    assert flow("resume", "x").json() == [1, 2]


# kill -9


def kill_at(cli, point, *words):
    """Run a command that strace kills at the Nth call of a kind; what it had said by then."""
    call, number = point
    inject = ["-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={number}"]
    done = subprocess.run(
        ["strace", "-f", "-qq", "-o", "/dev/null", *inject, *cli.argv(*words)],
        cwd=cli.directory,
        env=cli.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize(
    ("deciding", "resuming"),
    [
        (("pwrite64", 1), ("pwrite64", 2)),
        (("pwrite64", 6), ("fdatasync", 1)),
        (("pwrite64", 12), ("pwrite64", 12)),
        (("pwrite64", 18), ("fdatasync", 2)),
        (("pwrite64", 24), ("pwrite64", 25)),
        (("fdatasync", 1), ("fdatasync", 3)),
        (("fdatasync", 2), ("pwrite64", 40)),
        (("flock", 1), ("fdatasync", 5)),
        (("flock", 2), ("pwrite64", 55)),
        (("unlink", 1), ("unlink", 1)),
    ],
    ids=str,
)
def test_killed_while_deciding_and_while_resuming(flow, deciding, resuming):
    """Wherever the deciding and the resuming process are killed: what was said is true, the gate is decided
    once, and `resume` continues from there."""
    at_the_gate(flow)
    said = kill_at(flow, deciding, "approve", "x", "--by", "ann")
    (gate,) = gates(flow, "x")
    if gate["status"] == "open":
        assert said == ""
        flow("approve", "x", "--by", "bob")
    else:
        assert gate["by"] == "ann"
        assert "was decided before: approved by ann" in flow("reject", "x", code=2).err
    said = kill_at(flow, resuming, "resume", "x")
    sent = flow.notes()["send"]
    resumed = flow("resume", "x").out
    assert resumed == '"sent 21"\n' or (sent == 1 and "is done" in resumed)
    assert not said or flow.notes()["send"] == 1
    events = flow("show", "x", "--events", "--json").json()["events"]
    assert [event["type"] for event in events].count("GateDecided") == 1
    assert flow.notes()["draft"] == 1
    assert flow("audit", "verify").code == 0


def test_nothing_is_printed_into_the_question(flow):
    """The notice for scripts that block at a gate is not for a person who is asked."""
    flow.script(LONG)
    terminal = flow.at_a_terminal("run", "--id", "x", "flow.py:long", "1", NO_COLOR="1")
    terminal.expect("or decide later (l)? ")
    time.sleep(1.3)  # the notice comes after one second
    terminal.type("a\n")
    code, text = terminal.end()
    assert code == 0
    assert "waits for the approval" not in text
