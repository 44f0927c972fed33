"""`docs/evaluation.md`: what `make eval` found."""

from __future__ import annotations

import platform
from collections.abc import Sequence

from evals.delivering import Delivery

_HEAD = """# Evaluation

`make eval` lets agents deliver ten coding tasks in small git repositories (`evals/tasks.py`) through `holdfast deliver`,
with both approvals given from other processes: once undisturbed, and once with `kill -9` at random moments of its commands. The agents
are a script and a model behind a fake provider, so the question is not whether a model can program. It is whether the work
survives: solved, verified, nothing repeated, and the same files and cost as without kills. Three tasks fail their check first and must
be repaired.

An effect counts as repeated if it happened more often than the log has attempts of its step: requests are counted by the
provider, and each implementation leaves a line outside the workspace. A request that was in flight at a kill is sent again
as a second attempt, with the same idempotency key.
"""


def page(done: Sequence[tuple[Delivery, Delivery]], seed: int, faults: int) -> str:
    """The page for a whole evaluation."""
    both = [one for pair in done for one in pair]
    kills = sum(killed.kills for _, killed in done)
    lines = [
        _HEAD,
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, seed {seed}: "
        f"**{sum(one.solved for one in both)} of {len(both)} deliveries solved, {kills} kills, "
        f"{sum(one.repeated for one in both)} repeated effects, {faults} faults.**",
        "",
        "| task | agent | solved | sent back by its check | kills | files equal | requests, with kills | cost, with kills |",
        "|---|---|---|---:|---:|---|---|---|",
    ]
    for calm, killed in done:
        requests = f"{calm.requests}, {killed.requests}" if calm.requests else ""
        cost = f"${calm.usd}, ${killed.usd}" if calm.usd else ""
        lines.append(
            f"| {calm.task} | {calm.backend} | {_word(calm.solved and killed.solved)} | {calm.sent_back} "
            f"| {killed.kills} | {_word(calm.files == killed.files)} | {requests} | {cost} |"
        )
    return "\n".join(lines) + "\n"


def _word(holds: bool) -> str:
    return "yes" if holds else "**no**"
