"""Parsers of CLI agents, on output that the real programs printed (tests/agents/captured), and on rubbish."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from holdfast.agents.backends import parsers
from holdfast.kernel.measures import Measured, added

CAPTURED = Path(__file__).parent / "captured"
CLIS = ("claude", "codex", "opencode", "gemini")


def read(parse: str, name: str) -> tuple[parsers.AgentOutput, tuple[Measured, ...]]:
    output = parsers.output_of(parse)
    lines = (CAPTURED / f"{name}.jsonl").read_text().splitlines()
    return output, added((), (one for line in lines for one in output.feed(line)))


@pytest.mark.parametrize("cli", CLIS)
def test_a_person_sees_what_the_agent_says(cli: str) -> None:
    """The texts of the agent once, and lines that are no JSON; neither tools nor accounts."""
    output = parsers.output_of(cli)
    said = []
    for line in ["Loading", *(CAPTURED / f"{cli}.jsonl").read_text().splitlines()]:
        output.feed(line)
        said.append(output.said)
    assert [one for one in said if one] == ["Loading", "All done."]


@pytest.mark.parametrize(
    ("cli", "session", "measured"),
    [
        (
            "claude",
            "f4b25264-cd39-4de7-947a-cb4d906cabe3",
            (Measured("claude-sonnet-4-5", 300, 60, Decimal("0.0018")),),
        ),
        ("codex", "01a1ec9b-fb96-7c91-a45a-c58a1951da78", (Measured("", 200, 40),)),
        ("opencode", "ses_e1363f682ffefFygV8siwMXqpv", (Measured("", 300, 60, Decimal("0.0018")),)),
        ("gemini", "437cf46f-f0fa-47be-809c-e0229f7861a5", (Measured("gemini-2.5-pro", 200, 40),)),
    ],
)
def test_a_session_that_ended_well(cli: str, session: str, measured: tuple[Measured, ...]) -> None:
    """Answer, session, tokens and cost are those that the program printed; sums of floats are rounded."""
    output, found = read(cli, cli)
    assert (output.text, output.session, output.failure, found) == ("All done.", session, "", measured)


@pytest.mark.parametrize(
    ("cli", "failure"),
    [
        ("claude", "Reached maximum number of turns (1)"),
        ("codex", "unexpected status 401 Unauthorized: invalid key, url: http://127.0.0.1:"),
        ("opencode", "invalid key"),
        ("gemini", '[API Error: {"type":"error","error":{"type":"authentication_error"'),
    ],
)
def test_a_session_that_failed(cli: str, failure: str) -> None:
    """The reason is the program's own sentence; what the failed session cost still counts."""
    output, found = read(cli, f"{cli}-failed")
    assert output.failure.startswith(failure)
    assert output.session
    assert found == ((Measured("claude-sonnet-4-5", 100, 20, Decimal("0.0006")),) if cli == "claude" else ())


def test_codex_that_reconnects_has_not_failed() -> None:
    """An `error` line is said before each new try; only the end of the turn is a failure."""
    lines = (CAPTURED / "codex-failed.jsonl").read_text().splitlines()
    output = parsers.output_of("codex")
    for line in lines[:-1]:
        output.feed(line)
    assert output.failure == ""


def test_a_long_line_comes_in_pieces() -> None:
    """`on_line` cuts a line of more than 64 KB; the pieces are joined, and the end of the answer is kept."""
    text = "x" * 150_000 + "the end"
    line = msgspec.json.encode({"type": "result", "result": text, "session_id": "s"}).decode()
    output = parsers.output_of("claude")
    size = 64 << 10
    for start in range(0, len(line), size):
        output.feed(line[start : start + size])
    assert output.text == text[-parsers.TEXT_LIMIT :]
    assert output.feed('{"type": "result", "result": "next"}') == ()
    assert output.text == "next"


def test_a_line_without_an_end_takes_no_memory() -> None:
    """Pieces beyond 8 MB are dropped, and the line after them is read."""
    output = parsers.output_of("claude")
    for _ in range(400):
        output.feed("{" * (64 << 10))
    assert sum(map(len, output._pieces)) <= 8 << 20
    output.feed("}")
    output.feed('{"type": "result", "result": "after"}')
    assert output.text == "after"


def test_sums_that_are_printed_twice_count_once() -> None:
    """A `result` of claude has sums over the session: a second one adds what was used since."""
    output = parsers.output_of("claude")
    line = '{"type":"result","modelUsage":{"m":{"inputTokens":%d,"outputTokens":1,"costUSD":%s}}}'
    first = output.feed(line % (10, "0.5"))
    second = output.feed(line % (15, "0.75"))
    assert (first, second) == (
        (Measured("m", 10, 1, Decimal("0.5")),),
        (Measured("m", 5, 0, Decimal("0.25")),),
    )


@pytest.mark.parametrize("cli", parsers.PARSERS)
@pytest.mark.parametrize(
    "line",
    [
        "", "Reading prompt from stdin...", "{", "[1]", "null", "{" * 5000, '{"type": 1}',
        '{"type": "result"}',
        '{"type":"result","modelUsage":[1],"total_cost_usd":"free","usage":7,"result":{},"is_error":true}',
        '{"type":"result","modelUsage":{"m":{"inputTokens":-5,"outputTokens":1e400,"costUSD":-1}}}',
        '{"type":"result","modelUsage":{"m":{"inputTokens":true,"outputTokens":"9","costUSD":1e999999}}}',
        '{"type":"item.completed","item":[]}', '{"type":"turn.completed","usage":null}',
        '{"type":"turn.failed","error":{"message":{"message":{}}}}', '{"type":"error","error":[]}',
        '{"type":"step_finish","part":{"tokens":{"cache":3},"cost":NaN}}',
        '{"type":"text","part":{"text":5}}',
        '{"type":"result","stats":{"models":{"m":null}}}', "\x00\x1b[31m", '{"type": "r\ud800"}',
    ],
)  # fmt: skip
def test_rubbish_is_passed_over(cli: str, line: str) -> None:
    """No line raises, and none adds an amount that a measure refuses."""
    output = parsers.output_of(cli)
    for one in output.feed(line):
        assert one.input_tokens >= 0
        assert one.output_tokens >= 0
        assert one.usd is None or (one.usd.is_finite() and one.usd >= 0)
    assert isinstance(output.text, str)
    assert isinstance(output.session, str)


KEYS = (
    "type", "result", "modelUsage", "usage", "session_id", "is_error", "errors", "item", "error", "part",
    "cost", "tokens", "stats", "models", "message", "total_cost_usd", "input_tokens", "thread_id",
    "sessionID", "text", "costUSD", "inputTokens", "cache", "status", "role", "content", "data", "name",
)  # fmt: skip
TYPES = (
    "result", "item.completed", "turn.completed", "turn.failed", "thread.started", "text", "error",
    "step_finish", "message",
)  # fmt: skip
SCALARS = (None, True, 0, 7, -1, 2**70, 0.5, -0.25, "", "a", "error", "assistant")


def any_value(random: Random, depth: int) -> Any:
    kind = random.randrange(4) if depth else 0
    if kind == 1:
        return [any_value(random, depth - 1) for _ in range(random.randrange(3))]
    if kind > 1:
        return {key: any_value(random, depth - 1) for key in random.sample(KEYS, random.randrange(6))}
    return random.choice(SCALARS)


@pytest.mark.parametrize("cli", CLIS)
def test_any_object_is_read(cli: str) -> None:
    """Objects whose values have any shape raise nothing, and their amounts can be measured."""
    random = Random(7)
    for _ in range(3000):
        output = parsers.output_of(cli)
        for _ in range(2):
            value = any_value(random, 3)
            line = json.dumps({**(value if isinstance(value, dict) else {}), "type": random.choice(TYPES)})
            for one in output.feed(line):
                assert isinstance(one.model, str)
                assert min(one.input_tokens, one.output_tokens) >= 0
                assert one.usd is None or (one.usd.is_finite() and one.usd >= 0)
        assert len(output.text) <= parsers.TEXT_LIMIT
        assert len(output.failure) <= 1000
