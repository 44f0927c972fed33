"""`snapshot` and `changes`: the files of the workspace, saved and compared as steps of a run.

    before = snapshot()
    command(["make", "format"])
    for one in changes(before):
        print(one.path, one.change)

Both are recorded: a resumed run gets the snapshot that was taken and the differences that were found, however
the files have changed since.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from holdfast.engine.execution.arguments import Signature
from holdfast.engine.execution.call import Call, Spec
from holdfast.engine.execution.scope import Scope, current, refuse_in_async, require_thread
from holdfast.engine.execution.thread_driver import drive
from holdfast.engine.files import file_windows
from holdfast.errors import BadInput, BadWorkspace, HoldfastError, WrongColour
from holdfast.kernel.identity import check_text

if TYPE_CHECKING:
    from holdfast.engine.execution.execution import Execution
    from holdfast.workspace.snapshots.file_diff import FileDiff
    from holdfast.workspace.workspace import Workspace


class Snapshot:
    """Call it in a `def` workflow; in an async one, `await snapshot.aio()`."""

    def __call__(self) -> str:
        """Save the files of the workspace as they are, and return the id of the snapshot.

        The snapshot is kept as long as the log names it, as those of checkpoints are, and `changes` takes its
        id. It is a point of the run's history: `rewind --to snapshot#1` restores these files. Equal files
        have equal ids. Raises `BadWorkspace` if there is no workspace.
        """
        taken: str = _call("snapshot", _SNAPSHOT, (), _take)
        return taken

    def aio(self) -> Coroutine[Any, Any, str]:
        """The same for async workflows."""
        return _call_soon("snapshot", _SNAPSHOT, (), _take)


class Changes:
    """Call it in a `def` workflow; in an async one, `await changes.aio(...)`."""

    def __call__(self, a: str, b: str | None = None) -> list[FileDiff]:
        """The differences between the snapshot `a` and the snapshot `b`, or the files as they are now.

        Text is redacted. Raises `SnapshotNotFound` for an id that is none, and `BadWorkspace` if there is no
        workspace.
        """
        found: list[FileDiff] = _call("changes", _CHANGES, _ids(a, b), _compare)
        return found

    def aio(self, a: str, b: str | None = None) -> Coroutine[Any, Any, list[FileDiff]]:
        """The same for async workflows."""
        return _call_soon("changes", _CHANGES, _ids(a, b), _compare)


def _snapshot_parameters() -> None: ...


def _changes_parameters(a: str, b: str | None = None) -> None: ...


_SNAPSHOT = Signature(_snapshot_parameters, "snapshot")
_CHANGES = Signature(_changes_parameters, "changes")


def _ids(a: str, b: str | None) -> tuple[str, str | None]:
    check_text(a, "changes(): a snapshot's id")
    return a, None if b is None else check_text(b, "changes(): a snapshot's id")


def _call(name: str, signature: Signature, args: tuple[Any, ...], body: Callable[..., Any]) -> Any:
    scope = _scope(name)
    refuse_in_async(scope.execution, name)
    call = _make(scope, name, signature, args, body)
    return drive(call, call.recall())


def _call_soon(
    name: str, signature: Signature, args: tuple[Any, ...], body: Callable[..., Any]
) -> Coroutine[Any, Any, Any]:
    from holdfast.engine.execution import task_driver

    scope = _scope(name)
    if not scope.execution.is_async:
        raise WrongColour(f"{name}.aio() was called in a `def` workflow: write `{name}(...)`")
    call = _make(scope, name, signature, args, body)
    return call.execution.unawaited.expect(name, "", task_driver.perform_call(call))


def _scope(name: str) -> Scope:
    scope = current.get()
    if type(scope) is not Scope:
        raise BadInput(f"{name}() is a step: call it from a workflow that a run executes")
    require_thread(scope, f"{name}()")
    return scope


def _make(
    scope: Scope, name: str, signature: Signature, args: tuple[Any, ...], body: Callable[..., Any]
) -> Call:
    digested = signature.digest(args, {})
    spec = Spec(name, body, touches_files=False)
    key = scope.counters.key(name)
    call = Call(scope.execution, spec, key, scope.counters.ordinal, digested, deadline=scope.deadline)
    spec.body = lambda: body(call, *args)
    return call


def _take(call: Call) -> str:
    """The log names the snapshot before the step's result does: from then on its contents stay. A crash
    between the two lets the step run again, and the log names one snapshot more."""
    run = call.execution
    _refuse_without_root(run, "snapshot")
    with file_windows.look(run):
        try:
            workspace = run.engine.files.of_run(run.state)
            with workspace.contents.hold():
                taken, git = file_windows.take(run, workspace), file_windows.position_of(workspace)
                theirs = file_windows.of_others(workspace, run.state.files, git)
                saved = file_windows.save(workspace, taken, "after", call.key, git)
                file_windows.write(run, [*theirs, saved])
        except HoldfastError as error:
            raise file_windows.unusable(run, error) from None
        run.engine.heartbeat.beat_for(run)
    return taken


def _compare(call: Call, a: str, b: str | None) -> list[FileDiff]:
    from holdfast.workspace.fs.beneath import shown
    from holdfast.workspace.snapshots.file_diff import FileDiff

    run = call.execution
    _refuse_without_root(run, "changes")
    workspace: Workspace = run.engine.files.of_run(run.state)
    redact = run.engine.redactor.redact
    with workspace.contents.hold():
        return [
            FileDiff(shown(change.path), change.kind, workspace.text_diff(change, redact))
            for change in workspace.diff(a, b)
            if change.path
        ]


def _refuse_without_root(run: Execution, name: str) -> None:
    files = run.engine.files
    if files.root is None and not run.state.files:
        raise BadWorkspace(f"{name}(): {files.why_none}; name one with the setting `workspace`")


snapshot = Snapshot()
changes = Changes()
