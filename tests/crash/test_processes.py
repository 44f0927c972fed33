"""Real processes around one store: a sample of every kind, and proof that the ledger can say no."""

import pytest
from tests.crash import processes
from tests.crash.history import Event, History, RunHistory, StepHistory, Violation
from tests.crash.processes.ledger import Line, Lost, check_completed, check_ledger, check_passed
from tests.crash.score import Budget

SAMPLES = {
    "takeover": 0.1,
    "crowd": 0.2,
    "terminals": 0.25,
    "clocks": 0.2,
    "fork": 0.5,
    "vanishing": 0.34,
    "full": 0.17,
    "limited": 0.1,
    "trees": 0.17,
}
SEED = 7


def test_every_kind_has_a_sample():
    """So that `make test` sees each of them."""
    assert SAMPLES.keys() == processes.KINDS.keys()


@pytest.mark.parametrize("kind", SAMPLES)
def test_sample(kind):
    """A few points of this kind, without a violation."""
    print(f"seed {SEED}: python -m tests.crash.processes {kind} --seed {SEED} --scale {SAMPLES[kind]}")
    score = processes.KINDS[kind](Budget(SEED, SAMPLES[kind]))
    if score.skipped:
        pytest.skip(score.skipped)
    assert (score.violations, score.lost) == ([], 0)
    assert score.points > 0


def a_history(**columns):
    """A run with one step that process 10 has done as owner A, and that process 20 took over as owner B."""
    fields = {"status": "completed", "effect": "idempotent", "result_json": '"10.1"', "by_body": 1} | columns
    step = StepHistory(
        0, "work#1", "work", "step", fields.pop("effect"), fields.pop("status"), 1, 0, 0, 0, "", 3
    )
    for name, value in fields.items():
        setattr(step, name, value)
    run = RunHistory("x", status="completed", result_json='"10.1+"', epochs=[1, 2], owners=["A", "B"])
    run.steps[0, "work#1"] = step
    run.events = [
        an_event(1, "RunCreated"),
        an_event(2, "RunClaimed", owner="A", epoch=1),
        an_event(3, "StepRan", key="work#1"),
        an_event(4, "RunClaimed", owner="B", epoch=2),
    ]
    return History({"x": run})


def an_event(version, type, **payload):
    return Event(version, version, type, 0, payload, b"", 1)


def lines(*texts):
    found = []
    for at, text in enumerate(texts):
        pid, verb, *words = text.split()
        found.append(Line(at, int(pid), verb, tuple(words)))
    return found


DONE = ("10 began x work#1", "10 ended x work#1 10.1", "10 told x work#1 10.1")


def test_ledger_accepts_what_is_right():
    """A step done, told, and told again by the next owner."""
    check_ledger(lines(*DONE, "20 told x work#1 10.1"), a_history())


@pytest.mark.parametrize(
    ("said", "columns", "error", "says"),
    [
        (DONE, {"status": "running", "result_json": ""}, Lost, "was told of step work#1"),
        ((*DONE, "20 told x work#1 20.1"), {}, Violation, "another value"),
        ((*DONE, "20 began x work#1"), {}, Violation, "after process 10 was told"),
        (("30 began x work#1", "20 began x work#1", *DONE), {}, Violation, "began 3 times"),
        (("20 began x work#1", *DONE), {"effect": "once"}, Violation, "once step"),
        (DONE[:1], {}, Violation, "no body returned"),
        (("10 result y 1",), {}, Lost, "has the result of y"),
        (("10 result x 1", *DONE), {}, Violation, "another result"),
    ],
)
def test_ledger_says_no(said, columns, error, says):
    """Each rule, broken alone."""
    with pytest.raises(error, match=says):
        check_ledger(lines(*said), a_history(**columns))


@pytest.mark.parametrize(
    ("status", "value", "error", "says"),
    [
        ("completed", '["approved","ann","",1]', None, ""),
        ("completed", '["rejected","ann","",1]', Violation, "got .*rejected"),
        ("waiting", '["approved","ann","",1]', Lost, "which the log has as open"),
    ],
)
def test_what_a_gate_gave(status, value, error, says):
    """Whoever passed a gate got what the log has of it."""
    history = a_history(status=status, result_json='["approved","ann","",1]')
    said = lines(f"10 passed x work#1 {value}")
    if error is None:
        check_passed(said, history)
        return
    with pytest.raises(error, match=says):
        check_passed(said, history)


def test_work_of_two_processes_under_one_owner():
    """Owner A is process 10; a step that process 30 did in its time was not A's to record."""
    history = a_history()
    run = history.runs["x"]
    other = StepHistory(0, "work#2", "work", "step", "idempotent", "completed", 1, 0, 0, 0, "", 4)
    other.result_json, other.by_body = '"30.1"', 1
    run.steps[0, "work#2"] = other
    run.events.insert(3, an_event(4, "StepRan", key="work#2"))
    said = lines(*DONE, "30 began x work#2", "30 ended x work#2 30.1")
    with pytest.raises(Violation, match="process 30 recorded it while process 10 owned"):
        check_ledger(said, history)


def test_a_completed_run_has_the_result_of_its_steps():
    """And is completed, and in the log."""
    history = a_history()
    history.runs["x"].result_json = '"10.1+20.1"'
    with pytest.raises(Violation, match="not that of its steps"):
        check_completed(history, ["x"])
    history.runs["x"].status = "failed"
    with pytest.raises(Violation, match="is failed"):
        check_completed(history, ["x"])
    with pytest.raises(Violation, match="not in the log"):
        check_completed(history, ["y"])
