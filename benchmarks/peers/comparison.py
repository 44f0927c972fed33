"""holdfast and its peers measured in turns: every figure between two measurements of raw SQLite.

A ratio is taken against the raw commits just before and just after it, so that a noisy machine moves both. Rounds
begin with another contender each time, so that none always comes first.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

RATES = ("sequential", "many", "one_step_runs")
RATE_TITLES = ("sequential steps/s", "50 runs × 20 steps at once, steps/s", "1-step runs/s")


class Contender(Protocol):
    """What is measured: a `Peer`, or holdfast in the same clothes."""

    name: str
    version: str
    setting: str
    durability: str

    def sequential(self) -> float: ...
    def many(self) -> float: ...
    def one_step_runs(self) -> float: ...
    def kill_to_rerun(self) -> float: ...


def compare(
    contenders: Sequence[Contender], raw: Callable[[], float], rounds: int = 5
) -> list[dict[str, Any]]:
    """A row per contender, and one for raw SQLite, the yardstick, in front; medians, lowest and highest."""
    found: dict[str, dict[str, list[float]]] = {one.name: {} for one in contenders}
    raws: list[float] = []
    for one in contenders:
        _say(f"warming up {one.name}")
        for figure in RATES:
            getattr(one, figure)()
    for turn in range(rounds):
        _say(f"round {turn + 1} of {rounds}")
        start = turn % len(contenders)
        for figure in RATES:
            for one in [*contenders[start:], *contenders[:start]]:
                before, rate, after = raw(), float(getattr(one, figure)()), raw()
                raws += [before, after]
                found[one.name].setdefault(figure, []).append(rate)
                found[one.name].setdefault(figure + "_ratio", []).append(rate / ((before + after) / 2))
        for one in contenders:
            found[one.name].setdefault("kill_to_rerun", []).append(one.kill_to_rerun())
    yardstick = {
        "name": "raw SQLite",
        "version": "",
        "setting": "apsw, WAL, synchronous=FULL, one 200-byte row per commit",
    }
    promise = {
        "durability": "a row is committed before the next one",
        "yardstick": True,
        "sequential": _summary(raws),
    }
    return [{**yardstick, **promise}, *(_row(one, found[one.name]) for one in contenders)]


def markdown(rows: Sequence[dict[str, Any]], missing: Sequence[Any] = ()) -> str:
    """The table, with the setting of each beside its figures; a line for each peer that could not run."""
    lines = [
        "| | " + " | ".join(RATE_TITLES) + " | kill → step runs again | setting |",
        "|---" * (len(RATE_TITLES) + 3) + "|",
    ]
    for row in rows:
        rates = [_cell(row, figure) for figure in RATES]
        kill = f"{row['kill_to_rerun']['rate']:,.0f} ms" if "kill_to_rerun" in row else ""
        name = f"**{row['name']}** {row['version']}".strip()
        lines.append(f"| {name} | {' | '.join(rates)} | {kill} | {row['setting']}; {row['durability']} |")
    lines += [f"| **{one.name}** | not available: {one.reason} | | | | |" for one in missing]
    return "\n".join(lines) + "\n"


def _cell(row: dict[str, Any], figure: str) -> str:
    if figure not in row:
        return ""
    ratio = f" ({row[figure]['ratio']:.2f} × raw)" if "ratio" in row[figure] else ""
    return f"{row[figure]['rate']:,.0f}{ratio}"


def _row(one: Contender, values: dict[str, list[float]]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": one.name,
        "version": one.version,
        "setting": one.setting,
        "durability": one.durability,
        "kill_to_rerun": _summary(values["kill_to_rerun"]),
    }
    for figure in RATES:
        row[figure] = {**_summary(values[figure]), "ratio": statistics.median(values[figure + "_ratio"])}
    return row


def _summary(values: list[float]) -> dict[str, float]:
    return {"rate": statistics.median(values), "low": min(values), "high": max(values)}


def _say(text: str) -> None:
    print(f"  {text} ...", file=sys.stderr, flush=True)
