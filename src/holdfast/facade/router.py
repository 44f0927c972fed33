"""`hf.router`: what the router has learned."""

from __future__ import annotations

import builtins
from collections import Counter
from itertools import groupby
from random import Random
from typing import TYPE_CHECKING, ClassVar

from holdfast.clock import SystemClock, instant
from holdfast.facade.namespace import Namespace
from holdfast.facade.open_store import blocking

if TYPE_CHECKING:
    from holdfast.agents.learning.learner import Record, Rest
    from holdfast.views.learning import CandidateStats

_DRAWS = 400


class RouterNamespace(Namespace):
    """In workflow code each call is a recorded step."""

    NAMESPACE: ClassVar = "router"

    @blocking
    def stats(self, kind: str | None = None) -> builtins.list[CandidateStats]:
        """The outcomes of each candidate, by kind of work and name; of one kind if it is named. `value` and
        `share` are those of our router, also where another is registered."""
        from holdfast.agents.learning import learner
        from holdfast.store.learning_port import BILLIONTH
        from holdfast.views.learning import CandidateStats

        store, settings = self._holdfast._store, self._holdfast.settings
        now = (self._holdfast._clock or SystemClock()).now_us()
        rest = learner.Rest(settings.router_rest_after, settings.router_rest_s)
        redact = self._holdfast._reader.redactor.redact
        found = []
        for name, group in groupby(store.outcome_sums("router", kind), key=lambda one: one.kind):
            sums = list(group)
            records = {
                one.candidate: learner.summed(store.outcomes("router", name, one.candidate, learner.WINDOW))
                for one in sums
            }
            shares = _shares(records, now, settings.router_failure_usd, rest)
            for one in sums:
                record = records[one.candidate]
                until = rest.until(record)
                found.append(
                    CandidateStats(
                        redact(name),
                        redact(one.candidate),
                        one.good,
                        one.bad,
                        one.failed,
                        (one.usd * BILLIONTH).normalize() if one.priced else None,
                        round(learner.expected_value(record, settings.router_failure_usd), 3),
                        shares[one.candidate] / _DRAWS,
                        instant(until) if until > now else None,
                        instant(one.last_at),
                    )
                )
        return found


def _shares(records: dict[str, Record], now: int, failure_usd: float, rest: Rest) -> Counter[str]:
    """How often each would be chosen, of so many draws; the same each time for the same outcomes."""
    from holdfast.agents.learning import learner

    random = Random(0)
    return Counter(learner.rank(records, random, now, failure_usd, rest)[0] for _ in range(_DRAWS))
