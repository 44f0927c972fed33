"""What a life reports while it lives: lines in a file, which a kill does not take away.

Every line carries the size of the write-ahead log at that moment. So it is known for every commit which
lines a process had written that was killed before the next commit.

    ["see", WAL, RUN, PASS, [ENTRY...]]                the workflow's code observed something
    ["body", WAL, RUN, KEY, NAME, EFFECT, ATTEMPT]     the body of a step began
    ["verify", WAL, NAME]                              the verify hook of a step was called
    ["settled", WAL, RUN, KEY]                         a step in doubt was settled: it may run again
    ["end", WAL, RUN, HOW, TEXT]                       how the run ended in this life
    ["replay", WAL, RUN, VERDICT, TEXT]                what `replay` found after that
    ["faults", WAL, [TEXT...]]                         what the audit found
    ["hang", WAL, TEXT]                                the life took too long, and where it was
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from holdfast.engine.execution.scope import Scope, current


class Witness:
    """Writes the lines of this process."""

    def __init__(self, lines: Path, database: Path, kill_at: int | None = None) -> None:
        self._fd = os.open(lines, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._wal = f"{database}-wal"
        self._left = kill_at
        self._passes: dict[int, tuple[Any, int]] = {}
        self._counts: dict[str, int] = {}
        self._closed: set[int] = set()
        self.first_pass = 0
        """Number of the first pass; those of a `replay` begin at 1,000."""

    def write(self, kind: str, *words: Any) -> None:
        line = json.dumps([kind, self._wal_size(), *words], default=str)
        os.write(self._fd, line.encode() + b"\n")
        if self._left is not None and kind in ("see", "body", "verify"):
            self._left -= 1
            if self._left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def _wal_size(self) -> int:
        try:
            return os.stat(self._wal).st_size
        except FileNotFoundError:
            return 0

    def see(self, *entry: Any) -> None:
        """Note what the workflow's code observes, unless its run is being stopped or has ended."""
        scope = current.get()
        if type(scope) is not Scope:
            return
        run = scope.execution
        if run.is_stopping() or run.over or id(run) in self._closed:
            return
        number = self._pass_of(run)
        if entry[0] == "end":
            self._closed.add(id(run))
        self.write("see", run.id, number, list(entry))

    def _pass_of(self, run: Any) -> int:
        """The number of this execution of the run's code in this life."""
        known = self._passes.get(id(run))
        if known is None:
            number = self._counts.get(run.id, self.first_pass)
            self._counts[run.id] = number + 1
            known = self._passes[id(run)] = (run, number)  # kept, so that no other gets its address
        return known[1]

    def replaying(self) -> None:
        """From now on the code is executed by `replay`."""
        self.first_pass = 1000
        self._counts.clear()


_present: Witness | None = None


def take(witness: Witness) -> None:
    """From now on this process reports there."""
    global _present
    _present = witness


def here() -> Witness:
    assert _present is not None
    return _present


def see(*entry: Any) -> None:
    """As `Witness.see`, of the present life."""
    if _present is not None:
        _present.see(*entry)


def brief(value: Any) -> str:
    """A text that is different if the value is, and not too long to read."""
    import hashlib

    text = str(value)
    if len(text) <= 100:
        return text
    return f"{text[:80]}...{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def described(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return f"{type(error).__name__}[{', '.join(map(described, error.exceptions))}]"
    return type(error).__name__
