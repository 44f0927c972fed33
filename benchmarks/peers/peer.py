"""A peer as the benchmark sees it: a worker process that answers one command at a time."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .environment import Unavailable, environ
from .workload import ONE_STEP_RUNS, RUN_STEPS, RUNS, STEPS, TEXT_BYTES, TEXTS

ANSWER_TIMEOUT_S = 300
START_TIMEOUT_S = 90


class Broken(Exception):
    """The peer could not continue a measurement; the text has the end of its log."""


class Peer:
    """A running peer; every method takes one measurement of the workload. `setting` is how it is set up, in a few words;
    `durability` is what that promises; a `variant` is told and not judged (`roster.Entry`).

    The clock is read inside the worker, as holdfast's own figures are. Raises `Unavailable` if the worker does not
    come up, `Broken` if a measurement fails.
    """

    def __init__(self, name: str, command: list[str], directory: Path, *, variant: bool = False) -> None:
        self.name = name
        self.variant = variant
        self._log = directory / "worker.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                cwd=directory,
                env=environ(),
            )
        try:
            hello = self._answer(START_TIMEOUT_S)
        except Broken as failed:
            self._end()
            raise Unavailable(f"it did not start: {failed}") from None
        self.version: str = hello["version"]
        self.setting: str = hello["setting"]
        self.durability: str = hello["durability"]

    def sequential(self) -> float:
        """Steps a second of one run, one after another."""
        return float(self._ask("sequential", STEPS))

    def many(self) -> float:
        """Steps a second of many runs at once, of steps that are plain functions."""
        return float(self._ask("many", RUNS, RUN_STEPS))

    def many_async(self) -> float:
        """Steps a second of many runs at once, of steps that are coroutines."""
        return float(self._ask("many_async", RUNS, RUN_STEPS))

    def one_step_runs(self) -> float:
        """Runs of one step a second, one after another."""
        return float(self._ask("one_step_runs", ONE_STEP_RUNS))

    def kill_to_rerun(self) -> float:
        """Milliseconds from SIGKILL of the process that executes a step to the step's body beginning again
        in a process that was started at that moment."""
        return float(self._ask("kill_to_rerun"))

    def disk(self) -> dict[str, float]:
        """Bytes on the disk for each byte that the steps of a run returned, per way to hold the results."""
        return dict(self._ask("disk", TEXTS, TEXT_BYTES))

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

    def _ask(self, *words: str | int) -> Any:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write((" ".join(map(str, words)) + "\n").encode())
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise Broken(f"{self.name} is gone: {self._tail()}") from None
        return self._answer(ANSWER_TIMEOUT_S)["value"]

    def _answer(self, timeout_s: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(timeout_s):
                raise Broken(f"{self.name} said nothing for {timeout_s} s: {self._tail()}")
        line = self._process.stdout.readline()
        if not line:
            raise Broken(f"{self.name} is gone: {self._tail()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Broken(f"{self.name}: {answer['error']}")
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
