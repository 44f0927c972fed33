"""Finding what a person names: one thing, or an error that names what there is."""

import pytest

from holdfast.errors import BadInput, NotFound, StepNotFound
from holdfast.kernel.naming import find_id, find_step, nearest
from holdfast.kernel.state import StepState

STEPS = [
    StepState("ask#1", "ask", "completed"),
    StepState("ask#2", "ask", "in_doubt"),
    StepState("b[1]/pay#1", "pay", "running"),
    StepState("half#1", "half", "completed", kind="checkpoint"),
    StepState("now#1", "now", "completed", kind="value"),
]


@pytest.mark.parametrize(
    ("text", "key"),
    [("ask#1", "ask#1"), ("pay", "b[1]/pay#1"), ("b", "b[1]/pay#1"), ("half", "half#1"), ("now#1", "now#1")],
)
def test_a_step_is_found_by_its_key_its_name_or_its_branch(text, key):
    assert find_step("r", STEPS, text).key == key


def test_of_several_steps_the_preferred_one_is_meant():
    """Without one, the error lists them."""
    assert find_step("r", STEPS, "ask", prefer=lambda step: step.status == "in_doubt").key == "ask#2"
    with pytest.raises(BadInput, match=r"^'ask' is 2 points of run r: ask#1, ask#2; name one$"):
        find_step("r", STEPS, "ask", what="points")


def test_a_step_that_is_not_there():
    """The nearest names, or the last steps; what readers do not see is not offered."""
    with pytest.raises(StepNotFound) as error:
        find_step("r", STEPS, "askk")
    assert error.value.nearest == ("ask", "ask#2", "ask#1")
    with pytest.raises(StepNotFound) as error:
        find_step("r", STEPS, "zzzz")
    assert error.value.nearest == ("ask#2", "b[1]/pay#1", "half#1")
    with pytest.raises(StepNotFound):
        find_step("r", STEPS, "now")


def test_an_id_is_found_by_its_start():
    """A whole id is meant even if it is the start of another."""

    def none():
        return NotFound("none")

    ids = ["ab", "abc", "b1"]
    assert [find_id(text, ids, "operations", none) for text in ("b", "ab", "abc")] == ["b1", "ab", "abc"]
    for text in ("", "x"):
        with pytest.raises(NotFound):
            find_id(text, ids, "operations", none)
    with pytest.raises(BadInput, match="'a' is the start of several operations: ab, abc; type more of it"):
        find_id("a", ids, "operations", none)
    with pytest.raises(BadInput, match=r"a1, a2, a3, a4, a5, a6, a7, a8, \.\.\.; type"):
        find_id("a", [f"a{n}" for n in range(1, 10)], "operations", none)


def test_nearest_names():
    assert nearest("resme", ["resume", "list", "show"]) == ["resume"]
