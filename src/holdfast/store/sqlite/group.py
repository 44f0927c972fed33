"""Group commit: callers that arrive while a commit is under way share the next one.

Leader and followers, no thread of its own in the synchronous case: the first caller to find nobody
committing commits for everyone who waits, then hands the lead to the first who came meanwhile. A
step that runs alone thus never changes threads (a dedicated writer thread halved that speed).
Submissions that nobody waits for (an event loop's) are led by one helper thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar


class Queued(Protocol):
    @property
    def seal(self) -> Callable[[Any], None] | None: ...

    error: BaseException | None
    wake: Any
    """How to tell the submitter: a locked Lock to release, a callback, or None for the leader."""


S = TypeVar("S", bound=Queued)


class GroupCommit(Generic[S]):
    """Runs `commit(batch)` for batches of submissions, one batch at a time, in order of arrival.

    `commit` sets `error` on the submissions it refuses and never raises.
    """

    BATCH = 256

    def __init__(self, commit: Callable[[list[S]], None]) -> None:
        self._commit = commit
        self._lock = threading.Lock()
        self._queue: list[S] = []
        self._leading = False
        self._called = threading.Lock()
        self._called.acquire()
        self._helper: threading.Thread | None = None
        self._helper_leads = False
        self._closed = False

    def submit(self, item: S) -> None:
        """Enqueue and wait until the item is committed or refused; raises its error."""
        with self._lock:
            if item.seal is not None:
                item.seal(item)
            self._queue.append(item)
            lead = not self._leading
            if lead:
                self._leading = True
            else:
                item.wake = turn = threading.Lock()
                turn.acquire()
        if not lead:
            try:
                turn.acquire()
            except BaseException:  # Ctrl-C: leave the queue in order
                self._withdraw(item, turn)
                raise
            lead = item.wake is not None
        if lead:
            item.wake = None
            self._lead()
        if item.error is not None:
            raise item.error

    def submit_soon(self, item: S, done: Callable[[S], None]) -> None:
        """Enqueue and return; `done(item)` is called later from the committing thread."""
        with self._lock:
            if item.seal is not None:
                item.seal(item)
            item.wake = done
            self._queue.append(item)
            if not self._leading:
                self._leading = True
                self._call_helper()

    def close(self) -> None:
        """Stop the helper thread; what is queued is committed first."""
        self._closed = True
        if self._helper is not None:
            try:
                self._called.release()
            except RuntimeError:
                pass
            self._helper.join()
            self._helper = None

    def _lead(self) -> None:
        """Commit one batch, hand the lead on, then tell the others."""
        with self._lock:
            batch = self._queue[: self.BATCH]
            del self._queue[: self.BATCH]
        try:
            self._commit(batch)
        finally:
            self._pass_on()
            for item in batch:
                wake = item.wake
                if isinstance(wake, _LOCK):
                    item.wake = None
                    wake.release()
                elif wake is not None:
                    wake(item)

    def _pass_on(self) -> None:
        with self._lock:
            heir = self._queue[0] if self._queue else None
            if heir is None:
                self._leading = False
            elif isinstance(heir.wake, _LOCK):
                heir.wake.release()
            else:
                self._call_helper()

    def _withdraw(self, item: S, turn: threading.Lock) -> None:
        """The submitter no longer waits: drop its item if it is not on its way, and lead if it was
        just made the leader."""
        with self._lock:
            promoted = turn.acquire(blocking=False) and item.wake is not None
            if not promoted and item in self._queue:
                self._queue.remove(item)
        if promoted:
            item.wake = None
            self._lead()

    def _call_helper(self) -> None:
        if self._helper is None:
            self._helper = threading.Thread(target=self._help, name="holdfast-commit", daemon=True)
            self._helper.start()
        self._helper_leads = True
        try:
            self._called.release()
        except RuntimeError:
            pass

    def _help(self) -> None:
        while True:
            self._called.acquire()
            while self._helper_leads:
                self._helper_leads = False
                self._lead()
            if self._closed:
                return


_LOCK = type(threading.Lock())
