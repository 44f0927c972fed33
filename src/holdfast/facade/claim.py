"""`Claim`: a task that the caller works on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from holdfast.views.task import Task

if TYPE_CHECKING:
    from typing import Self

    from holdfast.facade.tasks import Tasks


class Claim:
    """A claim of a task, under its number: once the task was claimed again, everything here raises
    `ClaimLost`.

        while claim := hf.tasks.claim(holder=os.getpid()):
            with claim:
                work(claim.task)
                claim.complete("done")

    Leaving the block gives the task back, unless it was completed or failed. In an event loop it is `async
    with claim:` and `await claim.aio.complete("done")`.
    """

    def __init__(self, tasks: Tasks, task: Task, number: int) -> None:
        self._tasks = tasks
        self.task = task
        self.number = number
        self._ended = False

    def renew(self, lease: float = 3600.0) -> Task:
        """Let the lease end so many seconds from now."""
        self.task = self._tasks.renew(self.task.id, self.number, lease=lease)
        return self.task

    def complete(
        self,
        summary: str = "",
        evidence: Any = None,
        unchecked: str | None = None,
        anyway: str | None = None,
    ) -> Task:
        """Complete the task, as `hf.tasks.complete` does."""
        self.task = self._tasks.complete(
            self.task.id, self.number, summary=summary, evidence=evidence, unchecked=unchecked, anyway=anyway
        )
        self._ended = True
        return self.task

    def fail(self, why: str) -> Task:
        """Give the task up."""
        self.task = self._tasks.fail(self.task.id, why, self.number)
        self._ended = True
        return self.task

    def release(self, reason: str = "") -> Task:
        """Give the task back: it is pending again."""
        self.task = self._tasks.release(self.task.id, self.number, reason=reason)
        self._ended = True
        return self.task

    @property
    def aio(self) -> AsyncClaim:
        """The methods as coroutines."""
        return AsyncClaim(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ended:
            with _tolerant(error):
                self.release(_reason(error))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ended:
            with _tolerant(error):
                await self.aio.release(_reason(error))

    def __repr__(self) -> str:
        return f"<claim {self.number} of task {self.task.id}>"


class AsyncClaim:
    """`claim.aio`: the methods of a claim as coroutines; in the code of an async workflow, as steps."""

    def __init__(self, claim: Claim) -> None:
        holdfast: Any = claim._tasks._holdfast
        self._claim = claim
        self._tasks = holdfast.aio.tasks
        self._id = claim.task.id

    async def renew(self, lease: float = 3600.0) -> Task:
        """Let the lease end so many seconds from now."""
        task: Task = await self._tasks.renew(self._id, self._claim.number, lease=lease)
        self._claim.task = task
        return task

    async def complete(
        self,
        summary: str = "",
        evidence: Any = None,
        unchecked: str | None = None,
        anyway: str | None = None,
    ) -> Task:
        """Complete the task, as `hf.tasks.complete` does."""
        number = self._claim.number
        return self._end(
            await self._tasks.complete(
                self._id, number, summary=summary, evidence=evidence, unchecked=unchecked, anyway=anyway
            )
        )

    async def fail(self, why: str) -> Task:
        """Give the task up."""
        return self._end(await self._tasks.fail(self._id, why, self._claim.number))

    async def release(self, reason: str = "") -> Task:
        """Give the task back: it is pending again."""
        return self._end(await self._tasks.release(self._id, self._claim.number, reason=reason))

    def _end(self, task: Task) -> Task:
        self._claim.task = task
        self._claim._ended = True
        return task


def _reason(error: BaseException | None) -> str:
    return "" if error is None else f"{type(error).__name__}: {error}"[:500]


@contextmanager
def _tolerant(error: BaseException | None) -> Iterator[None]:
    """Around the release at the end of a block: raise nothing if the block has ended the task in another way,
    and never hide the error of the block. The lease expires anyway."""
    from holdfast.errors import ClaimLost, HoldfastError
    from holdfast.kernel.task import ENDED

    try:
        yield
    except ClaimLost as lost:
        if error is None and lost.status not in ENDED:
            raise
    except HoldfastError:
        if error is None:
            raise
