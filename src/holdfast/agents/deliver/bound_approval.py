"""An approval that is bound to the files: one that was given while they changed does not count.

A snapshot is taken before the gate is opened and after it was decided. If the two differ, the gate asks
again, and shows the difference. What is shown names the snapshot, so its digest stands for the files too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from holdfast.engine.primitives.gates import Decision, approval
from holdfast.engine.primitives.snapshot import changes, snapshot

if TYPE_CHECKING:
    from holdfast.engine.primitives.gates import Automatic
    from holdfast.workspace.snapshots.file_diff import FileDiff

MOST_SHOWN = 200_000
"""Characters of differences that a gate shows; the rest is counted."""


class Answer(NamedTuple):
    """The decision, and the files that it is bound to."""

    decision: Decision
    snapshot: str

    @property
    def approved(self) -> bool:
        return self.decision.outcome == "approved"

    @property
    def reason(self) -> str:
        return self.decision.comment or "no reason was given"


class Question(NamedTuple):
    """The subject of a gate: the files as they are, and those that changed since it was last asked."""

    snapshot: str
    changed: Sequence[FileDiff] = ()


Show = Callable[[Question], Awaitable[str]]
"""Makes the text of a question."""


async def ask(
    name: str,
    title: str,
    show: Show,
    policy: Callable[[], Automatic | None],
    changed: Sequence[FileDiff] = (),
) -> Answer:
    """Ask until a decision is given on files that are still the same. A rejection counts whatever the files
    are.

    policy   how it is decided without a person, once the text is made; None if a person is asked
    changed  what changed since an earlier approval. With it, and whenever it asks again, a person is asked
    """
    while True:
        question = Question(await snapshot.aio(), changed)
        text = await show(question)
        automatic = None if changed else policy()
        if automatic is None:
            decision = await approval.aio(title, show=text, name=name)
        else:
            decision = await approval.decided(title, automatic, show=text, name=name)
        if decision.outcome != "approved":
            return Answer(decision, question.snapshot)
        after = await snapshot.aio()
        if after == question.snapshot:
            return Answer(decision, after)
        changed = await changes.aio(question.snapshot, after)


def diff_text(diffs: Sequence[FileDiff], most: int = MOST_SHOWN) -> str:
    """The differences as text; what does not fit is counted."""
    shown: list[str] = []
    for n, one in enumerate(diffs):
        if most <= 0:
            shown.append(f"... and {len(diffs) - n} more files")  # a gate's text: other words diverge
            break
        text = one.text.rstrip("\n")
        shown.append(
            text if len(text) <= most else f"{text[:most]}\n... {len(text) - most:,} more characters"
        )
        most -= len(text)
    return "\n".join(shown)
