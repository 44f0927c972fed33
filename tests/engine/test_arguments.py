"""Arguments of steps: what the log keeps of them, and which make two calls different."""

import pytest

from holdfast import Secret, step
from holdfast.errors import BadArguments, NotStorable


def started(hf, run_id):
    return [event.data for event in hf.events(run_id) if event.type in ("StepStarted", "StepRan")]


def digests(hf, act, calls, run_id):
    """The digests of these calls, made in one run."""
    hf.with_id(run_id).run(act(lambda: [call() for call in calls] and None))
    return [data["digest"] for data in started(hf, run_id)]


def test_defaults_are_omitted_from_the_digest(hf, act):
    """A parameter left at its default, or passed with it, does not count; positions do not either."""

    @step
    def ask(q: str, tone: str = "plain", *, limit: int = 3) -> None: ...

    calls = [
        lambda: ask("a"),
        lambda: ask("a", "plain"),
        lambda: ask(q="a", limit=3),
        lambda: ask("a", limit=4),
        lambda: ask("a", "rude"),
    ]
    same1, same2, same3, other, another = digests(hf, act, calls, "x")
    assert same1 == same2 == same3
    assert len({same1, other, another}) == 3
    assert [data["args"] for data in started(hf, "x")] == [
        {"q": "a"},
        {"q": "a"},
        {"q": "a"},
        {"q": "a", "limit": 4},
        {"q": "a", "tone": "rude"},
    ]


def test_equal_defaults_of_another_type_count(hf, act):
    """`True` is not the default `1`: what compares equal can still act differently."""

    @step
    def ask(n: object = 1) -> None: ...

    first, second, third = digests(hf, act, [lambda: ask(), lambda: ask(True), lambda: ask(1.0)], "x")
    assert len({first, second, third}) == 3


def test_ignored_parameters_do_not_count(twice, ran):
    """What `ignore=` names is not recorded and may be another object at every execution."""

    @step(ignore=("client",))
    def ask(client: object, q: str) -> str:
        ran.append(q)
        return q

    def plot():
        return ask(object(), "a")

    assert twice(plot) == ("a", "a")
    assert ran == ["a"]


def test_ignoring_an_unknown_parameter_is_told(hf, act):
    """A misspelt name in `ignore=` raises instead of recording what was to be ignored."""

    @step(ignore=("cleint",))
    def ask(client: object) -> None: ...

    with pytest.raises(BadArguments, match="no parameter 'cleint' to ignore"):
        hf.run(act(lambda: ask(1)))


def test_an_argument_that_cannot_be_stored_names_step_and_path(hf, act, ran):
    """The refusal says which step, which place in the value, and what to do; the body does not run."""

    @step
    def ask(client: object) -> None:
        ran.append("ran")

    with pytest.raises(NotStorable) as caught:
        hf.run(act(lambda: ask({"inner": [1, object()]})))
    assert "step ask" in str(caught.value)
    assert caught.value.path.startswith("$.client")
    assert '@step(ignore=("client",))' in str(caught.value)
    assert ran == []


def test_arguments_that_do_not_fit_raise_bad_arguments(hf, act):
    """A call that Python itself would refuse is refused before anything is recorded."""

    @step
    def ask(q: str) -> None: ...

    with pytest.raises(BadArguments, match="step ask"):
        hf.with_id("x").run(act(lambda: ask("a", "b")))
    assert started(hf, "x") == []


def test_large_arguments_leave_a_preview_and_their_size(hf, act):
    """Arguments over 2 KB are digested whole, and shown by their beginning."""

    @step
    def ask(text: str) -> None: ...

    hf.with_id("x").run(act(lambda: [ask("y" * 5000), ask("y" * 4999 + "z")]))
    first, second = started(hf, "x")
    assert "args" not in first
    assert first["size"] > 5000
    assert first["preview"].startswith('{"text":"yyy')
    assert len(first["preview"]) < 300
    assert first["digest"] != second["digest"]


def test_a_secret_argument_digests_by_its_name(hf, act, ran):
    """A rotated key is the same argument, and its value is nowhere in the log."""

    @step
    def ask(key: Secret) -> None:
        ran.append(key.reveal())

    calls = [
        lambda: ask(Secret("key", "sk-value-of-yesterday")),
        lambda: ask(Secret("key", "sk-value-of-today")),
        lambda: ask(Secret("other", "sk-value-of-today")),
    ]
    first, second, third = digests(hf, act, calls, "x")
    assert first == second != third
    assert ran == ["sk-value-of-yesterday", "sk-value-of-today", "sk-value-of-today"]
    assert "sk-value" not in repr(hf.events("x"))
