"""Group commit: callers that arrive while a commit is under way share the next one.

Leader and followers, without a thread of its own in the synchronous case: the first caller that finds no
commit under way commits for all that wait, then hands the lead to the first that has queued meanwhile. So a
step that runs alone never changes threads (a dedicated writer thread halved that speed).
Submissions that no caller waits for (an event loop's) are led by one helper thread.

Ctrl-C can be raised between any two lines here. So the leader is recorded in one place (`_leader`), and every
hand-over can be repeated: a thread that is interrupted withdraws, and repeats it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from holdfast.errors import StoreInDoubt


class Queued(Protocol):
    @property
    def seal(self) -> Callable[[Any], None] | None: ...

    error: BaseException | None
    wake: Any
    """How to notify the submitter: a locked Lock to release, a callback, or None if that is not needed."""


S = TypeVar("S", bound=Queued)


class GroupCommit(Generic[S]):
    """Runs `commit(batch)` for batches of submissions, one batch at a time, in order of arrival.

    `commit` sets `error` on the submissions it refuses and raises nothing but an interrupt.
    """

    BATCH = 256

    def __init__(self, commit: Callable[[list[S]], None]) -> None:
        self._commit = commit
        self._lock = threading.Lock()
        self._queue: list[S] = []
        self._leader: object = None
        """The current leader: the submission whose thread commits, `_HELPER`, or None."""
        self._called = threading.Lock()
        self._called.acquire()
        self._helper: threading.Thread | None = None
        self._closed = False

    def submit(self, item: S) -> None:
        """Enqueue and wait until the item is committed or refused; raises its error."""
        try:
            with self._lock:
                if item.seal is not None:
                    item.seal(item)
                alone = self._leader is None
                if alone:
                    self._leader = item
                else:
                    item.wake = turn = threading.Lock()
                    turn.acquire()
                    self._queue.append(item)
            if alone:
                self._lead(item, [item])
            else:
                turn.acquire()
                if self._leader is item:
                    self._lead(item, [])
        except BaseException:
            self._withdraw(item)
            raise
        if item.error is not None:
            raise item.error

    def submit_soon(self, item: S, done: Callable[[S], None]) -> None:
        """Enqueue and return; `done(item)` is called later from the committing thread. Raises `RuntimeError`,
        and enqueues nothing, if the system has no thread for the helper."""
        try:
            with self._lock:
                self._begin_helper()  # a later commit could only fail without it
                if item.seal is not None:
                    item.seal(item)
                item.wake = done
                self._queue.append(item)
                if self._leader is None:
                    self._leader = _HELPER
                    _release(self._called)
        except BaseException:
            self._pass_on(None)
            raise

    def close(self) -> None:
        """Stop the helper thread; what is queued is committed first."""
        with self._lock:
            self._closed = True
            helper = self._helper
            _release(self._called)
        if helper is not None:
            helper.join()

    def _lead(self, me: object, batch: list[S]) -> None:
        """Commit the batch, or else what is queued; hand the lead on, then notify the others."""
        committed = False
        try:
            if not batch:
                with self._lock:
                    batch = self._queue[: self.BATCH]
                    del self._queue[: self.BATCH]
            self._commit(batch)
            committed = True
            self._pass_on(me)
            if len(batch) != 1 or batch[0].wake is not None:
                self._notify(batch)
        except BaseException:
            with self._lock:
                if self._queue[:1] == batch[:1]:
                    batch = []
            if not committed:
                _fail(batch)
            self._pass_on(me)
            self._notify(batch)
            raise

    def _pass_on(self, me: object) -> None:
        """If `me` leads, the next submitter leads from here on. Wakes the leader; can be repeated."""
        with self._lock:
            if self._leader is me:
                heir = self._queue[0] if self._queue else None
                self._leader = heir if heir is None or isinstance(heir.wake, _LOCK) else _HELPER
            if self._leader is _HELPER or (self._leader is None and self._closed):
                _release(self._called)
            elif self._leader is not None:
                _release(self._leader.wake)  # type: ignore[attr-defined]

    def _notify(self, batch: list[S]) -> None:
        """Wake the submitters of these; can be repeated."""
        for item in batch:
            wake = item.wake
            if wake is None:
                continue
            if isinstance(wake, _LOCK):
                _release(wake)
            else:
                try:
                    wake(item)
                except Exception:  # the others wait for their notices, too
                    _log_error("a callback after a commit failed")
                item.wake = None

    def _withdraw(self, item: S) -> None:
        """The submitter no longer waits: drop its item if it is not on its way; let others lead."""
        with self._lock:
            if item in self._queue:
                self._queue.remove(item)
        self._pass_on(item)

    def _begin_helper(self) -> None:
        if self._helper is None:
            helper = threading.Thread(target=self._help, name="holdfast-commit", daemon=True)
            helper.start()
            self._helper = helper

    def _help(self) -> None:
        while True:
            self._called.acquire()
            while self._leader is _HELPER:
                try:
                    self._lead(_HELPER, [])
                except BaseException:
                    _log_error("a commit was interrupted")
            with self._lock:
                if self._closed and not self._needs_helper():
                    self._helper = None
                    return

    def _needs_helper(self) -> bool:
        return self._leader is _HELPER or any(not isinstance(one.wake, _LOCK) for one in self._queue)


def _fail(batch: list[Any]) -> None:
    for item in batch:
        if item.error is None:
            item.error = StoreInDoubt("the commit was interrupted; resume to see its outcome")
        fate = getattr(item, "fate", None)
        if fate is not None and fate.error is None:
            fate.error = item.error


def _log_error(what: str) -> None:
    import logging  # 4 ms that `holdfast list` need not pay

    logging.getLogger("holdfast").exception(what)


def _release(lock: threading.Lock | None) -> None:
    """Release a lock that may be free already."""
    if lock is not None:
        try:
            lock.release()
        except RuntimeError:
            pass


_LOCK = type(threading.Lock())
_HELPER = object()
