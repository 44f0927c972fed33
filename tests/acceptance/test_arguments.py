"""Words on the command line become arguments, or are refused before anything runs."""

import pytest

from holdfast.cli.parameters import Parameters
from holdfast.errors import BadInput

CASES = [
    ("list[str]", "kelp", None),
    ("list[str]", '["kelp"]', ["kelp"]),
    ("list[str]", '"kelp"', None),
    ("list[int]", '["kelp"]', None),
    ("Sequence[str]", "kelp", None),
    ("tuple[int, ...]", "[1,2]", [1, 2]),
    ("dict[str, int]", '{"a":1}', {"a": 1}),
    ("dict[str, int]", "a=1", None),
    ("int", "3", 3),
    ("int", "three", None),
    ("int | None", "null", None.__class__),
    ("float", "3", 3),
    ("bool", "true", True),
    ("bool", "yes", None),
    ("int | str", "three", "three"),
    ("str", "3", "3"),
    ("Path", "notes.txt", "notes.txt"),
    ("list[Path]", "notes.txt", "notes.txt"),
    ("Any", "text", "text"),
    ("Unknown", "text", "text"),
    ("Literal['a', 'b']", "a", "a"),
    ("Literal['a', 'b']", "c", None),
]


@pytest.mark.parametrize(("annotation", "text", "given"), CASES)
def test_a_word_fits_its_annotation(annotation, text, given):
    """What JSON has is compared with the annotation; for any other type the text is passed on."""
    names: dict[str, object] = {}
    lines = (
        "from collections.abc import Sequence\nfrom pathlib import Path\nfrom typing import Any, Literal\n"
    )
    exec(f"from __future__ import annotations\n{lines}def f(it: {annotation}): ...", names)
    takes = Parameters(names["f"])
    if given is None:
        with pytest.raises(BadInput, match="it takes "):
            takes.value_at(0, text)
        with pytest.raises(BadInput):
            takes.value_as("it", text)
    else:
        wanted = None if given is None.__class__ else given
        assert (takes.value_at(0, text), takes.value_as("it", text)) == (wanted, wanted)


def test_the_form_to_copy(cli):
    """A text for a list is the usual mistake: it would be taken letter by letter."""
    cli.script(
        """
        @step(effect="once")
        def send(topic):
            note(topic)

        @workflow
        def report(topics: list[str]):
            for topic in topics:
                send(topic)
        """
    )
    refused = cli("run", "--id", "x", "flow.py:report", "kelp", code=2)
    assert "topics takes list[str], and 'kelp' is none; write '[\"kelp\"]'" in refused.err
    assert not cli.notes()
    cli("run", "--id", "x", "flow.py:report", '["kelp"]')
    assert cli.notes() == {"kelp": 1}
