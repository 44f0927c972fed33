"""Random commands for a run of a few steps, chosen so that many of them fit the state they meet.

Needs hypothesis, so it is imported by its own name only.
"""

from __future__ import annotations

from decimal import Decimal

import msgspec
from hypothesis import strategies as st

from holdfast.kernel import commands as c
from holdfast.kernel import events as e
from holdfast.kernel.events import Failure
from holdfast.kernel.generations import following
from holdfast.kernel.measures import Measured
from holdfast.kernel.state import RunState

KEYS = st.sampled_from(["a#1", "a#2", "branch[1]/b#1", "pay@order-7"])
OWNERS = st.sampled_from(["ann", "bob"])
TEXTS = st.sampled_from(["", "why", "a 'quoted' \"text\"", "nul \0 and 💥", "123", "null"])
RAWS = st.sampled_from([e.NOTHING, msgspec.Raw(b"null"), msgspec.Raw(b'{"$tuple":[1,"x"]}')])
FAILURES = st.builds(Failure, st.just("builtins:ValueError"), TEXTS)
TIMES = st.integers(1, 99)
ORDINALS = st.integers(0, 3)
NAMES = st.sampled_from(["a", "b"])
DIGESTS = st.sampled_from(["", "d1"])
PRICES = st.none() | st.sampled_from([Decimal("0.1"), Decimal("0.02"), Decimal("1E+2")])
MEASURES = st.builds(
    Measured,
    st.sampled_from(["", "small", "large"]),
    st.integers(0, 9),
    st.integers(0, 9),
    PRICES,
    st.dictionaries(NAMES, st.integers(0, 9) | st.just(Decimal("0.5")), max_size=2),
)


def commands_for(run: str) -> st.SearchStrategy[c.Command]:
    """Any command, for the run `run`; claims and step commands come up more often than ends."""
    here = st.just(run)
    claim = st.builds(c.ClaimRun, here, OWNERS, st.sampled_from(["", "ann", "bob"]), st.booleans())
    start = st.builds(
        c.StartStep,
        KEYS,
        NAMES,
        digest=DIGESTS,
        ordinal=ORDINALS,
        effect=st.sampled_from(["idempotent", "once", "workspace"]),
        kind=st.sampled_from(["step", "command", "child"]),
        args=RAWS,
        child=st.sampled_from(["", "kid"]),
    )
    ran = st.builds(
        e.StepRan,
        KEYS,
        NAMES,
        TIMES,
        DIGESTS,
        ORDINALS,
        args=RAWS,
        preview=TEXTS,
        result=RAWS,
        generation=st.sampled_from([0, 0, 0, 0, 1]),
        secret=st.booleans(),
    )
    settle = st.builds(
        c.SettleStep,
        here,
        KEYS,
        st.sampled_from(["done", "retry", "fail"]),
        TEXTS,
        RAWS,
        error=st.none() | FAILURES,
        abandoned=st.booleans(),
    )
    gate = st.builds(
        c.Record,
        st.builds(
            e.GateOpened,
            KEYS,
            ORDINALS,
            st.sampled_from(["approval", "signal"]),
            NAMES,
            DIGESTS,
            RAWS,
            until=st.sampled_from([0, 0, 50]),
        ),
    )
    return st.one_of(
        st.builds(c.CreateRun, here, st.just(e.Code("flow")), st.sampled_from(["d", "d", "other"]), RAWS),
        claim,
        claim,
        start,
        start,
        start,
        st.builds(c.RunStep, ran),
        st.builds(c.RunStep, ran),
        st.builds(c.RunStep, ran),
        st.builds(c.CompleteStep, KEYS, RAWS, secret=st.booleans()),
        st.builds(c.CompleteStep, KEYS, RAWS),
        st.builds(c.FailAttempt, KEYS, FAILURES, st.sampled_from([0, 5, 77])),
        st.builds(c.MeasureStep, KEYS, st.integers(1, 2), st.lists(MEASURES, max_size=2).map(tuple)),
        st.builds(c.DoubtStep, here, KEYS, TEXTS, st.booleans()),
        settle,
        st.builds(c.Record, st.builds(e.SleepStarted, KEYS, ORDINALS, TIMES)),
        st.builds(c.Record, st.builds(e.SleepEnded, KEYS)),
        st.builds(
            c.Record, st.builds(e.ValueRecorded, KEYS, ORDINALS, RAWS.filter(lambda raw: bytes(raw) != b""))
        ),
        st.builds(c.CaptureOutput, KEYS, st.just("stdout"), TEXTS),
        st.builds(c.AttendRun, st.sampled_from(["in_doubt", "divergence"]), TEXTS, KEYS),
        st.builds(c.ReleaseRun, here, OWNERS, TEXTS),
        st.builds(c.ReopenRun, here),
        st.builds(c.CompleteRun, RAWS),
        st.builds(c.FailRun, FAILURES, st.lists(KEYS, max_size=2, unique=True).map(tuple)),
        st.builds(c.CancelRun, here, TEXTS, TEXTS, st.booleans()),
        st.builds(c.PauseRun, here, TEXTS, TEXTS, st.booleans()),
        st.builds(c.RewindRun, here, KEYS, TEXTS, OWNERS, st.booleans()),
        st.builds(
            c.RestoreGeneration, here, st.integers(0, 2), st.integers(0, 2), TEXTS, OWNERS, st.booleans()
        ),
        gate,
        gate,
        st.builds(
            c.DecideGate, here, st.sampled_from(["approved", "rejected"]), st.sampled_from(["", "a", "a#1"])
        ),
        st.builds(c.ExpireGate, KEYS, TIMES),
        st.builds(c.AbandonWait, KEYS),
        st.builds(c.Record, st.builds(e.OutcomeDelivered, KEYS)),
        st.builds(
            c.Record, st.builds(lambda scope, number: e.TimerFired(scope, number, number), NAMES, ORDINALS)
        ),
        st.builds(c.SendSignal, here, NAMES, RAWS, by=TEXTS),
        st.builds(c.SendSignal, here, NAMES, RAWS),
        st.builds(c.Record, st.builds(e.CheckpointTaken, KEYS, ORDINALS, NAMES, RAWS)),
        st.builds(
            c.Record,
            st.builds(
                e.Emitted,
                NAMES,
                RAWS.filter(lambda raw: bytes(raw) != b""),
                st.sampled_from(["", "a#2"]),
                ORDINALS,
            ),
        ),
        st.builds(c.Record, st.builds(e.EvidenceWritten, KEYS, NAMES, TEXTS, st.just(""))),
        st.builds(c.VerifyEvidence, here, KEYS, TEXTS, st.sampled_from(["equal", "different"])),
        st.builds(c.Record, st.builds(e.PatchSeen, KEYS, NAMES)),
        st.builds(c.Record, st.builds(e.StageEntered, KEYS, ORDINALS, TEXTS.filter(bool))),
        st.builds(
            c.Record,
            st.builds(
                e.OutcomeReported,
                KEYS,
                ORDINALS,
                st.sampled_from(["router", "skills"]),
                TEXTS,
                st.lists(NAMES, max_size=2).map(tuple),
                st.booleans(),
                st.none() | st.decimals(0, 9, places=9),
                TEXTS,
            ),
        ),
    )


def fitting(state: RunState | None, command: c.Command) -> c.Command:
    """The command as a caller that knows the state gives it: a step that ran is of the generation that is
    open, unless it says another one. Without this hardly any would fit after a rewind."""
    if state is None or not isinstance(command, c.RunStep) or command.ran.generation:
        return command
    return c.RunStep(msgspec.structs.replace(command.ran, generation=state.generation))


def moved(state: RunState, back: int) -> e.Rewound | e.GenerationRestored:
    """A rewind of `back` versions, by turns of this generation and of the first, or back to a generation
    that was left: every move that `evolve` must be able to follow."""
    if back % 4 == 3 and state.past:
        left = sorted(state.past)
        return e.GenerationRestored(left[back % len(left)])
    parent = state.generation if back % 3 else 0
    return e.Rewound(following(state), parent, max(1, state.version - back))
