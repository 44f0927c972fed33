"""Errors as data: what an exception was, and the exception again.

Live and in replay a workflow sees the same class with the same arguments and attributes. A class that can
be found by its name is made again without its constructor, whose signature is its own affair; an attribute
that cannot be stored is a stand-in then, live as well (`kept`). For every other class there is a `StepError`
with its name, message and what could be stored.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from types import BuiltinFunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any, Final, Literal

import msgspec

from holdfast.errors import HoldfastError, NotStorable, StepError
from holdfast.kernel import classes, codec, stand_ins, validation
from holdfast.kernel.encoded import Redacting, redacted
from holdfast.kernel.events import NOTHING, Failure

_STEP_MARK: Final = "__holdfast_step__"
"""An attribute that the engine sets on an error to know which step raised it; not part of the error."""

_KEPT: Final = stand_ins.__name__.encode()
_TEXT_LIMIT: Final = 16_000
_TRACEBACK_LIMIT: Final = 8_000
_INNER_LIMIT: Final = 2_000
_FRAMES: Final = 32
_DEPTH: Final = 12
_EXCEPTIONS: Final = 1_000


Inner = Failure | Literal["cause", "context"]


def capture(exc: BaseException, redactor: Redacting | None = None) -> Failure:
    """The exception as data; never raises. Everything in it that is text has passed the redactor."""
    return _Taking(redactor).exception(exc, ())


def rebuild(failure: Failure) -> BaseException:
    """The exception that was captured, or a `StepError` in its place; never raises."""
    cause = rebuild(failure.cause) if failure.cause else None
    context = rebuild(failure.context) if failure.context else None
    links = {"cause": cause, "context": context}
    inner = {
        name: rebuild(one) if isinstance(one, Failure) else links[one] for name, one in failure.inner.items()
    }
    try:
        exc = None if failure.lost else _remake(failure, inner)
    except Exception:
        exc = None
    if exc is None:
        exc = _stand_in(failure, inner)
    # Past the class's own __setattr__, which may refuse; setting a cause sets the suppression as well.
    BaseException.__setattr__(exc, "__cause__", cause)
    BaseException.__setattr__(exc, "__context__", context)
    BaseException.__setattr__(exc, "__suppress_context__", failure.suppressed)
    return exc


def round_trips(exc: BaseException, failure: Failure) -> bool:
    """Whether the rebuilt exception is as the original: class, arguments, text, attributes; its cause too."""
    if _has_stand_ins(failure):
        return False
    again = rebuild(failure)
    return type(again) is type(exc) and _facts(capture(exc)) == _facts(capture(again))


def _has_stand_ins(failure: Failure) -> bool:
    if _KEPT in bytes(failure.args) or _KEPT in bytes(failure.attributes):
        return True
    inner = (one for one in failure.inner.values() if isinstance(one, Failure))
    others = (failure.cause, failure.context, *failure.members, *inner)
    return any(one is not None and _has_stand_ins(one) for one in others)


def as_recorded(error: BaseException, redactor: Redacting) -> tuple[Failure, BaseException]:
    """The error as data, and the object to raise now: the original if replay will raise its equal,
    otherwise the one that replay will raise, with the original's traceback."""
    failure = capture(error, redactor)
    if round_trips(error, failure):
        return failure, error
    return failure, rebuild(failure).with_traceback(error.__traceback__)


# Which step an error came from: a failed run remembers it, so that `resume` can try it again.


def mark_step(error: BaseException, key: str) -> None:
    try:
        setattr(error, _STEP_MARK, key)
    except AttributeError:
        pass


def steps_behind(error: BaseException | None) -> tuple[str, ...]:
    """The steps whose errors these are: the error itself, a group's members, or what it arose from."""
    while error is not None:
        key = getattr(error, _STEP_MARK, None)
        if isinstance(key, str):
            return (key,)
        if isinstance(error, BaseExceptionGroup):
            return tuple(dict.fromkeys(key for one in error.exceptions for key in steps_behind(one)))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return ()


def _facts(failure: Failure) -> Failure:
    """The parts of an exception that a program can compare: everything but where it was raised."""
    return msgspec.structs.replace(
        failure,
        traceback="",
        context=None,
        cause=_facts(failure.cause) if failure.cause else None,
        members=tuple(map(_facts, failure.members)),
        inner={name: _facts(one) if isinstance(one, Failure) else one for name, one in failure.inner.items()},
    )


# Taking an exception apart


class _Taking:
    """One capture: how text is redacted, and how many more exceptions may be written."""

    def __init__(self, redactor: Redacting | None) -> None:
        self.redactor = redactor
        self.left = _EXCEPTIONS

    def redact(self, text: str) -> str:
        return text if self.redactor is None else self.redactor.redact(text)

    def exception(self, exc: BaseException, outer: tuple[BaseException, ...]) -> Failure:
        self.left -= 1
        inside = (*outer, exc)
        suppressed = exc.__suppress_context__
        cause = self.linked(exc.__cause__, inside)
        context = None if suppressed else self.linked(exc.__context__, inside)
        parts = _Parts(self, inside)
        if cause:
            parts.links[id(exc.__cause__)] = "cause"
        if context:
            parts.links[id(exc.__context__)] = "context"
        parts.add_class(type(exc))
        return Failure(
            type=classes.name_of(type(exc)),
            message=_clean(self.redact(_message(exc)), _TEXT_LIMIT),
            args=parts.arguments(exc),
            attributes=parts.attributes(exc),
            traceback=_clean(self.redact(_traceback(exc)), _INNER_LIMIT if outer else _TRACEBACK_LIMIT),
            cause=cause,
            context=context,
            suppressed=suppressed,
            members=parts.members(exc),
            inner=parts.inner,
            lost=tuple(parts.lost),
        )

    def linked(self, exc: BaseException | None, outer: tuple[BaseException, ...]) -> Failure | None:
        """An exception that another one refers to, unless that runs in a circle or on and on."""
        if exc is None or not self.left or len(outer) >= _DEPTH or any(exc is one for one in outer):
            return None
        return self.exception(exc, outer)


class _Parts:
    """The state of one exception, part by part, and the names of what is lost."""

    def __init__(self, taking: _Taking, inside: tuple[BaseException, ...]) -> None:
        self._taking = taking
        self._inside = inside
        self.links: dict[int, Literal["cause", "context"]] = {}
        self.inner: dict[str, Inner] = {}
        self.lost: list[str] = []

    def add_class(self, cls: type[BaseException]) -> None:
        try:
            classes.findable_name(cls)
        except NotStorable:
            self.lost.append("class")

    def arguments(self, exc: BaseException) -> msgspec.Raw:
        data = self._encoded(
            tuple(self._without_exception(f"[{i}]", arg) for i, arg in enumerate(_arguments(exc)))
        )
        if data is None:
            self.lost.append("args")
        return data or NOTHING

    def attributes(self, exc: BaseException) -> msgspec.Raw:
        stored: dict[str, msgspec.Raw] = {}
        for found, value in _attributes(exc):
            name = self._taking.redact(str(found))
            data = self._encoded(self._without_exception(name, value), name) if _is_name(found) else None
            if data is None:
                self.lost.append(name)
            else:
                stored[name] = data
        return msgspec.Raw(msgspec.json.encode(stored)) if stored else NOTHING

    def members(self, exc: BaseException) -> tuple[Failure, ...]:
        if not isinstance(exc, BaseExceptionGroup):
            return ()
        members = [self._taking.linked(member, self._inside) for member in exc.exceptions]
        if None in members:
            self.lost.append("exceptions")
        return tuple(member for member in members if member)

    def _without_exception(self, name: str, value: object) -> object:
        if not isinstance(value, BaseException):
            return value
        failure = self.links.get(id(value)) or self._taking.linked(value, self._inside)
        if failure is None:
            # It holds itself: there is no end to writing it, so it counts as lost.
            return value
        self.inner[name] = failure
        return None

    def _encoded(self, value: object, name: str = "") -> msgspec.Raw | None:
        try:
            try:
                data = codec.encode(value)
            except NotStorable:
                data = codec.encode(stand_ins.reduce(value, codec.encode))
            redactor = self._taking.redactor
            return msgspec.Raw(data if redactor is None else redacted(data, redactor, name))
        except Exception:
            # Whatever the state of an exception does when it is looked at, the failure itself is recorded.
            return None


def _arguments(exc: BaseException) -> tuple[Any, ...]:
    if isinstance(exc, BaseExceptionGroup):
        return (exc.message,)
    return validation.taken_apart(exc) if validation.is_validation_error(type(exc)) else exc.args


def _attributes(exc: BaseException) -> Iterator[tuple[str, object]]:
    yield from [item for item in vars(exc).items() if item[0] != _STEP_MARK]
    kind: type = type(exc)
    slots = classes.slots_of(kind)
    for name in () if validation.is_validation_error(type(exc)) else _members(type(exc)):
        try:
            value = None if name == "obj" and isinstance(exc, AttributeError) else getattr(exc, name)
        except Exception:
            continue
        # An unset field of an OSError reads as None, but set to None it shows in its text. A slot that a
        # Python class declares and that is not set raises.
        if value is not None or name in slots:
            yield name, value


def _members(cls: type) -> tuple[str, ...]:
    """Attributes outside `__dict__`: slots, and what built-in exceptions keep in C, such as `errno`."""
    return tuple(
        name
        for base in cls.__mro__
        if base not in _MADE_OTHERWISE
        for name, member in vars(base).items()
        if isinstance(member, MemberDescriptorType | GetSetDescriptorType)
        and name not in ("__dict__", "__weakref__")
    )


# What the interpreter keeps itself, and what a group is made of. The object that an AttributeError is about
# can be anything; pickle drops it as well.
_MADE_OTHERWISE: Final = (object, BaseException, BaseExceptionGroup)


def _is_name(name: object) -> bool:
    return type(name) is str and name.isprintable() and not name.startswith("$")


def _message(exc: BaseException) -> str:
    try:
        return str(exc)
    except Exception as error:
        return f"<its text cannot be had: {type(error).__name__}>"


def _traceback(exc: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(exc, limit=-_FRAMES, chain=False))
    except Exception as error:
        return f"<its traceback cannot be had: {type(error).__name__}>"


def _clean(text: str, limit: int) -> str:
    """Text that UTF-8 can carry, with its middle left out where it is too long."""
    if len(text) > limit:
        head, tail = text[: limit // 4], text[-(limit - limit // 4) :]
        text = f"{head}\n… {len(text) - limit} characters left out …\n{tail}"
    return text.encode("utf-8", "backslashreplace").decode()


# Making it again


def _remake(failure: Failure, inner: dict[str, BaseException | None]) -> BaseException | None:
    cls = classes.find(failure.type)
    if not issubclass(cls, BaseException):
        return None
    args = [inner.get(f"[{i}]", arg) for i, arg in enumerate(codec.decode(failure.args))]
    if issubclass(cls, BaseExceptionGroup):
        exc = _blank(cls, args[0], [rebuild(member) for member in failure.members])
    elif validation.is_validation_error(cls):
        exc = validation.put_together(cls, *args)
    else:
        exc = _blank(cls)
        BaseException.__setattr__(exc, "args", tuple(args))
    if type(exc) is not cls:
        return None
    members = _members(cls)
    for name, value in _stored(failure.attributes).items():
        part = inner[name] if name in inner else codec.decode(value)
        if name in members:
            BaseException.__setattr__(exc, name, part)
        else:
            vars(exc)[name] = part
    return exc


def _blank(cls: type[BaseException], *args: object) -> BaseException:
    """An instance by the built-in constructor below any Python one, so that no code of the class runs."""
    for base in cls.__mro__:
        new = vars(base).get("__new__")
        if isinstance(new, BuiltinFunctionType):
            made: BaseException = new(cls, *args)
            return made
    raise TypeError(f"{cls} has no built-in constructor")


def _stand_in(failure: Failure, inner: dict[str, BaseException | None]) -> HoldfastError:
    attributes: dict[str, Any] = {}
    for name, data in _stored(failure.attributes).items():
        try:
            attributes[name] = inner[name] if name in inner else codec.decode(data)
        except Exception:
            continue
    notes = attributes.pop("__notes__", ())
    error = StepError(failure.type_name, failure.message, attributes)
    for note in notes if isinstance(notes, list | tuple) else ():
        error.add_note(str(note))
    return error


def _stored(attributes: msgspec.Raw) -> dict[str, msgspec.Raw]:
    data = bytes(attributes)
    return msgspec.json.decode(data, type=dict[str, msgspec.Raw]) if data else {}
