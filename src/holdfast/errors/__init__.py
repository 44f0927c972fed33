"""Every error holdfast raises, in one tree.

HoldfastError
├── BadInput                the request itself is wrong (usage)
│   ├── BadArguments        arguments that do not fit a signature
│   ├── BadRunId            an id outside [A-Za-z0-9._-]{1,128}
│   ├── AmbiguousRunId      the beginning of more than one id
│   ├── Refused             a command that does not fit the run's state
│   │   ├── OnceAgain       `once` steps that were done would run again
│   │   ├── PlanChanged     what would be done now is not what was previewed
│   │   ├── LinkCycle       a link between tasks would close a cycle
│   │   ├── Pushed          going back would drop commits that a remote has
│   │   ├── CheckFailed     a check of a task failed, so it is not completed
│   │   └── EndedElsewhere  the worker process of a run could not be started, or ended in the middle
│   ├── PlanFaults          a plan file with faults
│   ├── BadExpression       an expression of a plan that cannot be read, or has no value
│   ├── SettingsError       a setting that is unknown or has a wrong value
│   ├── NotTrusted          settings, a store or code from somewhere else, or that others can change
│   ├── BadWorkspace        a directory that cannot be a workspace, or a path outside it
│   └── WrongColour         a blocking call inside an event loop, or the reverse
├── NotFound                something named is not there
│   ├── RunNotFound         no run has that id
│   ├── StepNotFound        the run has no such step
│   ├── CodeNotFound        the workflow of a run cannot be imported
│   │   └── CodeClash       its modules would mix with those of other code in this process
│   ├── TaskNotFound        no task has that id
│   │   └── TaskDeleted     the id was that of a task that was deleted
│   ├── SessionNotFound     no session has that id
│   ├── EvidenceNotFound    the run has no evidence, or none of that milestone
│   ├── SnapshotNotFound    no snapshot has that id
│   ├── ProgramNotFound     a command names no program
│   └── AgentNotFound       no agent has that name or role
├── RunExists               the id is taken by a run with other arguments
├── RunArchived             the id was that of a run that was archived
│   └── RunDeleted          the id was that of a run that was deleted
├── RunHeld                 another live process executes the run
├── TaskHeld                another has claimed the task
├── ClaimLost               the claim has ended or was never made, or the task was claimed or completed since
├── RunWaiting              the run waits: for a person, a signal or a time
├── RunPaused               the run was paused
│   ├── AllFailed           all candidates for a piece of work failed
│   └── BudgetReached       a budget has not enough left for the next step
├── RunCancelled            the run was cancelled
├── RunInterrupted          the run stopped without an end; it can be resumed
├── GateError               a decision that does not fit its gate
├── NeedsAttention          a person must decide before the run continues
│   ├── InDoubt             a `once` step was cut off; its outcome is unknown
│   ├── DivergenceError     the code no longer matches the history
│   └── CrashLoop           taken over again and again without progress
├── StepError               a step failed; stands in for a class that cannot be rebuilt
├── CommandFailed           a command ended with a code other than 0
├── NotApproved             an approval of a plan was rejected, or not answered in time
├── NotDelivered            a delivery was sent back as often as it may be
├── StepTimeout             a step took longer than its limit
├── ToolFailed              a tool could not do what it was asked for
├── AgentFailed             an agent reported that it could not do its job
├── ModelFailed             a model provider refused a request, or did not answer
├── WorkspaceError          files could not be saved or restored
│   ├── ContentsDamaged     a saved content is missing or not what it was
│   ├── WorkspaceConflict   a step in a copy and others changed the same files
│   ├── GitError            the git repository cannot be moved
│   │   ├── GitFailed       git ended with an error
│   │   ├── GitBusy         another process is at work in the repository
│   │   └── RollbackRefused  what an attempt did to the repository cannot be rolled back
│   └── RestoreUndone       a restore failed, and the files are as they were before it
├── NotStorable             a value that JSON with tags cannot carry
├── DetachedStep            a step was called outside the run it belongs to (also a warning)
├── ArgumentChanged         a step changed its argument, which is a copy (a warning)
├── NotAwaited              a workflow ended without having awaited what it called
└── StoreError              the store cannot be used
    ├── StoreVanished       its file is gone from under a live process
    ├── StoreLost           it is not where it was, and the project has its mirror
    ├── StoreHeld           a live process uses it, so it cannot be replaced
    ├── StoreCorrupt        it is damaged, or its chain does not verify
    ├── StoreForeign        the file is a database, but not ours
    ├── StoreNewer          a newer holdfast wrote it
    ├── StoreFull           no room on the disk
    ├── StoreReadOnly       no permission to write
    ├── StoreOnNetwork      network filesystems cannot keep the promise
    ├── StoreInDoubt        an I/O error hid whether a commit took place
    ├── StoreClosed         used after close, or in a forked child
    ├── Resync              a feed cursor of another history of the store
    └── OwnershipLost       another owner has taken the run over

Each class has a stable `code` for programs and the `exit_code` of the CLI. A message is one
sentence that names the thing, says what happened and what to do next.
"""

from __future__ import annotations

from holdfast.errors.agents import (
    AgentFailed,
    AgentNotFound,
    AllFailed,
    BudgetReached,
    EvidenceNotFound,
    ModelFailed,
    NotDelivered,
    ToolFailed,
)
from holdfast.errors.base import (
    BadArguments,
    BadInput,
    HoldfastError,
    NotFound,
    NotTrusted,
    Refused,
    SettingsError,
    WrongColour,
    not_text,
    with_more,
)
from holdfast.errors.plans import BadExpression, NotApproved, PlanFaults
from holdfast.errors.runs import (
    AmbiguousRunId,
    BadRunId,
    CodeClash,
    CodeNotFound,
    CrashLoop,
    DivergenceError,
    EndedElsewhere,
    GateError,
    InDoubt,
    NeedsAttention,
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
    StepNotFound,
)
from holdfast.errors.steps import (
    ArgumentChanged,
    CommandFailed,
    DetachedStep,
    NotAwaited,
    NotStorable,
    ProgramNotFound,
    StepError,
    StepTimeout,
)
from holdfast.errors.store import (
    OwnershipLost,
    Resync,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreHeld,
    StoreInDoubt,
    StoreLost,
    StoreNewer,
    StoreOnNetwork,
    StoreReadOnly,
    StoreVanished,
    store_error_for,
)
from holdfast.errors.tasks import (
    CheckFailed,
    ClaimLost,
    LinkCycle,
    SessionNotFound,
    TaskDeleted,
    TaskHeld,
    TaskNotFound,
)
from holdfast.errors.workspace import (
    BadWorkspace,
    ContentsDamaged,
    GitBusy,
    GitError,
    GitFailed,
    Pushed,
    RestoreUndone,
    RollbackRefused,
    SnapshotNotFound,
    WorkspaceConflict,
    WorkspaceError,
)

__all__ = [
    "AgentFailed", "AgentNotFound", "AllFailed", "AmbiguousRunId", "ArgumentChanged", "BadArguments",
    "BadExpression", "BadInput", "BadRunId", "BadWorkspace", "BudgetReached", "CheckFailed", "ClaimLost",
    "CodeClash", "CodeNotFound", "CommandFailed", "ContentsDamaged", "CrashLoop", "DetachedStep",
    "DivergenceError", "EndedElsewhere", "EvidenceNotFound", "GateError", "GitBusy", "GitError",
    "GitFailed", "HoldfastError", "InDoubt", "LinkCycle", "ModelFailed", "NeedsAttention", "NotApproved",
    "NotAwaited", "NotDelivered", "NotFound", "NotStorable", "NotTrusted", "OnceAgain", "OwnershipLost",
    "PlanChanged", "PlanFaults", "ProgramNotFound", "Pushed", "Refused", "RestoreUndone", "Resync",
    "RollbackRefused", "RunArchived", "RunCancelled", "RunDeleted", "RunExists", "RunHeld",
    "RunInterrupted", "RunNotFound", "RunPaused", "RunWaiting", "SessionNotFound", "SettingsError",
    "SnapshotNotFound", "StepError", "StepNotFound", "StepTimeout", "StoreClosed", "StoreCorrupt",
    "StoreError", "StoreForeign", "StoreFull", "StoreHeld", "StoreInDoubt", "StoreLost", "StoreNewer",
    "StoreOnNetwork", "StoreReadOnly", "StoreVanished", "TaskDeleted", "TaskHeld", "TaskNotFound",
    "ToolFailed", "WorkspaceConflict", "WorkspaceError", "WrongColour", "not_text", "store_error_for",
    "with_more",
]  # fmt: skip

for _name in __all__:
    # Each is recorded, pickled and shown as `holdfast.errors.NAME`, in whichever room it is defined.
    globals()[_name].__module__ = __name__
