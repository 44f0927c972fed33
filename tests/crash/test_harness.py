"""The public crash harness: its moments are where they say they are, and its counts are true."""

import textwrap

import pytest

from holdfast import Holdfast
from holdfast.testing import CrashLab, after_append, after_ms, at_body, at_mark, before_append, mark

SCRIPT = """
    import asyncio, sys
    from holdfast import Holdfast, step, workflow
    from holdfast.testing import mark

    @step
    def work(n: int) -> int:
        return n + 1

    @step
    async def awork(n: int) -> int:
        return n + 1

    @workflow
    def job() -> int:
        total = 0
        for _ in range(3):
            total = work(total)
            mark(f"told {total}")
        return total

    @workflow
    async def ajob() -> int:
        total = 0
        for _ in range(3):
            total = await awork(total)
            mark(f"told {total}")
        return total

    if __name__ == "__main__":
        with Holdfast() as hf:
            print(hf.with_id("job").run(ajob if sys.argv[1:] == ["async"] else job))
"""


CALM = {"HOLDFAST_FLUSH_AFTER_MS": "10000"}
"""No intents ahead of results, however slow the machine: the count of appends is the plan's."""


@pytest.fixture(params=["sync", "async"])
def lab(request, tmp_path):
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent(SCRIPT))
    return CrashLab(script, tmp_path / "store", request.param, env=CALM)


def test_a_run_without_a_kill(lab):
    """Output, exit code, bodies and marks of a script that lives."""
    ended = lab.run()
    assert (ended.exit_code, ended.killed, ended.stdout, ended.stderr) == (0, False, "3\n", "")
    assert sorted(lab.bodies().values()) == [1, 1, 1]
    assert lab.marks() == ["told 1", "told 2", "told 3"]


@pytest.mark.parametrize(
    ("moment", "steps_in_the_log", "marks"),
    [
        (before_append(1), 0, []),
        (after_append(1), 1, []),
        (before_append(2), 1, ["told 1"]),
        (after_append(3), 3, ["told 1", "told 2"]),
        (at_mark("told 2"), 2, ["told 1", "told 2"]),
    ],
)
def test_moments(lab, moment, steps_in_the_log, marks):
    """The process dies exactly there; the same script again continues to the same end."""
    assert lab.run(moment).killed
    with Holdfast(lab.home) as hf:
        done = [info.status for info in hf.steps("job")]
    assert (done, lab.marks()) == (["completed"] * steps_in_the_log, marks)
    assert lab.run().stdout == "3\n"
    assert sum(lab.bodies().values()) == 3 + (moment.at == "before_append")


def test_at_body(lab):
    """The body has begun, and its step has no result."""
    name = "awork" if lab._argv[-1] == "async" else "work"
    assert lab.run(at_body(f"{name}#2")).killed
    assert lab.bodies() == {f"{name}#1": 1, f"{name}#2": 1}
    assert lab.run().stdout == "3\n"
    assert lab.bodies() == {f"{name}#1": 1, f"{name}#2": 2, f"{name}#3": 1}


def test_after_ms(lab):
    """A script that ends before its time is not killed; one that does not is."""
    assert lab.run(after_ms(1)).killed
    assert lab.run(after_ms(60_000)).stdout == "3\n"


def test_mark_outside_a_lab_does_nothing(monkeypatch):
    """User code may keep its marks."""
    monkeypatch.delenv("CRASH_LAB_LINES", raising=False)
    mark("anything")
