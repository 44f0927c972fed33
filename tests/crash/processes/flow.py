"""A user's script with runs that wait for somebody, for `holdfast run flow.py:order`; says what it does as
`program.py` does, and:

    passed RUN KEY VALUE    the workflow has what a gate gave it: a decision as a list, or a signal's value
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from program import awork, say, slow, told, work

from holdfast import Decision, approval, checkpoint, emit, gather, wait_for, workflow

BUSY_S = 0.2
"""So long that a kill strikes it now and then."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def passed(run: str, key: str, value: Any) -> Any:
    say("passed", run, key, json.dumps(value, separators=(",", ":")))
    return value


def decided(run: str, key: str, decision: Decision) -> bool:
    at = (decision.at - _EPOCH) // timedelta(microseconds=1)
    passed(run, key, [decision.outcome, decision.by, decision.comment, at])
    return decision.outcome == "approved"


@workflow
def order(run: str) -> str:
    """Packed; if somebody approves, paid for and sent; otherwise unpacked."""
    parcel = told(run, "work#1", work(1))
    emit("packed", parcel)
    if not decided(run, "send#1", approval("send", show=parcel)):
        return parcel + "+" + told(run, "slow#1", slow(BUSY_S))
    checkpoint("approved")
    passed(run, "paid#1", wait_for("paid"))
    return parcel + "+" + told(run, "slow#1", slow(BUSY_S))


async def share(run: str, number: int) -> str:
    key = f"share[{number}]/"
    if not decided(run, key + "send#1", await approval.aio("send", show=number)):
        return ""
    return told(run, key + "awork#1", await awork(number))


@workflow
async def aorder(run: str) -> str:
    """Two parts at once, each sent if somebody approves it."""
    parcel = told(run, "awork#1", await awork(1))
    return "+".join(filter(None, [parcel, *await gather(share(run, 1), share(run, 2))]))
