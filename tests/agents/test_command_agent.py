"""Command agents: one recorded step, its usage read from the output, and every fault a sentence."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, milestone, workflow
from holdfast.agents import CommandAgent, Job, Outcome, work
from holdfast.agents.backends.retries import Retries
from holdfast.agents.governor.budgets import Budgets
from holdfast.clock import SystemClock
from holdfast.errors import AgentFailed, BadInput, BudgetReached, CommandFailed, ProgramNotFound, StepTimeout
from holdfast.kernel.measures import Measured

CAPTURED = Path(__file__).parent / "captured"
JOB = Job(goal="greet", prompt="write hello", kind="implement")


def python(code: str) -> list[str]:
    """A CLI agent that is a line of Python; the prompt is in `prompt`."""
    return [sys.executable, "-c", f"import os, sys, time; prompt = sys.stdin.read(); {code}"]


def printing(name: str, then: str = "pass") -> list[str]:
    """One that prints what a real one has printed."""
    return python(
        f"print(open({str(CAPTURED / name)!r}).read()); open('hello.txt', 'w').write(prompt); {then}"
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree"


@pytest.fixture
def hf(home: Path, root: Path) -> Iterator[Holdfast]:
    with Holdfast(home, workspace=root, durability="process") as opened:
        yield opened


def agent(argv: list[str], options: dict[str, Any]) -> CommandAgent:
    return CommandAgent(argv, name="claude", **{"parse": "claude", **options})


@workflow
async def one_job(argv: list[str], options: dict[str, Any], job: Job = JOB) -> Outcome:
    return await work.aio(agent(argv, options), job)


@workflow
def one_job_def(argv: list[str], options: dict[str, Any], job: Job = JOB) -> Outcome:
    return work(agent(argv, options), job)


@pytest.mark.parametrize("code", [one_job, one_job_def], ids=["async", "def"])
def test_a_job_is_one_recorded_command(hf: Holdfast, root: Path, code: Any) -> None:
    """In both colours: the prompt goes to standard input, the outcome has answer, session, usage and the
    snapshot, and a replay starts nothing."""
    run = hf.start(code, printing("claude.jsonl"), {})
    outcome = run.result()
    assert (outcome.text, outcome.session) == ("All done.", "f4b25264-cd39-4de7-947a-cb4d906cabe3")
    assert outcome.measured == (Measured("claude-sonnet-4-5", 300, 60, Decimal("0.0018")),)
    assert (root / "hello.txt").read_text() == "Goal: greet\n\nwrite hello\n"
    working = run.id if code is one_job else next(one.child for one in hf.steps(run.id) if one.child)
    steps = {step.key: step for step in hf.steps(working)}
    key = "implement[1]/claude#1" if code is one_job else "claude#1"
    assert (steps[key].kind, steps[key].effect, steps[key].measured) == (
        "command", "workspace", outcome.measured,
    )  # fmt: skip
    assert outcome.changes in {
        event.data["snapshot"] for event in hf.events(working) if event.type == "FilesSaved"
    }
    (root / "hello.txt").write_text("mine")
    assert [one.verdict for one in hf.replay(run.id)] == ["matches"]
    assert (root / "hello.txt").read_text() == "mine"


def test_a_person_sees_the_words_of_the_agent_and_the_log_has_its_lines(home: Path, root: Path) -> None:
    """Output that is JSON is shown as the text in it; errors and output without a form as they are."""
    shown: list[tuple[str, str]] = []
    with Holdfast(
        home, workspace=root, durability="process", on_output=lambda _, __, *one: shown.append(one)
    ) as hf:
        run = hf.start(one_job, printing("claude.jsonl", "print('slow', file=sys.stderr)"), {})
        run.result()
        logged = "".join(line.text for line in hf.logs(run.id) if line.source == "stdout")
        assert sorted(shown) == [("stderr", "slow\n"), ("stdout", "All done.\n")]
        assert logged.startswith((CAPTURED / "claude.jsonl").read_text())
        shown.clear()
        hf.run(one_job, python("print('{\"a\": 1}')"), {"parse": "none"})
        assert shown == [("stdout", '{"a": 1}\n')]


def test_the_prompt_as_an_argument(hf: Holdfast, root: Path) -> None:
    """`{prompt}` in a word is replaced by the prompt, whatever is in it, and nothing goes to standard
    input."""
    argv = [sys.executable, "-c", "import sys; print(sys.argv[1] + repr(sys.stdin.read()))", "-m={prompt}"]
    job = Job(goal="", prompt="say '$(id)' {prompt}; now", changes_files=False)
    assert hf.run(one_job, argv, {"parse": "none"}, job).text == (
        "-m=say '$(id)' {prompt}; now\n\nChange no files.\n''"
    )


def test_a_prompt_that_is_too_long_for_an_argument(hf: Holdfast) -> None:
    """The sentence says what to do instead; nothing was started."""
    run = hf.start(one_job, ["true", "{prompt}"], {}, Job(goal="", prompt="x" * 200_000))
    with pytest.raises(BadInput, match=r"more than one argument can have; leave \{prompt\} out of argv"):
        run.result()
    assert hf.steps(run.id) == []


def test_a_job_that_only_reads(hf: Holdfast) -> None:
    """It has the command line for reading, and is told to change nothing."""
    argv = python("print('wrote')")
    reads = python("print(prompt)")
    text = hf.run(
        one_job, argv, {"parse": "none", "reads": reads}, Job(goal="g", prompt="p", changes_files=False)
    )
    assert text.text == "Goal: g\n\np\n\nChange no files."
    assert text.changes == ""


def test_nothing_is_said_of_the_cost(hf: Holdfast) -> None:
    """Then the reservation is what it cost, marked as an estimate."""
    team(hf, "5")
    job = Job(goal="", prompt="p", budget="team")
    outcome = hf.run(one_job, python("print('ok')"), {"parse": "none", "reserve_usd": Decimal("0.5")}, job)
    assert outcome.measured == (Measured(usd=Decimal("0.5"), units={"estimated": 1}),)
    assert spent(hf) == Decimal("0.5")


def test_what_a_job_may_cost_comes_before_what_its_agent_reserves(hf: Holdfast) -> None:
    """`max_usd` of the job is reserved, and counted if nothing is said of the cost."""
    team(hf, "5")
    job = Job(goal="", prompt="p", budget="team", max_usd=Decimal("0.9"))
    outcome = hf.run(one_job, python("print('ok')"), {"parse": "none", "reserve_usd": Decimal("0.5")}, job)
    assert outcome.measured == (Measured(usd=Decimal("0.9"), units={"estimated": 1}),)
    assert spent(hf) == Decimal("0.9")


def test_a_cost_that_is_said_is_settled(hf: Holdfast) -> None:
    """The budget of the job has what the program said, not what was reserved."""
    team(hf, "5")
    job = Job(goal="", prompt="p", budget="team", max_usd=Decimal("0.9"))
    hf.run(one_job, printing("claude.jsonl"), {}, job)
    assert spent(hf) == Decimal("0.0018")


def test_a_budget_that_is_spent_pauses_the_run(hf: Holdfast, root: Path) -> None:
    """Before the program is started."""
    team(hf, "0.1")
    job = Job(goal="", prompt="p", budget="team")
    run = hf.start(one_job, printing("claude.jsonl"), {"reserve_usd": Decimal("0.5")}, job)
    with pytest.raises(BudgetReached, match="team"):
        run.result()
    assert not (root / "hello.txt").exists()


def team(hf: Holdfast, usd: str) -> None:
    Budgets(hf._store, SystemClock()).set("team", {"usd": Decimal(usd)}, None, "ann")


def spent(hf: Holdfast) -> Decimal | None:
    state = Budgets(hf._store, SystemClock()).state("team")
    assert not state.open
    return state.spent.usd


def test_killed_before_the_answer_was_recorded(hf: Holdfast, root: Path) -> None:
    """Answer, session and usage are read from the log, also if the session was named 200 KB before the
    end."""
    text = (CAPTURED / "codex.jsonl").read_text()
    first, rest = text.split("\n", 1)
    code = f"print({first!r}); print('x' * 200000); print({rest!r})"
    run = hf.start(one_job, python(code), {"parse": "codex"})
    before = run.result()
    assert (before.text, before.session) == ("All done.", "01a1ec9b-fb96-7c91-a45a-c58a1951da78")
    hf.rewind(run.id, to="implement[1]/claude#1")
    after = hf.resume(run.id).result()
    assert after == before
    assert [step.attempt for step in hf.steps(run.id) if step.kind == "command"] == [1]


def test_the_log_is_read_for_the_last_attempt_and_its_standard_output(hf: Holdfast, root: Path) -> None:
    """A session that a failed attempt named, or that stands in the error output, is not the answer's."""
    counter = root.parent / "attempts"
    first, error = (json.dumps({"type": "system", "session_id": name}) for name in ("first", "error"))
    done = json.dumps({"type": "result", "result": "ok"})
    code = (
        f"n = os.path.exists({str(counter)!r}); open({str(counter)!r}, 'w').close(); "
        f"print({done!r} if n else {first!r}); print({error!r}, file=sys.stderr); sys.exit(not n)"
    )
    run = hf.start(one_job, python(code), {"retry": Retries(attempts=2, initial=0.01)})
    before = run.result()
    assert (before.text, before.session) == ("ok", "")
    hf.rewind(run.id, to="implement[1]/claude#1")
    assert hf.resume(run.id).result() == before


@workflow
async def two_jobs(first: list[str], second: list[str], ended: str) -> list[Outcome]:
    """The second begins before the first has ended, and ends after it."""
    beside = asyncio.create_task(work.aio(agent(second, {}), JOB))
    done = await work.aio(agent(first, {}), JOB)
    Path(ended).touch()
    return [done, await beside]


def test_jobs_side_by_side_have_their_own_usage(home: Path, tmp_path: Path) -> None:
    """The step of a job is the one in its own scope, not the last of that name in the run."""
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    fine = str(CAPTURED / "claude.jsonl")
    until = "[time.sleep(0.01) for _ in range(3000) if not os.path.exists({!r})]"
    first = python(f"{until.format(str(begun))}; print(open({fine!r}).read())")
    second = python(f"open({str(begun)!r}, 'w').close(); {until.format(str(ended))}")
    with Holdfast(home, durability="process") as hf:
        one, two = hf.run(two_jobs, first, second, str(ended))
    assert one.measured == (Measured("claude-sonnet-4-5", 300, 60, Decimal("0.0018")),)
    assert two.measured == ()


@workflow
async def job_and_milestone(argv: list[str]) -> str:
    await work.aio(agent(argv, {"parse": "none"}), JOB)
    await milestone.aio("done")
    return "ok"


def test_what_it_prints_is_no_evidence(hf: Holdfast) -> None:
    """Its program is an agent, whatever it is called: a milestone after it rests on nothing observed."""
    run = hf.start(job_and_milestone, python("print('42 passed')"))
    run.result()
    (found,) = hf.evidence.list(run.id)
    assert (found.level, found.commands) == ("asserted", 0)


def test_it_works_in_the_workspace(hf: Holdfast, root: Path) -> None:
    """Its directory and the variable PWD are the root, wherever this process is: some CLIs trust PWD."""
    text = hf.run(one_job, python("print(os.getcwd(), os.environ['PWD'])"), {"parse": "none"}).text
    assert text == f"{root} {root}"
    copy = hf.run(
        one_job, python("print(os.getcwd(), os.environ['PWD'])"), {"parse": "none", "isolate": "copy"}
    ).text.split()
    assert copy[0] == copy[1] != str(root)


def test_only_what_a_job_may_write_is_rolled_back(hf: Holdfast, root: Path) -> None:
    """`writes` of a job are those of its step: what else changed meanwhile is not its own, and stays when it
    is tried again."""
    code = (
        "seen = sorted(os.listdir()); [open(name, 'w').close() for name in ('own.md', 'other.txt')]; "
        "print(*seen); sys.exit(not seen)"
    )
    job = Job(goal="greet", prompt="write hello", kind="implement", writes=("*.md",))
    options = {"parse": "none", "retry": Retries(attempts=2, initial=0.01)}
    assert hf.run(one_job, python(code), options, job).text == "other.txt"
    assert sorted(path.name for path in root.iterdir()) == ["other.txt", "own.md"]


# Faults


def test_an_agent_that_says_that_it_failed(hf: Holdfast, root: Path) -> None:
    """The step fails with its own sentence, also if the exit code is 0; what it used counts; `resume` tries
    again."""
    run = hf.start(one_job, printing("claude-failed.jsonl"), {})
    with pytest.raises(AgentFailed, match=r"^agent claude failed: Reached maximum number of turns \(1\)"):
        run.result()
    step = next(one for one in hf.steps(run.id) if one.kind == "command")
    assert (step.status, step.measured) == (
        "failed", (Measured("claude-sonnet-4-5", 100, 20, Decimal("0.0006")),),
    )  # fmt: skip
    with pytest.raises(AgentFailed):
        hf.resume(run.id).result()
    assert next(one for one in hf.steps(run.id) if one.kind == "command").attempt == 2


def test_an_exit_code(hf: Holdfast) -> None:
    """The last line of its error output is the reason."""
    with pytest.raises(CommandFailed, match="ended with code 3: no key"):
        hf.run(one_job, python("print('no key', file=sys.stderr); sys.exit(3)"), {})


def test_a_program_that_is_not_there(hf: Holdfast) -> None:
    with pytest.raises(ProgramNotFound, match="no program 'no-such-agent' on the PATH"):
        hf.run(one_job, ["no-such-agent"], {})


def test_a_hang_is_ended_with_its_tree(hf: Holdfast, root: Path) -> None:
    """After the timeout nothing of the tree runs, and what it wrote is rolled back when the job is tried
    again."""
    code = (
        "import subprocess; child = subprocess.Popen(['sleep', '600']); "
        "open('pid', 'w').write(str(child.pid)); child.wait()"
    )
    run = hf.start(one_job, python(code), {"timeout": 1.0})
    with pytest.raises(StepTimeout, match="took longer than 1 s"):
        run.result()
    pid = int((root / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists()


def test_what_a_child_prints_after_the_timeout_is_not_of_the_next_attempt(
    hf: Holdfast, tmp_path: Path
) -> None:
    """Asked to end, the child prints once more as soon as it sees the next attempt, or after half a second.
    The next attempt waits for the end of the tree: neither its output nor its outcome has the late line."""
    begun, second, told = (str(tmp_path / name) for name in ("begun", "second", "told"))
    late, fine = '{"type": "system", "session_id": "late"}', '{"type": "result", "result": "fine"}'
    child = (
        "import os, signal, time\n"
        "def speak(*_):\n"
        "    until = time.monotonic() + 0.5\n"
        f"    while not os.path.exists({second!r}) and time.monotonic() < until: time.sleep(0.01)\n"
        f"    print({late!r}, flush=True); open({told!r}, 'w').close(); os._exit(0)\n"
        "signal.signal(signal.SIGTERM, speak)\n"
        "while True: signal.pause()\n"
    )
    code = (
        f"import subprocess; again = os.path.exists({begun!r}); "
        f"open({second!r} if again else {begun!r}, 'w').close(); "
        f"again or subprocess.run([sys.executable, '-I', '-S', '-c', {child!r}]); "
        f"[time.sleep(0.01) for _ in range(100) if not os.path.exists({told!r})]; print({fine!r})"
    )
    run = hf.start(one_job, python(code), {"timeout": 2.0, "retry": Retries(attempts=2, initial=0.01)})
    outcome = run.result()
    assert (outcome.text, outcome.session) == ("fine", "")
    assert {line.attempt for line in hf.logs(run.id) if "late" in line.text} <= {1}


def test_a_gigabyte_of_output_is_bounded(hf: Holdfast) -> None:
    """The log has the beginning and the end, and the end of the stream is still read."""
    chatter = "[sys.stdout.write('x' * 65535 + chr(10)) for _ in range(800)]"  # 50 MB: the rest is more of it
    run = hf.start(
        one_job,
        python(f"{chatter}; print(open({str(CAPTURED / 'claude.jsonl')!r}).read())"),
        {"output_limit": 1 << 20},
    )
    outcome = run.result()
    assert (outcome.text, outcome.session) == ("All done.", "f4b25264-cd39-4de7-947a-cb4d906cabe3")
    kept = sum(len(line.text) for line in hf.logs(run.id))
    assert 1 << 19 < kept < (1 << 20) + 2000


def test_what_the_log_has_left_out_is_read_while_it_runs(hf: Holdfast) -> None:
    """A session that is named in the middle of much output."""
    chatter = "[print('x' * 1000) for _ in range(2000)]"
    named, done = '{"type": "system", "session_id": "middle"}', '{"type": "result", "result": "ok"}'
    code = f"{chatter}; print({named!r}); {chatter}; print({done!r})"
    outcome = hf.run(one_job, python(code), {"output_limit": 1 << 16})
    assert (outcome.text, outcome.session) == ("ok", "middle")


def test_each_attempt_has_its_own_output(hf: Holdfast, root: Path) -> None:
    """A retry that succeeds is no failure, and the usage of both attempts counts."""
    failed, fine = (str(CAPTURED / name) for name in ("claude-failed.jsonl", "claude.jsonl"))
    counter = root.parent / "attempts"
    code = (
        f"n = os.path.exists({str(counter)!r}); open({str(counter)!r}, 'w').close(); "
        f"print(open({fine!r} if n else {failed!r}).read()); open('tried', 'a').write('x')"
    )
    outcome = hf.run(one_job, python(code), {"retry": Retries(attempts=2, initial=0.01)})
    assert outcome.text == "All done."
    assert outcome.measured == (Measured("claude-sonnet-4-5", 400, 80, Decimal("0.0024")),)
    assert (root / "tried").read_text() == "x"


def test_a_secret_in_its_output_is_hidden(hf: Holdfast) -> None:
    """What it prints is redacted before it is parsed, recorded or returned."""
    line = json.dumps({"type": "result", "result": "the key is sk-ant-api03-" + "a" * 40})
    outcome = hf.run(one_job, python(f"print({line!r})"), {})
    assert "aaaa" not in outcome.text


def test_without_a_workspace(home: Path) -> None:
    """It runs once, with no snapshot."""
    with Holdfast(home, durability="process") as hf:
        run = hf.start(one_job, python("print('ok')"), {"parse": "none"})
        assert run.result().changes == ""
        assert next(one.effect for one in hf.steps(run.id) if one.kind == "command") == "once"


@pytest.mark.parametrize(
    ("argv", "options", "fault"),
    [
        ([], {}, "a list of the program and its arguments"),
        ("claude -p", {}, "a list of the program and its arguments"),
        (["claude"], {"parse": "clade"}, "one of claude, codex, opencode, gemini, none"),
    ],
)
def test_what_is_refused(argv: Any, options: dict[str, Any], fault: str) -> None:
    with pytest.raises(BadInput, match=fault):
        CommandAgent(argv, **options)


def test_a_timeout_is_seconds_or_a_timedelta() -> None:
    """Both make the same value, which a child run can record."""
    assert CommandAgent(["x"], timeout=timedelta(minutes=2)) == CommandAgent(["x"], timeout=120)
    with pytest.raises(BadInput, match="a number of seconds or a timedelta"):
        CommandAgent(["x"], timeout="soon")  # type: ignore[arg-type]
