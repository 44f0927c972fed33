"""kill -9 at any moment: the run continues, and nothing that was acknowledged is done again.

Each life of the script runs under the same id and is killed at a random moment: in a body, before
or after an append, or after some milliseconds. The side file says which bodies began and which steps
the workflow was told of; the log says what was committed. They must agree after every death.
"""

import random
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.testing import CrashLab, after_append, after_ms, at_body, before_append

KILLS = 12

SCRIPT = """
    import time
    from holdfast import Holdfast, parallel, step, workflow
    from holdfast.testing import mark

    @step
    def work(n: int) -> int:
        time.sleep(0.001 * (n % 5) ** 2)
        return n * n

    def told(n: int) -> int:
        result = work(n)
        mark(f"told {n}")
        return result

    @workflow
    def job() -> int:
        total = sum(told(n) for n in range(6))
        total += sum(parallel(told, range(6, 14), limit=4))
        return total + sum(told(n) for n in range(14, 20))

    if __name__ == "__main__":
        with Holdfast() as hf:
            print(hf.with_id("job").run(job))
"""

KEYS = [
    *(f"work#{n + 1}" for n in range(6)),
    *(f"told[{n - 5}]/work#1" for n in range(6, 14)),
    *(f"work#{n - 7}" for n in range(14, 20)),
]
KEY_OF = dict(enumerate(KEYS))
RESULT = f"{sum(n * n for n in range(20))}\n"


def a_moment(chance: random.Random, done: int):
    """A moment in the life that continues after `done` steps."""
    ahead = chance.randrange(1, 5)
    return chance.choice(
        [
            before_append(ahead),
            after_append(ahead),
            at_body(KEYS[min(done + ahead - 1, 19)]),
            after_ms(chance.uniform(100, 400)),
        ]
    )


def committed(home: Path) -> set[str]:
    if not (home / "holdfast.db").exists():
        return set()
    with Holdfast(home) as hf:
        if not hf.runs():
            return set()
        return {info.key for info in hf.steps("job") if info.status == "completed"}


def test_the_plan_of_keys_is_that_of_the_script(tmp_path):
    """Uncrashed: each body runs once, under the identity that this test expects."""
    lab = make_lab(tmp_path)
    assert lab.run().stdout == RESULT
    assert lab.bodies() == dict.fromkeys(KEYS, 1)


@pytest.mark.parametrize("seed", range(4))
def test_kill_anywhere(tmp_path, seed):
    """A body begins again only if the kill came before its commit; a step told of never does."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    kills = story = 0
    while kills < KILLS:
        story += 1
        where = tmp_path / str(story)
        where.mkdir()
        kills += live_and_die(make_lab(where), chance, f"seed {seed}, story {story}", KILLS - kills)


def live_and_die(lab: CrashLab, chance: random.Random, story: str, most: int) -> int:
    """One run from its first life to its result, killed at most so often; returns how often."""
    cut_off: Counter[str] = Counter()
    for kills in range(most + 1):
        before, done_before = lab.bodies(), committed(lab.home)
        moment = a_moment(chance, len(done_before)) if kills < most else None
        ended = lab.run(kill=moment)
        begun, done = lab.bodies() - before, committed(lab.home)
        context = f"{story}, kill {kills} at {moment}"
        assert not set(begun) & done_before, f"{context}: a committed step ran again"
        assert max(begun.values(), default=1) == 1, f"{context}: a body ran twice in one life"
        told = {KEY_OF[int(line.split()[1])] for line in lab.marks()}
        assert told <= done, f"{context}: told of, not committed"
        assert done_before <= done, f"{context}: a commit was lost"
        if not ended.killed:
            break
        cut_off.update(set(begun) - done)
    assert (ended.exit_code, ended.stdout) == (0, RESULT), f"{context}: {ended.stderr}"
    assert lab.bodies() == Counter(KEYS) + cut_off
    assert lab.run().stdout == RESULT
    assert lab.bodies() == Counter(KEYS) + cut_off, f"{story}: the finished run ran something"
    with Holdfast(lab.home) as hf:
        assert hf.get("job").status == "completed"
        assert list(hf._store.verify()) == []
    return kills


def make_lab(tmp_path: Path) -> CrashLab:
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent(SCRIPT))
    return CrashLab(script, tmp_path / "store")
