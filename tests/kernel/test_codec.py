"""Values come back equal and of the same type, or are refused with the path to what cannot be stored."""

from __future__ import annotations

import collections
import copy
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import hashlib
import math
import pathlib
import sys
import threading
import types
import typing
import uuid
import zoneinfo

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import CodeNotFound, NotStorable
from holdfast.kernel import classes, codec
from holdfast.kernel.encoded import redacted


class Colour(enum.Enum):
    RED = (1, 2)
    BLUE = "blue"
    AZURE = "blue"  # noqa: PIE796  an alias


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    HELLO = "hello"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Point3(Point):
    z: object = None


@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    name: str
    parts: tuple[int, ...] = ()


@dataclasses.dataclass
class Counted:
    """Its hook has an effect and makes state that is no field."""

    made: typing.ClassVar[int] = 0
    start: int
    seed: dataclasses.InitVar[int] = 0
    double: int = dataclasses.field(init=False)

    def __post_init__(self, seed: int) -> None:
        type(self).made += 1
        self.double = self.start * 2
        self.hidden = seed

    @functools.cached_property
    def lock(self) -> object:
        return threading.Lock()


class Outer:
    @dataclasses.dataclass
    class Inner:
        value: int


class Pair(typing.NamedTuple):
    left: object
    right: object = None


OldPair = collections.namedtuple("OldPair", "a b")


class Record(msgspec.Struct, frozen=True):
    id: int
    values: tuple[int, ...] = ()
    maybe: object = msgspec.UNSET


class Shifting(msgspec.Struct):
    """A hook that would change the value each time it runs."""

    n: int

    def __post_init__(self) -> None:
        self.n += 1


class Model(pydantic.BaseModel):
    name: str
    at: dt.datetime | None = None
    inner: list[Model] = []
    _secret: int = pydantic.PrivateAttr(default=7)


class Open(pydantic.BaseModel, extra="allow"):
    a: int = 1


class Names(pydantic.RootModel[list[str]]):
    pass


class Sized(dict):  # type: ignore[type-arg]
    """A subclass of a built-in."""


class Token:
    """What the engine's Secret looks like to the codec."""

    def __init__(self, name: str, value: str) -> None:
        self.name = name
        self.value = value

    def __holdfast_digest__(self) -> str:
        return self.name


def same(a: object, b: object) -> bool:
    """Equal and of the same type at every level; NaN counts as equal to NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float) and isinstance(b, float):
        return math.isnan(b) if math.isnan(a) else (a, math.copysign(1, a)) == (b, math.copysign(1, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return len(a) == len(b) and all(
            same(one, other) for one, other in zip(a.items(), b.items(), strict=True)
        )
    if isinstance(a, list | tuple | collections.deque) and isinstance(b, list | tuple | collections.deque):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, set | frozenset) and isinstance(b, set | frozenset):
        return sorted(map(codec.encode, a)) == sorted(map(codec.encode, b))
    if isinstance(a, msgspec.Struct):
        return all(same(getattr(a, name), getattr(b, name)) for name in a.__struct_fields__)
    if dataclasses.is_dataclass(a) and not isinstance(a, type):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    if isinstance(a, complex | decimal.Decimal | dt.datetime | dt.time):
        return repr(a) == repr(b)
    return a == b


ZONES = st.sampled_from(
    [
        None,
        dt.UTC,
        dt.timezone(dt.timedelta(hours=-3, minutes=-30)),
        dt.timezone(dt.timedelta(seconds=1, microseconds=5), "odd"),
        zoneinfo.ZoneInfo("Europe/Berlin"),
        zoneinfo.ZoneInfo("America/New_York"),
    ]
)
TEXT = st.one_of(
    st.text(),
    st.text(st.characters(codec=None, categories=None), max_size=4),
    st.sampled_from(["$tuple", "$dict", "$", "$str", "$5", '"$', "\ud800", "\ud800\udc00"]),
)
HASHABLE_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(2**70), max_value=2**70),
    st.floats(allow_nan=False),
    TEXT,
    st.binary(),
    st.complex_numbers(allow_nan=False),
    st.decimals(allow_nan=False),
    st.uuids(),
    st.datetimes(timezones=ZONES),
    st.builds(dt.datetime.replace, st.datetimes(timezones=ZONES), fold=st.sampled_from([0, 1])),
    st.dates(),
    st.times(timezones=ZONES),
    st.timedeltas(),
    st.sampled_from(
        [*Colour, *Level, *Word, *Access, Access(0), Access(3), msgspec.UNSET, range(3), range(9, 0, -2)]
    ),
    st.builds(pathlib.PurePosixPath, st.text(st.characters(exclude_characters="\0"), max_size=5)),
    st.builds(pathlib.Path, st.sampled_from(["", ".", "/a/b", "x\udcff"])),
)
LEAVES = st.one_of(HASHABLE_LEAVES, st.floats(), st.binary().map(bytearray))
KEYS = st.recursive(
    HASHABLE_LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3).map(tuple), st.frozensets(inner, max_size=3)),
    max_leaves=4,
)


def _nested(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(TEXT, inner, max_size=4),
        st.dictionaries(KEYS, inner, max_size=4),
        st.sets(KEYS, max_size=4),
        st.builds(collections.OrderedDict, st.dictionaries(TEXT, inner, max_size=3)),
        st.builds(collections.deque, st.lists(inner, max_size=3), st.sampled_from([None, 5])),
        st.builds(functools.partial(collections.defaultdict, list), st.dictionaries(TEXT, inner, max_size=3)),
        st.builds(Point3, x=st.floats(), z=inner),
        st.builds(Fixed, TEXT, st.lists(st.integers()).map(tuple)),
        st.builds(Pair, inner, inner),
        st.builds(Record, st.integers(), maybe=inner),
    )


VALUES = st.recursive(LEAVES, _nested, max_leaves=12)


@given(VALUES)
def test_any_value_comes_back_equal_and_of_the_same_type(value: object) -> None:
    """Whatever can be encoded is decoded to an equal value, with equal types at every level."""
    data = codec.encode(value)
    again = codec.decode(data)
    assert same(again, value)
    assert codec.encode(again) == data


@given(st.dictionaries(KEYS, VALUES, max_size=5), st.randoms())
def test_digest_ignores_the_order_of_dicts(value: dict[object, object], random: typing.Any) -> None:
    """Two dicts that are equal have one digest, whatever the order of insertion."""
    items = list(value.items())
    random.shuffle(items)
    assert codec.digest(dict(items)) == codec.digest(value)


@given(VALUES)
def test_digest_survives_the_round_trip(value: object) -> None:
    """A stored argument digests as the one that was passed."""
    assert codec.digest(codec.decode(codec.encode(value))) == codec.digest(value)
    assert len(codec.digest(value)) == 16


@pytest.mark.parametrize(
    "value",
    [
        {"text": "ü", "n": 1, "f": -0.0, "deep": [[], {}, None, True]},
        {"$tuple": [1]},
        {"a": {"$dict": []}, "b": "$5"},
        {1: "a", "1": "b", None: 0},
        [2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**5000],
        float("nan"),
        [float("inf"), -float("inf")],
        ("a", ("b",), ()),
        {frozenset({1, (2, 3)}), "x"},
        b"\x00\xff",
        "\udcff",
        {"\udcff": 1},
        decimal.Decimal("1.10"),
        decimal.Decimal("sNaN12"),
        uuid.UUID(int=5),
        pathlib.PurePosixPath("/x"),
        pathlib.PureWindowsPath("c:\\x"),
        dt.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
        dt.UTC,
        zoneinfo.ZoneInfo("Asia/Tokyo"),
        collections.Counter("abca"),
        collections.deque([1, 2], maxlen=2),
        collections.defaultdict(None, {1: 2}),
        Outer.Inner(4),
        OldPair(1, {2}),
        Access.READ | Access.WRITE,
        Colour.AZURE,
        Model(name="a", at=dt.datetime(2024, 1, 1, tzinfo=dt.UTC), inner=[Model(name="b")]),
        Open(a=2, b=(1, 2)),
        Names(["x"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_examples_come_back(value: object) -> None:
    """One example of each kind of value."""
    assert same(codec.decode(codec.encode(value)), value)
    codec.digest(value)


def test_plain_json_stands_for_itself() -> None:
    """Values that JSON has are written without tags, compactly and in their own order."""
    assert codec.encode({"b": [1, 2.5, None, True], "a": "x"}) == b'{"b":[1,2.5,null,true],"a":"x"}'


def test_decode_takes_every_kind_of_buffer() -> None:
    """Bytes, text, a memoryview and a Raw are the same to decode."""
    data = codec.encode((1, 2))
    for form in (data, data.decode(), memoryview(data), msgspec.Raw(data)):
        assert codec.decode(form) == (1, 2)


def test_sets_are_written_in_one_order() -> None:
    """Equal sets have equal bytes, whatever order they iterate in."""
    assert codec.encode({"b", "a", 1}) == codec.encode({1, "a", "b"}) == b'{"$set":["a","b",1]}'


def test_a_dataclass_comes_back_without_its_hook() -> None:
    """Fields, state set beside them and init=False fields return; __post_init__ does not run again."""
    value = Counted(3, seed=9)
    value.lock  # noqa: B018  fills the cache with what cannot be stored
    before = Counted.made
    again = codec.decode(codec.encode(value))
    assert (again, again.hidden, again.double, Counted.made) == (value, 9, 6, before)
    assert "lock" not in vars(again)


def test_a_struct_keeps_what_its_hook_would_change() -> None:
    """A Struct's hook runs when it is made, but the stored fields win."""
    value = Shifting(1)
    assert value.n == 2
    assert codec.decode(codec.encode(value)) == value


def test_a_model_keeps_which_fields_were_set_and_private_state() -> None:
    """A pydantic model returns with its fields_set, private attributes and extras; no validation runs."""
    value = Model(name="a")
    value._secret = 8
    again = codec.decode(codec.encode(value))
    assert (again, again.model_fields_set, again._secret) == (value, {"name"}, 8)
    assert codec.decode(codec.encode(Open(b=1))).model_extra == {"b": 1}
    parsed = Model.model_validate_json('{"name": "a", "at": "2024-01-01T00:00:00Z"}')
    assert codec.decode(codec.encode(parsed)) == parsed
    assert codec.digest(Model(name="a", at=None)) == codec.digest(Model(name="a"))


def test_fields_added_since_get_their_defaults() -> None:
    """A value stored before a class got a new field with a default can still be read."""
    name = classes.name_of(Point)
    assert codec.decode(msgspec.json.encode({"$dataclass": [name, {"x": 1.0}]})) == Point(1.0)
    name = classes.name_of(Pair)
    assert codec.decode(msgspec.json.encode({"$namedtuple": [name, {"left": 1}]})) == Pair(1)
    name = classes.name_of(Model)
    old = {"fields": {"name": "a"}, "set": ["name"], "private": {"_secret": 7}}
    assert codec.decode(msgspec.json.encode({"$model": [name, old]})) == Model(name="a")


def _local() -> object:
    @dataclasses.dataclass
    class Local:
        x: int

    return Local(1)


def _cycle() -> object:
    items: list[object] = []
    items.append({"again": items})
    return items


def _deep(levels: int, wrap: typing.Callable[[object], object]) -> object:
    value: object = 1
    for _ in range(levels):
        value = wrap(value)
    return value


@pytest.mark.parametrize(
    ("value", "path", "why"),
    [
        ({"items": [0, 1, 2, Point3(1, z=threading.Lock())]}, "$.items[3].z", "lock is not data"),
        ({"a b": object()}, "$['a b']", "builtins.object is not data"),
        ({1: {2: print}}, "$[1][2]", "builtin_function_or_method"),
        (Pair(1, object()), "$.right", "object"),
        (Model.model_construct(name=object()), "$.name", "object"),
        ([_local()], "$[0]", "defined inside a function"),
        (Sized(a=1), "$", "Sized extends dict"),
        (collections.defaultdict(lambda: 1), "$", "factory"),
        ((Token("key", "s3cret"),), "$[0]", "a secret is never stored"),
        (dt.datetime(2024, 1, 1, tzinfo=type("Odd", (dt.tzinfo,), {})()), "$", "time zone"),
        ({(1, object())}, "${}[1]", "object"),
        (Point, "$", "type"),
        (ValueError("x"), "$", "ValueError is not data"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_refusals_name_the_path_and_the_reason(value: object, path: str, why: str) -> None:
    """What cannot come back is refused with the path to it, the reason and the place."""
    with pytest.raises(NotStorable) as caught:
        codec.encode(value, "result of step ask")
    assert caught.value.path == path
    assert why in caught.value.why
    assert caught.value.where == "result of step ask"
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        _cycle(),
        _deep(100_000, lambda inner: [inner]),
        _deep(codec.MAX_DEPTH + 1, lambda inner: (inner,)),
        _deep(codec.MAX_DEPTH + 1, lambda inner: {"k": inner}),
        _deep(codec.MAX_DEPTH + 1, lambda inner: Pair(inner)),
    ],
    ids=["cycle", "very deep", "tuples", "dicts", "instances"],
)
def test_cycles_and_depth_are_refused(value: object) -> None:
    """A value without end, or too deep to read back, is refused and never breaks the stack."""
    for act in (codec.encode, codec.digest):
        with pytest.raises(NotStorable, match="nested deeper") as caught:
            act(value)
        assert len(caught.value.path) < 200
    while isinstance(value, list) and value:  # takes the tower down without recursion
        value = value.pop()


@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: (v,), lambda v: {"k": v}, lambda v: Pair(v)])
def test_the_deepest_value_that_is_stored_can_be_read(wrap: typing.Callable[[object], object]) -> None:
    """What encode accepts, decode can read."""
    value = _deep(codec.MAX_DEPTH, wrap)
    assert codec.encode(codec.decode(codec.encode(value))) == codec.encode(value)


def test_digest_tells_types_apart() -> None:
    """Values of other types digest differently, also where Python finds them equal."""
    values = [1, 1.0, True, "1", (1,), [1], {1}, frozenset({1}), {"$tuple": [1]}, Level.LOW, {"1": 1}, {1: 1}]
    assert len({codec.digest(value) for value in values}) == len(values)


def test_a_digest_is_of_the_sorted_encoding() -> None:
    """Digests are compared across processes and versions, so what they are made of is fixed."""
    text = b'{"$tuple":["name",{"a":{"$tuple":[1]},"i":3}]}'
    assert codec.digest(("name", {"i": 3, "a": (1,)})) == hashlib.sha256(text).digest()[:16]
    text = b'{"$tuple":["name",{"a":1,"i":3}]}'
    assert codec.digest(("name", {"i": 3, "a": 1})) == hashlib.sha256(text).digest()[:16]


def test_a_secret_digests_by_name() -> None:
    """The digest of a secret depends on its name and not on its value."""
    assert codec.digest({"key": Token("a", "1")}) == codec.digest({"key": Token("a", "2")})
    assert codec.digest({"key": Token("a", "1")}) != codec.digest({"key": Token("b", "1")})
    assert codec.digest({"key": Token("a", "1")}) != codec.digest({"key": "a"})


@pytest.mark.parametrize(
    ("tag", "name", "parts"),
    [
        ("$dataclass", "no.such.module:X", {}),
        ("$dataclass", "json:Nothing", {}),
        ("$dataclass", "subprocess:Popen", {"args": "true"}),
        ("$dataclass", "os:system", {}),
        ("$enum", "builtins:print", "x"),
        ("$namedtuple", "builtins:tuple", {}),
        ("$struct", "builtins:dict", {}),
        ("$model", "builtins:dict", {"fields": {}, "set": []}),
        ("$enum", f"{__name__}:Colour", "GREEN"),
        ("$dataclass", f"{__name__}:Point", {}),
        ("$dataclass", f"{__name__}:Fixed", {"name": "a", "parts": 1, "gone": 2}),
        ("$namedtuple", f"{__name__}:Pair", {"left": 1, "middle": 2}),
        ("$struct", f"{__name__}:Record", {}),
        ("$struct", f"{__name__}:Point", {"x": 1.0}),
    ],
)
def test_only_known_shapes_are_made(tag: str, name: str, parts: object) -> None:
    """A name that leads to no class, or to one of another shape, is refused; nothing is called."""
    with pytest.raises(CodeNotFound):
        codec.decode(msgspec.json.encode({tag: [name, parts]}))


def test_an_unknown_tag_is_refused() -> None:
    """A value that a newer holdfast wrote is not taken for a dict."""
    with pytest.raises(CodeNotFound, match="newer"):
        codec.decode(b'{"$quaternion":[1]}')


def test_classes_of_a_script_keep_their_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script resumed under another module name reads and writes its classes as `__main__:Name`."""
    monkeypatch.setattr(classes, "_aliases", {})
    monkeypatch.setattr(classes, "_recorded", {})
    script = types.ModuleType("loaded_script")
    monkeypatch.setitem(sys.modules, "loaded_script", script)
    exec("import dataclasses\n@dataclasses.dataclass\nclass Task:\n    n: int", vars(script))
    codec.alias_module("__main__", "loaded_script")
    data = codec.encode(script.Task(1))
    assert data == b'{"$dataclass":["__main__:Task",{"n":1}]}'
    assert codec.decode(data) == script.Task(1)


def test_a_replaced_class_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance of a class whose name now leads to another class is refused: it would change its type."""
    value = Outer.Inner(1)
    codec.encode(value)
    monkeypatch.setattr(Outer, "Inner", dataclasses.make_dataclass("Inner", ["value"]))
    with pytest.raises(NotStorable, match="cannot be found under its own name"):
        codec.encode(value)


def test_encoding_does_not_change_the_value() -> None:
    """The value is only read."""
    value = {"a": [(1, {2})], "p": Point(1.0, tags=["x"])}
    before = copy.deepcopy(value)
    codec.encode(value)
    codec.digest(value)
    assert value == before


@pytest.mark.parametrize(
    ("value", "limit", "text"),
    [
        ({"a": 1}, 50, '{"a":1}'),
        ("x" * 100, 10, '"xxxxxxxx…'),
        ("€" * 100, 10, '"€€€€€€€€…'),
        ((1, {"k": {2, 3}}), 50, '(1, {"k": {2, 3}})'),
        (Point(1.0, tags=["t"]), 50, 'Point(x=1.0, y=0.0, tags=["t"])'),
        (
            [Colour.BLUE, Pair(1), pathlib.PurePosixPath("/a")],
            50,
            '[Colour.BLUE, Pair(left=1, right=null), "/a"]',
        ),
        (dt.datetime(2024, 1, 2, tzinfo=dt.UTC), 50, "2024-01-02T00:00:00+00:00"),
        (Open(a=1, b=2), 50, "Open(a=1, b=2)"),
        ({1: (2,)}, 50, "{1: (2)}"),
        ("abc", 0, ""),
    ],
)
def test_preview_is_short_and_readable(value: object, limit: int, text: str) -> None:
    """A preview reads like Python, needs no class, and never exceeds its limit."""
    assert codec.preview(codec.encode(value), limit) == text
    assert len(text) <= limit


@given(VALUES, st.integers(0, 60))
def test_preview_keeps_its_limit(value: object, limit: int) -> None:
    """Any value can be previewed within any limit."""
    assert len(codec.preview(codec.encode(value), limit)) <= limit


@given(VALUES)
def test_changing_no_text_changes_nothing(value: object) -> None:
    """With a redactor that finds nothing, the bytes stay as they are."""
    data = codec.encode(value)
    assert redacted(data, Replacing("", "")) == data


class Replacing:
    """A redactor that replaces one word."""

    def __init__(self, word: str, by: str) -> None:
        self._word = word
        self._by = by

    def redact(self, text: str) -> str:
        return text.replace(self._word, self._by) if self._word else text

    def redact_under(self, name: str, text: str) -> str:
        return "under name" if self._word and name == "name" else self.redact(text)


def test_redacted_text_leaves_fields_and_classes_alone() -> None:
    """Each text in the value is redacted, keys and bytes too; fields, classes and other values stay."""
    value = [
        {"k": "key", "key": 1},
        ("key", b"key", b"\xff"),
        Point3(1.0, tags=["key"], z="a\udcffkey"),
        Model(name="key"),
        Word.HELLO,
    ]
    data = redacted(codec.encode(value), Replacing("key", "***"))
    expected = [
        {"k": "***", "***": 1},
        ("***", b"***", b"\xff"),
        Point3(1.0, tags=["***"], z="a\udcff***"),
        Model(name="under name"),
        Word.HELLO,
    ]
    assert codec.decode(data) == expected
