"""JSON from outside: how deep it may be."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.errors import BadInput
from holdfast.json_input import MAX_LEVELS, WRAPPED_LEVELS, is_deeper, read_json
from holdfast.kernel import codec


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_depth_is_refused_at_the_same_level_whatever_the_stack(opening: str, closing: str) -> None:
    """The bound itself is read, one level more is not, and a depth beyond any stack is the same refusal."""
    for levels in (1, MAX_LEVELS):
        text = opening * levels + "1" + closing * levels
        assert msgspec.json.encode(read_json(text)).decode() == text
    for levels in (MAX_LEVELS + 1, 900, 100_000):
        text = opening * levels + "1" + closing * levels
        for data in (text, text.encode()):
            with pytest.raises(BadInput, match=f"nested deeper than {MAX_LEVELS} levels"):
                read_json(data)


def test_wide_json_is_not_deep() -> None:
    """Brackets side by side, and brackets in a text, are no levels."""
    assert read_json("[" + "[]," * 5000 + "[]]") == [[]] * 5001
    assert read_json('"' + "[" * 5000 + '"') == "[" * 5000


def test_what_is_no_json_is_left_to_the_caller() -> None:
    """Who takes text too must know it from JSON."""
    with pytest.raises(msgspec.DecodeError):
        read_json("[1")


def test_a_value_that_contains_itself_is_deeper() -> None:
    """The walk ends."""
    loop: list[object] = []
    loop.append(loop)
    assert is_deeper(loop)


def test_the_codec_stores_what_is_wrapped() -> None:
    """A value that was accepted is never refused by the log."""
    assert MAX_LEVELS < WRAPPED_LEVELS <= codec.MAX_DEPTH


def test_a_list_that_holds_itself_twice_is_deep():
    """It is seen at once: each layer is looked at once, however often it is reached."""
    knot: list[object] = []
    knot += [knot, knot]
    assert is_deeper(knot)
