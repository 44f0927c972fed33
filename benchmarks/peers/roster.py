"""Who is measured, and how each is set up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .environment import python_of, server_of_restate
from .peer import Peer

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Entry:
    """One line-up of a product: `mode` is the worker's own word for its setting."""

    name: str
    product: str
    worker: str
    mode: str = "shipped"
    variant: bool = False

    def start(self, directory: Path) -> Peer:
        """A running peer with an empty store of its own. Raises `Unavailable`."""
        python = python_of(self.product)
        arguments = [str(server_of_restate())] if self.product == "restate" else []
        home = directory / f"peer-{self.product}-{self.mode}"
        home.mkdir(parents=True)
        return Peer(
            self.name, [str(python), str(HERE / self.worker), "serve", str(home), self.mode, *arguments], home
        )


ROSTER = (
    Entry("DBOS", "dbos", "dbos_sqlite.py"),
    Entry("DBOS, WAL", "dbos", "dbos_sqlite.py", "wal", variant=True),
    Entry("LangGraph", "langgraph", "langgraph_sqlite.py", "graph"),
    Entry("LangGraph, tasks", "langgraph", "langgraph_sqlite.py", "tasks", variant=True),
    Entry("Restate", "restate", "restate_server.py"),
)
