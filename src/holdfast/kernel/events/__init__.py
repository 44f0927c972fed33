"""The events of a run: past tense, immutable, the only truth.

An event is its type, its fields, and (kept beside it, in the log) the stream, the version in that
stream and the time. The type carries a version: `StepCompleted` is the first shape of that event,
`StepCompleted.2` would be the next. Types that this code does not know are kept as `Unknown`, so a
store that a newer holdfast wrote to can still be read.
"""

from __future__ import annotations

from holdfast.kernel.events.encoding import TYPES, all_types, blob_of, decode, encode, type_of
from holdfast.kernel.events.event import NOTHING, Event, Failure, GitPosition, Unknown
from holdfast.kernel.events.operation_events import (
    DeletedItem,
    FilesApplied,
    FilesPlanned,
    GitApplied,
    GitPlanned,
    ItemsDeleted,
    ItemsRestored,
    LinkMove,
    LinksApplied,
    MemoryApplied,
    OperationBegun,
    OperationDone,
    OperationDropped,
    StateApplied,
    TaskMove,
    TasksApplied,
)
from holdfast.kernel.events.run_events import (
    FENCING,
    RUN_ENDS,
    CancelRequested,
    Code,
    GenerationRestored,
    PauseRequested,
    Rewound,
    RunCancelled,
    RunClaimed,
    RunCompleted,
    RunCreated,
    RunFailed,
    RunForked,
    RunNeedsAttention,
    RunPaused,
    RunReleased,
    RunReopened,
    SignalReceived,
    Waits,
)
from holdfast.kernel.events.step_events import (
    CheckpointTaken,
    CommandChecked,
    Effect,
    Emitted,
    EvidenceVerified,
    EvidenceWritten,
    FilesForgotten,
    FilesPlace,
    FilesSaved,
    GateDecided,
    GateKind,
    GateOpened,
    GateOutcome,
    Isolate,
    ObservedCommand,
    OutcomeDelivered,
    OutcomeReported,
    OutputCaptured,
    PatchSeen,
    SleepEnded,
    SleepStarted,
    StageEntered,
    StepAttemptFailed,
    StepCompleted,
    StepFailed,
    StepInDoubt,
    StepKind,
    StepMeasured,
    StepRan,
    StepReopened,
    StepSettled,
    StepStarted,
    TimerFired,
    ValueRecorded,
    WaitAbandoned,
)
from holdfast.kernel.events.store_events import (
    Lost,
    StoreRepaired,
    StreamArchived,
    StreamCreated,
    StreamDeleted,
    StreamRestored,
)

__all__ = [
    "FENCING", "NOTHING", "RUN_ENDS", "TYPES", "CancelRequested", "CheckpointTaken", "Code",
    "CommandChecked", "DeletedItem", "Effect", "Emitted", "Event", "EvidenceVerified", "EvidenceWritten",
    "Failure", "FilesApplied", "FilesForgotten", "FilesPlace", "FilesPlanned", "FilesSaved",
    "GateDecided", "GateKind", "GateOpened", "GateOutcome", "GenerationRestored", "GitApplied",
    "GitPlanned", "GitPosition", "Isolate", "ItemsDeleted", "ItemsRestored", "LinkMove", "LinksApplied",
    "Lost", "MemoryApplied", "ObservedCommand", "OperationBegun", "OperationDone", "OperationDropped",
    "OutcomeDelivered", "OutcomeReported", "OutputCaptured", "PatchSeen", "PauseRequested", "Rewound",
    "RunCancelled", "RunClaimed", "RunCompleted", "RunCreated", "RunFailed", "RunForked",
    "RunNeedsAttention", "RunPaused", "RunReleased", "RunReopened", "SignalReceived", "SleepEnded",
    "SleepStarted", "StageEntered", "StateApplied", "StepAttemptFailed", "StepCompleted", "StepFailed",
    "StepInDoubt", "StepKind", "StepMeasured", "StepRan", "StepReopened", "StepSettled", "StepStarted",
    "StoreRepaired", "StreamArchived", "StreamCreated", "StreamDeleted", "StreamRestored", "TaskMove",
    "TasksApplied", "TimerFired", "Unknown", "ValueRecorded", "WaitAbandoned", "Waits", "all_types",
    "blob_of", "decode", "encode", "type_of",
]  # fmt: skip
