"""Sessions: who works, from when to when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.errors import SessionNotFound
from holdfast.kernel import session as sessions
from holdfast.kernel import task_rules
from holdfast.store.port import NO_EVENTS, Decision, Recorded, Source, Store, new_event
from holdfast.tracker.tracker import Tracker


class NewSession(NamedTuple):
    """A session that is not in the log yet: its id and its first event."""

    id: str
    started: sessions.SessionStarted

    @property
    def source(self) -> Source:
        return Source(sessions.stream_of(self.id))

    def decide(self, recorded: Sequence[Recorded], at: int) -> Decision:
        if recorded:
            return NO_EVENTS  # the step has begun it, and runs again after a crash
        return Decision(sessions.KIND, [new_event(self.started, at)])


def new_session(tracker: Tracker, actor: str | None = None) -> NewSession:
    """A session of `actor`, or of the author, for a commit that begins it."""
    author = tracker.actor()
    name = tracker.redacted(actor or author.by)
    return NewSession(tracker.new_id(author, f"session {name}"), sessions.SessionStarted(name, author))


def start(tracker: Tracker, actor: str | None = None) -> str:
    """Begin a session; returns its id."""
    session = new_session(tracker, actor)

    def decide(recorded: Sequence[Recorded]) -> Decision:
        return session.decide(recorded, tracker.clock.now_us())

    tracker.store.command(session.source.stream, decide)
    return session.id


def end(tracker: Tracker, session: str, summary: str = "") -> None:
    """End a session. Raises `SessionNotFound`, and `Refused` if it is over."""
    task_rules.check({"summary": summary})
    text, author = tracker.redacted(summary), tracker.actor()

    def decide(recorded: Sequence[Recorded]) -> Decision:
        state = sessions.fold(recorded)
        if state is None:
            raise SessionNotFound(session)
        last = recorded[-1].event
        if isinstance(last, sessions.SessionEnded) and author.is_step_of(last.author):
            return NO_EVENTS
        event = sessions.end(session, state, text, author)
        return Decision(sessions.KIND, [new_event(event, tracker.clock.now_us())])

    tracker.store.command(sessions.stream_of(session), decide)


def open_session(store: Store, actor: str) -> str:
    """The last session of an actor that is open; empty if there is none."""
    for row in store.sessions(_LOOKED_AT):
        if not row.ended_at and row.actor == actor:
            return row.id
    return ""


def exists(store: Store, session: str) -> bool:
    """Whether there is a session with this whole id, open or not."""
    return store.session_ids(session, 1) == [session]  # in order, so a whole id comes before longer ones


def newest(store: Store) -> list[str]:
    """The ids of the last sessions, to name them."""
    return [row.id for row in store.sessions(_NAMED)]


_NAMED = 5
_LOOKED_AT = 50
"""How many sessions are looked at: one that is older and still open was forgotten."""
