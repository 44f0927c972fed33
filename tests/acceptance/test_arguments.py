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
            takes.positional([text])
        with pytest.raises(BadInput):
            takes.value_as("it", text)
    else:
        wanted = None if given is None.__class__ else given
        assert (takes.positional([text]), takes.value_as("it", text)) == ([wanted], wanted)


MISFITS = [
    ("list[str]", ["['a']"], """"['a']" is not JSON, which needs double quotes; write '["a"]'"""),
    ("list[str]", ["[a, b]"], """'[a, b]' is not JSON; write '["a", "b"]'"""),
    ("list[str]", ["[1, 2]"], """item [0] of '[1, 2]' is an integer; write '["1", "2"]'"""),
    ("list[int]", ['[1, "b"]'], """item [1] of '[1, "b"]' is text"""),
    ("list[int]", ["1", "2", "3"], "'1' is an integer; write '[1, 2, 3]'"),
    ("list[str]", ["a", "2"], """'a' is text; write '["a", "2"]'"""),
    ("list[str]", ['{"a": 1}'], """'{"a": 1}' is an object"""),
    ("dict[str, int]", ['{"a": "x"}'], """item ['a'] of '{"a": "x"}' is text"""),
    ("dict[str, int]", ["kelp"], "'kelp' is text; write it as JSON"),
    ("tuple[int, str]", ["[1, 2]"], "item [1] of '[1, 2]' is an integer"),
    ("tuple[int, str]", ["[1]"], "'[1]' is a list"),
    ("int", ["it=2"], "'it=2' is text; an argument by name is `--arg it=2`"),
    ("int", ["three"], "'three' is text"),
    ("int", ["1.5"], "'1.5' is a decimal number"),
    ("int | None", ["None"], "'None' is not JSON; write null"),
    ("bool", ["yes"], "'yes' is text; write true or false"),
    ("Literal['a', 'b']", ["c"], "'c' is not one of them"),
    ("Literal['a', 'b']", ["3"], "'3' is not one of them"),
]


@pytest.mark.parametrize(("annotation", "words", "told"), MISFITS)
def test_a_word_that_does_not_fit_is_explained(annotation, words, told):
    """What it is, and what to write instead."""
    names: dict[str, object] = {}
    exec(f"from typing import Literal\ndef f(it: {annotation}): ...", names)
    with pytest.raises(BadInput) as refused:
        Parameters(names["f"]).positional(words)
    assert str(refused.value) == f"it takes {annotation}, and {told}"


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
    assert "topics takes list[str], and 'kelp' is text; write '[\"kelp\"]'" in refused.err
    assert not cli.notes()
    cli("run", "--id", "x", "flow.py:report", '["kelp"]')
    assert cli.notes() == {"kelp": 1}


def test_the_output_of_a_command_is_kept_up_to_a_limit(cli):
    """`--output-limit` takes sizes as people write them; the terminal gets all, the log the ends."""
    done = cli("run", "--output-limit", "2KB", "--id", "x", "--", "seq", "1", "5000")
    assert "\n2500\n" in done.out
    logged = cli("logs", "x").out
    assert "\n2500\n" not in logged
    assert "left out here]" in logged
    assert logged.rstrip().endswith("5000")
    assert "is no size" in cli("run", "--output-limit", "much", "--", "true", code=2).err
    assert "--output-limit" in cli("run", "--output-limit", "2KB", "os:getcwd", code=2).err
