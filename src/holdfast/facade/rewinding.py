"""The side of `Holdfast` for rewind, undo, fork and restore."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import BadInput
from holdfast.facade.open_store import OpenStore, blocking, texts

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.operations.forking import Fork
    from holdfast.operations.restoring import Restored
    from holdfast.operations.rewinding import Rewind
    from holdfast.operations.undoing import Undo


class Rewinding(OpenStore):
    """Operations on the past of runs. Each can be undone. `by` is who does it; without it, the user."""

    @blocking
    def rewind(
        self,
        run_id: str,
        to: str,
        *,
        only: Sequence[str] | None = None,
        keep: Sequence[str] | None = None,
        theirs: bool = False,
        files: bool = True,
        partial: bool = False,
        git: bool = False,
        rerun_once: bool = False,
        dry_run: bool = False,
        plan: str | None = None,
        by: str | None = None,
    ) -> Rewind:
        """Go back to the checkpoint or step `to`, which is kept: what was recorded after it no longer counts,
        and runs again, with other idempotency keys, when the run is resumed. The files of the workspace are
        restored with it, except those that another person or program changed. `undo` reverses it.

        only        patterns as in .gitignore: only these files are restored, and the run stays where it is
        keep        patterns of files that stay as they are
        theirs      also restore what others changed
        files       False leaves the files as they are
        partial     continue without files whose saved content is damaged
        git         restore the refs and the index of the git repository, too
        rerun_once  `once` steps that were done after that point may run again
        dry_run     nothing is written; returns what would be done
        plan        the `plan` of such a preview, or the beginning of it: nothing else may be done

        Raises `RunHeld` if a live process executes the run; `PlanChanged`, and nothing is done, if the plan
        would be another one now.
        """
        from holdfast.operations.rewinding import rewind
        from holdfast.views.unknown_point import explained

        engine, known = self._for(dry_run), self._known(run_id)
        with explained(self._reader):
            return rewind(
                engine, known, to, by=self._by(by), only=texts(only, "only="), keep=texts(keep, "keep="),
                theirs=theirs, files=files, partial=partial, git=git, rerun_once=rerun_once, dry_run=dry_run,
                plan=plan,
            )  # fmt: skip

    @blocking
    def undo(
        self,
        operation: str | None = None,
        *,
        files: bool = True,
        partial: bool = False,
        rerun_once: bool = False,
        dry_run: bool = False,
        plan: str | None = None,
        by: str | None = None,
    ) -> Undo:
        """Undo an operation, also an undo, with its files; without its id, your own last one. The other
        arguments are those of `rewind`."""
        from holdfast.operations.undoing import undo

        return undo(
            self._for(dry_run), operation, by=self._by(by), files=files, partial=partial,
            rerun_once=rerun_once, dry_run=dry_run, plan=plan,
        )  # fmt: skip

    @blocking
    def redo(
        self,
        *,
        files: bool = True,
        partial: bool = False,
        rerun_once: bool = False,
        dry_run: bool = False,
        plan: str | None = None,
        by: str | None = None,
    ) -> Undo:
        """Undo your last undo that still stands."""
        from holdfast.operations.operation_log import last_undo_of

        operation = last_undo_of(self._store, self._by(by)).id
        return self.undo(
            operation, files=files, partial=partial, rerun_once=rerun_once, dry_run=dry_run, plan=plan, by=by
        )

    @blocking
    def fork(
        self,
        run_id: str,
        at: str | None = None,
        into: str | None = None,
        *,
        directory: str | os.PathLike[str] | None = None,
        plan_file: str | os.PathLike[str] | None = None,
        dry_run: bool = False,
        plan: str | None = None,
        by: str | None = None,
    ) -> Fork:
        """A new run, paused, that has the results of all that `run_id` had done before the step `at`, or up
        to and with the checkpoint `at`. Its id is `into`, or a new one; `resume` starts it.

        With `plan_file`, a run of a plan is forked with the plan in that file: steps that say the same as
        before, and need only such steps, keep their results. Then `at` may be left out: all that was done.
        """
        from holdfast.operations.forking import fork
        from holdfast.views.unknown_point import explained

        if at is None and plan_file is None:
            raise BadInput("fork() needs a point, `at`, or another plan, `plan_file`")
        engine, known = self._for(dry_run), self._known(run_id)
        place = None if directory is None else Path(directory)
        replaced = None
        if plan_file is not None:
            from holdfast.plans.forking import with_plan

            replaced = with_plan(engine, known, Path(plan_file))
        with explained(self._reader):
            return fork(
                engine, known, at, by=self._by(by), into=into, directory=place, dry_run=dry_run, plan=plan,
                replaced=replaced,
            )  # fmt: skip

    @blocking
    def restore(
        self,
        snapshot: str,
        *,
        only: Sequence[str] = (),
        partial: bool = False,
        dry_run: bool = False,
        by: str | None = None,
    ) -> Restored:
        """Restore the files to a snapshot, named by its id or the beginning of it. Files that are overwritten
        are saved first, and `undo` restores them."""
        from holdfast.operations.restoring import restore

        return restore(
            self._for(dry_run),
            snapshot,
            by=self._by(by),
            only=texts(only, "only="),
            partial=partial,
            dry_run=dry_run,
        )

    def _for(self, dry_run: bool) -> Engine:
        return self._engine if dry_run else self._to_write()
