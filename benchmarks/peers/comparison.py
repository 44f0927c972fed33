"""What was found of holdfast and its peers, and what holdfast is to reach beside them."""

from __future__ import annotations

import msgspec

from row import HEAD, Row, Spread, number

RATES = {
    "sequential": "sequential sync steps",
    "many": "50 sync runs × 20 steps at once",
    "many_async": "50 async runs × 20 steps at once",
    "one_step_runs": "1-step runs",
}
KILL = "`kill -9` → the step runs again"
DISK = "disk for 600 steps of 2 KB, by the data"

REACHES: tuple[tuple[str, str, float, float | None], ...] = (
    ("sequential", "DBOS", 8, 12),
    ("sequential", "LangGraph", 6, None),
    ("many", "DBOS", 25, 50),
    ("many_async", "DBOS", 25, 50),
    ("one_step_runs", "DBOS", 10, None),
)
RAW_SETTING = "commits, in turns with holdfast: apsw, WAL, synchronous=FULL; one row of 200 bytes a commit"
KILL_REACH_MS = 200
DISK_REACH = 1.5


class Standing(msgspec.Struct, frozen=True):
    """What was found of one contender: `rates` a second; `behind`, how many times as fast holdfast was just before and
    after; `disk`, bytes for each byte that the steps returned, per way to hold the results."""

    name: str
    version: str
    setting: str
    durability: str
    variant: bool
    rates: dict[str, Spread]
    behind: dict[str, Spread]
    kill_to_rerun: Spread
    disk: dict[str, float]

    def rate(self, figure: str) -> str:
        return number(self.rates[figure].median)

    def weight(self) -> str:
        return ", ".join(
            f"{number(times)} ×" + (f" ({way})" if way else "") for way, times in self.disk.items()
        )

    def markdown(self) -> str:
        """A line of the table: what was found, and beside it how it was set up."""
        cells = [
            self.rate(figure)
            + (f" (holdfast: {number(self.behind[figure].median)} ×)" if figure in self.behind else "")
            for figure in RATES
        ]
        cells += [f"{number(self.kill_to_rerun.median)} ms", self.weight()]
        return f"| **{self.name}** {self.version} | {' | '.join(cells)} | {self.setting}; {self.durability} |"


class Comparison(msgspec.Struct, frozen=True):
    """Raw commits a second, in turns with each rate of holdfast's; holdfast; its peers; and by name those that could
    not be had, each with the reason."""

    rounds: int
    raw: dict[str, Spread]
    ours: Standing
    peers: list[Standing]
    absent: dict[str, str]

    def rows(self) -> list[Row]:
        """What holdfast is to reach, beside the peers that could be had and by itself."""
        peers = {peer.name: peer for peer in self.peers}
        (disk,) = self.ours.disk.values()
        return [
            *(
                Row(
                    RATES[figure],
                    peers[name].behind[figure],
                    f"× {name}",
                    reach,
                    aim,
                    beside=f"{self.ours.rate(figure)}/s; {name} {peers[name].rate(figure)}/s",
                )
                for figure, name, reach, aim in REACHES
                if name in peers
            ),
            Row(KILL, self.ours.kill_to_rerun, "ms", KILL_REACH_MS, at_most=True),
            Row(DISK, Spread.of([disk]), "×", DISK_REACH, at_most=True),
        ]

    def markdown(self) -> str:
        """What is to be reached, then everybody's figures; a line for each peer that could not be had."""
        titles = [*(f"{title}, per second" for title in RATES.values()), KILL, DISK]
        raw = " | ".join(number(self.raw[figure].median) for figure in RATES)
        unjudged = [
            f"| {RATES[figure]} | not judged: no {name} here | ≥ {reach:g} × {name} | {aim or ''} | | |"
            for figure, name, reach, aim in REACHES
            if name in self.absent
        ]
        return "\n".join(
            [
                HEAD,
                *(row.markdown() for row in self.rows()),
                *unjudged,
                "",
                "| | " + " | ".join(titles) + " | setting and promise |",
                "|---" * (len(titles) + 2) + "|",
                f"| **raw SQLite** | {raw} | | | {RAW_SETTING} |",
                *(one.markdown() for one in (self.ours, *self.peers)),
                *(f"| **{name}** | absent: {reason} | | | | | | |" for name, reason in self.absent.items()),
            ]
        )
