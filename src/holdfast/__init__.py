"""Durable execution for AI agents: runs that survive `kill -9`, in one embedded store.

    from holdfast import Holdfast, step, workflow

The names below are all there is; each is loaded when it is first used, so that importing the
package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.version import __version__

if TYPE_CHECKING:
    from holdfast.agents.learning.skill_file import SkillFault
    from holdfast.engine.execution.perform import NOT_DONE
    from holdfast.engine.execution.step_options import Retry
    from holdfast.engine.files.workspace_step import workspace_path
    from holdfast.engine.outside.records import LogEvent
    from holdfast.engine.primitives.budget import budget
    from holdfast.engine.primitives.checkpoint import checkpoint, emit, patched, stage
    from holdfast.engine.primitives.command import CommandResult, command
    from holdfast.engine.primitives.fanout import gather, parallel
    from holdfast.engine.primitives.gates import Decision, approval, wait_for
    from holdfast.engine.primitives.measure import measure
    from holdfast.engine.primitives.milestone import milestone
    from holdfast.engine.primitives.sleep import sleep
    from holdfast.engine.primitives.snapshot import changes, snapshot
    from holdfast.engine.primitives.step import idempotency_key, step
    from holdfast.engine.primitives.timeout import timeout
    from holdfast.engine.primitives.values import now, random, recorded, uuid
    from holdfast.engine.runs.run import Run
    from holdfast.engine.runs.workflow import workflow
    from holdfast.errors import (
        AllFailed,
        ArgumentChanged,
        BudgetReached,
        CheckFailed,
        ClaimLost,
        CommandFailed,
        CrashLoop,
        DetachedStep,
        DivergenceError,
        EvidenceNotFound,
        GateError,
        HoldfastError,
        InDoubt,
        LinkCycle,
        NeedsAttention,
        NotStorable,
        OnceAgain,
        PlanChanged,
        RunArchived,
        RunCancelled,
        RunDeleted,
        RunExists,
        RunHeld,
        RunInterrupted,
        RunNotFound,
        RunPaused,
        RunWaiting,
        SessionNotFound,
        StepError,
        StepTimeout,
        StoreError,
        StoreVanished,
        TaskHeld,
        TaskNotFound,
        WorkspaceConflict,
        WorkspaceError,
    )
    from holdfast.facade.claim import Claim
    from holdfast.handle import Holdfast
    from holdfast.kernel.amounts import Amounts
    from holdfast.kernel.measures import Measured
    from holdfast.operations.archiving import Archive
    from holdfast.operations.checkpoints import CheckpointInfo
    from holdfast.operations.deleting import Deletion
    from holdfast.operations.disk_usage import Coverage, FilesVerified, Usage
    from holdfast.operations.forking import Fork
    from holdfast.operations.operation_files import FilesBack
    from holdfast.operations.operation_log import OperationInfo
    from holdfast.operations.quota import Collected
    from holdfast.operations.repairing.report import RepairReport
    from holdfast.operations.replaying import Replay
    from holdfast.operations.repositories import GitBack
    from holdfast.operations.restoring import Restored
    from holdfast.operations.reversal import PartBack
    from holdfast.operations.rewinding import Rewind
    from holdfast.operations.undoing import Undo
    from holdfast.redaction import Secret
    from holdfast.serving.served import Served, Taken
    from holdfast.store.sqlite.backup import Backup
    from holdfast.tracker.exchange import Imported
    from holdfast.views.audit import Audit, Repaired
    from holdfast.views.budget import Budget
    from holdfast.views.check import Check
    from holdfast.views.deliver_record import DeliverRecord
    from holdfast.views.evidence import CommandCheck, Evidence, EvidenceInfo, Verification
    from holdfast.views.feed import FeedEvent, FeedPage
    from holdfast.views.gate import Gate
    from holdfast.views.learning import CandidateStats, SkillInfo, SkillStats
    from holdfast.views.memory import Memory
    from holdfast.views.mirror import ImportChange, MirrorFault, MirrorImport, MirrorRebuilt, MirrorStatus
    from holdfast.views.records import LogLine, RunInfo, StepInfo
    from holdfast.views.restored_backup import RestoredBackup
    from holdfast.views.run_detail import RunDetail
    from holdfast.views.run_statistics import RunStatistics
    from holdfast.views.search_hit import SearchHit, SearchPage
    from holdfast.views.session import WorkSession
    from holdfast.views.statistics import Statistics
    from holdfast.views.step_detail import StepDetail
    from holdfast.views.task import Task, TaskClaim, TaskDetail, TaskEvent, TaskLink, TaskNode, TaskNote
    from holdfast.views.trusted import Granted, TrustRecord
    from holdfast.ways import Way
    from holdfast.workspace.snapshots.file_diff import FileDiff

_HOMES = {
    "holdfast.engine.files.workspace_step": ("workspace_path",),
    "holdfast.engine.primitives.command": ("CommandResult", "command"),
    "holdfast.engine.primitives.timeout": ("timeout",),
    "holdfast.engine.primitives.budget": ("budget",),
    "holdfast.engine.primitives.fanout": ("gather", "parallel"),
    "holdfast.engine.primitives.gates": ("Decision", "approval", "wait_for"),
    "holdfast.engine.primitives.checkpoint": ("checkpoint", "emit", "patched", "stage"),
    "holdfast.engine.execution.perform": ("NOT_DONE",),
    "holdfast.engine.execution.step_options": ("Retry",),
    "holdfast.engine.outside.records": ("LogEvent",),
    "holdfast.engine.runs.run": ("Run",),
    "holdfast.engine.primitives.measure": ("measure",),
    "holdfast.engine.primitives.milestone": ("milestone",),
    "holdfast.engine.primitives.sleep": ("sleep",),
    "holdfast.kernel.amounts": ("Amounts",),
    "holdfast.kernel.measures": ("Measured",),
    "holdfast.engine.primitives.snapshot": ("changes", "snapshot"),
    "holdfast.engine.primitives.step": ("idempotency_key", "step"),
    "holdfast.engine.primitives.values": ("now", "random", "recorded", "uuid"),
    "holdfast.engine.runs.workflow": ("workflow",),
    "holdfast.errors": (
        "AllFailed",
        "ArgumentChanged",
        "BudgetReached",
        "CheckFailed",
        "ClaimLost",
        "CommandFailed",
        "CrashLoop",
        "DetachedStep",
        "DivergenceError",
        "EvidenceNotFound",
        "GateError",
        "HoldfastError",
        "InDoubt",
        "LinkCycle",
        "NeedsAttention",
        "NotStorable",
        "OnceAgain",
        "PlanChanged",
        "RunArchived",
        "RunCancelled",
        "RunDeleted",
        "RunExists",
        "RunHeld",
        "RunInterrupted",
        "RunNotFound",
        "RunPaused",
        "RunWaiting",
        "SessionNotFound",
        "StepError",
        "StepTimeout",
        "StoreError",
        "StoreVanished",
        "TaskHeld",
        "TaskNotFound",
        "WorkspaceConflict",
        "WorkspaceError",
    ),
    "holdfast.handle": ("Holdfast",),
    "holdfast.operations.checkpoints": ("CheckpointInfo",),
    "holdfast.operations.operation_files": ("FilesBack",),
    "holdfast.operations.forking": ("Fork",),
    "holdfast.operations.operation_log": ("OperationInfo",),
    "holdfast.operations.replaying": ("Replay",),
    "holdfast.operations.reversal": ("PartBack",),
    "holdfast.operations.rewinding": ("Rewind",),
    "holdfast.operations.undoing": ("Undo",),
    "holdfast.redaction": ("Secret",),
    "holdfast.serving.served": ("Served", "Taken"),
    "holdfast.agents.learning.skill_file": ("SkillFault",),
    "holdfast.views.evidence": ("CommandCheck", "Evidence", "EvidenceInfo", "Verification"),
    "holdfast.views.feed": ("FeedEvent", "FeedPage"),
    "holdfast.views.budget": ("Budget",),
    "holdfast.views.gate": ("Gate",),
    "holdfast.views.learning": ("CandidateStats", "SkillInfo", "SkillStats"),
    "holdfast.views.memory": ("Memory",),
    "holdfast.views.records": ("LogLine", "RunInfo", "StepInfo"),
    "holdfast.views.deliver_record": ("DeliverRecord",),
    "holdfast.views.run_detail": ("RunDetail",),
    "holdfast.views.search_hit": ("SearchHit", "SearchPage"),
    "holdfast.views.step_detail": ("StepDetail",),
    "holdfast.operations.archiving": ("Archive",),
    "holdfast.operations.deleting": ("Deletion",),
    "holdfast.operations.disk_usage": ("Coverage", "FilesVerified", "Usage"),
    "holdfast.operations.quota": ("Collected",),
    "holdfast.operations.repositories": ("GitBack",),
    "holdfast.operations.restoring": ("Restored",),
    "holdfast.store.sqlite.backup": ("Backup",),
    "holdfast.operations.repairing.report": ("RepairReport",),
    "holdfast.views.audit": ("Audit", "Repaired"),
    "holdfast.views.check": ("Check",),
    "holdfast.views.mirror": (
        "ImportChange",
        "MirrorFault",
        "MirrorImport",
        "MirrorRebuilt",
        "MirrorStatus",
    ),
    "holdfast.views.restored_backup": ("RestoredBackup",),
    "holdfast.views.run_statistics": ("RunStatistics",),
    "holdfast.facade.claim": ("Claim",),
    "holdfast.tracker.exchange": ("Imported",),
    "holdfast.views.session": ("WorkSession",),
    "holdfast.views.statistics": ("Statistics",),
    "holdfast.views.task": (
        "Task",
        "TaskClaim",
        "TaskDetail",
        "TaskEvent",
        "TaskLink",
        "TaskNode",
        "TaskNote",
    ),
    "holdfast.views.trusted": ("Granted", "TrustRecord"),
    "holdfast.ways": ("Way",),
    "holdfast.workspace.snapshots.file_diff": ("FileDiff",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "NOT_DONE",
    "AllFailed",
    "Amounts",
    "Archive",
    "ArgumentChanged",
    "Audit",
    "Backup",
    "Budget",
    "BudgetReached",
    "CandidateStats",
    "Check",
    "CheckFailed",
    "CheckpointInfo",
    "Claim",
    "ClaimLost",
    "Collected",
    "CommandCheck",
    "CommandFailed",
    "CommandResult",
    "Coverage",
    "CrashLoop",
    "Decision",
    "Deletion",
    "DeliverRecord",
    "DetachedStep",
    "DivergenceError",
    "Evidence",
    "EvidenceInfo",
    "EvidenceNotFound",
    "FeedEvent",
    "FeedPage",
    "FileDiff",
    "FilesBack",
    "FilesVerified",
    "Fork",
    "Gate",
    "GateError",
    "GitBack",
    "Granted",
    "Holdfast",
    "HoldfastError",
    "ImportChange",
    "Imported",
    "InDoubt",
    "LinkCycle",
    "LogEvent",
    "LogLine",
    "Measured",
    "Memory",
    "MirrorFault",
    "MirrorImport",
    "MirrorRebuilt",
    "MirrorStatus",
    "NeedsAttention",
    "NotStorable",
    "OnceAgain",
    "OperationInfo",
    "PartBack",
    "PlanChanged",
    "RepairReport",
    "Repaired",
    "Replay",
    "Restored",
    "RestoredBackup",
    "Retry",
    "Rewind",
    "Run",
    "RunArchived",
    "RunCancelled",
    "RunDeleted",
    "RunDetail",
    "RunExists",
    "RunHeld",
    "RunInfo",
    "RunInterrupted",
    "RunNotFound",
    "RunPaused",
    "RunStatistics",
    "RunWaiting",
    "SearchHit",
    "SearchPage",
    "Secret",
    "Served",
    "SessionNotFound",
    "SkillFault",
    "SkillInfo",
    "SkillStats",
    "Statistics",
    "StepDetail",
    "StepError",
    "StepInfo",
    "StepTimeout",
    "StoreError",
    "StoreVanished",
    "Taken",
    "Task",
    "TaskClaim",
    "TaskDetail",
    "TaskEvent",
    "TaskHeld",
    "TaskLink",
    "TaskNode",
    "TaskNotFound",
    "TaskNote",
    "TrustRecord",
    "Undo",
    "Usage",
    "Verification",
    "Way",
    "WorkSession",
    "WorkspaceConflict",
    "WorkspaceError",
    "__version__",
    "approval",
    "budget",
    "changes",
    "checkpoint",
    "command",
    "emit",
    "gather",
    "idempotency_key",
    "measure",
    "milestone",
    "now",
    "parallel",
    "patched",
    "random",
    "recorded",
    "sleep",
    "snapshot",
    "stage",
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
