"""Budgets: what the log tells of them, and what must hold whatever happened.

Shares no code with the product; docs/formats.md says what the events mean. `check_ledger` compares the tables
with the log, row for row, and checks the rules that no table shows:

    what is spent and reserved passes no limit, after any event
    a charge ends an open reservation, and the reservation of an attempt that has ended is not open
    an attempt has a reservation before it begins, in the budget that pays and in each of its parents alike
    a run that has completed has nothing reserved
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tests.crash.history import Event, RunHistory, require

BUDGET = "@budget/"
METERED = "metered"
"""The workflow of which every step reserves."""
_UNITS = ("usd", "tokens", "seconds", "steps")
_ENDS = ("StepCompleted", "StepAttemptFailed", "StepFailed")
_RESERVATION = ("run", "step", "attempt", "generation", "owner", "epoch")

Amounts = dict[str, Decimal]


@dataclass
class Account:
    """A budget, as the log tells it."""

    limits: dict[str, Any] = field(default_factory=dict)
    parent: str = ""
    by: str = ""
    spent: Amounts = field(default_factory=lambda: dict.fromkeys(_UNITS, Decimal(0)))
    open: dict[str, Event] = field(default_factory=dict)
    charged: dict[str, tuple[Event, Event]] = field(default_factory=dict)
    """The reservation and the charge of each attempt that was charged."""
    released: set[str] = field(default_factory=set)
    unknown: int = 0

    def used(self, unit: str) -> Decimal:
        return self.spent[unit] + sum(_amount(one.payload, unit) for one in self.open.values())


def _amount(payload: Mapping[str, Any], unit: str) -> Decimal:
    return Decimal(payload["amounts"].get(unit) or 0)


def check_ledger(
    db: sqlite3.Connection,
    streams: Mapping[str, Sequence[Event]],
    runs: Mapping[str, RunHistory],
    ids: Mapping[int, str],
) -> None:
    """Fold every budget and check everything. Raises `Violation`."""
    accounts = check_accounts(streams, runs.values(), lambda run, _: run.workflow == METERED)
    _check_tables(db, accounts, ids)


def check_accounts(
    streams: Mapping[str, Sequence[Event]],
    runs: Iterable[RunHistory],
    reserves: Callable[[RunHistory, Event], bool],
) -> dict[str, Account]:
    """The same without the tables. `reserves` says of an attempt, by its beginning, whether it must have
    reserved."""
    accounts = {
        name.removeprefix(BUDGET): _fold(name, events)
        for name, events in streams.items()
        if name.startswith(BUDGET) and events[0].type.startswith("Budget")
    }
    for name, account in accounts.items():
        _check_parent(name, account, accounts)
    for run in runs:
        _check_run(run, accounts, reserves)
    return accounts


def _fold(name: str, events: Iterable[Event]) -> Account:
    found = Account()
    for event in events:
        payload, where = event.payload, f"{name}, version {event.version}, {event.type}"
        id = payload.get("id", "")
        if event.type == "BudgetSet":
            found.limits = payload["limits"]
            found.parent, found.by = payload.get("parent", ""), payload.get("by", "")
        elif event.type == "BudgetReserved":
            require(id not in found.charged, f"{where}: {id} was charged before")
            found.open[id] = event
            found.released.discard(id)  # it is reserved anew by the execution that begins it
        elif event.type == "BudgetSettled":
            require(id in found.open, f"{where}: {id} is charged, and has no open reservation")
            found.charged[id] = (found.open.pop(id), event)
            for unit in _UNITS:
                found.spent[unit] += _amount(payload, unit)
            found.unknown += bool(payload.get("unknown"))
        else:
            require(id in found.open, f"{where}: {id} is released, and has no open reservation")
            found.released.add(id)
            del found.open[id]
        for unit in _UNITS:
            limit, used = found.limits.get(unit), found.used(unit)
            require(limit is None or used <= Decimal(limit), f"{where}: {used} of {limit} {unit}")
    return found


def _check_parent(name: str, account: Account, accounts: Mapping[str, Account]) -> None:
    """What is reserved and charged in a budget is so in its parent, with the same amounts."""
    if not account.parent:
        return
    above = accounts[account.parent]
    for id, event in account.open.items():
        same = id in above.open and above.open[id].payload == event.payload
        require(same, f"{id} is reserved in {name}, and not in its parent {account.parent}")
    for id, (_, event) in account.charged.items():
        same = id in above.charged and above.charged[id][1].payload == event.payload
        require(same, f"{id} is charged in {name}, and not the same in its parent {account.parent}")


def _check_run(
    run: RunHistory, accounts: Mapping[str, Account], reserves: Callable[[RunHistory, Event], bool]
) -> None:
    started, ended, paid = set(), set(), set()
    for event in run.events:
        if event.type == "StepStarted" or event.type in _ENDS:
            payload = event.payload
            number = payload.get("attempt", 1)
            id = f"{run.id}:{payload.get('generation', 0)}:{payload['key']}:{number}"
            (ended if event.type in _ENDS else started).add(id)
            if event.type == "StepStarted" and reserves(run, event):
                paid.add(id)
    for name, account in accounts.items():
        late = ended & account.open.keys()
        require(not late, f"{sorted(late)} have ended, and their reservations in {name} are open")
        begun = started & account.released
        require(not begun, f"{sorted(begun)} were begun, and their reservations in {name} were released")
        mine = [id for id, one in account.open.items() if one.payload["run"] == run.id]
        require(run.status != "completed" or not mine, f"run {run.id} has completed, and {mine} are open")
        never = {id for id, (one, _) in account.charged.items() if one.payload["run"] == run.id}
        never -= started
        require(not never, f"{sorted(never)} are charged in {name}, and were never begun")
    known = {id for account in accounts.values() for id in (*account.open, *account.charged)}
    require(paid <= known, f"{sorted(paid - known)} were begun, and have no reservation")


def _check_tables(db: sqlite3.Connection, accounts: Mapping[str, Account], ids: Mapping[int, str]) -> None:
    names = {id: name.removeprefix(BUDGET) for id, name in ids.items()}
    found: dict[str, Any] = {
        names[id]: (json.loads(limits), parent, by, _exact(usd, tokens, seconds, steps), unknown)
        for id, limits, parent, by, usd, tokens, seconds, steps, unknown in db.execute(
            "SELECT stream, limits, parent, person, spent_usd, spent_tokens, spent_seconds, spent_steps, "
            "unknown FROM budgets"
        )
    }
    expected: dict[str, Any] = {
        name: (one.limits, one.parent, one.by, one.spent, one.unknown) for name, one in accounts.items()
    }
    _compare("budgets", found, expected)
    columns = ", ".join(_RESERVATION)
    rows = db.execute(f"SELECT stream, id, amounts, {columns} FROM reservations")
    found = {(names[id], one): (json.loads(amounts), *rest) for id, one, amounts, *rest in rows}
    nothing = {"generation": 0, "owner": "", "epoch": 0}
    expected = {
        (name, id): (
            event.payload["amounts"],
            *({**nothing, **event.payload}[column] for column in _RESERVATION),
        )
        for name, one in accounts.items()
        for id, event in one.open.items()
    }
    _compare("reservations", found, expected)
    rows = db.execute("SELECT stream, run, usd, tokens, seconds, steps FROM run_spending")
    found = {(names[id], run): _exact(*spent) for id, run, *spent in rows}
    expected = {}
    for name, account in accounts.items():
        for reserved, charge in account.charged.values():
            sums = expected.setdefault((name, reserved.payload["run"]), dict.fromkeys(_UNITS, Decimal(0)))
            for unit in _UNITS:
                sums[unit] += _amount(charge.payload, unit)
    _compare("run_spending", found, expected)


def _exact(*amounts: Any) -> Amounts:
    return {unit: Decimal(amount) for unit, amount in zip(_UNITS, amounts, strict=True)}


def _compare(table: str, found: Mapping[Any, Any], expected: Mapping[Any, Any]) -> None:
    for at in found.keys() | expected.keys():
        same = found.get(at) == expected.get(at)
        require(same, f"table {table} has {found.get(at)} at {at}; the log says {expected.get(at)}")
