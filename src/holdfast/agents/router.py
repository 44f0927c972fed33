"""The router: which model or agent gets the next piece of work, learned from how the earlier ones ended.

    from holdfast.agents import router

    @workflow
    def summarise(text: str) -> str:
        with router.route("summary", ["small", "large"]) as choice:
            answer = ask(choice.candidate, text)
            choice.report(is_usable(answer))
        return answer

`kind` is the kind of work: the router learns for each by itself. The choice is recorded, so a replay
repeats it. The outcome is an event of the run (`OutcomeReported`): True or False as reported, False if the
block raised an exception, else True. The cost is what the steps of the block measured (`measure(usd=...)`).
How candidates are compared is in `learner`. A candidate whose work raised exceptions several times in a row
rests, and is tried again after that.

`failover` tries one candidate after the other until one succeeds:

    answer = router.failover("summary", ["small", "large"], ask, text)  # ask(model, text)

If all fail, the run is paused, and `holdfast resume` tries them again. `choose` is the bare choice, for an
outcome that is known later. All of them serve `async def` workflows too; there it is `await
router.failover.aio(...)`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Concatenate, Final, NoReturn, ParamSpec, TypeVar

from holdfast.agents.learning import learner
from holdfast.engine.execution.control import Control
from holdfast.engine.primitives.branch import branch
from holdfast.engine.primitives.outcome import measured_since, report_outcome, scope_of_code
from holdfast.engine.primitives.values import recorded
from holdfast.errors import AllFailed, BadInput, StoreError, WrongColour
from holdfast.kernel import commands as c

if TYPE_CHECKING:
    from holdfast.agents.handler_protocols import RouterHandler
    from holdfast.engine.engine import Engine
    from holdfast.engine.execution.scope import Scope
    from holdfast.settings import Settings

__all__ = ["Choice", "Router", "choose", "failover", "route"]

T = TypeVar("T")
P = ParamSpec("P")

FAMILY: Final = "router"
_MOST_CANDIDATES: Final = 100
_NAME_CHARS: Final = 200
_WHY_CHARS: Final = 200
_MISUSE: Final = (BadInput, WrongColour)
"""Faults of the program that calls, which say nothing about a candidate."""


class Router:
    """Ours. Another one is registered as the handler `router`; see `handlers`."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._store = engine.store
        self._clock = engine.clock
        self._failure_usd = settings.router_failure_usd
        self._rest = learner.Rest(settings.router_rest_after, settings.router_rest_s)

    def rank(self, kind: str, candidates: Sequence[str]) -> list[str]:
        """The candidates for a piece of work of this kind, the one to try first first."""
        records = {
            name: learner.summed(self._store.outcomes(FAMILY, kind, name, learner.WINDOW))
            for name in candidates
        }
        random = Random(self._clock.random())
        return learner.rank(records, random, self._clock.now_us(), self._failure_usd, self._rest)


class Choice:
    """A candidate that was chosen for a piece of work of a kind."""

    def __init__(self, kind: str, candidate: str, key: str = "", path: str = "") -> None:
        self.kind = kind
        self.candidate = candidate
        self.reported = False
        self._key = key
        self._path = path
        """The scope whose steps are the work; empty if it is not known."""

    def __repr__(self) -> str:
        return f"Choice({self.kind!r}, {self.candidate!r})"

    def report(self, ok: bool, *, usd: Decimal | None = None, error: str = "") -> None:
        """Record how the work ended, once. Without `usd`, the cost is what the steps of the `route` block
        have measured so far; it is not known for a choice that was made by `choose`. `error` names what
        made the work fail; only such failures make a candidate rest."""
        if self.reported:
            raise BadInput(f"the outcome of {self!r} is reported already")
        scope = scope_of_code("report()")
        if usd is None and self._path:
            usd = measured_since(scope.execution, self._key, self._path)
        report_outcome(FAMILY, self.kind, [self.candidate], ok=ok, usd=usd, error=error)
        self.reported = True


def choose(kind: str, candidates: Sequence[str]) -> Choice:
    """Choose a candidate for a piece of work of this kind, and record the choice. The caller reports the
    outcome with `Choice.report`; a choice without an outcome teaches nothing."""
    order, key = _ranked(kind, candidates)
    return Choice(kind, order[0], key)


@contextmanager
def route(kind: str, candidates: Sequence[str]) -> Iterator[Choice]:
    """The same for the work inside the block, whose end is the outcome. Serves `with` in both colours.

    An exception is a failure of the candidate, unless it is holdfast's refusal of a wrong call (`BadInput`,
    `WrongColour`). Whatever stops the run is no outcome: the resumed run continues in the block.
    """
    order, key = _ranked(kind, candidates)
    with _work(kind, order[0], key) as choice:
        yield choice


class Failover:
    """Call it in a `def` workflow; in an async one, `await failover.aio(...)`."""

    def __call__(
        self,
        kind: str,
        candidates: Sequence[str],
        call: Callable[Concatenate[str, P], T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The result of `call(candidate, *args, **kwargs)` for the first candidate, in the router's order,
        whose call raises no exception. Each failure is recorded as the outcome of that candidate.

        `call` is code of the workflow: it calls steps. If all candidates fail, the run is paused
        (`AllFailed`); `resume` lets it try all of them again, in a new order.
        """
        while True:
            order, key = _ranked(kind, candidates)
            failures: list[str] = []
            for name in order:
                try:
                    with _work(kind, name, key):
                        return call(name, *args, **kwargs)
                except _MISUSE:
                    raise
                except Exception as error:
                    failures.append(_described(name, error))
            _pause_unless_resumed(kind, failures)

    async def aio(
        self,
        kind: str,
        candidates: Sequence[str],
        call: Callable[Concatenate[str, P], Awaitable[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The same for async workflows: what `call` returns is awaited."""
        while True:
            order, key = _ranked(kind, candidates)
            failures: list[str] = []
            for name in order:
                try:
                    with _work(kind, name, key):
                        return await call(name, *args, **kwargs)
                except _MISUSE:
                    raise
                except Exception as error:
                    failures.append(_described(name, error))
            _pause_unless_resumed(kind, failures)


failover = Failover()


def _ranked(kind: str, candidates: Sequence[str]) -> tuple[list[str], str]:
    """The order of the candidates, recorded, and the key of the record. On a replay it is the recorded order,
    whatever candidates the code names by now."""
    names = _checked(kind, candidates)
    scope = scope_of_code("a router")

    def make() -> list[str]:
        handler: RouterHandler = scope.execution.engine.handler("router")
        try:
            order = list(handler.rank(kind, names))
        except StoreError as error:
            raise scope.execution.lose(error) from None
        if not order or not set(order) <= set(names):
            raise BadInput(
                f"{type(handler).__name__}.rank() returned {order!r}, which is not an order of {names!r}"
            )
        return order

    order = recorded("route", make)
    return order, scope.counters.last("route")


@contextmanager
def _work(kind: str, candidate: str, key: str) -> Iterator[Choice]:
    with branch("route"):
        choice = Choice(kind, candidate, key, scope_of_code("a router").counters.path)
        try:
            yield choice
        except _MISUSE:
            raise
        except Exception as error:
            if not choice.reported:
                choice.report(False, error=type(error).__name__)
            raise
        if not choice.reported:
            choice.report(True)


def _pause_unless_resumed(kind: str, failures: Sequence[str]) -> None:
    """Pause the run, if this is the first time that its code comes here: the record that all have failed
    goes to the log in one commit with the pause. A resumed run replays it, and tries again."""
    is_new = False

    def mark() -> list[str]:
        nonlocal is_new
        is_new = True
        return list(failures)

    scope = scope_of_code("a router")
    recorded("all_failed", mark)
    if is_new:
        _pause(scope, kind, failures)


def _pause(scope: Scope, kind: str, failures: Sequence[str]) -> NoReturn:
    run = scope.execution
    run.reach(scope.counters.last("all_failed"))
    reason = run.engine.redactor.redact(f"all candidates for {kind!r} failed: {'; '.join(failures)}")
    raise run.stop(Control(AllFailed(run.id, reason), [c.PauseRun(run.id, reason, "")]))


def _described(name: str, error: Exception) -> str:
    text = f"{name}: {type(error).__name__}: {error}".removesuffix(": ")
    return text if len(text) <= _WHY_CHARS else f"{text[:_WHY_CHARS]}..."


def _checked(kind: str, candidates: Sequence[str]) -> list[str]:
    _check_name(kind, "a kind of work")
    if isinstance(candidates, str):
        raise BadInput(f"candidates are a list of names, not the text {candidates!r}")
    names = list(dict.fromkeys(candidates))
    if not 0 < len(names) <= _MOST_CANDIDATES:
        raise BadInput(f"a router chooses among 1 to {_MOST_CANDIDATES} candidates, not {len(names)}")
    for name in names:
        _check_name(name, "a candidate")
    return names


def _check_name(name: object, what: str) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= _NAME_CHARS:
        raise BadInput(f"{what} is a text of 1 to {_NAME_CHARS} characters, not {name!r}")
