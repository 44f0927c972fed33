"""A peer as the benchmark sees it: a worker process that answers one command at a time."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .environment import Unavailable

ANSWER_TIMEOUT_S = 300
START_TIMEOUT_S = 90


@dataclass(frozen=True)
class Missing:
    """A peer that cannot run here, and why."""

    name: str
    reason: str


@dataclass
class Survey:
    """The peers that run, and those that do not."""

    peers: list[Peer]
    missing: list[Missing]

    def close(self) -> None:
        for peer in self.peers:
            peer.close()


class Peer:
    """`sequential`, `many`, `one_step_runs` and `kill_to_rerun` each take one measurement. `setting` is how it is set up, in a
    few words; `durability` is what that promises.

    The clock is read inside the worker, as holdfast's own figures are. Raises `Unavailable` if the
    worker does not come up, `RuntimeError` with the end of its log if a measurement fails.
    """

    def __init__(self, name: str, command: list[str], directory: Path) -> None:
        self.name = name
        self._log = directory / "worker.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                cwd=directory,
                env={**os.environ, "PYTHONUNBUFFERED": "1", "LANGSMITH_TRACING": "false"},
            )
        try:
            hello = self._answer(START_TIMEOUT_S)
        except RuntimeError as failed:
            self._end()
            raise Unavailable(f"it did not start: {failed}") from None
        self.version: str = hello["version"]
        self.setting: str = hello["setting"]
        self.durability: str = hello["durability"]

    def sequential(self, steps: int = 300) -> float:
        """Steps a second of one run of `steps` steps, one after another."""
        return self._ask("sequential", steps)

    def many(self, runs: int = 50, steps: int = 20) -> float:
        """Steps a second of `runs` runs at once, each of `steps` steps."""
        return self._ask("many", runs, steps)

    def one_step_runs(self, runs: int = 100) -> float:
        """Runs of one step a second, one after another."""
        return self._ask("one_step_runs", runs)

    def kill_to_rerun(self) -> float:
        """Milliseconds from SIGKILL of the process that executes a step to the step's body beginning again
        in a process that was started at that moment."""
        return self._ask("kill_to_rerun")

    def close(self) -> None:
        """End the worker and whatever it started; a second call does nothing."""
        assert self._process.stdin is not None
        if self._process.poll() is None:
            self._process.stdin.close()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                pass
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, *words: str | int) -> float:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write((" ".join(map(str, words)) + "\n").encode())
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise RuntimeError(f"{self.name} is gone: {self._tail()}") from None
        return float(self._answer(ANSWER_TIMEOUT_S)["value"])

    def _answer(self, timeout_s: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(timeout_s):
                raise RuntimeError(f"{self.name} said nothing for {timeout_s} s: {self._tail()}")
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} is gone: {self._tail()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{self.name}: {answer['error']}")
        return answer

    def _tail(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it wrote nothing"

    def _end(self) -> None:
        """Kill what is left of the worker's own session."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
