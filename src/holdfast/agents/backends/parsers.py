"""Parsers of the output of CLI agents: the answer, the session, the usage, and why it failed.

Each CLI prints one JSON object per line. `feed` takes a line as the command printed it, redacted, and
returns the usage that this line adds. A line that is no JSON object, or has a value of the wrong kind, is
passed over: programs print other things, too, and versions differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, Literal, get_args

import msgspec

from holdfast.kernel.measures import Measured

Parse = Literal["claude", "codex", "opencode", "gemini", "none"]
PARSERS: Final[tuple[str, ...]] = get_args(Parse)
TEXT_LIMIT: Final = 64 << 10
"""So many characters of an answer are kept, its end."""
_PIECE: Final = 64 << 10
"""A longer line comes in pieces of this length (`on_line` of `command`)."""
_LONGEST_LINE: Final = 8 << 20
_MOST_TOKENS: Final = 1 << 53
_DECODER: Final = msgspec.json.Decoder(float_hook=Decimal)


class AgentOutput:
    """The answer, session and cost in the output of an agent so far. Lines of another form are skipped.

    session  the agent's own id of the conversation
    text     its answer, the last 64 KB of it
    said     what the last line says to a person: a text of the agent, or a line that is no JSON object
    failure  why it says that it has failed; empty if it has not
    """

    def __init__(self) -> None:
        self.session = ""
        self.text = ""
        self.said = ""
        self.failure = ""
        self._pieces: list[str] = []
        self._size = 0

    def feed(self, line: str) -> tuple[Measured, ...]:
        """Take a line, or a piece of a long one. Returns the usage that it adds, one for each model."""
        whole = self._joined(line)
        self.said = whole
        if not whole.lstrip().startswith("{"):
            return ()
        try:
            data = _DECODER.decode(whole)
        except (msgspec.DecodeError, RecursionError, ValueError):
            return ()
        if not isinstance(data, dict):
            return ()
        self.said = ""
        return tuple(self._take(data))

    def _joined(self, line: str) -> str:
        """The line, once it is whole; empty until then. One that is too long is dropped."""
        if len(line) < _PIECE and not self._pieces:
            return line
        self._size += len(line)
        if self._size <= _LONGEST_LINE:
            self._pieces.append(line)
        if len(line) >= _PIECE:
            return ""
        whole = "".join(self._pieces) if self._size <= _LONGEST_LINE else ""
        self._pieces, self._size = [], 0
        return whole

    def _take(self, data: dict[str, Any]) -> Iterator[Measured]:  # noqa: ARG002
        """The usage in one object."""
        yield from ()

    def _answer(self, text: object) -> None:
        if isinstance(text, str):
            self.text = text[-TEXT_LIMIT:]

    def _fail(self, why: object, otherwise: str) -> None:
        """`why` is the agent's own message, as text or in one of the objects that CLIs wrap it in."""
        found = why
        while isinstance(found, Mapping):
            found = found.get("message") or found.get("data") or found.get("name")
        lines = found.strip().splitlines() if isinstance(found, str) else []
        self.failure = (lines[0] if lines else otherwise)[:1000]


class _Plain(AgentOutput):
    """Output without a form: a person sees it as it is."""

    def feed(self, line: str) -> tuple[Measured, ...]:
        self.said = line
        return ()


class _Claude(AgentOutput):
    """`claude -p --output-format stream-json --verbose`. Its `result` has sums over the whole session."""

    def __init__(self) -> None:
        super().__init__()
        self._counted: dict[str, Measured] = {}

    def _take(self, data: dict[str, Any]) -> Iterator[Measured]:
        self.session = _text(data.get("session_id")) or self.session
        if data.get("type") == "assistant":
            content = _mapping(data.get("message")).get("content")
            parts = map(_mapping, content if isinstance(content, list) else ())
            self.said = "\n".join(filter(None, (_text(part.get("text")) for part in parts)))
        if data.get("type") != "result":
            return
        self._answer(data.get("result"))
        if data.get("is_error") is True:
            errors = data.get("errors")
            why = errors[0] if isinstance(errors, list) and errors else data.get("result")
            self._fail(why, _text(data.get("subtype")) or "it reported an error")
        for now in self._sums(data):
            before = self._counted.get(now.model, Measured(now.model))
            self._counted[now.model] = now
            yield _difference(now, before)

    def _sums(self, data: dict[str, Any]) -> Iterator[Measured]:
        models = _mapping(data.get("modelUsage"))
        for model, usage in models.items():
            used = _mapping(usage)
            tokens = sum(
                _tokens(used.get(key))
                for key in ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
            )
            yield Measured(str(model), tokens, _tokens(used.get("outputTokens")), _usd(used.get("costUSD")))
        total = _usd(data.get("total_cost_usd"))
        if not models and total is not None:
            used = _mapping(data.get("usage"))
            yield Measured("", _tokens(used.get("input_tokens")), _tokens(used.get("output_tokens")), total)


class _Codex(AgentOutput):
    """`codex exec --json`. It says nothing of money."""

    def _take(self, data: dict[str, Any]) -> Iterator[Measured]:
        kind = data.get("type")
        if kind == "thread.started":
            self.session = _text(data.get("thread_id"))
        elif kind == "item.completed":
            item = _mapping(data.get("item"))
            if item.get("type") == "agent_message":
                self._answer(item.get("text"))
                self.said = _text(item.get("text"))
        elif kind == "turn.failed":
            self._fail(data.get("error"), "its turn failed")
        elif kind == "turn.completed":
            used = _mapping(data.get("usage"))
            yield Measured("", _tokens(used.get("input_tokens")), _tokens(used.get("output_tokens")))


class _OpenCode(AgentOutput):
    """`opencode run --format json`. Each step of the model has its own cost."""

    def __init__(self) -> None:
        super().__init__()
        self._message = ""

    def _take(self, data: dict[str, Any]) -> Iterator[Measured]:
        self.session = _text(data.get("sessionID")) or self.session
        part = _mapping(data.get("part"))
        kind = data.get("type")
        if kind == "text":
            message = _text(part.get("messageID"))
            before = f"{self.text}\n" if self.text and message == self._message else ""
            self._message = message
            self._answer(before + _text(part.get("text")))
            self.said = _text(part.get("text"))
        elif kind == "error":
            self._fail(data.get("error"), "it reported an error")
        elif kind == "step_finish":
            tokens = _mapping(part.get("tokens"))
            cached = _mapping(tokens.get("cache"))
            given = _tokens(tokens.get("input")) + _tokens(cached.get("read")) + _tokens(cached.get("write"))
            made = _tokens(tokens.get("output")) + _tokens(tokens.get("reasoning"))
            yield Measured("", given, made, _usd(part.get("cost")))


class _Gemini(AgentOutput):
    """`gemini --output-format stream-json`. It says nothing of money."""

    def __init__(self) -> None:
        super().__init__()
        self._speaks = False

    def _take(self, data: dict[str, Any]) -> Iterator[Measured]:
        kind = data.get("type")
        self.session = _text(data.get("session_id")) or self.session
        if kind == "message" and data.get("role") == "assistant":
            self._answer((self.text if self._speaks else "") + _text(data.get("content")))
            self._speaks = True
            return
        if self._speaks:  # a message comes in pieces, which end anywhere
            self._speaks, self.said = False, self.text
        if kind == "result":
            if data.get("status") == "error":
                self._fail(data.get("error"), "it reported an error")
            for model, usage in _mapping(_mapping(data.get("stats")).get("models")).items():
                used = _mapping(usage)
                given, made = _tokens(used.get("input_tokens")), _tokens(used.get("output_tokens"))
                if given or made:
                    yield Measured(str(model), given, made)


_CLASSES: Final[dict[str, type[AgentOutput]]] = {
    "claude": _Claude, "codex": _Codex, "opencode": _OpenCode, "gemini": _Gemini, "none": _Plain,
}  # fmt: skip


def output_of(parse: str) -> AgentOutput:
    """A parser of this name, which has seen nothing yet."""
    return _CLASSES[parse]()


def _difference(now: Measured, before: Measured) -> Measured:
    """The usage since an earlier sum of the same model."""
    usd = None if now.usd is None else max(Decimal(0), now.usd - (before.usd or 0))
    return Measured(
        now.model,
        max(0, now.input_tokens - before.input_tokens),
        max(0, now.output_tokens - before.output_tokens),
        usd,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _tokens(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_TOKENS:
        return 0
    return value


def _usd(value: object) -> Decimal | None:
    """A price, to the billionth of a dollar: the CLIs add floats."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    price = Decimal(value)
    if not price.is_finite() or not 0 <= price < 10**9:
        return None
    return round(price, 9).normalize()
