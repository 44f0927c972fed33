"""Evidence in the kernel: who may write it, and what it changes."""

from __future__ import annotations

import copy

import msgspec
import pytest

from holdfast.errors import Refused, StepNotFound
from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.decide import decide
from holdfast.kernel.evolve import evolve, fold
from holdfast.kernel.state import RunState

WRITTEN = e.EvidenceWritten("made#1", "made", "digest", "blob", "observed")
TAKEN = e.CheckpointTaken("made#1", 1, "made")
VERIFIED = c.VerifyEvidence("r", "made#1", "digest", "equal", by="ann")


@pytest.fixture
def state() -> RunState:
    folded = fold([(e.RunCreated(e.Code("flow"), "d"), 1, 1), (e.RunClaimed("me", 1, ordered=True), 2, 2)])
    assert folded is not None
    return folded


def taken(state: RunState, *commands: c.Command) -> list[e.Event]:
    found = []
    for command in commands:
        for event in decide(state, command):
            evolve(state, event, state.version + 1, 9)
            found.append(event)
    return found


def test_evidence_and_its_checkpoint_are_written_once(state: RunState) -> None:
    """The live generation is filled in; what is recorded already is refused, as is a run without an owner."""
    state.generation = 4
    assert taken(state, c.Record(WRITTEN), c.Record(TAKEN)) == [
        msgspec.structs.replace(WRITTEN, generation=4),
        msgspec.structs.replace(TAKEN, generation=4),
    ]
    with pytest.raises(Refused, match="milestone made#1 is recorded already"):
        decide(state, c.Record(WRITTEN))
    state.owner = ""
    with pytest.raises(Refused, match="has no owner"):
        decide(state, c.Record(msgspec.structs.replace(WRITTEN, key="other#1")))


def test_a_verification_is_of_a_milestone_and_changes_nothing_else(state: RunState) -> None:
    """Anybody may record it, also when the run has ended; a key that is no checkpoint is refused."""
    with pytest.raises(StepNotFound):
        decide(state, VERIFIED)
    taken(state, c.Record(WRITTEN), c.Record(TAKEN), c.CompleteRun())
    before = copy.deepcopy(state)
    assert taken(state, VERIFIED) == [e.EvidenceVerified("made#1", "digest", "equal", "now", "ann")]
    before.version, before.updated_at = state.version, state.updated_at
    assert state == before
