"""Errors of SDKs in a run: `except`, `Retry(on=...)`, live and after a crash."""

import httpx
import openai
import pytest

from holdfast import Retry, StoreError, step

REQUEST = httpx.Request("POST", "https://api.example/v1")


def rate_limited(status: int = 429) -> openai.RateLimitError:
    response = httpx.Response(status, request=REQUEST, headers={"retry-after": "3"}, json={})
    return openai.RateLimitError("slow down", response=response, body={"code": "rate_limit"})


ONS = {
    "class": openai.RateLimitError,
    "parent": openai.APIStatusError,
    "tuple": (httpx.TimeoutException, openai.RateLimitError),
    "status": lambda error: error.status_code == 429,
    "header": lambda error: error.response.headers["retry-after"] == "3",
    "what is not stored": lambda error: isinstance(error.response, httpx.Response),
}


@pytest.mark.parametrize("on", ONS.values(), ids=list(ONS))
@pytest.mark.parametrize("colour", ["async", "def"])
def test_a_rate_limit_is_tried_again(hf, act, on, colour):
    """The filter is asked with the error itself."""
    tries = []

    def work() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise rate_limited()
        return "done"

    async def awork() -> str:
        return work()

    retry = Retry(initial=0, on=on)
    do, ado = step(name="do", retry=retry)(work), step(name="do", retry=retry)(awork)

    async def plot() -> str:
        return await ado()

    assert hf.run(act(do if colour == "def" else plot)) == "done"
    assert len(tries) == 3


def test_an_error_that_the_filter_does_not_want_is_not_tried_again(hf, act):
    tries = []

    @step(retry=Retry(initial=0, on=lambda error: error.status_code == 503))
    def ask() -> None:
        tries.append(1)
        raise rate_limited()

    with pytest.raises(openai.RateLimitError):
        hf.run(act(ask))
    assert len(tries) == 1


def test_a_filter_that_fails_says_no(hf, act):
    """The step's own error is recorded and raised, with a note: nothing runs again in a replay."""
    tries = []

    @step(retry=Retry(initial=0, on=lambda error: error.status_code == 429))
    def ask() -> None:
        tries.append(1)
        raise ValueError("no status here")

    def plot():
        try:
            ask()
        except ValueError as error:
            return [str(error), *error.__notes__]

    first = hf.with_id("x").run(act(plot))
    assert first[0] == "no status here"
    assert "Retry(on=...) of step ask raised AttributeError" in first[1]
    assert len(tries) == 1


def seen(error: openai.RateLimitError) -> list[object]:
    """All that is documented, and what is not kept."""
    response = error.response
    return [
        type(error).__qualname__, str(error), error.status_code, error.code, error.body, response.status_code,
        response.headers.get("Retry-After"), str(error.request.url), hasattr(response, "elapsed"),
    ]  # fmt: skip


@pytest.mark.parametrize("colour", ["async", "def"])
def test_a_workflow_catches_the_class_live_and_after_a_crash(open_hf, act, crashes, colour):
    """And sees the same of it: what cannot be stored is missing both times."""
    looks = []

    @step
    def ask() -> None:
        raise rate_limited()

    @step
    def note(what: list[object]) -> list[object]:
        return what

    def plot():
        try:
            ask()
        except openai.RateLimitError as error:
            looks.append(seen(error))
        return [note(looks[-1]), note(["again"])]

    async def aplot():
        try:
            await ask.aio()
        except openai.RateLimitError as error:
            looks.append(seen(error))
        return [await note.aio(looks[-1]), await note.aio(["again"])]

    flow = act(plot if colour == "def" else aplot)
    first = open_hf()
    crashes.arm(first, 2)
    with pytest.raises(StoreError):
        first.with_id("x").run(flow)
    crashes.bury(first)
    result = open_hf().with_id("x").run(flow)
    assert looks[0] == looks[-1] == result[0]
    assert len(looks) == 2
    expected = ["RateLimitError", "slow down", 429, "rate_limit", {"code": "rate_limit"}, 429, "3"]
    assert looks[0] == [*expected, "https://api.example/v1", False]


def test_a_run_that_fails_raises_the_class(open_hf, act, crashes):
    """`hf.run` and `result()`, also in another process."""

    @step
    def ask() -> None:
        raise rate_limited()

    first = open_hf()
    with pytest.raises(openai.RateLimitError):
        first.with_id("x").run(act(ask))
    crashes.bury(first)
    with pytest.raises(openai.RateLimitError) as caught:
        open_hf().with_id("x").run(act(ask))
    assert caught.value.status_code == 429
