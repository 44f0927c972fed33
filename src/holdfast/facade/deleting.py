"""The side of `Holdfast` that deletes runs and tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import BadInput
from holdfast.facade.open_store import OpenStore, blocking

if TYPE_CHECKING:
    from holdfast.operations.deleting import Deletion


class Deleting(OpenStore):
    """Deleting. `by` is who does it; without it, the user."""

    @blocking
    def delete(
        self, *ids: str, with_task: bool = False, dry_run: bool = False, by: str | None = None
    ) -> Deletion:
        """Delete runs and tasks by their ids. A run is deleted with its child runs, its output and its saved
        files, a task with its links: no method and no command finds them any more. Either all are deleted or
        none. The log keeps a record of who deleted what, without its contents. `undo` restores everything
        until `gc` makes the deletion final; the ids are not assigned again.

        with_task  also the tasks that the runs have worked on; without it they stay
        dry_run    nothing is written; returns what would be deleted

        Raises `RunHeld` if a process executes one of the runs, `TaskHeld` if another has claimed one of the
        tasks, and `Refused` for a child run whose parent is not deleted with it.
        """
        from holdfast.operations.deleting import delete

        if not ids:
            raise BadInput("delete() takes the ids of what is to be deleted")
        runs: list[str] = []
        tasks: list[str] = []
        for one in dict.fromkeys(ids):
            is_task = self._store.run(one) is None and self._has_been_task(one)
            (tasks if is_task else runs).append(one)
        known = [self._known(run_id) for run_id in runs]
        engine = self._engine if dry_run else self._to_write()
        return delete(engine, known, tasks, by=self._by(by), with_task=with_task, dry_run=dry_run)

    def _has_been_task(self, id: str) -> bool:
        """Whether there is, or was, a task with this id."""
        from holdfast.kernel.task import stream_of

        return self._store.task(id) is not None or self._store.deleted(stream_of(id)) is not None
