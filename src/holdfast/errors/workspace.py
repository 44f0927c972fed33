"""Errors of the workspace: snapshots, restores and git."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors.base import BadInput, HoldfastError, NotFound, Refused
from holdfast.ways import Way, quoted


class BadWorkspace(BadInput):
    code = "bad_workspace"


class Pushed(Refused):
    """Going back would drop commits that a remote has."""

    code = "pushed"

    def __init__(self, ref: str, commits: Sequence[str], revert: str) -> None:
        self.ref = ref
        self.commits = tuple(commits)
        self.revert = revert
        more = f" and {len(self.commits) - 5} more" if len(self.commits) > 5 else ""
        way = f"`{revert}` reverts them with new commits; " if revert else ""
        super().__init__(
            f"{ref} cannot go back: a remote has {', '.join(self.commits[:5])}{more}. Nothing was done; "
            f"{way}without --git the rewind leaves the repository as it is"
        )


class SnapshotNotFound(NotFound, LookupError):
    code = "snapshot_not_found"

    def __init__(self, snapshot: str, restored_from: str = "") -> None:
        self.snapshot = snapshot
        self.restored_from = restored_from
        why = (
            f"there is no snapshot {snapshot!r}: the store was restored from the backup {restored_from}, "
            f"which holds no files; restore one that does ({quoted(Way('backup list'))}), or go back with "
            "--no-files"
        )
        super().__init__(
            why
            if restored_from
            else f"there is no snapshot {snapshot!r}, or {quoted(Way('gc'))} has removed it; "
            f"{quoted(Way('show', 'RUN', {'events': True}))} names those of a run"
        )


class WorkspaceError(HoldfastError):
    code = "workspace"
    exit_code = 8


class ContentsDamaged(WorkspaceError):
    """Saved contents are missing or damaged; nothing was changed on their account."""

    code = "contents_damaged"

    def __init__(self, what: Sequence[str]) -> None:
        self.what = tuple(what)
        more = f" and {len(self.what) - 8} more" if len(self.what) > 8 else ""
        super().__init__(
            f"saved contents are missing or damaged: {', '.join(self.what[:8])}{more}; "
            f"{quoted(Way('workspace verify'))} checks all"
        )


class WorkspaceConflict(WorkspaceError):
    code = "workspace_conflict"

    def __init__(self, step: str, paths: Sequence[str]) -> None:
        self.step = step
        self.paths = tuple(paths)
        some = ", ".join(self.paths[:5]) + (f" and {len(self.paths) - 5} more" if len(self.paths) > 5 else "")
        super().__init__(
            f"step {step} worked in a copy, and others changed the same files meanwhile: {some}; "
            "nothing of it was brought back: resume the run to do it again"
        )


class GitError(WorkspaceError):
    code = "git"


class GitFailed(GitError):
    """`output` is what git had printed until then."""

    code = "git_failed"

    def __init__(self, command: str, reason: str, output: bytes = b"") -> None:
        self.command = command
        self.reason = reason
        self.output = output
        super().__init__(f"git {command} failed: {reason}; put that right and try again")


class GitBusy(GitError):
    """Nothing was changed: it can be tried again."""

    code = "git_busy"
    exit_code = 4


class RollbackRefused(GitError):
    """An attempt that was cut off, or failed, changed the repository, and that cannot be rolled back; or what
    it changed is `unknown`, for a reason. Nothing was changed."""

    code = "rollback_refused"
    exit_code = 6

    def __init__(self, run_id: str, step: str, kept: Sequence[str], unknown: str = "") -> None:
        self.run_id = run_id
        self.step = step
        self.kept = tuple(kept)
        self.unknown = unknown
        some = ", ".join(self.kept[:5]) + (f" and {len(self.kept) - 5} more" if len(self.kept) > 5 else "")
        what = f"changed the git repository, and this cannot be rolled back: {some}"
        if unknown:
            what = f"may have changed the git repository, and this cannot be rolled back: {unknown}"
        super().__init__(
            f"the earlier attempt of step {step} {what}. "
            "Nothing was changed: put the repository right with git if need be, then "
            f"{quoted(Way('resume', run_id, {'keep_files': True}))} runs the step again on the files and the "
            "repository as they are"
        )


class RestoreUndone(WorkspaceError):
    code = "restore_undone"

    def __init__(self, why: str, unreachable: Sequence[str] = ()) -> None:
        self.why = why
        self.unreachable = tuple(unreachable)
        rest = (
            f", except what can no longer be reached: {', '.join(self.unreachable[:8])}"
            if unreachable
            else ""
        )
        super().__init__(f"the restore failed ({why}); the files are as they were before it{rest}")
