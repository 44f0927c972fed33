"""What a step's identity is made of."""

import pytest

from holdfast.errors import BadInput
from holdfast.kernel.identity import Counters, check_step_key, check_step_name, name_of_program, scope_of


@pytest.mark.parametrize("name", ["ask", "ask.again", "größe", "<lambda>", "a" * 200])
def test_names_that_can_stand_in_an_identity(name):
    assert check_step_name(name) == check_step_key(name) == name


@pytest.mark.parametrize("name", ["", "a/b", "a#1", "a@b", "a[1]", "a b", "a\n", "a\0", "a" * 201])
def test_names_that_would_blur_identities_are_refused(name):
    for check in (check_step_name, check_step_key):
        with pytest.raises(BadInput, match="cannot be a step's"):
            check(name)


@pytest.mark.parametrize(
    ("program", "name"),
    [("/usr/bin/git", "git"), ("sh", "sh"), ("/bin/[", "_"), ("my prog", "my_prog"), ("x/", "_")],
)
def test_a_program_gives_its_step_a_name(program, name):
    assert check_step_name(name_of_program(program)) == name


def test_occurrences_count_by_name_and_the_ordinal_counts_all():
    """`ask#2` is the second `ask` of its scope; the ordinal is its place among all calls there."""
    counters = Counters()
    assert [counters.key(name) for name in ("ask", "tell", "ask")] == ["ask#1", "tell#1", "ask#2"]
    assert counters.ordinal == 3
    branch = counters.child("branch")
    assert branch.key("ask") == "branch[1]/ask#1"
    assert counters.child("branch").child("leaf").key("ask") == "branch[2]/leaf[1]/ask#1"
    assert scope_of("branch[2]/leaf[1]/ask#1") == "branch[2]/leaf[1]/"
