"""An exception is the same class with the same state live and in replay, or a StepError both times."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
import pathlib
import subprocess
import threading
import uuid
from collections import Counter, OrderedDict, defaultdict
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import errors
from holdfast.errors import StepError
from holdfast.kernel import codec
from holdfast.kernel.events import Failure
from holdfast.kernel.failure import as_recorded, capture, rebuild, round_trips
from holdfast.redaction import Redactor


class ApiError(Exception):
    """Two arguments in, one message out: what breaks pickle."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body


class KeywordOnly(Exception):
    def __init__(self, *, reason: str) -> None:
        super().__init__()
        self.reason = reason

    def __str__(self) -> str:
        return f"because {self.reason}"


class Slotted(Exception):
    __slots__ = ("message", "unset")

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Loud(Exception):
    made = 0

    def __init__(self, *args: object) -> None:
        Loud.made += 1
        super().__init__(*args)


class OwnNew(Exception):
    def __new__(cls, a: int, b: int) -> OwnNew:
        return super().__new__(cls, a + b)

    def __init__(self, a: int, b: int) -> None:
        self.sum = a + b


class DiskError(OSError):
    def __init__(self, path: str) -> None:
        super().__init__(28, "no room", path)
        self.extra = {"path": (path,)}


class Many(ExceptionGroup[Exception]):
    def derive(self, excs: Any) -> Many:
        return Many(self.message, excs)


@dataclasses.dataclass
class Coded(Exception):
    code: int


class Wrapper(Exception):
    def __init__(self, original: BaseException) -> None:
        super().__init__(original)
        self.original = original


class Frozen(Exception):
    """Refuses to be changed, as some libraries' errors do."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.__dict__["n"] = n

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("__"):
            raise AttributeError(name)
        super().__setattr__(name, value)


class BadText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def raised(exc: BaseException) -> BaseException:
    """The exception with a traceback."""
    try:
        raise exc
    except BaseException as caught:
        return caught


def by(act: Any, *args: Any) -> BaseException:
    """What a call raises."""
    try:
        act(*args)
    except BaseException as caught:
        return caught
    raise AssertionError("nothing was raised")


def stored(exc: BaseException, **options: Any) -> Failure:
    """The failure as it comes back from the log."""
    return msgspec.json.decode(msgspec.json.encode(capture(exc, **options)), type=Failure)


def chained() -> BaseException:
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ApiError(500, "outer") from inner
    except ApiError as outer:
        return outer


REBUILT = [
    ValueError("plain"),
    ValueError(),
    KeyError("k"),
    KeyError(("a", 1)),
    ApiError(429, "slow down"),
    KeywordOnly(reason="rain"),
    Slotted("full"),
    Loud(1, 2),
    OwnNew(1, 2),
    DiskError("/x"),
    Coded(4),
    Frozen(3),
    OSError("just text"),
    FileNotFoundError(2, "No such file", "a.txt"),
    by(open, "/no/such/file"),
    OSError(18, "cross-device", "a", None, "b"),
    BlockingIOError(11, "again", 5),
    PermissionError(13, "denied"),
    by(b"\xff".decode, "utf-8"),
    by("\u20ac".encode, "ascii"),
    by(json.loads, "{oops"),
    by(compile, "a b", "x.py", "exec"),
    subprocess.CalledProcessError(3, ["ls", "-l"], b"out", b"err"),
    subprocess.TimeoutExpired("sleep 9", 1.5),
    asyncio.TimeoutError("late"),  # noqa: UP041  as users write it
    asyncio.CancelledError(),
    asyncio.IncompleteReadError(b"ab", 5),
    SystemExit(3),
    StopIteration((1, 2)),
    by(lambda: object().nothing),  # type: ignore[attr-defined]
    by(lambda: undefined_name),  # type: ignore[name-defined]  # noqa: F821
    by(__import__, "no_such_module"),
    ZeroDivisionError("division by zero"),
    ExceptionGroup("two", [ApiError(1, "a"), ValueError("b")]),
    BaseExceptionGroup("with base", [SystemExit(1)]),
    Many("many", [ExceptionGroup("nested", [KeyError("x")])]),
    Wrapper(ApiError(2, "wrapped")),
    chained(),
    ValueError("lone \udcff surrogate"),
    ValueError({"$tuple": [1]}, {1, 2}, float("nan")),
    errors.StepError("x.Y", "gone", {"a": (1,)}),
    errors.RunHeld("run-1", 7, "host"),
    errors.InDoubt("run-1", "send", "was cut off"),
    errors.CommandFailed("make", 2, "boom"),
    errors.NotStorable("$.a", "why", "where"),
]


@pytest.mark.parametrize("exc", REBUILT, ids=lambda exc: type(exc).__name__)
def test_an_exception_lives_on_as_its_own_class(exc: BaseException) -> None:
    """Class, arguments, text and attributes survive the log, so the original can be raised live."""
    failure = stored(raised(exc))
    again = rebuild(failure)
    assert type(again) is type(exc)
    assert str(again) == str(exc)
    assert vars(again).keys() == vars(exc).keys()
    assert round_trips(exc, failure)
    assert failure == capture(exc)


def test_attributes_in_c_and_in_slots_survive() -> None:
    """What built-in exceptions keep outside `__dict__` comes back: errno, filename, code, value and so on."""
    error = rebuild(stored(OSError(2, "No such file", "a", None, "b")))
    assert isinstance(error, FileNotFoundError)
    assert (error.errno, error.strerror, error.filename, error.filename2) == (2, "No such file", "a", "b")
    unset = rebuild(stored(PermissionError(13, "denied")))
    assert str(unset) == "[Errno 13] denied"
    text = rebuild(stored(by(b"\xff".decode, "utf-8")))
    assert isinstance(text, UnicodeDecodeError)
    assert (text.encoding, text.object, text.start, text.end) == ("utf-8", b"\xff", 0, 1)
    leaving = rebuild(stored(SystemExit(3)))
    assert isinstance(leaving, SystemExit)
    assert leaving.code == 3
    slotted = rebuild(stored(Slotted("full")))
    assert isinstance(slotted, Slotted)
    assert slotted.message == "full"
    assert not hasattr(slotted, "unset")


def test_the_constructor_does_not_run_again() -> None:
    """Rebuilding has none of the effects of `__init__`."""
    failure = stored(Loud(1))
    before = Loud.made
    assert rebuild(failure).args == (1,)
    assert Loud.made == before


def test_causes_contexts_and_notes_are_rebuilt() -> None:
    """The chain that a traceback shows is there again, with its notes."""
    exc = chained()
    exc.add_note("seen at noon")
    again = rebuild(stored(exc))
    assert again.__notes__ == ["seen at noon"]
    assert again.__suppress_context__
    assert isinstance(again.__cause__, KeyError)
    assert again.__context__ is None

    second = ValueError("second")
    second.__context__ = KeyError("first")
    assert isinstance(rebuild(stored(second)).__context__, KeyError)
    second.__suppress_context__ = True
    hidden = rebuild(stored(second))
    assert (hidden.__context__, hidden.__suppress_context__) == (None, True)


def test_an_exception_that_is_both_cause_and_attribute_stays_one_object() -> None:
    """`raise Wrapper(e) from e` writes each exception once, and each is one object again."""
    exc: BaseException = ApiError(1, "x")
    for _ in range(8):
        outer = Wrapper(exc)
        outer.__cause__ = exc
        exc = outer
    failure = stored(exc)
    assert len(msgspec.json.encode(failure)) < 10_000
    again = rebuild(failure)
    assert isinstance(again, Wrapper)
    assert again.original is again.__cause__ is again.args[0]
    assert round_trips(exc, failure)


def _local_class() -> BaseException:
    class Local(Exception):
        pass

    return Local("hidden")


def _with(**attributes: object) -> BaseException:
    exc = ApiError(500, "down")
    vars(exc).update(attributes)
    return exc


def _itself() -> BaseException:
    exc = ValueError("me")
    exc.me = exc  # type: ignore[attr-defined]
    return exc


def test_a_class_that_nobody_finds_is_a_step_error() -> None:
    """It keeps name, message and what could be stored."""
    exc = _local_class()
    vars(exc)["n"] = 1
    failure = stored(raised(exc))
    again = rebuild(failure)
    assert type(again) is StepError
    name = f"{__name__}._local_class.<locals>.Local"
    assert (again.type_name, again.message, again.attributes) == (name, "hidden", {"n": 1})
    assert not round_trips(exc, failure)
    assert failure.lost == ("class",)


def test_an_attribute_that_cannot_be_stored_is_a_stand_in() -> None:
    """The class stays; the rest of the state, too."""
    again: Any = rebuild(stored(_with(client=threading.Lock(), inside={"deep": [threading.Lock(), 1]})))
    assert (type(again), again.status, again.body) == (ApiError, 500, "down")
    assert again.client.kept_type == "_thread:lock"
    assert [type(one).__name__ for one in again.inside["deep"]] == ["KeptObject", "int"]
    with pytest.raises(AttributeError, match="which cannot be stored"):
        again.client.release()


@pytest.mark.parametrize("exc", [ValueError(object), _itself(), _with(client=threading.Lock())])
def test_the_stand_in_is_the_same_live_and_in_replay(exc: Exception) -> None:
    """What is raised live is what the log gives, and not the original, which has more."""
    exc.add_note("a note")
    failure, live = as_recorded(exc, Redactor())
    assert live is not exc
    assert (type(live), str(live), live.__notes__) == (type(exc), str(exc), ["a note"])
    again = rebuild(msgspec.json.decode(msgspec.json.encode(failure), type=Failure))
    assert (repr(again), repr(vars(again))) == (repr(live), repr(vars(live)))
    assert capture(live).attributes == failure.attributes


def test_a_failure_of_an_older_holdfast_stays_a_step_error() -> None:
    """What a run in flight has seen, it sees again: state that was lost then made a StepError."""
    old = Failure(type="builtins:ValueError", message="m", args=msgspec.Raw(b'["m"]'), lost=("client",))
    assert type(rebuild(old)) is StepError


def test_an_exception_without_text_is_recorded() -> None:
    """An exception whose str() raises does not break the recording of the failure."""
    assert stored(BadText()).message == "<its text cannot be had: RuntimeError>"


def test_a_class_that_is_gone_gives_a_step_error() -> None:
    """A failure recorded by code that no longer exists can still be raised."""
    again = rebuild(Failure(type="no.such.module:Oops", message="m", attributes=msgspec.Raw(b'{"a":1}')))
    assert (str(again), again.attributes) == ("no.such.module.Oops: m", {"a": 1})  # type: ignore[attr-defined]
    other = rebuild(Failure(type="subprocess:Popen", message="m", args=msgspec.Raw(b'{"$tuple":["true"]}')))
    assert type(other) is StepError


class Replacing:
    """A redactor that knows one value and one name."""

    def redact(self, text: str) -> str:
        return text.replace("s3cret", "***")

    def redact_under(self, name: str, text: str) -> str:
        return "***" if name == "password" else self.redact(text)


@dataclasses.dataclass
class Point:
    x: int
    password: str


class Extra(pydantic.BaseModel, extra="allow"):
    password: str = "s3cret"


SECRETIVE: dict[str, Any] = {
    "a key": {"s3cret": 1},
    "a key among others that JSON lacks": {"s3cret": 1, 2: 3},
    "a key of a default dict": defaultdict(list, {"s3cret": [1]}),
    "a key of an ordered dict": OrderedDict(s3cret=1),
    "a key that is a tuple": {("s3cret", 1): 2},
    "a counted text": Counter(["s3cret"]),
    "text under a name": {"password": "plain"},
    "text under a name, deeper": {"headers": [{"password": ["plain", b"plain"]}]},
    "text under a name in a default dict": defaultdict(str, password="plain"),
    "a field": Point(1, "plain"),
    "a field of a model": Extra(password="plain"),
    "an extra value of a model": Extra(s3cret=1),
    "bytes": b"GET /?k=s3cret",
    "bytes that are no text": b"\xff\xfes3cret\x00",
    "a byte array": bytearray(b"s3cret"),
    "text that UTF-8 cannot carry": "\udcffs3cret",
    "a path": pathlib.PurePosixPath("/s3cret/file"),
}


@pytest.mark.parametrize("place", ["args", "attribute"])
@pytest.mark.parametrize("kind", SECRETIVE)
def test_every_kind_of_value_is_redacted(kind: str, place: str) -> None:
    """In arguments and attributes: known values wherever they stand, any value under a name that says so. The
    exception keeps its class, and each value its type."""
    exc = ApiError(1, "b")
    value = SECRETIVE[kind]
    if place == "args":
        exc.args = (value,)
    else:
        exc.part = value  # type: ignore[attr-defined]
    failure = capture(exc, Replacing())
    again = rebuild(failure)
    assert type(again) is ApiError
    found = again.args[0] if place == "args" else again.part  # type: ignore[attr-defined]
    assert type(found) is type(value)
    shown = f"{found!r} {failure.args!r} {failure.attributes!r} {codec.decode(failure.args)}"
    hidden = {base64.b64encode(one)[:5].decode() for one in (b"s3cret", b"plain")}
    assert "***" in shown and "s3cret" not in shown and "plain" not in shown
    assert not any(one in shown for one in hidden)


def test_attributes_are_redacted_by_name() -> None:
    """As the fields of a value are. A name that holds a secret is redacted too."""
    exc = ApiError(1, "b")
    exc.password = "plain"  # type: ignore[attr-defined]
    exc.token = 5  # type: ignore[attr-defined]
    exc.key_s3cret = 1  # type: ignore[attr-defined]
    failure = capture(exc, Replacing())
    again = rebuild(failure)
    assert (again.password, again.token) == ("***", 5)  # type: ignore[attr-defined]
    assert vars(again)["key_***"] == 1
    assert b"s3cret" not in msgspec.json.encode(failure)


@pytest.mark.parametrize(
    "exc", [UnicodeDecodeError("utf-8", b"\xff k=s3cret", 0, 1, "no"), KeyError(b"s3cret")], ids=repr
)
def test_bytes_in_builtin_errors_are_redacted(exc: Exception) -> None:
    """What their constructors want is bytes, and stays bytes."""
    failure = capture(exc, Replacing())
    again = rebuild(failure)
    assert type(again) is type(exc)
    assert "***" in repr(again.args) and "s3cret" not in f"{again!r} {again.args} {vars(again)}"
    assert getattr(again, "object", b"***").count(b"***") == 1


def test_text_is_redacted_everywhere() -> None:
    """Message, traceback, arguments, attributes and causes pass the redactor, so it does not round-trip."""
    exc = ApiError(401, "bad key s3cret")
    exc.headers = {"auth": ("s3cret",)}  # type: ignore[attr-defined]
    exc.__cause__ = ValueError("s3cret too")
    failure = stored(raised(exc), redactor=Replacing())
    assert b"s3cret" not in msgspec.json.encode(failure)
    again = rebuild(failure)
    assert isinstance(again, ApiError)
    assert (again.status, again.body, again.headers) == (401, "bad key ***", {"auth": ("***",)})  # type: ignore[attr-defined]
    assert str(again.__cause__) == "*** too"
    assert not round_trips(exc, failure)


def test_a_redactor_that_finds_nothing_keeps_the_original() -> None:
    """Where redaction changes nothing the exception round-trips."""
    exc = ApiError(401, "fine")
    exc.password = ""  # type: ignore[attr-defined]
    exc.body = {"$k": b"\xff\x00", uuid.UUID(int=1): [Point(1, "")]}  # type: ignore[assignment]
    assert round_trips(exc, stored(exc, redactor=Redactor()))


def test_a_cause_that_cannot_be_rebuilt_counts() -> None:
    """Code may ask for the cause's class, so a cause that would differ in replay does not round-trip."""
    exc = ApiError(1, "a")
    exc.__cause__ = _local_class()
    assert not round_trips(exc, stored(exc))
    again = rebuild(stored(exc))
    assert isinstance(again, ApiError)
    assert type(again.__cause__) is StepError


def test_circles_and_long_chains_end() -> None:
    """Chains that run in a circle, or without end, are cut and still recorded."""
    first, second = ValueError("1"), ValueError("2")
    first.__cause__, second.__cause__ = second, first
    assert isinstance(rebuild(stored(first)), ValueError)
    exc = ValueError("end")
    for n in range(500):
        outer = ValueError(n)
        outer.__context__ = exc
        exc = outer
    assert len(msgspec.json.encode(stored(exc))) < 50_000


def test_a_bush_of_exceptions_stays_bounded() -> None:
    """Exceptions that refer to each other many times over do not blow the record up."""
    exc = ValueError("leaf")
    for n in range(20):
        outer = ValueError(n)
        outer.a, outer.b, outer.c = exc, exc, exc  # type: ignore[attr-defined]
        exc = outer
    assert len(msgspec.json.encode(stored(exc))) < 2_000_000


def test_traceback_and_message_keep_a_sane_size() -> None:
    """The traceback names the failing line, and huge texts lose their middle."""

    def failing() -> None:
        raise ValueError("x" * 100_000 + "THE END")

    failure = stored(by(failing))
    assert "THE END" in failure.message
    assert len(failure.message) < 20_000
    assert len(failure.traceback) < 10_000
    assert "in failing" in failure.traceback
    recursion = by(lambda: (lambda f: f(f))(lambda f: f(f)))
    assert isinstance(rebuild(stored(recursion)), RecursionError)


SCALARS = st.one_of(st.none(), st.integers(), st.floats(), st.text(), st.binary(), st.tuples(st.integers()))


@given(
    st.sampled_from([ValueError, KeyError, RuntimeError, Loud, OSError, ImportError, LookupError]),
    st.lists(SCALARS, max_size=4),
    st.dictionaries(st.sampled_from(["status", "body", "$x", "a b", "args2", "müll"]), SCALARS),
)
def test_any_state_round_trips_or_stands_in(kind: Any, args: list[Any], attributes: dict[str, Any]) -> None:
    """Whatever arguments and attributes an exception has, live and replay agree."""
    exc = by(lambda: (_ for _ in ()).throw(kind(*args)))
    vars(exc).update(attributes)
    failure = stored(exc)
    if round_trips(exc, failure):
        assert type(rebuild(failure)) is type(exc)
    else:
        assert round_trips(rebuild(capture(exc)), stored(rebuild(failure)))
    # OSError(None, None) shows fields that, read back, look unset.
    if "$x" not in attributes and kind is not OSError:
        assert round_trips(exc, failure)
