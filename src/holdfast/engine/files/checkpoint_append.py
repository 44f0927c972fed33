"""A checkpoint on its way into the log, with the snapshot of the files that belongs to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.engine.execution import thread_driver
from holdfast.engine.execution.execution import Execution
from holdfast.engine.files import file_windows
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.store.port import Append

if TYPE_CHECKING:
    from asyncio import CancelledError


Blobs = Sequence[tuple[str, bytes]]
Evidence = Callable[[e.CheckpointTaken], tuple[e.EvidenceWritten, Blobs]]


class CheckpointAppend(NamedTuple):
    """`blobs` are the large values among its data. Of a milestone, `evidence` gives what goes in front of the
    checkpoint, in the same append: a rewind to the milestone keeps its evidence."""

    run: Execution
    checkpoint: e.CheckpointTaken
    blobs: Blobs = ()
    evidence: Evidence | None = None

    def write(self, key: str = "") -> None:
        with file_windows.at_checkpoint(self.run, partial(self._append, key)) as append:
            thread_driver.commit(self.run, append)

    async def write_soon(self, key: str = "") -> CancelledError | None:
        """Returns a cancel that came meanwhile."""
        from holdfast.engine.execution import task_driver

        with ExitStack() as held:
            enter = partial(
                held.enter_context, file_windows.at_checkpoint(self.run, partial(self._append, key))
            )
            append, cancelled = await task_driver.shielded(self.run, enter)
            return await task_driver.commit(self.run, append) or cancelled

    def _append(self, key: str, seen: file_windows.Seen) -> Append:
        """`key` is that of a checkpoint which the code waits for."""
        taken = msgspec.structs.replace(self.checkpoint, **seen._asdict())
        if self.evidence is None:
            return self.run.append_of([c.Record(taken)], blobs=self.blobs, ends=key)
        written, blobs = self.evidence(taken)
        return self.run.append_of([c.Record(written), c.Record(taken)], blobs=(*self.blobs, *blobs), ends=key)


def take_due(run: Execution) -> None:
    """After a step: the checkpoint that the setting `checkpoint_every` wants, if one is due."""
    key = run.due_checkpoint()
    if key:
        CheckpointAppend(run, e.CheckpointTaken(key, 0, "auto")).write()


async def take_due_soon(run: Execution) -> None:
    key = run.due_checkpoint()
    if key:
        await CheckpointAppend(run, e.CheckpointTaken(key, 0, "auto")).write_soon()
