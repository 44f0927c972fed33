"""A session: what one person or agent works on, from its start to its end, in one process or several."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from holdfast.errors import Refused
from holdfast.kernel.author import NOBODY, Author
from holdfast.kernel.events import Event

KIND: Final = "session"
"""The kind of its stream."""
PREFIX: Final = "@session/"


class SessionStarted(Event, frozen=True, gc=False):
    """`actor` began to work."""

    actor: str
    author: Author = NOBODY


class SessionEnded(Event, frozen=True, gc=False):
    """It is over; `summary` says what was done."""

    summary: str = ""
    author: Author = NOBODY


EVENTS: Final = (SessionStarted, SessionEnded)


class SessionState(msgspec.Struct, frozen=True):
    """A session as its stream gives it; `ended_at` is 0 while it is open."""

    actor: str
    started_at: int
    ended_at: int = 0
    summary: str = ""


def stream_of(session: str) -> str:
    """The stream of a session; no run can have this id."""
    return PREFIX + session


def evolve(state: SessionState | None, event: Event, at: int) -> SessionState | None:
    """The session after an event. Events of other families, and those of a newer holdfast, change nothing."""
    if isinstance(event, SessionStarted):
        return SessionState(event.actor, at)
    if isinstance(event, SessionEnded) and state is not None:
        return msgspec.structs.replace(state, ended_at=at, summary=event.summary)
    return state


def fold(recorded: Iterable[tuple[Event, int, int]]) -> SessionState | None:
    """The session that (event, version, time) add up to; None if there are none."""
    state: SessionState | None = None
    for event, _, at in recorded:
        state = evolve(state, event, at)
    return state


def end(session: str, state: SessionState, summary: str, author: Author) -> SessionEnded:
    """Decide to end a session. Raises `Refused` if it is over."""
    if state.ended_at:
        raise Refused(f"session {session} has ended already; `holdfast session start` begins another")
    return SessionEnded(summary, author)
