"""How the figures of search are measured: stores with many tasks, and with many events."""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Iterable
from pathlib import Path

import msgspec

from holdfast import Holdfast
from holdfast.kernel import events as e
from holdfast.kernel import task
from holdfast.store.port import Append, new_event

TASKS = 100_000
FEW_EVENTS, MANY_EVENTS = 10_000, 1_000_000
STEPS_PER_RUN = 1000
LOOKS = 20
QUERIES = ("kelp", "kelp harbour", '"mend the net" -gull', "harb*")
"""A rare word, two words of which one is in every item, a phrase, the beginning of the word that is everywhere."""


class Searching:
    """Stores that are made and indexed when they are first needed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def growth(self) -> float:
        """The time of a search with 1,000,000 events in the store, divided by that with 10,000."""
        times = []
        for count in (FEW_EVENTS, MANY_EVENTS):
            times.append(statistics.mean(looks(events(self._directory, count)).values()))
        return times[1] / times[0]


def events(directory: Path, count: int) -> Path:
    """The store with so many events, made and indexed when it is first needed."""
    home = directory / f"searched-{count}"
    if not home.exists():
        make(home, _runs(count))
    return home


def make(home: Path, appends: Iterable[Append]) -> float:
    """A store with these streams, indexed; the seconds that the first search took."""
    with Holdfast(home, durability="process") as hf:
        last = None
        for append in appends:
            hf._store.append_soon(append, lambda _: None)
            last = append
        while last is not None and not any(hf._store.entries(last.stream)):
            time.sleep(0.01)
        began = time.perf_counter()
        hf.search("kelp")
        return time.perf_counter() - began


def looks(home: Path) -> dict[str, float]:
    """Query → milliseconds, the median of some."""
    found: dict[str, float] = {}
    with Holdfast(home, read_only=True) as hf:
        for query in QUERIES:
            times = []
            for _ in range(LOOKS):
                began = time.perf_counter()
                assert hf.search(query).hits, query
                times.append((time.perf_counter() - began) * 1000)
            found[query] = statistics.median(times)
    return found


def slowest(home: Path) -> float:
    return max(looks(home).values())


def _text(n: int) -> str:
    """Every item has `harbour`, one in 500 `kelp`, one in 100 the phrase."""
    kelp = "kelp" if n % 500 == 0 else f"weed{n % 997}"
    net = "mend the net" if n % 100 == 0 else f"row {n % 89} of the boats"
    return f"harbour {kelp} {net} {n}"


def task_appends(count: int) -> Iterable[Append]:
    for n in range(count):
        made = task.TaskCreated(_text(n), body=f"What is to be done about {_text(n + 1)}, and by whom")
        stream = task.stream_of(str(uuid.UUID(int=n, version=4)))
        yield Append(stream, 0, [new_event(made, n + 1)], begins=task.KIND)


def _runs(count: int) -> Iterable[Append]:
    for n in range(0, count, STEPS_PER_RUN):
        events: list[e.Event] = [e.RunCreated(e.Code("flow", "module"), "d"), e.RunClaimed("me", 1)]
        for at in range(n, n + STEPS_PER_RUN):
            args = msgspec.Raw(msgspec.json.encode({"text": _text(at)}))
            events.append(e.StepRan(f"ask#{at - n + 1}", "ask", at + 1, args=args, result=msgspec.Raw(b"1")))
        yield Append(f"run-{n:07}", 1, [new_event(one, n + 1) for one in events], begins="run")


if __name__ == "__main__":
    import sys
    import tempfile

    only = sys.argv[2] if len(sys.argv) > 2 else ""

    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as directory:
        for name, appends in (
            (f"{TASKS:,} tasks", task_appends(TASKS)),
            (f"{FEW_EVENTS:,} events", _runs(FEW_EVENTS)),
            (f"{MANY_EVENTS:,} events", _runs(MANY_EVENTS)),
        ):
            if only not in name:
                continue
            home = Path(directory) / name.replace(" ", "-")
            took = make(home, appends)
            size = (home / "search.db").stat().st_size / 1e6
            shown = ", ".join(f"{query} {ms:.1f} ms" for query, ms in looks(home).items())
            print(f"{name}: indexed in {took:.1f} s, {size:.0f} MB; {shown}")
