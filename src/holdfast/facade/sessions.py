"""`hf.sessions`: who works, from when to when."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from holdfast.errors import BadInput, SessionNotFound
from holdfast.facade.namespace import Namespace
from holdfast.facade.open_store import blocking
from holdfast.views.session import WorkSession

if TYPE_CHECKING:
    from holdfast.facade.tracking import Tracking


class Sessions(Namespace):
    """Sessions of work on tasks. `HOLDFAST_SESSION` names the one that a process works in; without it, what a
    person does belongs to their last session that is open."""

    NAMESPACE: ClassVar = "sessions"
    _holdfast: Tracking

    @blocking
    def start(self, actor: str | None = None) -> WorkSession:
        """Begin a session of `actor`, or of the user."""
        from holdfast.tracker.sessions import start

        if actor is not None and not actor.strip():
            raise BadInput("a session needs an actor: the name of a person or an agent")
        return self._of(start(self._holdfast._open_tracker(), actor))

    @blocking
    def end(self, id: str | None = None, summary: str = "") -> WorkSession:
        """End a session, or the one that this process works in. Raises `SessionNotFound`, and `Refused` if it
        has ended."""
        from holdfast.tracker.sessions import end

        tracker = self._holdfast._open_tracker()
        ending = id or tracker.author().session
        if not ending:
            raise BadInput("no session of yours is open; `holdfast session list` lists all")
        end(tracker, ending, summary)
        return self._of(ending)

    @blocking
    def get(self, id: str) -> WorkSession:
        """A session by its id. Raises `SessionNotFound`."""
        return self._of(id)

    @blocking
    def find(self, text: str) -> str:
        """The id that a person means: a whole id, or its beginning of at least four characters."""
        from holdfast.kernel.naming import find_id

        ids = self._holdfast._store.session_ids(text, 20) if len(text) >= 4 else []
        return find_id(text, ids, "sessions", lambda: SessionNotFound(text))

    @blocking
    def list(self, limit: int | None = None) -> list[WorkSession]:
        """Sessions, the newest first."""
        return [WorkSession.of(row) for row in self._holdfast._store.sessions(limit)]

    def _of(self, id: str) -> WorkSession:
        from holdfast.kernel import session
        from holdfast.store.tracker_port import SessionRow

        state = session.fold(self._holdfast._store.load(session.stream_of(id)))
        if state is None:
            raise SessionNotFound(id)
        return WorkSession.of(SessionRow(id, state.actor, state.started_at, state.ended_at, state.summary))
