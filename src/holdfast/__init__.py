"""Durable execution for AI agents: runs that survive `kill -9`, in one embedded store.

    from holdfast import Holdfast, step, workflow

The names below are all there is; each is loaded when it is first used, so that importing the
package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.version import __version__

if TYPE_CHECKING:
    from holdfast.engine.atomic import workspace_path
    from holdfast.engine.command import CommandResult, command
    from holdfast.engine.deadline import timeout
    from holdfast.engine.fanout import gather, parallel
    from holdfast.engine.gates import Decision, approval, wait_for
    from holdfast.engine.marks import checkpoint, emit, patched
    from holdfast.engine.perform import NOT_DONE
    from holdfast.engine.policy import Retry
    from holdfast.engine.records import LogEvent, LogLine, RunInfo, StepInfo
    from holdfast.engine.run import Run
    from holdfast.engine.sleeping import sleep
    from holdfast.engine.step import idempotency_key, step
    from holdfast.engine.values import now, random, uuid
    from holdfast.engine.workflow import workflow
    from holdfast.errors import (
        ArgumentChanged,
        CommandFailed,
        CrashLoop,
        DetachedStep,
        DivergenceError,
        GateError,
        HoldfastError,
        InDoubt,
        NeedsAttention,
        NotStorable,
        OnceAgain,
        RunArchived,
        RunCancelled,
        RunExists,
        RunHeld,
        RunInterrupted,
        RunNotFound,
        RunPaused,
        RunWaiting,
        StepError,
        StepTimeout,
        StoreError,
        StoreVanished,
        WorkspaceConflict,
        WorkspaceError,
    )
    from holdfast.handle import Holdfast
    from holdfast.operations.checkpoints import CheckpointInfo
    from holdfast.operations.diffing import FileDiff
    from holdfast.operations.files import FilesBack
    from holdfast.operations.forking import Fork
    from holdfast.operations.journal import OperationInfo
    from holdfast.operations.rewinding import Rewind
    from holdfast.operations.undoing import Undo
    from holdfast.redaction import Secret

_HOMES = {
    "holdfast.engine.atomic": ("workspace_path",),
    "holdfast.engine.command": ("CommandResult", "command"),
    "holdfast.engine.deadline": ("timeout",),
    "holdfast.engine.fanout": ("gather", "parallel"),
    "holdfast.engine.gates": ("Decision", "approval", "wait_for"),
    "holdfast.engine.marks": ("checkpoint", "emit", "patched"),
    "holdfast.engine.perform": ("NOT_DONE",),
    "holdfast.engine.policy": ("Retry",),
    "holdfast.engine.records": ("LogEvent", "LogLine", "RunInfo", "StepInfo"),
    "holdfast.engine.run": ("Run",),
    "holdfast.engine.sleeping": ("sleep",),
    "holdfast.engine.step": ("idempotency_key", "step"),
    "holdfast.engine.values": ("now", "random", "uuid"),
    "holdfast.engine.workflow": ("workflow",),
    "holdfast.errors": (
        "ArgumentChanged",
        "CommandFailed",
        "CrashLoop",
        "DetachedStep",
        "DivergenceError",
        "GateError",
        "HoldfastError",
        "InDoubt",
        "NeedsAttention",
        "NotStorable",
        "OnceAgain",
        "RunArchived",
        "RunCancelled",
        "RunExists",
        "RunHeld",
        "RunInterrupted",
        "RunNotFound",
        "RunPaused",
        "RunWaiting",
        "StepError",
        "StepTimeout",
        "StoreError",
        "StoreVanished",
        "WorkspaceConflict",
        "WorkspaceError",
    ),
    "holdfast.handle": ("Holdfast",),
    "holdfast.operations.checkpoints": ("CheckpointInfo",),
    "holdfast.operations.diffing": ("FileDiff",),
    "holdfast.operations.files": ("FilesBack",),
    "holdfast.operations.forking": ("Fork",),
    "holdfast.operations.journal": ("OperationInfo",),
    "holdfast.operations.rewinding": ("Rewind",),
    "holdfast.operations.undoing": ("Undo",),
    "holdfast.redaction": ("Secret",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "NOT_DONE",
    "ArgumentChanged",
    "CheckpointInfo",
    "CommandFailed",
    "CommandResult",
    "CrashLoop",
    "Decision",
    "DetachedStep",
    "DivergenceError",
    "FileDiff",
    "FilesBack",
    "Fork",
    "GateError",
    "Holdfast",
    "HoldfastError",
    "InDoubt",
    "LogEvent",
    "LogLine",
    "NeedsAttention",
    "NotStorable",
    "OnceAgain",
    "OperationInfo",
    "Retry",
    "Rewind",
    "Run",
    "RunArchived",
    "RunCancelled",
    "RunExists",
    "RunHeld",
    "RunInfo",
    "RunInterrupted",
    "RunNotFound",
    "RunPaused",
    "RunWaiting",
    "Secret",
    "StepError",
    "StepInfo",
    "StepTimeout",
    "StoreError",
    "StoreVanished",
    "Undo",
    "WorkspaceConflict",
    "WorkspaceError",
    "__version__",
    "approval",
    "checkpoint",
    "command",
    "emit",
    "gather",
    "idempotency_key",
    "now",
    "parallel",
    "patched",
    "random",
    "sleep",
    "step",
    "timeout",
    "uuid",
    "wait_for",
    "workflow",
    "workspace_path",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
