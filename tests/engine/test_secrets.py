"""A Secret reaches what needs it, never the log; where it cannot, that is said."""

from __future__ import annotations

import pytest

from holdfast import (
    Holdfast,
    InDoubt,
    Retry,
    Secret,
    approval,
    checkpoint,
    command,
    emit,
    patched,
    sleep,
    step,
    wait_for,
)
from holdfast.errors import BadInput, HoldfastError, NotStorable
from holdfast.redaction import Redactor

VALUE = "tides of hunter2"
"""Of no kind that a pattern would know."""


def secret() -> Secret:
    return Secret("token", VALUE)


def stored(hf: Holdfast) -> bytes:
    """All that is on the disk."""
    return b"".join(path.read_bytes() for path in hf.home.rglob("*") if path.is_file())


REACH = {
    "env": lambda: command(["sh", "-c", 'printf %s "$K" | sha256sum; echo "$K"'], env={"K": secret()}),
    "argv": lambda: command(["sh", "-c", 'printf %s "$1" | sha256sum; echo "$1"', "sh", secret()]),
    "stdin": lambda: command(["sh", "-c", 'v=$(cat); printf %s "$v" | sha256sum; echo "$v"'], stdin=secret()),
}


@pytest.mark.parametrize("way", REACH)
def test_a_secret_reaches_the_program_and_not_the_log(hf, act, way):
    """The program has the value; its output, its arguments and its result show the name at most."""
    from hashlib import sha256

    done = hf.with_id("r").run(act(lambda: REACH[way]()))
    assert done.stdout.startswith(sha256(VALUE.encode()).hexdigest())
    assert done.stdout.endswith("[redacted]\n")
    assert VALUE.encode() not in stored(hf)
    if way != "stdin":
        assert "secret:token" in repr(list(hf.events("r")))


def test_a_doubt_is_redacted(hf, act):
    """Why a step is in doubt may quote an error: the log has no secret of it."""
    known = secret()

    def look() -> None:
        raise ConnectionError(f"refused {known.reveal()}")

    @step(effect="once", verify=look, retry=Retry(attempts=2, initial=0.01))
    def pay() -> None:
        raise RuntimeError(f"no answer to {known.reveal()}")

    with pytest.raises(InDoubt):
        hf.with_id("r").run(act(lambda: pay()))
    assert VALUE.encode() not in stored(hf)
    assert VALUE not in str(hf.get("r").reason)


def test_async_commands_take_secrets(hf, act):
    """The same by `command.aio`."""

    async def plot():
        return await command.aio(["sh", "-c", 'echo "${#K}"'], env={"K": secret()})

    assert hf.run(act(plot)).stdout == f"{len(VALUE)}\n"


def test_a_secret_counts_by_its_name(hf, act):
    """A rotated value is the same command; another name, or plain text, is another one."""

    def digest_of(value: object) -> str:
        run = hf.start(act(lambda: command(["true"], env={"K": value})))
        run.result()
        (started,) = [one for one in hf.events(run.id) if one.type == "StepStarted"]
        return started.data["digest"]

    same = digest_of(Secret("token", "yesterday's"))
    assert same == digest_of(Secret("token", "today's"))
    assert len({same, digest_of(Secret("other", "today's")), digest_of("today's"), digest_of("more")}) == 4


def test_plain_text_of_commands_is_redacted_in_the_log(hf, act):
    """A key that somebody passes as plain text is not kept in the log, but counts for the identity."""
    words = ["sh", "-c", "true", "sh", "Authorization: Bearer abcdef0123456789abcdef"]
    run = hf.start(act(lambda: command(words, env={"API_KEY": "plain-value-99", "MODE": "fast"}).argv))
    assert run.result()[-1] == "Authorization: Bearer [redacted:authorization]"
    (started,) = [one for one in hf.events(run.id) if one.type == "StepStarted"]
    assert started.data["args"]["env"] == {"API_KEY": "[redacted:secret]", "MODE": "fast"}
    assert b"plain-value-99" not in stored(hf) and b"abcdef0123456789" not in stored(hf)


def test_an_error_with_a_revealed_secret_is_redacted(hf, act):
    """What a step fails with may hold the value: it is known from the moment the Secret was made."""

    @step
    def ask(token: Secret) -> None:
        raise ValueError(f"GET https://host/?q={token.reveal()} failed")

    with pytest.raises(ValueError, match="redacted"):
        hf.with_id("r").run(act(lambda: ask(secret())))
    assert VALUE.encode() not in stored(hf)


REFUSED = {
    "a step's result": lambda: step(secret)(),
    "a value in a result": lambda: step(lambda: {"a": [secret()]}, name="give")(),
    "what is emitted": lambda: emit("n", secret()),
    "what is shown": lambda: approval("title", show=[secret()]),
    "a title": lambda: approval(secret()),
    "a checkpoint": lambda: checkpoint(secret()),
    "a signal's name": lambda: wait_for(secret()),
    "a patch": lambda: patched(secret()),
    "a time": lambda: sleep(secret()),
    "a key": lambda: step(len, name="n").with_key(secret())("x"),
    "a program": lambda: command([secret()]),
    "a name": lambda: command(["true"], name=secret()),
    "a directory": lambda: command(["true"], cwd=secret()),
    "a variable": lambda: command(["true"], env={secret(): "x"}),
    "a pattern": lambda: command(["true"], writes=[secret()]),
    "a limit": lambda: command(["true"], timeout=secret()),
}


@pytest.mark.parametrize("place", REFUSED)
def test_a_secret_is_refused_where_it_would_be_stored(hf, act, place):
    """Each place that keeps or shows what it is given says that it takes no secret."""
    with pytest.raises((BadInput, NotStorable), match=r"Secret\('token'\)|secret:token"):
        hf.with_id("r").run(act(lambda: REFUSED[place]()))
    assert VALUE.encode() not in stored(hf)


def test_arguments_of_workflows_and_signals_take_no_secret(hf, act):
    """They are stored to be given again."""
    child = act(lambda *_: 1, "child")
    calls = [
        lambda: hf.run(act(lambda *_: 1), secret()),
        lambda: hf.run(act(lambda: child(secret()))),
        lambda: hf.run(act(secret)),
        lambda: hf.signal("r", "go", secret()),
        lambda: hf.signal("r", secret(), 1),
        lambda: hf.with_id(secret()),
    ]
    hf.with_id("r").run(act(lambda: 1))
    for call in calls:
        with pytest.raises(HoldfastError, match=r"Secret\('token'\)|secret:token"):
            call()
    assert VALUE.encode() not in stored(hf)


@pytest.mark.parametrize(
    ("argv", "env", "said"),
    [
        (["true", object()], {}, "a word of the command must be text or a Secret"),
        (["true"], {"K": ["x"]}, "the variable K must be text or a Secret"),
        (["true"], {"K": None}, "the variable K must be text or a Secret"),
    ],
)
def test_what_no_program_takes_is_refused(hf, act, argv, env, said):
    """The text of some object is never handed to a program in place of a value."""
    with pytest.raises(BadInput, match=said):
        hf.run(act(lambda: command(argv, env=env)))


def test_every_redactor_knows_secrets(monkeypatch):
    """A redactor that was there before hides a Secret that is made later, in JSON and in URLs too."""
    redactor = Redactor()
    Secret("later", 'a "quoted" value')
    assert redactor.redact('x a "quoted" value y') == "x [redacted] y"
    assert redactor.redact(r"x a \"quoted\" value y") == "x [redacted] y"
    assert redactor.redact("x a%20%22quoted%22%20value y") == "x [redacted] y"
    assert redactor.longest >= len('a "quoted" value')
