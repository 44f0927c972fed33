"""Play the scenarios, and say what became of each failure on each product."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from peers.environment import Unavailable, environ, python_of

HERE = Path(__file__).parent
SCRIPT_TIMEOUT_S = 240
WORST_FIRST = ("not run", "failed", "partly", "ok")
FAILURES = {
    "stolen": "A second process comes to the store while a step runs. Does the running step run twice at once?",
    "orphaned": "A process is killed in a step, two others live. Does one of them continue that run, and only that one?",
    "swapped": "Parallel branches are answered in one order and replayed in another. Does each get its own answers?",
    "lost_errors": "A caught error is replayed after a crash. Is it the same error, and did its step stay done?",
    "discarded_siblings": "A branch fails while its sibling runs, and is tried again. Is the sibling's work kept?",
}
PRODUCTS = {"holdfast": "holdfast", "dbos": "DBOS", "langgraph": "LangGraph"}
LEGEND = (
    "**ok**: the failure did not happen. **partly**: it happened, and there is another form or setting, documented by the "
    "product, in which it did not. **failed**: it happened. Each product is used as its documentation says, on SQLite."
)


class Outcome(msgspec.Struct, frozen=True):
    """What became of one failure on one product: the worst of all tries, and how many had it."""

    failure: str
    product: str
    version: str
    outcome: str
    how: str
    seen: int
    tries: int

    def cell(self) -> str:
        often = f" ({self.seen} of {self.tries} tries)" if self.tries > 1 else ""
        return f"**{self.outcome}**{often}: {self.how}"


@dataclass(frozen=True)
class Stage:
    """Where the scenarios of one product are played: an interpreter, and the variables it sees."""

    product: str
    python: Path
    environ: dict[str, str]
    version: str

    @classmethod
    def of(cls, product: str) -> Stage:
        """Raises `Unavailable` if the product cannot be had here."""
        ours = product == "holdfast"
        python = Path(sys.executable) if ours else python_of(product)
        seen = dict(os.environ) if ours else environ()
        ask = f"from importlib.metadata import version; print(version({product!r}))"
        done = subprocess.run([python, "-c", ask], env=seen, check=True, capture_output=True, text=True)
        return cls(product, python, seen, done.stdout.strip())

    def play(self, failure: str, tries: int) -> Outcome:
        """Play the scenario `tries` times."""
        found = [self._play_once(failure) for _ in range(tries)]
        worst = min((outcome for outcome, _ in found), key=WORST_FIRST.index)
        hows = [how for outcome, how in found if outcome == worst]
        return Outcome(failure, self.product, self.version, worst, hows[0], len(hows), tries)

    def _play_once(self, failure: str) -> tuple[str, str]:
        command = [str(self.python), str(HERE / f"{self.product}_{failure}.py")]
        try:
            done = subprocess.run(
                command,
                env=self.environ,
                check=False,
                capture_output=True,
                text=True,
                timeout=SCRIPT_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            return "not run", f"the scenario did not end in {SCRIPT_TIMEOUT_S} s"
        last = (done.stdout.strip().splitlines() or [""])[-1]
        outcome, _, how = last.partition(": ")
        if done.returncode == 0 and outcome in WORST_FIRST:
            return outcome, how
        sys.stderr.write(done.stderr)
        return "not run", (done.stderr.strip().splitlines() or ["the scenario said nothing"])[-1]


def play(tries: int, only: str = "") -> list[Outcome]:
    """Every scenario whose failure or product holds `only`, one after another; a product that cannot be had is told."""
    found = []
    for product, title in PRODUCTS.items():
        failures = [failure for failure in FAILURES if only.lower() in f"{failure} {product}"]
        if not failures:
            continue
        try:
            stage = Stage.of(product)
        except Unavailable as reason:
            found += [
                Outcome(failure, product, "", "not run", str(reason), tries, tries) for failure in failures
            ]
            continue
        for failure in failures:
            print(f"  {failure} on {title} ...", file=sys.stderr, flush=True)
            found.append(stage.play(failure, tries))
    return found


def markdown(outcomes: Sequence[Outcome]) -> str:
    """A row per failure, a column per product."""
    products = {one.product: f"{PRODUCTS[one.product]} {one.version}".strip() for one in outcomes}
    cells = {(one.failure, one.product): one.cell() for one in outcomes}
    lines = ["| failure | " + " | ".join(products.values()) + " |", "|---" * (len(products) + 1) + "|"]
    for failure in dict.fromkeys(one.failure for one in outcomes):
        name = failure.replace("_", " ").capitalize()
        told = " | ".join(cells.get((failure, product), "") for product in products)
        lines.append(f"| **{name}.** {FAILURES[failure]} | {told} |")
    return "\n".join([*lines, "", LEGEND])
