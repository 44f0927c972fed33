"""kill -9 at any moment: nothing is lost, nothing is done twice without being told."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.store.sqlite.store import SqliteStore

TWENTY = """
    @step
    def work(n):
        note(f"work#{n}")
        time.sleep(0.02)
        return n * n
    @workflow
    def main():
        return sum(work(n) for n in range(1, 21))
"""

PAYING = """
    @step
    def before(): note("before"); return 1
    @step(effect="once")
    def pay(amount):
        note("pay")
        if Path("side.txt").read_text().count("pay") == 1: time.sleep(30)
        return f"paid {amount}"
    @workflow
    def main(): return [before(), pay(7)]
"""

ORDER = """
    @step
    def first(): note("first"); return 1
    @step
    def second(): note("second"); return 2
    @step
    def last():
        note("last")
        if not Path("go").exists(): time.sleep(30)
        return 3
    @workflow
    def main(): return [{calls}]
"""


def recorded(cli, run_id: str) -> set[str]:
    """The steps that the store has as completed now."""
    if not (cli.home / "holdfast.db").exists():
        return set()
    store = SqliteStore(cli.home)
    try:
        return {step.key for step in store.steps(run_id) if step.status == "completed"}
    finally:
        store.close()


def kill_at(cli, note: str, *words: object) -> None:
    """Start it, and kill -9 it once that body has begun and the log says so."""
    process = cli.start(*words)
    cli.wait_for_note(note)
    store = SqliteStore(cli.home)
    try:
        while not any(step.name == note for step in store.steps(str(words[2]))):
            time.sleep(0.005)
    finally:
        store.close()
    process.kill()
    process.wait()


def test_fifteen_kills(cli):
    """A run of 20 steps, killed 15 times at random moments: no recorded step's body runs again."""
    cli.script(TWENTY)
    chance = random.Random(4)
    acknowledged: dict[str, int] = {}
    for n in range(15):
        words = ("run", "--id", "k", "flow.py:main") if n == 0 else ("resume", "k")
        wanted = cli.notes().total() + chance.randint(0, 2)
        process = cli.start(*words)
        while cli.notes().total() < wanted and process.poll() is None:
            time.sleep(0.002)
        time.sleep(chance.random() * 0.03)
        process.kill()
        process.wait()
        ran = cli.notes()
        for key, times in acknowledged.items():
            assert ran[key] == times, f"{key} was recorded, and its body ran again"
        acknowledged = (
            {key: ran[key] for key in recorded(cli, "k")} if (cli.home / "holdfast.db").exists() else {}
        )
    if recorded(cli, "k") or cli("list", "--json").json():
        last = cli("resume", "k")
    else:
        last = cli("run", "--id", "k", "flow.py:main")
    assert last.json() == sum(n * n for n in range(1, 21))
    ran = cli.notes()
    assert all(ran[key] == times for key, times in acknowledged.items())
    assert set(ran) == {f"work#{n}" for n in range(1, 21)}
    assert cli("audit", "verify").code == 0


def test_interrupted_run_is_pointed_out(cli):
    """After a kill, list shows the run as interrupted, and list and run say how to continue, in one line."""
    cli.script(ORDER.format(calls="first(), last()"))
    kill_at(cli, "last", "run", "--id", "gone", "flow.py:main")
    listed = cli("list")
    assert "interrupted" in listed.out
    assert listed.err == "1 interrupted run: gone; `holdfast resume gone` continues\n"
    (row,) = cli("list", "--status", "interrupted", "--json").json()
    assert (row["interrupted"], row["status"], row["owner_pid"]) == (True, "running", None)
    assert "1 interrupted run: gone" in cli("run", "true").err
    shown = cli("show", "gone").out
    assert "interrupted" in shown
    assert "cut off" in shown
    assert "holdfast resume gone" in shown
    (cli.directory / "go").touch()
    resumed = cli("resume")
    assert "1 step is done, it continues at last#1" in resumed.err
    assert resumed.json() == [1, 3]
    assert cli.notes()["first"] == 1


@pytest.mark.parametrize(
    ("settle", "code", "result", "paid"),
    [
        (["--done", '{"receipt": 9}'], 0, [1, {"receipt": 9}], 1),
        (["--retry"], 0, [1, "paid 7"], 2),
        (["--fail", "the bank says no"], 1, None, 1),
    ],
)
def test_once_step_in_doubt(cli, settle, code, result, paid):
    """A `once` step that was killed: resume exits 6, show names the step and the commands, settle decides."""
    cli.script(PAYING)
    kill_at(cli, "pay", "run", "--id", "p", "flow.py:main")
    assert "pay#1" in cli("resume", "p", code=6).err
    shown = cli("show", "p").out
    for way in ("--done VALUE", "--retry", "--fail"):
        assert f"holdfast settle p 'pay#1' {way}" in shown
    assert cli("resume", "p", code=6).err.count("settle") == 1
    settled = cli("settle", "p", "pay", *settle)
    assert "holdfast resume p" in settled.out
    resumed = cli("resume", "p", code=code)
    assert "run p (main) had pay#1 settled: " in resumed.err
    if result is not None:
        assert resumed.json() == result
    else:
        assert "the bank says no" in resumed.err
    assert (cli.notes()["pay"], cli.notes()["before"]) == (paid, 1)


def test_settle_without_a_resume_before(cli):
    """A step whose process died can be settled at once; one that is not in doubt cannot."""
    cli.script(PAYING)
    kill_at(cli, "pay", "run", "--id", "p", "flow.py:main")
    assert "not in doubt" in cli("settle", "p", "before", "--retry", code=2).err
    assert cli("settle", "p", "pay#1", "--done", "text", "--json").json()["outcome"] == "done"
    assert cli("resume", "p").json() == [1, "text"]


def test_failed_run_resumed(cli):
    """A failed run tries its failed step again, says which, and repeats nothing else."""
    cli.script("""
        @step
        def before(): note("before"); return 1
        @step
        def needs_file(): note("needs"); return Path("input").read_text()
        @workflow
        def main(): return [before(), needs_file()]
    """)
    failed = cli("run", "--id", "f", "flow.py:main", code=1)
    assert "FileNotFoundError" in failed.err
    assert "`holdfast resume f` tries needs_file#1 again" in failed.err
    assert "tries needs_file#1 again" in cli("show", "f").out
    (cli.directory / "input").write_text("now")
    resumed = cli("resume", "f")
    assert "(main) failed: 1 step is done, needs_file#1 is tried again" in resumed.err
    assert resumed.json() == [1, "now"]
    assert cli.notes() == {"before": 1, "needs": 2}


def test_a_run_that_failed_before_its_first_step(cli):
    """It is said that it begins again: there is nothing to count."""
    cli.script("@workflow\ndef main(): return Path('input').read_text()")
    cli("run", "--id", "f", "flow.py:main", code=1)
    (cli.directory / "input").write_text("now")
    assert "run f (main) failed: it begins again\n" in cli("resume", "f").err


def test_divergence(cli):
    """Steps that changed places: exit 6 and both sides named; put back, the run continues."""
    cli.script(ORDER.format(calls="first(), second(), last()"))
    kill_at(cli, "last", "run", "--id", "d", "flow.py:main")
    cli.script(ORDER.format(calls="second(), first(), last()"))
    refused = cli("resume", "d", code=6)
    assert "first#1" in refused.err
    assert "second#1" in refused.err
    assert cli.status("d") == "needs_attention"
    assert "needs attention" in cli("show", "d").out
    cli.script(ORDER.format(calls="first(), second(), last()"))
    (cli.directory / "go").touch()
    assert cli("resume", "d").json() == [1, 2, 3]
    assert (cli.notes()["first"], cli.notes()["second"]) == (1, 1)


def test_workflow_that_is_gone(cli):
    """A run whose code cannot be found is not claimed: exit 3, and it resumes once the code is back."""
    script = cli.script(ORDER.format(calls="first(), last()"))
    kill_at(cli, "last", "run", "--id", "g", "flow.py:main")
    events = cli("show", "g", "--json", "--events").json()["events"]
    text = script.read_text()
    for broken, says in ((None, "does not exist"), ("x = 1", "no main"), ("1 +", "SyntaxError")):
        script.unlink() if broken is None else script.write_text(broken)
        assert says in cli("resume", "g", code=3).err
    assert cli("show", "g", "--json", "--events").json()["events"] == events
    script.write_text(text)
    (cli.directory / "go").touch()
    assert cli("resume", "g").json() == [1, 3]


def test_resume_from_another_directory(cli):
    """A run resumes where it was started, wherever the person is now."""
    cli.script(ORDER.format(calls="first(), last()"))
    kill_at(cli, "last", "run", "--id", "r", "flow.py:main")
    (cli.directory / "go").touch()
    started, cli.directory = cli.directory, cli.directory.parent
    assert cli("resume", "r").json() == [1, 3]
    cli.directory = started
    assert cli.notes()["last"] == 2


def test_resume_in_its_own_interpreter(cli):
    """A run continues in the interpreter it was started with: that one has what its code imports."""
    other = cli.directory.parent / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", other], check=True)
    cli.env["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    cli.script("""
        import sys
        @step
        def last():
            note("last")
            if not Path("go").exists(): time.sleep(30)
            return sys.prefix
        @workflow
        def main(): return last()
    """)
    cli.python = str(other / "bin" / "python")
    kill_at(cli, "last", "run", "--id", "v", "flow.py:main")
    cli.python = sys.executable
    (cli.directory / "go").touch()
    assert cli("resume", "v").json() == str(other)


def test_owner_takes_its_commands_along(cli, wait_until):
    """kill -9 of the program ends its command's whole tree within a second; a `once` one is in doubt."""
    escaped = "(setsid sh -c 'echo $$ >> pids; touch up; exec sleep 61' &)"
    tree = f"echo $$ > pids; sleep 60 & echo $! >> pids; {escaped}; wait"
    process = cli.start("run", "--id", "t", "--effect", "once", "--", "sh", "-c", tree)
    wait_until((cli.directory / "up").exists, "the command")
    pids = [int(line) for line in (cli.directory / "pids").read_text().split()]
    assert len(pids) == 3
    assert all(map(_lives, pids))
    process.kill()
    wait_until(lambda: not any(map(_lives, pids)), "the tree's death", 1.0)
    process.wait()
    assert "sh#1" in cli("resume", "t", code=6).err


def test_idempotent_command_runs_again(cli, wait_until):
    """`--effect idempotent` lets a command that was killed run again."""
    command = "[ -e go ] && echo went && exit; touch go; sleep 60"
    process = cli.start("run", "--id", "i", "--effect", "idempotent", "--", "sh", "-c", command)
    wait_until((cli.directory / "go").exists, "the command")
    process.kill()
    process.wait()
    assert cli("resume", "i").out == "went\n"


def _lives(pid: int) -> bool:
    """Whether the process is there and no zombie that nobody has collected yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


USAGE = """
    from dataclasses import dataclass
    @dataclass(init=False)
    class Usage:
        tokens: int = 0
        cached: int = 0
        def __init__(self, tokens): self.tokens = tokens
    @step
    def ask(): return Usage(51)
    @step
    def count(usage): return usage.tokens + usage.cached
    @step
    def last():
        note("last")
        if not Path("go").exists(): time.sleep(30)
        return 3
    @workflow
    def main(): return [count(ask()), last()]
"""

HISTORY = """
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.usage import RequestUsage

    def answer(messages, info):
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        usage = RequestUsage(input_tokens=51 + turn)
        if turn == 0:
            return ModelResponse([ToolCallPart("weather", {"city": "Rome"})], usage=usage)
        return ModelResponse([TextPart(f"turn {turn}")], usage=usage)

    @step
    async def converse(prompt: str, history: list[ModelMessage], model: str) -> list[ModelMessage]:
        note(f"converse {prompt}")
        agent = Agent(FunctionModel(answer) if model == "function" else TestModel())

        @agent.tool_plain
        def weather(city: str) -> str: return f"sunny in {city}"

        return (await agent.run(prompt, message_history=history)).all_messages()

    @step
    async def last(history: list[ModelMessage]) -> int:
        note("last")
        if not Path("go").exists(): time.sleep(30)
        return len(history)

    @workflow
    async def main():
        history: list[ModelMessage] = []
        for prompt, model in (("one", "function"), ("two", "test"), ("three", "function")):
            history = await converse(prompt, history, model)
        spent = sum(m.usage.input_tokens for m in history if isinstance(m, ModelResponse))
        return [await last(history), spent]
"""


def test_fields_that_the_class_has_the_values_of_are_the_same_argument_in_the_replay(cli):
    """A value whose constructor sets some fields only is stored and passed on as it was: no divergence."""
    cli.script(USAGE)
    kill_at(cli, "last", "run", "--id", "u", "flow.py:main")
    (cli.directory / "go").touch()
    assert cli("resume", "u").json() == [51, 3]


def test_a_message_history_of_pydantic_ai_is_the_same_argument_in_the_replay(cli):
    """The history of an agent goes from step to step; a kill in the last step costs none of them."""
    cli.script(HISTORY)
    kill_at(cli, "last", "run", "--id", "h", "flow.py:main")
    (cli.directory / "go").touch()
    messages, spent = cli("resume", "h").json()
    assert messages == 8 and spent > 51
    assert {note: times for note, times in cli.notes().items() if note != "last"} == {
        "converse one": 1,
        "converse two": 1,
        "converse three": 1,
    }
