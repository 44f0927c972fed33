"""The peers of the benchmark: other durable execution engines, each in an environment of its own.

Every peer is a worker process (`dbos_sqlite.py`, `langgraph_sqlite.py`, `restate_server.py`) that executes
commands from its stdin, so that one benchmark can measure them in turns with holdfast and raw SQLite.

    for peer in peers.available(directory):
        print(peer.name, peer.version, peer.durability, peer.sequential(300))
"""

from __future__ import annotations

from pathlib import Path

from .environment import Unavailable
from .peer import Missing, Peer, Survey
from .roster import ROSTER, Entry

__all__ = ["ROSTER", "Entry", "Missing", "Peer", "Survey", "Unavailable", "available", "survey"]


def available(directory: Path, *, variants: bool = True) -> list[Peer]:
    """The peers that run on this machine, started, with their stores under `directory`."""
    return survey(directory, variants=variants).peers


def survey(directory: Path, *, variants: bool = True, only: str = "") -> Survey:
    """Start every peer whose name holds `only`; those that cannot run here are told with the reason.

    `variants` adds settings other than those a product ships with or its documentation advises.
    """
    found = Survey([], [])
    for entry in ROSTER:
        if (entry.variant and not variants) or only.lower() not in entry.name.lower():
            continue
        try:
            found.peers.append(entry.start(directory))
        except Unavailable as reason:
            found.missing.append(Missing(entry.name, str(reason)))
        except BaseException:
            found.close()
            raise
    return found
