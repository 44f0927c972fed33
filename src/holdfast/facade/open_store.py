"""The base of the parts of `Holdfast`: the place, the store, a reader, and an engine once one is needed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from holdfast import wiring
from holdfast.colour import refuse_in_loop
from holdfast.errors import BadInput, WrongColour
from holdfast.facade.namespace import Namespace
from holdfast.views.reader import Reader

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.agents.handlers import Make
    from holdfast.clock import Clock
    from holdfast.engine.engine import Engine
    from holdfast.engine.outside.records import LogEvent
    from holdfast.facade.drain_thread import DrainThread
    from holdfast.redaction import Redactor
    from holdfast.search.searching import Search
    from holdfast.serving.serve_call import ServeCall
    from holdfast.settings import Settings
    from holdfast.store.sqlite.store import SqliteStore
    from holdfast.tracker.tracker import Tracker

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F")

_PATIENCE_S = 60.0
"""How long closing waits for `serve` in other threads."""

OnEvent = Callable[["LogEvent"], None]
OnOutput = Callable[[str, str, str, str], None]
OnScan = Callable[[int, int], None]


class OpenStore:
    """An open store. With `read_only` it has no owner, nothing is written, and the engine is opened only for
    what cannot be read without one. Without `finish`, too, the engine is opened only when it is needed:
    opening it finishes operations that were cut off."""

    def __init__(
        self,
        place: wiring.Place,
        *,
        read_only: bool = False,
        finish: bool = True,
        clock: Clock | None = None,
        on_event: OnEvent | None = None,
        on_output: OnOutput | None = None,
        on_scan: OnScan | None = None,
        store: SqliteStore | None = None,
        handlers: Mapping[str, Make] | None = None,
    ) -> None:
        """`store` is that of `place`, if it is open already; it is closed with this Holdfast."""
        self._place = place
        self._read_only = read_only
        self._clock = clock
        self._on_event = on_event
        self._on_output = on_output
        self._on_scan = on_scan
        self._handlers = handlers
        self._opened_engine: Engine | None = None
        self._lock = threading.Lock()
        self._serve_calls: list[ServeCall] = []
        """The calls of `serve` that have not returned."""
        self._handed_over = False
        self._closed = False
        self._pid = os.getpid()
        self._close_lock = threading.Lock()
        self._closed_by: int | None = None
        """The thread that is closing it."""
        self._mirror_thread: DrainThread | None = None
        self._mirror_warnings: set[str] = set()
        self._store: SqliteStore = wiring.open_store(place) if store is None else store
        self._reader = Reader(self._store, place.home, self._open_redactor)
        if not read_only:
            try:
                wiring.restore_pointer(place)
                if finish:
                    self._engine  # noqa: B018 opening it finishes what was cut off
            except BaseException:
                self._store.close()
                raise

    @property
    def home(self) -> Path:
        """The store's directory."""
        return self._place.home

    @property
    def settings(self) -> Settings:
        """The settings that hold here, resolved."""
        return self._place.resolved.settings

    @property
    def _engine(self) -> Engine:
        with self._lock:
            if self._opened_engine is None:
                self._opened_engine = wiring.open_engine(
                    self._place,
                    self._store,
                    clock=self._clock,
                    on_event=self._on_event,
                    on_output=self._on_output,
                    on_progress=self._on_scan,
                    to_look=self._read_only,
                    handlers=self._handlers,
                )
                if not self._read_only and wiring.mirror_directory(self._place) is not None:
                    from holdfast.facade.drain_thread import DrainThread

                    self._mirror_thread = DrainThread("mirror", self._store.pulse, self._drain_mirror)
            return self._opened_engine

    def _drain_mirror(self) -> None:
        wiring.drain_mirror(self._place, self._store, self._reader, self._clock, warned=self._mirror_warnings)

    def _open_search(self) -> Search:
        from holdfast.search.searching import Search

        return Search(
            self.home,
            self._store,
            self._reader,
            history=self._store.incarnation,
            patterns=self.settings.redact,
        )

    def _to_write(self) -> Engine:
        """The engine, for a method that executes or writes."""
        self._refuse_read_only()
        return self._engine

    def _open_tracker(self) -> Tracker:
        """Tasks and sessions, for a method that writes."""
        self._refuse_read_only()
        return self._tracker

    @cached_property
    def _tracker(self) -> Tracker:
        return wiring.open_tracker(self._place, self._store, self._open_redactor, self._clock)

    def _refuse_read_only(self) -> None:
        if self._read_only:
            raise BadInput("this Holdfast was opened with read_only=True; open one without it to change runs")

    def _open_redactor(self) -> Redactor:
        engine = self._opened_engine
        return wiring.open_redactor(self._place) if engine is None else engine.redactor

    def _known(self, run_id: str) -> str:
        """The id itself, if there is such a run. Programs name runs in full; people may give a prefix, which
        `find` completes."""
        return self._reader.known(run_id)

    def _by(self, by: str | None) -> str:
        """The name that is recorded: `by`, or without it the actor of the settings, or the user."""
        return wiring.actor(self._place) if by is None else by

    def close(self) -> None:
        """Stop the live runs at their next step boundary, release them, and close the store."""
        self._close()

    def _close(self, *, interrupted: bool | None = None) -> None:
        """`interrupted` is that of `Engine.close`. A second caller returns when the first has closed the
        store."""
        if os.getpid() != self._pid:
            self._close_lock = threading.Lock()  # the parent's may be held in a forked child
        elif self._is_closed_for_caller():
            return
        with self._close_lock:
            self._closed_by = threading.get_ident()
            try:
                self._close_all(interrupted)
            finally:
                self._closed_by = None

    def _is_closed_for_caller(self) -> bool:
        """Whether this call has nothing to wait for: a signal handler has interrupted the one that closes, or
        the code of a run closes what is being closed. Otherwise `WrongColour` refuses the code of a run."""
        if self._closed_by == threading.get_ident():
            return True
        try:
            if self._opened_engine is not None:
                self._opened_engine.refuse_to_block_own_runs()
        except WrongColour:
            if self._closed:
                return True
            raise
        return False

    def _close_all(self, interrupted: bool | None) -> None:
        if self._handed_over:
            return
        is_first, self._closed = not self._closed, True
        sessions = list(self._serve_calls)
        for session in sessions:
            session.stop("its Holdfast was closed")
        for session in sessions:  # with a limit: a callback of `serve` may be the caller
            session.ended.wait(_PATIENCE_S)
        engine = self._opened_engine
        if engine is not None:
            engine.close(interrupted=interrupted)
        if self._mirror_thread is not None:
            self._mirror_thread.close()
        if engine is not None and engine.left_open:
            return
        if is_first and not self._read_only and wiring.mirror_directory(self._place) is not None:
            self._drain_mirror()
        self._store.close()

    def _hand_over(self) -> SqliteStore:
        """The open store, for another Holdfast of this process; this one is closed."""
        if self._opened_engine is not None:
            self._opened_engine.close()
        self._handed_over = True
        return self._store


def blocking(method: Callable[Concatenate[F, P], R]) -> Callable[Concatenate[F, P], R]:
    """A method that does I/O: refused where an event loop runs; `hf.aio` has it as a coroutine."""
    name = method.__name__

    @wraps(method)
    def checked(self: F, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if not isinstance(self, Namespace):
            refuse_in_loop(f"hf.{name}() blocks", f"await hf.aio.{name}(...)")
            return method(self, *args, **kwargs)
        named = f"{self.NAMESPACE}.{name}"
        refuse_in_loop(f"hf.{named}() blocks", f"await hf.aio.{named}(...)")
        if wiring.code_here() is None:
            return method(self, *args, **kwargs)
        from holdfast.engine.primitives.service_call import call_service

        service, made_of = self._service(name)
        result: R = made_of(call_service(named, service, args, dict(kwargs)))
        return result

    checked.__blocking__ = True  # type: ignore[attr-defined]
    return checked


def service(method: Callable[Concatenate[F, P], R]) -> Callable[Concatenate[F, P], R]:
    """A blocking method of a Holdfast that is a step in the code of a workflow, as those of a namespace
    are."""
    name = method.__name__

    @wraps(method)
    def checked(self: F, /, *args: P.args, **kwargs: P.kwargs) -> R:
        refuse_in_loop(f"hf.{name}() blocks", f"await hf.aio.{name}(...)")
        if wiring.code_here() is None:
            return method(self, *args, **kwargs)
        from holdfast.engine.primitives.service_call import call_service

        result: R = call_service(name, method.__get__(self), args, dict(kwargs))
        return result

    checked.__blocking__ = True  # type: ignore[attr-defined]
    checked.__service__ = True  # type: ignore[attr-defined]
    return checked


def texts(given: Sequence[str] | None, what: str) -> tuple[str, ...]:
    """Several texts. A single one is refused: it would count letter by letter."""
    if isinstance(given, str):
        raise BadInput(f"{what} takes a list of texts: [{given!r}]")
    return tuple(given or ())


def several(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """The values of a filter: one or several; empty if it is left out."""
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)
