"""An instance that is decoded is encoded and digested as the original was, whatever its class and whichever
of its attributes are set. Otherwise a replay would pass another argument than the live run did."""

from __future__ import annotations

import dataclasses
import enum
import functools
import typing

import msgspec
import pydantic
import pydantic.dataclasses
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import CodeNotFound
from holdfast.kernel import classes, codec, failure
from holdfast.kernel.encoded import redacted


@dataclasses.dataclass(init=False)
class Usage:
    """Its constructor leaves `cached` to the class, as `RequestUsage` of pydantic-ai does."""

    tokens: int = 0
    cached: int = 0

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens


@dataclasses.dataclass(init=False)
class Partial:
    """Its constructor may leave a field without any value."""

    first: object
    second: object = dataclasses.field(default_factory=list)

    def __init__(self, first: object) -> None:
        self.first = first


@dataclasses.dataclass
class Plain:
    a: object
    b: object = None
    c: object = dataclasses.field(default_factory=list)
    d: object = dataclasses.field(init=False)
    e: dataclasses.InitVar[int] = 3

    def __post_init__(self, e: int) -> None:
        if e % 2:
            self.d = e
        self.beside = e


@dataclasses.dataclass(frozen=True, kw_only=True)
class Frozen:
    a: object
    b: object = 1
    c: object = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(slots=True)
class Slotted:
    a: object
    b: object = 2
    c: object = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FrozenSlotted:
    a: object = None
    b: object = ()


@dataclasses.dataclass
class Derived(Slotted):
    """Slots from the base class and a `__dict__` of its own; it hides one slot."""

    b: object = 5
    z: object = 6


@dataclasses.dataclass
class Inherited(Plain):
    a: object = 9
    f: object = dataclasses.field(default="f", kw_only=True)


class Undecorated(Plain):
    """No dataclass itself, with a constructor of its own."""

    def __init__(self, a: object) -> None:
        self.a = a


@dataclasses.dataclass(slots=True)
class Answering:
    """Answers for attributes that it lacks."""

    a: object
    b: object = 0

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return f"no {name}"


class Doubled:
    """A descriptor that keeps its value under another name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = f"_{name}"

    def __get__(self, value: object, owner: type) -> object:
        if value is None:
            raise AttributeError
        return vars(value)[self.name]

    def __set__(self, value: object, part: object) -> None:
        vars(value)[self.name] = part


@dataclasses.dataclass
class Described:
    a: Doubled = Doubled()
    b: int = 0


@pydantic.dataclasses.dataclass
class Validated:
    a: int
    b: list[int] = pydantic.Field(default_factory=list)
    c: int = 0


class Pair(typing.NamedTuple):
    left: object
    right: object = None


class Record(msgspec.Struct):
    a: object
    b: object = 1
    c: list[int] = []


class Hooked(msgspec.Struct, dict=True):
    """A hook that sets an attribute beside the fields."""

    a: object

    def __post_init__(self) -> None:
        self.__dict__["seen"] = True


class Model(pydantic.BaseModel):
    a: typing.Any
    b: typing.Any = 1
    c: list[typing.Any] = pydantic.Field(default_factory=list)
    d: typing.Any = pydantic.Field(default=None, alias="dee")
    _kept: typing.Any = pydantic.PrivateAttr(default=7)
    _made: list[typing.Any] = pydantic.PrivateAttr(default_factory=list)
    _bare: typing.Any = pydantic.PrivateAttr()

    @functools.cached_property
    def once(self) -> object:
        return object()


class Open(pydantic.BaseModel, extra="allow"):
    a: int = 1


class FrozenModel(pydantic.BaseModel, frozen=True):
    a: int = 1


class Root(pydantic.RootModel[list[int]]):
    root: list[int] = [1]


class Colour(enum.Enum):
    RED = (1, 2)
    CRIMSON = (1, 2)  # noqa: PIE796  an alias


class Access(enum.Flag, boundary=enum.KEEP):
    READ = 1
    WRITE = 2


class Failed(Exception):
    """With slots, class-level defaults and attributes that may be missing."""

    __slots__ = ("extra", "slot")
    status = 500

    def __init__(self, text: str, slot: object = None) -> None:
        super().__init__(text)
        self.slot = slot


@dataclasses.dataclass(init=False)
class FailedData(Exception):
    reason: str = "none"
    code: int = 0

    def __init__(self, reason: str) -> None:
        self.reason = reason


ATOMS = st.one_of(st.none(), st.integers(), st.text(max_size=3), st.just(Usage(3)), st.just((1, {2})))
FREE = st.dictionaries(st.sampled_from(["more", "b", "é", "class"]), ATOMS, max_size=2)


def _bare_model(parts: dict[str, object]) -> Model:
    value = Model.model_construct(**parts)
    value.once  # noqa: B018  fills the cache with what cannot be stored
    return value


def _with(value: typing.Any, more: dict[str, object]) -> object:
    vars(value).update(more)
    return value


WHOLE = st.one_of(
    st.builds(Usage, st.integers()),
    st.builds(Partial, ATOMS),
    st.builds(Plain, ATOMS, ATOMS, ATOMS, e=st.integers(0, 1)),
    st.builds(_with, st.builds(Plain, ATOMS), FREE),
    st.builds(Frozen, a=ATOMS, c=ATOMS),
    st.builds(Slotted, ATOMS, ATOMS),
    st.builds(FrozenSlotted, a=ATOMS),
    st.builds(Derived, ATOMS, ATOMS),
    st.builds(Inherited, ATOMS, f=ATOMS),
    st.builds(Undecorated, ATOMS),
    st.builds(Answering, ATOMS),
    st.builds(Described, ATOMS),
    st.builds(Validated, st.integers(), st.lists(st.integers(), max_size=2)),
    st.builds(Pair, ATOMS, ATOMS),
    st.builds(Record, ATOMS, ATOMS),
    st.builds(Hooked, ATOMS),
    st.builds(_with, st.builds(Hooked, ATOMS), FREE),
    st.builds(Model, a=ATOMS, dee=ATOMS),
    st.builds(_bare_model, st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), ATOMS)),
    st.builds(lambda extra: Open(**extra), st.dictionaries(st.sampled_from(["x", "$y", "a b"]), ATOMS)),
    st.builds(FrozenModel, a=st.integers()),
    st.builds(Root, st.lists(st.integers(), max_size=2)),
    st.sampled_from([*Colour, *Access, Access(0), Access(3), Access(8)]),
)


def _names(value: object) -> list[str]:
    names = [*vars(value)] if hasattr(value, "__dict__") and not isinstance(value, enum.Enum) else []
    if dataclasses.is_dataclass(value):
        names += [name for name in classes.slots_of(type(value)) if name not in names]
    return [*names, *(getattr(value, "__pydantic_private__", None) or ())]


def _forget(value: typing.Any, name: str) -> None:
    private = getattr(value, "__pydantic_private__", None) or {}
    if name in private:
        del private[name]
    elif name in getattr(value, "__dict__", ()):
        del value.__dict__[name]
    elif not isinstance(value, msgspec.Struct):
        object.__delattr__(value, name)


@st.composite
def instances(draw: st.DrawFn) -> object:
    """An instance of which some attributes may have been deleted."""
    value = draw(WHOLE)
    names = _names(value)
    for name in draw(st.lists(st.sampled_from(names), unique=True, max_size=3)) if names else ():
        try:
            _forget(value, name)
        except AttributeError:
            continue  # a slot that was not set
    return value


def state(value: typing.Any) -> object:
    """All that tells two instances of one class apart, down to which attributes are set."""
    own = dict(getattr(value, "__dict__", {}))
    own.pop("once", None)
    slots: dict[str, object] = {}
    for name, slot in classes.slots_of(type(value)).items():
        try:
            slots[name] = slot.__get__(value)
        except AttributeError:
            continue
    fields = {name: getattr(value, name) for name in getattr(value, "__struct_fields__", ())}
    return type(value), own, slots, fields


@given(st.one_of(instances(), st.lists(instances(), max_size=3), st.builds(Pair, instances(), instances())))
def test_a_decoded_instance_is_encoded_and_digested_as_the_original(value: object) -> None:
    """What encode accepts, decode can read; the copy has the same attributes set, and no other ones."""
    data = codec.encode(value)
    again = codec.decode(data)
    assert codec.encode(again) == data
    assert codec.canonical(again) == codec.canonical(value)
    if not isinstance(value, list | tuple | enum.Enum):
        assert state(again) == state(value)


@given(
    st.one_of(st.builds(Failed, st.text(max_size=3), ATOMS), st.builds(FailedData, st.text(max_size=3))), FREE
)
def test_a_rebuilt_exception_is_captured_as_the_original(exc: Exception, more: dict[str, object]) -> None:
    """Attributes in slots and in `__dict__` return, None among them; what was not set stays unset."""
    vars(exc).update(more)
    captured = failure.capture(exc)
    again = failure.rebuild(captured)
    assert vars(again) == vars(exc)
    assert type(again) is type(exc)
    assert (captured.args, captured.attributes) == (
        failure.capture(again).args,
        failure.capture(again).attributes,
    )
    if isinstance(exc, Failed):
        assert isinstance(again, Failed)
        assert again.slot == exc.slot
        assert not hasattr(again, "extra")


def test_what_the_constructor_left_to_the_class_stays_there() -> None:
    """A field that only the class has a value of is not stored and not set when it is decoded."""
    data = codec.encode(Usage(51))
    assert data == b'{"$dataclass":["%s:Usage",{"tokens":51}]}' % __name__.encode()
    again = codec.decode(data)
    assert (vars(again), again.cached) == ({"tokens": 51}, 0)


def test_unset_fields_without_a_default_in_the_class_are_named() -> None:
    """A slot, a field with a factory and a required field that are unset stay unset; redaction keeps that."""
    slotted, partial = Slotted(1), Partial(2)
    del slotted.b, slotted.c, partial.first

    class Hide:
        def redact(self, text: str) -> str:
            return text

        def redact_under(self, name: str, text: str) -> str:
            return text

    for value, unset in ((slotted, ["b", "c"]), (partial, ["second"])):
        data = codec.encode(value)
        name = classes.name_of(type(value))
        assert msgspec.json.decode(data)["$dataclass"][0::2] == [name, unset]
        for stored in (data, redacted(data, Hide())):
            assert codec.encode(codec.decode(stored)) == data
    model = Model(a=1)
    del model.b, model._kept
    data = redacted(codec.encode(model), Hide())
    assert msgspec.json.decode(data)["$model"][1]["unset"] == ["b", "_kept"]
    assert codec.encode(codec.decode(data)) == data


@pytest.mark.parametrize(
    ("cls", "tag", "stored", "expected"),
    [
        (Slotted, "$dataclass", {"a": 1}, Slotted(1)),
        (Plain, "$dataclass", {"a": 1}, Plain(1)),
        (Record, "$struct", {"a": 1}, Record(1)),
        (Pair, "$namedtuple", {"left": 1}, Pair(1)),
        (Model, "$model", {"fields": {"a": 1}, "set": ["a"]}, Model(a=1)),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_field_that_the_class_got_later_has_its_default(
    cls: type, tag: str, stored: object, expected: typing.Any
) -> None:
    """A value that was stored before its class had the field is decoded, and the field has its default."""
    again = codec.decode(msgspec.json.encode({tag: [classes.name_of(cls), stored]}))
    names = ("a", "b", "c") if tag != "$namedtuple" else ("left", "right")
    assert [getattr(again, name) for name in names] == [getattr(expected, name) for name in names]
    if isinstance(again, Model):
        assert (again._kept, again._made) == (7, [])


def test_a_required_field_that_the_class_got_later_is_an_error() -> None:
    """There is no value for it. If the class writes its own constructor, the field may be unset."""
    with pytest.raises(CodeNotFound, match="has no field a"):
        codec.decode(msgspec.json.encode({"$dataclass": [classes.name_of(Plain), {}]}))
    assert vars(codec.decode(msgspec.json.encode({"$dataclass": [classes.name_of(Partial), {}]}))) == {
        "second": []
    }
