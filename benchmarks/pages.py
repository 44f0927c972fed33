"""The pages that are made of the results: `results.md`, the charts, and the section "How fast" of the README.

Nothing in them is written by hand, so that no figure can go stale; a test compares them with `results.json`.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import charts
from failures import outcomes
from peers.comparison import DISK, KILL, RATES, Comparison, Standing
from results import Results
from row import HEAD, Row, number

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
HEADING = "## How fast\n"
SECTION = re.compile(rf"^{HEADING}.*?(?=^## )", re.MULTILINE | re.DOTALL)

ABOUT_FIGURES = (
    "Raw is apsw in WAL mode with `synchronous=FULL`, one row of 200 bytes per commit. A step is an event with its arguments and "
    "result, its hash and the stream's head. Runs are counted with their starts and ends. holdfast and raw are measured in turns, some "
    "dozens of steps and commits at a time (`turns.py`); a ratio is the median of all rounds, the spread is the lowest and the "
    "highest round. [Where each microsecond of a step goes](../docs/hot-path.md)."
)
ABOUT_FILES = (
    "Beside `git add -A && git write-tree` with a private index, and `git checkout-index`, on the same trees of files of words, "
    "sizes lognormal with a median of 4 KB; each in turn. What holdfast saves is on the disk when it says so; git does not wait for "
    "that."
)
ABOUT_PEERS = (
    "In turns with holdfast on the same disk: a peer's figure lies between two of holdfast's, and a ratio is taken against those "
    "two. Steps return 200 bytes. How each is set up, and why: [the peers](peers/README.md)."
)
CHARTS = {
    "sequential.svg": (
        "sequential",
        "Sequential steps per second",
        "One run of 300 steps, one after another",
    ),
    "concurrent.svg": ("many", "Concurrent steps per second", "50 runs of 20 steps each, at once"),
}
HEADLINES = (
    "sequential sync steps",
    "50 async runs × 20 steps at once",
    "replay of a 10,000-step run, load included",
    "time per step at step 50,000 / at step 100",
    "four processes: worst wait for a commit",
    "loop lag, fsync delayed by 50 ms, 1,000 async steps",
)


def write(results: Results) -> None:
    """Write all pages."""
    (HERE / "results.md").write_text(page(results))
    README.write_text(with_section(README.read_text(), results))
    for name, picture in pictures(results).items():
        (HERE / name).write_text(picture)


def page(results: Results) -> str:
    """`results.md`: every table."""
    parts = ["# Benchmark", f"`make bench`, {results.where}, durability full."]
    short = [f"- {row.what}: {row.value} (reach: {row.goal})" for row in _judged(results) if not row.met]
    if short:
        parts += ["## What falls short", "\n".join(short)]
    if results.rows:
        parts += ["## Figures", ABOUT_FIGURES, "\n".join([HEAD, *(row.markdown() for row in results.rows)])]
    if results.files:
        parts += ["## Files", ABOUT_FILES, "\n".join([HEAD, *(row.markdown() for row in results.files)])]
    if results.comparison is not None:
        rounds = f"Rounds: {results.comparison.rounds}."
        parts += ["## Beside the peers", f"{ABOUT_PEERS} {rounds}", results.comparison.markdown()]
    if results.failures:
        parts += ["## Five failures", outcomes.markdown(results.failures)]
    return "\n\n".join(parts) + "\n"


def pictures(results: Results) -> dict[str, str]:
    """The charts by the names of their files."""
    comparison = results.comparison
    if comparison is None:
        return {}
    note = "Results of 200 bytes. Medians; the thin lines go from the lowest to the highest round."
    if comparison.absent:
        note += f" Absent: {', '.join(comparison.absent)}."
    everybody = (comparison.ours, *comparison.peers)
    return {
        name: charts.chart(
            title,
            subtitle,
            [_bar(one, figure) for one in everybody],
            charts.Yardstick("raw SQLite, one row per commit", comparison.raw[figure].median),
            note,
        )
        for name, (figure, title, subtitle) in CHARTS.items()
    }


def with_section(readme: str, results: Results) -> str:
    """The README with its section made anew."""
    return SECTION.sub(lambda _: section(results), readme, count=1)


def section(results: Results) -> str:
    """The README's section, from its heading to the next."""
    rows = [row for row in results.rows if row.what in HEADLINES]
    parts = [
        HEADING.strip(),
        _prose(
            f"`make bench`, {results.where}: medians, in turns on one disk. A step is on the disk before the next "
            "begins; raw is SQLite by itself, one row per commit."
        ),
        "\n".join(["| holdfast | |", "|---|---|", *(f"| {row.what} | {row.measured} |" for row in rows)]),
    ]
    if results.comparison is not None:
        parts += [
            "Beside its peers, each set up [as its documentation advises](benchmarks/peers/README.md):",
            _beside(results.comparison),
            "\n".join(f"![{title}](benchmarks/{name})" for name, (_, title, _) in CHARTS.items()),
        ]
    return "\n\n".join([*parts, _prose(_shortfall(results))]) + "\n\n"


def _beside(comparison: Comparison) -> str:
    """holdfast and its peers in their main settings, a line for each figure."""
    columns = [comparison.ours, *(peer for peer in comparison.peers if not peer.variant)]
    cells = {f"{title}, per second": [one.rate(figure) for one in columns] for figure, title in RATES.items()}
    cells[KILL] = [f"{number(one.kill_to_rerun.median)} ms" for one in columns]
    cells[DISK] = [one.weight() for one in columns]
    lines = [
        "| | " + " | ".join(f"{one.name} {one.version}" for one in columns) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    lines += [f"| {title} | {' | '.join(values)} |" for title, values in cells.items()]
    absent = [_prose(f"{name} is absent: {reason}.") for name, reason in comparison.absent.items()]
    return "\n".join([*lines, "", *absent]).strip()


def _judged(results: Results) -> list[Row]:
    """The figures that have something to reach."""
    return [*results.rows, *results.files, *(results.comparison.rows() if results.comparison else [])]


def _shortfall(results: Results) -> str:
    """How many figures fall short of what they are to reach, and where all the rest is told."""
    rows = _judged(results)
    short = sum(not row.met for row in rows)
    told = (
        f"{short} of {len(rows)} figures fall short of their aim" if short else "Every figure reaches its aim"
    )
    return (
        f"{told}. [All tables](benchmarks/results.md) name them, with the spread, the settings beside each figure, "
        "and five failures that users of such engines report, tried on each."
    )


def _prose(text: str) -> str:
    """Lines as long as those around them."""
    return textwrap.fill(text, 110, break_long_words=False, break_on_hyphens=False)


def _bar(one: Standing, figure: str) -> charts.Bar:
    rate = one.rates[figure]
    return charts.Bar(one.name, one.setting, rate.median, rate.low, rate.high, ours=one.name == "holdfast")
