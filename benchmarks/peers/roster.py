"""Who is measured, how each is set up, and which of them run on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from .environment import Unavailable, python_of, server_of_restate
from .peer import Peer

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Entry:
    """One line-up of a product: `mode` is the worker's own word for its setting; a `variant` is told beside the
    product's main one and never judged: it promises less, or is set up as its documentation does not mention."""

    name: str
    product: str
    worker: str
    mode: str = "shipped"
    variant: bool = False

    def start(self, directory: Path) -> Peer:
        """A running peer with an empty store of its own. Raises `Unavailable`."""
        python = python_of(self.product)
        program = [str(server_of_restate())] if self.product == "restate" else []
        home = directory / f"peer-{self.product}-{self.mode}"
        home.mkdir(parents=True)
        command = [str(python), str(HERE / self.worker), "serve", str(home), self.mode, *program]
        return Peer(self.name, command, home, variant=self.variant)


ROSTER = (
    Entry("DBOS", "dbos", "dbos_sqlite.py"),
    Entry("DBOS, WAL", "dbos", "dbos_sqlite.py", "wal", variant=True),
    Entry("LangGraph", "langgraph", "langgraph_sqlite.py", "graph"),
    Entry("LangGraph, async", "langgraph", "langgraph_sqlite.py", "async", variant=True),
    Entry("LangGraph, tasks", "langgraph", "langgraph_sqlite.py", "tasks", variant=True),
    Entry("Restate", "restate", "restate_server.py"),
)


@dataclass
class Survey:
    """The peers that run; and by name those that do not, each with the reason."""

    peers: list[Peer] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)


@contextmanager
def survey(directory: Path, only: str = "") -> Iterator[Survey]:
    """Start every peer whose name holds `only`, with stores under `directory`, and end them with the block."""
    found = Survey()
    try:
        for entry in ROSTER:
            if only.lower() in entry.name.lower():
                try:
                    found.peers.append(entry.start(directory))
                except Unavailable as reason:
                    found.absent[entry.name] = str(reason)
        yield found
    finally:
        for peer in found.peers:
            peer.close()
