"""`Holdfast`: what a program opens to start, steer and read runs; the CLI uses nothing else.

    with Holdfast() as hf:
        text = hf.run(report, ["kelp"])

One open Holdfast is one owner of runs. It belongs to the process that opened it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Literal

import msgspec

from holdfast import wiring
from holdfast.facade.deleting import Deleting
from holdfast.facade.delivering import Delivering
from holdfast.facade.following import Following
from holdfast.facade.learning import Learning
from holdfast.facade.maintenance import Maintenance
from holdfast.facade.mirroring import Mirroring
from holdfast.facade.reading import Reading
from holdfast.facade.rewinding import Rewinding
from holdfast.facade.searching import Searching
from holdfast.facade.serving import Serving
from holdfast.facade.steering import Steering
from holdfast.facade.storeless import Storeless
from holdfast.facade.tracking import Tracking

if TYPE_CHECKING:
    from typing import Self

    from holdfast.agents.handlers import Make
    from holdfast.async_handle import AsyncHoldfast
    from holdfast.clock import Clock
    from holdfast.facade.open_store import OnEvent, OnOutput, OnScan


class Holdfast(
    Delivering,
    Serving,
    Steering,
    Rewinding,
    Deleting,
    Reading,
    Searching,
    Following,
    Maintenance,
    Mirroring,
    Tracking,
    Learning,
    Storeless,
):
    """An open store with its engine; a context manager, sync and async.

    home        the store's directory (default: the project's, as the CLI finds it; in the code of a run, that
                of the run)
    workspace   the directory whose files runs work on, saved and restored with them (default: the project's
                root, or none where `home` is given and no setting names one)
    durability  "full": what is acknowledged survives a power cut; "process": it survives kill -9
    read_only   open an existing store to look at it: nothing is executed or written
    create      False raises `NotFound` if there is no store yet
    on_event    called with every event of the runs that this Holdfast executes, once it is in the log,
                redacted as `events()` gives it; those of a run one after the other, in the log's order. It
                must not wait for its run
    on_output   called with (run id, step, "stdout" or "stderr", text) of what commands print, live
    on_scan     called with (entries, bytes read) while the files of the workspace are scanned, also by a
                worker of `serve`; with (0, 0) at the end of a worker's scan
    handlers    your own governor, router, skills, evidence or agents in place of ours: name → a function of
                (engine, settings) that makes it
    """

    def __init__(
        self,
        home: str | os.PathLike[str] | None = None,
        *,
        workspace: str | os.PathLike[str] | None = None,
        durability: Literal["full", "process"] | None = None,
        read_only: bool = False,
        create: bool = True,
        on_event: OnEvent | None = None,
        on_output: OnOutput | None = None,
        on_scan: OnScan | None = None,
        handlers: Mapping[str, Make] | None = None,
        clock: Clock | None = None,
    ) -> None:
        if not read_only:
            from holdfast.engine.runs.code import refuse_while_loading

            refuse_while_loading()
        flags = {
            "home": None if home is None else os.fspath(home),
            "workspace": None if workspace is None else os.fspath(workspace),
            "durability": durability,
        }
        around = wiring.place_of_run() if home is None else None
        if around is not None and workspace is None and durability is None:
            place = around
        else:
            flags["home"] = flags["home"] if around is None else str(around.home)
            place = wiring.find_place(flags, create=create and not read_only, project_files=home is None)
        if not read_only:
            wiring.warn_of_other_store(place)
        super().__init__(
            place,
            read_only=read_only,
            clock=clock,
            on_event=on_event,
            on_output=on_output,
            on_scan=on_scan,
            handlers=handlers,
        )

    @classmethod
    def at(
        cls,
        place: wiring.Place,
        *,
        read_only: bool = False,
        finish: bool = True,
        reading: Holdfast | None = None,
        on_event: OnEvent | None = None,
        on_output: OnOutput | None = None,
        on_scan: OnScan | None = None,
    ) -> Holdfast:
        """The same where the place is known already. Without `finish`, what was cut off is finished only when
        a method needs an engine. `reading` has its store open and is closed: the database is not opened
        again, unless `place` has another store or durability. The project and the mirror are those of its
        store."""
        made = cls.__new__(cls)
        store = None
        if reading is not None:
            if place.home.resolve() == reading.home.resolve():
                place = msgspec.structs.replace(place, store_project=reading._place.store_project)
            before, now = reading.settings.durability, place.resolved.settings.durability
            if place.home == reading.home and before == now:
                store = reading._hand_over()
            else:
                reading.close()
        super(Holdfast, made).__init__(
            place,
            read_only=read_only,
            finish=finish,
            on_event=on_event,
            on_output=on_output,
            on_scan=on_scan,
            store=store,
        )
        return made

    @property
    def aio(self) -> AsyncHoldfast:
        """Every method that does I/O, as a coroutine."""
        from holdfast.async_handle import AsyncHoldfast

        return AsyncHoldfast(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from functools import partial

        from holdfast.engine.execution.task_driver import in_thread

        # The thread does not see the exception that is handled here.
        await in_thread(partial(self._close, interrupted=isinstance(error, KeyboardInterrupt)))
