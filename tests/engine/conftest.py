"""What tests of the engine share: a store, workflows whose plot a test chooses, and crashes.

A workflow must be found again by its module, so a test cannot define one in its body. `act(plot)`
gives a workflow of this module that plays the test's own function.
"""

import asyncio
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, StoreError, workflow
from holdfast.testing import CrashLab

_plots: dict[str, Callable[..., Any]] = {}


@workflow
def play(*args: Any) -> Any:
    return _plots["main"](*args)


@workflow
async def aplay(*args: Any) -> Any:
    return await _plots["main"](*args)


@workflow
def child(*args: Any) -> Any:
    return _plots["child"](*args)


@workflow
async def achild(*args: Any) -> Any:
    return await _plots["child"](*args)


@workflow
def grandchild(*args: Any) -> Any:
    return _plots["grandchild"](*args)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a project, in which the test works."""
    path = tmp_path / "project"
    path.mkdir()
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def act() -> Iterator[Callable[..., Any]]:
    """`act(plot)` is a workflow that plays it; `act(plot, "child")` one to call inside."""

    def choose(plot: Callable[..., Any], role: str = "main") -> Any:
        _plots[role] = plot
        roles: dict[str, tuple[Any, Any]] = {"main": (play, aplay), "child": (child, achild)}
        roles["grandchild"] = (grandchild, None)
        return roles[role][asyncio.iscoroutinefunction(plot)]

    yield choose
    _plots.clear()


@pytest.fixture
def open_hf(home: Path) -> Iterator[Callable[..., Holdfast]]:
    """Opens a Holdfast on the test's store; all are closed at the end."""
    opened: list[Holdfast] = []

    def open_one(**options: Any) -> Holdfast:
        opened.append(Holdfast(home, durability="process", **options))
        return opened[-1]

    yield open_one
    for one in reversed(opened):
        one.close()


@pytest.fixture
def hf(open_hf: Callable[..., Holdfast]) -> Holdfast:
    return open_hf()


@pytest.fixture
def ran() -> list[Any]:
    """Where bodies say that they ran."""
    return []


class DyingStore:
    """A store that accepts `appends` more appends and then none: as a process that died there."""

    def __init__(self, store: Any, appends: int | None = None) -> None:
        self._store = store
        self.left = appends

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _spend(self, cost: int = 1) -> bool:
        if self.left is None:
            return True
        self.left -= cost
        return self.left >= 1 - cost

    def append(self, append: Any) -> None:
        if not self._spend():
            raise StoreError("the process is dead")
        self._store.append(append)

    def append_soon(self, append: Any, done: Callable[[Any], None]) -> None:
        # An intent that the flusher writes, because a body took long, is no part of a test's plan.
        if self._spend(int(append.durable)):
            self._store.append_soon(append, done)
        else:
            append.error = StoreError("the process is dead")
            done(append)

    def command(self, *args: Any, **kwargs: Any) -> int:
        if not self._spend():
            raise StoreError("the process is dead")
        result: int = self._store.command(*args, **kwargs)
        return result


class Crashes:
    """Deaths of owners inside this process: what they had not committed is lost, their lock is free."""

    def arm(self, hf: Holdfast, appends: int | None = None) -> DyingStore:
        """Let `hf` write `appends` more times, then die; None: until `left` is set."""
        store = DyingStore(hf._engine.store, appends)
        hf._engine.store = store  # type: ignore[assignment]
        return store

    def bury(self, hf: Holdfast) -> None:
        """The owner is dead: nothing is released, dropped or written any more."""
        self.arm(hf, 0)
        owner = hf._engine._owner
        if owner is not None:
            owner._drop()
            hf._engine._owner = None
        hf.close()


@pytest.fixture
def crashes() -> Crashes:
    return Crashes()


@pytest.fixture
def twice(open_hf: Callable[..., Holdfast], crashes: Crashes, act: Callable[..., Any]) -> Callable[..., Any]:
    """Plays a function to its last line, dies before the run's end is written, and plays it again in
    another Holdfast. Returns what it gave live and what it gave replayed (or what it raised)."""

    def play_twice(
        plot: Callable[..., Any], *args: Any, run_id: str = "twice", **options: Any
    ) -> tuple[Any, Any]:
        given: list[Any] = []
        first = open_hf(**options)
        store = crashes.arm(first)

        def note(outcome: Any) -> Any:
            given.append(outcome)
            store.left = 0
            return outcome

        if asyncio.iscoroutinefunction(plot):

            async def noting(*args: Any) -> Any:
                try:
                    return note(await plot(*args))
                except Exception as error:
                    return note(error)
        else:

            def noting(*args: Any) -> Any:
                try:
                    return note(plot(*args))
                except Exception as error:
                    return note(error)

        with pytest.raises(StoreError):
            first.with_id(run_id).run(act(noting), *args)
        crashes.bury(first)
        second = open_hf(**options)
        second.with_id(run_id).run(act(noting), *args)
        assert len(given) == 2
        return given[0], given[1]

    return play_twice


@pytest.fixture
def lab(tmp_path: Path, home: Path) -> Callable[..., CrashLab]:
    """`lab(source)`: a crash lab for a script with that source, on the test's store."""

    def make(source: str, *args: str, name: str = "job.py", **options: Any) -> CrashLab:
        script = tmp_path / name
        script.write_text(textwrap.dedent(source))
        return CrashLab(script, home, *args, **options)

    return make
