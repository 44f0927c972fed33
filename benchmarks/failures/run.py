"""Five failures that users of durable execution report, tried on holdfast, DBOS and LangGraph.

    python benchmarks/failures/run.py [--tries 3] [--only stolen] [--product holdfast] [--save]

Prints the table; `--save` writes it to `benchmarks/failures/outcomes.md`. Each scenario is a script of its own
(`dbos_stolen.py`, ...) that can be run alone in the product's environment.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from peers.environment import Unavailable, python_of  # noqa: E402 - found by the line above

SCRIPT_TIMEOUT_S = 240
WORST_FIRST = ("not run", "failed", "partly", "ok")
FAILURES = {
    "stolen": "A second process comes to the store while a step runs. Does the running step run twice at once?",
    "orphaned": "A process is killed in a step, two others live. Does one of them go on with that run, and only that one?",
    "swapped": "Parallel branches are answered in one order and replayed in another. Does each get its own answers?",
    "lost_errors": "A caught error is replayed after a crash. Is it the same error, and did its step stay done?",
    "discarded_siblings": "A branch fails while its sibling runs, and is tried again. Is the sibling's work kept?",
}
PRODUCTS: dict[str, Callable[[], Path]] = {
    "holdfast": lambda: Path(sys.executable),
    "dbos": lambda: python_of("dbos"),
    "langgraph": lambda: python_of("langgraph"),
}
TITLES = {"holdfast": "holdfast", "dbos": "DBOS", "langgraph": "LangGraph"}
LEGEND = (
    "**ok**: the failure did not happen. **partly**: it happened, and there is another form or setting, documented by the "
    "product, in which it did not. **failed**: it happened. Each product is used as its documentation says, on SQLite."
)


@dataclass(frozen=True)
class Outcome:
    """What became of one failure on one product: the worst of all tries, and how many had it."""

    failure: str
    product: str
    outcome: str
    how: str
    seen: int
    tries: int

    def cell(self) -> str:
        often = f" ({self.seen} of {self.tries} tries)" if self.tries > 1 else ""
        return f"**{self.outcome}**{often}: {self.how}"


def play(failure: str, product: str, tries: int = 1) -> Outcome:
    """Play the scenario `tries` times."""
    try:
        python = PRODUCTS[product]()
    except Unavailable as reason:
        return Outcome(failure, product, "not run", str(reason), tries, tries)
    found = [_once(python, failure, product) for _ in range(tries)]
    worst = min((outcome for outcome, _ in found), key=WORST_FIRST.index)
    hows = [how for outcome, how in found if outcome == worst]
    return Outcome(failure, product, worst, hows[0], len(hows), tries)


def _once(python: Path, failure: str, product: str) -> tuple[str, str]:
    command = [str(python), str(HERE / f"{product}_{failure}.py")]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SCRIPT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return "not run", f"the scenario did not end in {SCRIPT_TIMEOUT_S} s"
    last = (done.stdout.strip().splitlines() or [""])[-1]
    outcome, _, how = last.partition(": ")
    if done.returncode == 0 and outcome in WORST_FIRST:
        return outcome, how
    sys.stderr.write(done.stderr)
    return "not run", (done.stderr.strip().splitlines() or ["the scenario said nothing"])[-1]


def versions(products: Iterable[str]) -> dict[str, str]:
    """The installed versions, as the environments say."""
    found = {}
    for product in products:
        ask = f"from importlib.metadata import version; print(version({product!r}))"
        try:
            done = subprocess.run(
                [str(PRODUCTS[product]()), "-c", ask], check=True, capture_output=True, text=True
            )
            found[product] = done.stdout.strip()
        except (Unavailable, subprocess.CalledProcessError):
            found[product] = "not installed"
    return found


def table(outcomes: list[Outcome], *, brief: bool = False) -> str:
    """The outcomes in Markdown: a row per failure, a column per product; `brief` leaves out what was seen."""
    products = list(dict.fromkeys(outcome.product for outcome in outcomes))
    installed = versions(products)
    heads = [f"{TITLES[product]} {installed[product]}" for product in products]
    lines = ["| failure | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for failure in dict.fromkeys(outcome.failure for outcome in outcomes):
        cells = [one.outcome if brief else one.cell() for one in outcomes if one.failure == failure]
        name = failure.replace("_", " ").capitalize()
        lines.append(f"| **{name}.** {FAILURES[failure]} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", LEGEND]) + "\n"


def outcomes(tries: int = 1, only: str = "", product: str = "") -> list[Outcome]:
    """Every scenario whose failure and product hold these words, one after another."""
    found = []
    for failure in FAILURES:
        for one in PRODUCTS:
            if only in failure and product in one:
                print(f"  {failure} on {TITLES[one]} ...", file=sys.stderr, flush=True)
                found.append(play(failure, one, tries))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tries", type=int, default=1, help="how often each is played (1)")
    parser.add_argument("--only", default="", help="only failures whose name holds this")
    parser.add_argument("--product", default="", help="only products whose name holds this")
    parser.add_argument("--save", action="store_true", help="write outcomes.md")
    options = parser.parse_args()
    found = outcomes(options.tries, options.only, options.product)
    text = table(found)
    print(text)
    if options.save:
        (HERE / "outcomes.md").write_text(f"# Five failures\n\n{text}")
    return int(any(one.product == "holdfast" and one.outcome != "ok" for one in found))


if __name__ == "__main__":
    sys.exit(main())
