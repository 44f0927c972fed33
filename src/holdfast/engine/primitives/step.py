"""`@step`: a function whose outcome is recorded once per run and place.

    @step(retry=Retry(attempts=5))
    def ask(q: str) -> str: ...

Inside a run a call gets its identity at once, is looked up in the history, and runs only if it is
not there. Outside a run, and inside another step's body, it is a plain call.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Coroutine, Sequence
from inspect import iscoroutinefunction
from threading import get_ident
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, get_args, overload

from holdfast.engine.execution.arguments import Signature
from holdfast.engine.execution.call import Call, Spec
from holdfast.engine.execution.reserving import Reserve, check_reserve
from holdfast.engine.execution.scope import InsideStep, Scope, current, live_runs
from holdfast.engine.execution.step_options import ONCE, Retry, Seconds, check_files, seconds
from holdfast.engine.execution.thread_driver import drive, replayed
from holdfast.errors import BadInput, DetachedStep, WrongColour
from holdfast.kernel.events import Effect, Isolate
from holdfast.kernel.identity import check_step_key, check_step_name

if TYPE_CHECKING:
    from typing import Self

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")


class StepBase(Generic[P, R]):
    """The base of steps of both colours."""

    is_async = False

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        name: str | None = None,
        key: Callable[P, object] | None = None,
        retry: Retry | None = None,
        timeout: Seconds | None = None,
        effect: Effect = "idempotent",
        verify: Callable[..., Any] | None = None,
        ignore: Sequence[str] = (),
        secret: bool = False,
        writes: Sequence[str] = (),
        isolate: Isolate | None = None,
        reserve: Reserve | None = None,
    ) -> None:
        self.fn = fn
        self.name = check_step_name(name or fn.__name__)
        self.key = key
        self.spec = Spec(
            self.name,
            fn,
            effect=effect,
            retry=retry or ONCE,
            timeout=None if timeout is None else seconds(timeout),
            verify=verify,
            secret=secret,
            is_async=self.is_async,
            writes=writes,
            isolate=isolate,
            reserve=reserve,
        )
        self._ignore = tuple(ignore)
        self._signature: Signature | None = None
        self._bound_key: str | None = None
        self._options: dict[str, Any] = {
            "name": name, "key": key, "retry": retry, "timeout": timeout, "effect": effect,
            "verify": verify, "ignore": ignore, "secret": secret, "writes": writes, "isolate": isolate,
            "reserve": reserve,
        }  # fmt: skip
        _check_options(self.spec)
        self.__name__ = fn.__name__
        self.__qualname__ = fn.__qualname__
        self.__module__ = fn.__module__
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn

    def with_key(self, key: object) -> Self:
        """The same step with an identity of your choice, unique in the whole run, which does not name the
        branch that makes the call."""
        twin = type(self)(self.fn, **self._options)
        twin._bound_key = check_step_key(key)
        twin._signature = twin.spec.signature = self._signature
        return twin

    def __repr__(self) -> str:
        return f"<step {self.name}>"

    @property
    def signature(self) -> Signature:
        if self._signature is None:
            self._signature = Signature(self.fn, f"step {self.name}", self._ignore)
            self.spec.signature = self._signature
        return self._signature

    def call(self, scope: Scope, args: Sequence[Any], kwargs: dict[str, Any]) -> Call:
        """Fix the identity of a call, here and now."""
        digested = (self._signature or self.signature).digest(args, kwargs)
        counters = scope.counters
        if self._bound_key is not None or self.key is not None:
            chosen = self._bound_key if self.key is None else check_step_key(self.key(*args, **kwargs))
            key, ordinal = scope.execution.own_key(counters.path, self.name, str(chosen)), 0
        else:
            key = counters.key(self.name)
            ordinal = counters.ordinal
        return Call(
            scope.execution, self.spec, key, ordinal, digested, args, kwargs, scope.deadline, scope.budget
        )

    def enter(self) -> Scope | None:
        """The scope to record in; None for a plain call."""
        scope = current.get()
        if type(scope) is Scope:
            if scope.thread != get_ident():
                raise WrongColour(
                    f"step {self.name} was called on another thread than the one of its scope; "
                    "use parallel(), gather() or step.aio() instead of a bare thread"
                )
            return scope
        if scope is not None and (self.spec.effect == "once" or self.spec.reserve is not None):
            what = "has effect once" if self.spec.effect == "once" else "reserves what it costs"
            raise BadInput(
                f"step {self.name} {what}, and its promise holds only if the workflow calls it; "
                "move the call out of the other step's body"
            )
        if scope is None and live_runs:
            self._warn_detached()
        return None

    def _warn_detached(self) -> None:
        message = (
            f"step {self.name} was called outside every run while this process executes one: nothing is "
            "recorded; call it from the workflow, or through parallel() or gather()"
        )
        if self.spec.effect == "once" or self.spec.reserve is not None:
            raise DetachedStep(message)
        warnings.warn(DetachedStep(message), stacklevel=4)


class Step(StepBase[P, R]):
    """A `def` step."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        scope = self.enter()
        if scope is None:
            result: R = self.fn(*args, **kwargs)
            return result
        run = scope.execution
        if run.is_async:
            raise WrongColour(
                f"step {self.name} does I/O, and this workflow is async: write `await {self.name}.aio(...)`"
            )
        call = self.call(scope, args, kwargs)
        past = call.recall()
        if past is not None and past.status == "completed" and not past.secret:
            replayed(run, call.key)
            value: R = run.value_of(past)
            return value
        outcome: R = drive(call, past)
        return outcome

    def aio(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """The same call for async workflows: the function runs in a thread."""
        return _call_async(self, args, kwargs)

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self: Step[Concatenate[Any, Q], R], instance: object, owner: type) -> Step[Q, R]: ...
    def __get__(self, instance: object, owner: type) -> Any:
        return self if instance is None else BoundStep(self, instance)


class AsyncStep(StepBase[P, R]):
    """An `async def` step."""

    is_async = True

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        return _call_async(self, args, kwargs)

    aio = __call__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(
        self: AsyncStep[Concatenate[Any, Q], R], instance: object, owner: type
    ) -> AsyncStep[Q, R]: ...
    def __get__(self, instance: object, owner: type) -> Any:
        return self if instance is None else BoundStep(self, instance)


class BoundStep:
    """A step that is a method, with its instance."""

    def __init__(self, step: Step[Any, Any] | AsyncStep[Any, Any], instance: object) -> None:
        self._step = step
        self._instance = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._step(self._instance, *args, **kwargs)

    def aio(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        return self._step.aio(self._instance, *args, **kwargs)

    def with_key(self, key: object) -> BoundStep:
        return BoundStep(self._step.with_key(key), self._instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._step, name)


def _call_async(step: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Coroutine[Any, Any, Any]:
    """Fix the identity now; everything else happens when the coroutine is awaited."""
    from holdfast.engine.execution import task_driver

    scope = step.enter()
    if scope is None:
        return task_driver.plain(step.fn, args, kwargs)
    if not scope.execution.is_async:
        raise WrongColour(
            f"step {step.name} was called asynchronously in a `def` workflow: make the workflow `async def`"
        )
    call = step.call(scope, args, kwargs)
    performing = task_driver.perform_call(call) if call.ordinal else task_driver.perform_keyed(call)
    call.execution.unawaited.expect("step", step.name, performing)
    return performing


def _check_options(step: Spec) -> None:
    if step.effect not in get_args(Effect):
        raise BadInput(f"@step(effect={step.effect!r}): use 'idempotent', 'once' or 'workspace'")
    check_files(f"@step on {step.name}", step.effect, step.writes, step.isolate)
    if step.verify is not None and step.effect != "once":
        raise BadInput(f"@step(verify=...) on {step.name}: only a step with effect='once' can be in doubt")
    if step.effect == "once" and step.retry.attempts > 1 and step.verify is None:
        raise BadInput(
            f"@step(effect='once', retry=...) on {step.name}: a failed attempt may have happened; "
            "give a verify hook or drop the retry"
        )
    if step.secret and step.effect == "workspace":
        raise BadInput(f"@step(secret=True, effect='workspace') on {step.name}: it would run again on replay")
    if step.secret and step.effect == "once":
        raise BadInput(f"@step(secret=True, effect='once') on {step.name}: it would run again on replay")
    check_reserve(f"@step on {step.name}", step.reserve)
    if step.secret and step.reserve is not None:
        raise BadInput(f"@step(secret=True, reserve=...) on {step.name}: it would spend again on replay")
    if step.timeout is not None and step.timeout <= 0:
        raise BadInput(f"@step(timeout={step.timeout:g}) on {step.name}: a timeout is more than 0 seconds")


class _Decorator:
    """The decorator that `step(...)` with options returns."""

    def __init__(self, **options: Any) -> None:
        self._options = options

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]]) -> AsyncStep[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, fn: Callable[P, R]) -> Step[P, R]: ...
    def __call__(self, fn: Callable[..., Any]) -> Any:
        return _make(fn, self._options)


@overload
def step(fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncStep[P, R]: ...  # type: ignore[overload-overlap]
@overload
def step(fn: Callable[P, R], /) -> Step[P, R]: ...
@overload
def step(
    *,
    name: str | None = None,
    key: Callable[..., object] | None = None,
    retry: Retry | None = None,
    timeout: Seconds | None = None,
    effect: Effect = "idempotent",
    verify: Callable[..., Any] | None = None,
    ignore: Sequence[str] = (),
    secret: bool = False,
    writes: Sequence[str] = (),
    isolate: Isolate | None = None,
    reserve: Reserve | None = None,
) -> _Decorator: ...
def step(fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a step.

    name     the stable name in the history (default: the function's)
    key      a function of the arguments that gives the call's identity, where order cannot
    retry    `Retry(...)`: try again after a failure; attempts survive a crash
    timeout  seconds for one attempt
    effect   `idempotent` (runs again after a crash), `once` (never runs again by itself) or `workspace`
             (alone on the files of the workspace; what a cut-off attempt did to them is rolled back first)
    verify   for `once`: called with the same arguments after a crash; returns the result if it
             happened, `NOT_DONE` if it did not, raises if it cannot tell
    ignore   names of parameters that are not recorded (a client, `self`)
    secret   the result is not stored; the step runs again on replay
    writes   for `workspace`: patterns, as in .gitignore, of what it writes; other changes are not its own
    isolate  for `workspace`: "copy" lets it work in a copy (`workspace_path()`), beside others
    reserve  what an attempt may use, `Amounts(usd="0.05")` or a function of the arguments: reserved in a
             budget before it begins, and settled with what it measured
    """
    if fn is None:
        return _Decorator(**options)
    return _make(fn, options)


def _make(fn: Callable[..., Any], options: dict[str, Any]) -> Any:
    if isinstance(fn, (staticmethod, classmethod)):
        raise BadInput("@step goes under @staticmethod and @classmethod, directly on the function")
    return (AsyncStep if iscoroutinefunction(fn) else Step)(fn, **options)


def idempotency_key() -> str:
    """The stable key of the step whose body asks: the same in every attempt and after every crash, another
    one when a rewind lets the step begin anew. Hand it to the service that the step calls."""
    inside = current.get()
    if not isinstance(inside, InsideStep):
        raise BadInput("idempotency_key() is known only inside the body of a step that a run executes")
    run = inside.execution
    begun = run.state.steps.get(inside.key)
    generation = run.state.generation if begun is None else begun.generation
    return f"{run.id}:{generation}:{inside.key}"
