"""Budgets from the command line: limits, exit code 7, raise and resume, and an attempt that was killed."""

from __future__ import annotations

import re
import signal
from typing import Any

FLOW = """
    from decimal import Decimal
    from holdfast import Amounts, measure

    @step(reserve=Amounts(usd="0.05"))
    def ask(n):
        note(f"ask {n}")
        if n == 99:
            time.sleep(60)
        measure(model="small", input_tokens=10, usd=Decimal("0.05"))
        return n

    @workflow
    def fan(n): return sum(parallel(ask, range(n), limit=3))
    @workflow
    def hangs(): return ask(99)
"""


def test_a_fan_out_reaches_the_limit(cli: Any) -> None:
    """Exit 7; after `budget raise` and `resume` every step has run once."""
    cli.script(FLOW)
    made = cli("budget", "set", "team", "--usd", "0.20", "--json").json()
    assert (made["limits"]["usd"], made["left"]["usd"]) == ("0.20", "0.20")
    stopped = cli("run", "flow.py:fan", "10", "--id", "x", "--budget", "team", code=7)
    assert re.search(r"run x is paused: budget team is reached: ask#\d+ needs 0.05 usd", stopped.err)
    assert "`holdfast budget raise team --usd 0.05`" in stopped.err
    assert cli("list", "--json").json()[0]["status"] == "paused"
    assert cli("resume", "x", code=7).err.count("budget team is reached") == 1
    shown = cli("show", "x").out
    assert shown.index("holdfast budget raise team --usd 0.05") < shown.index("holdfast resume x  ")
    cli("budget", "raise", "team", "--usd", "1")
    assert cli("resume", "x").out == "45\n"
    assert cli.notes() == {f"ask {n}": 1 for n in range(10)}
    (row,) = cli("budget", "list", "--json").json()
    assert (row["spent"]["usd"], row["spent"]["steps"], row["reservations"]) == ("0.50", 10, [])
    shown = cli("show", "x", "--json").json()
    assert (shown["budget"], shown["spent"][0]["usd"], shown["spent"][0]["budget"]) == (
        "team",
        "0.50",
        "team",
    )


def test_a_request_that_was_killed_is_charged_once(cli: Any) -> None:
    """`budget show` names what is reserved while it runs; after a kill and a resume it is spent once more."""
    cli.script(FLOW)
    running = cli.start("run", "flow.py:hangs", "--id", "x")
    cli.wait_for_note("ask 99")
    assert "x ask#1  0.05 usd, 1 step" in cli("budget", "show", "default").out
    running.send_signal(signal.SIGKILL)
    running.communicate()
    again = cli.start("resume", "x")
    cli.wait_for_note("ask 99", 2)
    found = cli("budget", "show", "default", "--json").json()
    assert (found["spent"]["usd"], found["reserved"]["usd"]) == ("0.05", "0.05")
    again.send_signal(signal.SIGKILL)
    again.communicate()


def test_wrong_words_get_a_sentence(cli: Any) -> None:
    """Exit 2 for what is wrong, 3 for what is not there; nothing is made."""
    cli.script(FLOW)
    assert cli("budget", "list").err.count("no budgets") >= 1
    assert "there is no budget 'team'" in cli("run", "flow.py:fan", "1", "--budget", "team", code=3).err
    assert "usd='much'" in cli("budget", "set", "team", "--usd", "much", code=2).err
    cli("budget", "set", "team", "--usd", "1")
    assert "a → a" in cli("budget", "set", "a", "--parent", "a", code=2).err
    assert "no limit of tokens" in cli("budget", "raise", "team", "--tokens", "5", code=2).err
    for amount, says in (("0", "Give an amount more than 0"), ("-1", "usd=-1: not less than 0")):
        assert says in cli("budget", "raise", "team", "--usd", amount, code=2).err
    (team,) = cli("budget", "list", "--json").json()
    assert (team["name"], team["limits"]["usd"]) == ("team", "1")
