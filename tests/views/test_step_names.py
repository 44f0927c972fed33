"""Steps by names that a person would say."""

import pytest

from holdfast.cli.drawing.step_names import counted_names, short_key


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("ask#1", "ask"),
        ("ask#2", "ask#2"),
        ("build[1]/build#1", "build"),
        ("build[1]/build[2]/build#1", "build/build[2]/build"),
        ("branch[2]/ask#1", "branch[2]/ask"),
        ("before:ask#1", "before:ask"),
        ("start", "start"),
    ],
)
def test_a_key_without_what_goes_without_saying(key: str, name: str) -> None:
    """Numbers that are 1, and scopes named like what is in them, are left out; nothing else is."""
    assert short_key(key) == name


def test_names_are_counted() -> None:
    """In the order of the first step of each name."""
    keys = ["list[1]/list#1", "each[1]/each[1]/each#1", "ask#1", "each[1]/each[2]/each#1", "b[3]/ask#7"]
    assert counted_names(keys) == ["list", "each (2)", "ask", "b/ask"]
    assert counted_names([]) == []
