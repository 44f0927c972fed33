"""Outcomes as the store in memory has them: plain folds over the events of all streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.kernel import events as e
from holdfast.store.learning_port import BILLIONTH, OutcomeRow, OutcomeSums
from holdfast.store.port import Recorded

_Key = tuple[int, int, int]


def outcomes(
    streams: Iterable[Iterable[Recorded]], family: str, kind: str, candidate: str, limit: int
) -> list[OutcomeRow]:
    """The answer of `Store.outcomes` for these streams, which are in the order of their creation."""
    every = _every(streams, family)
    found = sorted(((place, row) for names, place, row in every if names == (kind, candidate)), reverse=True)
    return [row for _, row in found][:limit]


def outcome_sums(streams: Iterable[Iterable[Recorded]], family: str, kind: str | None) -> list[OutcomeSums]:
    """The answer of `Store.outcome_sums`."""
    by_name: dict[tuple[str, str], list[OutcomeRow]] = {}
    for names, _, row in _every(streams, family):
        if kind is None or names[0] == kind:
            by_name.setdefault(names, []).append(row)
    return [
        OutcomeSums(
            *names,
            good=sum(row.ok for row in rows),
            bad=sum(not row.ok for row in rows),
            failed=sum(row.error != "" for row in rows),
            usd=sum(row.usd for row in rows if row.usd >= 0),
            priced=sum(row.usd >= 0 for row in rows),
            last_at=max(row.at for row in rows),
        )
        for names, rows in sorted(by_name.items())
    ]


def _every(
    streams: Iterable[Iterable[Recorded]], family: str
) -> Iterator[tuple[tuple[str, str], _Key, OutcomeRow]]:
    """((kind, candidate), its place, the outcome) of all that are no copies."""
    for number, stream in enumerate(streams):
        recorded = list(stream)
        forked = [n for n, one in enumerate(recorded) if isinstance(one.event, e.RunForked)]
        for event, version, at in recorded[forked[-1] if forked else 0 :]:
            if isinstance(event, e.OutcomeReported) and event.family == family:
                usd = -1 if event.usd is None else int(event.usd / BILLIONTH)
                for name in dict.fromkeys(event.chosen):
                    yield (
                        (event.kind, name),
                        (at, number, version),
                        OutcomeRow(at, event.ok, usd, event.error),
                    )
