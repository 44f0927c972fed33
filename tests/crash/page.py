"""`docs/reliability.md`: the promise, and what was tried to break it. Written by the commands that try."""

from __future__ import annotations

import json
import platform
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tests.crash.score import Score

DOCS = Path(__file__).parents[2] / "docs"
DATA = DOCS / "reliability.json"
PAGE = DOCS / "reliability.md"

TEMPLATE = Path(__file__).with_name("reliability.template.md")


def save_crash(scores: list[Score], seeds: list[int], seconds: float) -> None:
    _save(
        "crash",
        {
            "date": time.strftime("%Y-%m-%d"),
            "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
            "seeds": seeds,
            "seconds": round(seconds),
            "scores": [_as_saved(score) for score in scores],
        },
    )


def save_kind(scores: list[Score], seed: int) -> None:
    """The scores of one kind that was tried alone, in the place of its former ones; those of others stay."""
    data = json.loads(DATA.read_text())
    mine = {(score.kind, score.what) for score in scores}
    kept = [one for one in data["crash"]["scores"] if (one["kind"], one["what"]) not in mine]
    told = [_as_saved(replace(score, notes={**score.notes, "seed": seed})) for score in scores]
    _save("crash", {**data["crash"], "scores": [*kept, *told]})


def _as_saved(score: Score) -> dict[str, Any]:
    """Where the project lies on this machine is nobody's business."""
    here = f"{DOCS.parent}/"
    return {**asdict(score), "violations": [text.replace(here, "") for text in score.violations]}


def save_oracle(programs: str, sums: dict[str, int]) -> None:
    """The score of one kind of random programs; those of others stay."""
    data = json.loads(DATA.read_text()) if DATA.exists() else {}
    _save("oracle", {**data.get("oracle", {}), programs: {"date": time.strftime("%Y-%m-%d"), **sums}})


def save_mutants(caught: list[dict[str, Any]]) -> None:
    _save("mutants", {"date": time.strftime("%Y-%m-%d"), "mutants": caught})


def _save(part: str, found: dict[str, Any]) -> None:
    data = json.loads(DATA.read_text()) if DATA.exists() else {}
    data[part] = found
    DATA.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(text_of(data))


def text_of(data: dict[str, Any]) -> str:
    """The page of this data."""
    text = TEMPLATE.read_text()
    for part, write in (("crash", _crash), ("oracle", _oracle), ("mutants", _mutants)):
        text = text.replace(f"@{part}@\n", write(data[part]) if part in data else "")
    return text


def _crash(found: dict[str, Any]) -> str:
    scores = found["scores"]
    tried = [score for score in scores if not score["skipped"]]
    lines = [
        "## What was tried",
        "",
        f"`make crash`, {found['date']}, {found['system']}, {found['seconds']} s, seeds "
        f"{', '.join(map(str, found['seeds']))}: **{sum(score['points'] for score in tried):,} points, "
        f"{sum(score['lost'] for score in tried)} lost, "
        f"{sum(len(score['violations']) for score in tried)} violations.**",
        "",
        "A point is one fault at one place, followed by a check of everything and, but for most power cuts, "
        "by a resume to the end and another check. The checker shares no code with the engine. "
        "A point of `same execution` is a kill at one commit of a random program; its resumed run must show "
        "the code the same trace as before.",
        "",
        "| fault | where | points | lost | violations | beside |",
        "|---|---|---:|---:|---:|---|",
    ]
    for score in scores:
        beside = ", ".join(f"{name}: {count:,}" for name, count in score["notes"].items())
        if score["skipped"]:
            lines.append(f"| {score['kind']} | {score['what']} | skipped | | | {score['skipped']} |")
        else:
            lines.append(
                f"| {score['kind']} | {score['what']} | {score['points']:,} | {score['lost']} | "
                f"{len(score['violations'])} | {beside} |"
            )
    return "\n".join(lines) + "\n"


def _oracle(found: dict[str, Any]) -> str:
    columns = next(iter(found.values()))
    lines = [
        "## Is it the same execution?",
        "",
        "`python -m tests.crash.oracle`: random programs, killed at each of their commits and resumed. "
        "The code must see the same trace as in the undisturbed run, and no `once` body runs twice. "
        "A mutated program is changed before it is resumed: it must follow the recorded outcomes, or stop "
        "with `DivergenceError` before any step runs.",
        "",
        f"| programs | {' | '.join(columns)} |",
        f"|---|---|{'---:|' * (len(columns) - 1)}",
    ]
    for programs, sums in found.items():
        values = [str(one) if name in ("date", "seed") else f"{one:,}" for name, one in sums.items()]
        lines.append(f"| {programs} | {' | '.join(values)} |")
    return "\n".join(lines) + "\n"


def _mutants(found: dict[str, Any]) -> str:
    mutants = found["mutants"]
    lines = [
        "## Would the tests see it?",
        "",
        f"`make mutants`, {found['date']}: {sum(one['caught'] for one in mutants)} of {len(mutants)} "
        "deliberate defects are caught by the test that is named with them.",
        "",
        "| defect | caught by |",
        "|---|---|",
    ]
    lines += [
        f"| {one['name']} | {'`' + one['test'] + '`' if one['caught'] else '**not caught**'} |"
        for one in mutants
    ]
    return "\n".join(lines) + "\n"
