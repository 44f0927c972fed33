"""The wire protocols of model providers, from the server's side: OpenAI chat completions, Anthropic messages
and OpenAI responses. Each reads how far a conversation has come and writes answers, plain or as a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

Json = dict[str, Any]


class WireCall(NamedTuple):
    """A tool call of an answer, with its final id."""

    id: str
    name: str
    arguments: Json


class WireAnswer(NamedTuple):
    """An answer of the model, ready to be written."""

    number: int
    model: str
    text: str
    calls: Sequence[WireCall]
    input_tokens: int
    output_tokens: int


class Seen(NamedTuple):
    """The conversation as the request shows it: the ids of answered tool calls and the model's texts."""

    results: list[str]
    texts: list[str]
    has_tools: bool


class SseEvent(NamedTuple):
    """One event of a stream; `name` is empty where the protocol has none."""

    name: str
    data: Json | str

    def encode(self) -> bytes:
        data = self.data if isinstance(self.data, str) else json.dumps(self.data)
        return (f"event: {self.name}\n" if self.name else "").encode() + f"data: {data}\n\n".encode()


class WireProtocol(Protocol):
    """One protocol. `path` is how the address of a request ends."""

    name: str
    path: str

    def seen(self, body: Mapping[str, Any]) -> Seen: ...
    def plain(self, answer: WireAnswer) -> Json: ...
    def stream(self, answer: WireAnswer, piece: int) -> Iterator[SseEvent]: ...
    def error(self, kind: str, message: str) -> Json: ...


def _pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)] or [""]


def _objects(value: Any) -> Iterator[Json]:
    """The objects of a list that came over the wire; anything else is left out."""
    for one in value if isinstance(value, list) else ():
        if isinstance(one, dict):
            yield one


def _texts(content: Any) -> Iterator[str]:
    """The texts of a message: a plain text, or a list of parts that have one."""
    if isinstance(content, str):
        yield content
    for part in _objects(content):
        if isinstance(part.get("text"), str):
            yield part["text"]


class OpenAiChat:
    """`POST /v1/chat/completions`."""

    name = "openai-chat"
    path = "/chat/completions"

    def seen(self, body: Mapping[str, Any]) -> Seen:
        results: list[str] = []
        texts: list[str] = []
        for message in _objects(body.get("messages")):
            if message.get("role") == "tool":
                results.append(str(message.get("tool_call_id")))
            elif message.get("role") == "assistant":
                texts += _texts(message.get("content"))
        return Seen(results, texts, bool(body.get("tools")))

    def _usage(self, answer: WireAnswer) -> Json:
        total = answer.input_tokens + answer.output_tokens
        return {
            "prompt_tokens": answer.input_tokens,
            "completion_tokens": answer.output_tokens,
            "total_tokens": total,
        }

    def plain(self, answer: WireAnswer) -> Json:
        message: Json = {"role": "assistant", "content": answer.text or None}
        if answer.calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
                }
                for call in answer.calls
            ]
        end = "tool_calls" if answer.calls else "stop"
        return {
            "id": f"chatcmpl-{answer.number}",
            "object": "chat.completion",
            "created": 1_893_456_000,
            "model": answer.model,
            "choices": [{"index": 0, "message": message, "finish_reason": end}],
            "usage": self._usage(answer),
        }

    def stream(self, answer: WireAnswer, piece: int) -> Iterator[SseEvent]:
        base = {
            "id": f"chatcmpl-{answer.number}",
            "object": "chat.completion.chunk",
            "created": 1_893_456_000,
            "model": answer.model,
        }

        def delta(changed: Json, end: str | None = None) -> SseEvent:
            return SseEvent(
                "", {**base, "choices": [{"index": 0, "delta": changed, "finish_reason": end}], "usage": None}
            )

        yield delta({"role": "assistant", "content": ""})
        if answer.text:
            for part in _pieces(answer.text, piece):
                yield delta({"content": part})
        for index, call in enumerate(answer.calls):
            head = {"index": index, "id": call.id, "type": "function"}
            yield delta({"tool_calls": [{**head, "function": {"name": call.name, "arguments": ""}}]})
            for part in _pieces(json.dumps(call.arguments), piece):
                yield delta({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
        yield delta({}, "tool_calls" if answer.calls else "stop")
        yield SseEvent("", {**base, "choices": [], "usage": self._usage(answer)})
        yield SseEvent("", "[DONE]")

    def error(self, kind: str, message: str) -> Json:
        return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


class AnthropicMessages:
    """`POST /v1/messages`."""

    name = "anthropic"
    path = "/messages"

    def seen(self, body: Mapping[str, Any]) -> Seen:
        results: list[str] = []
        texts: list[str] = []
        for message in _objects(body.get("messages")):
            if message.get("role") == "assistant":
                texts += _texts(message.get("content"))
            for part in _objects(message.get("content")):
                if part.get("type") == "tool_result":
                    results.append(str(part.get("tool_use_id")))
        return Seen(results, texts, bool(body.get("tools")))

    def _blocks(self, answer: WireAnswer) -> list[Json]:
        blocks: list[Json] = [{"type": "text", "text": answer.text}] if answer.text else []
        return blocks + [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
            for call in answer.calls
        ]

    def plain(self, answer: WireAnswer) -> Json:
        return {
            "id": f"msg_{answer.number}",
            "type": "message",
            "role": "assistant",
            "model": answer.model,
            "content": self._blocks(answer),
            "stop_reason": "tool_use" if answer.calls else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens},
        }

    def stream(self, answer: WireAnswer, piece: int) -> Iterator[SseEvent]:
        whole = self.plain(answer)
        usage = {"input_tokens": answer.input_tokens, "output_tokens": 1}
        yield self._event(
            "message_start", message={**whole, "content": [], "stop_reason": None, "usage": usage}
        )
        for index, block in enumerate(self._blocks(answer)):
            is_text = block["type"] == "text"
            empty = {**block, "text": ""} if is_text else {**block, "input": {}}
            yield self._event("content_block_start", index=index, content_block=empty)
            for part in _pieces(block["text"] if is_text else json.dumps(block["input"]), piece):
                delta = (
                    {"type": "text_delta", "text": part}
                    if is_text
                    else {"type": "input_json_delta", "partial_json": part}
                )
                yield self._event("content_block_delta", index=index, delta=delta)
            yield self._event("content_block_stop", index=index)
        end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield self._event("message_delta", delta=end, usage={"output_tokens": answer.output_tokens})
        yield self._event("message_stop")

    def _event(self, kind: str, **fields: Any) -> SseEvent:
        return SseEvent(kind, {"type": kind, **fields})

    def error(self, kind: str, message: str) -> Json:
        return {"type": "error", "error": {"type": kind, "message": message}}


class OpenAiResponses:
    """`POST /v1/responses`."""

    name = "openai-responses"
    path = "/responses"

    def seen(self, body: Mapping[str, Any]) -> Seen:
        results: list[str] = []
        texts: list[str] = []
        for item in _objects(body.get("input")):
            if str(item.get("type", "")).endswith("_call_output"):
                results.append(str(item.get("call_id")))
            elif item.get("role") == "assistant":
                texts += _texts(item.get("content"))
        return Seen(results, texts, bool(body.get("tools")))

    def _items(self, answer: WireAnswer) -> list[Json]:
        items: list[Json] = []
        if answer.text:
            part = {"type": "output_text", "text": answer.text, "annotations": []}
            items.append(
                {
                    "type": "message",
                    "id": f"msg_{answer.number}",
                    "role": "assistant",
                    "status": "completed",
                    "content": [part],
                }
            )
        for index, call in enumerate(answer.calls):
            items.append(
                {
                    "type": "function_call",
                    "id": f"fc_{answer.number}_{index}",
                    "call_id": call.id,
                    "name": call.name,
                    "arguments": json.dumps(call.arguments),
                    "status": "completed",
                }
            )
        return items

    def plain(self, answer: WireAnswer) -> Json:
        return {
            "id": f"resp_{answer.number}",
            "object": "response",
            "created_at": 1_893_456_000,
            "status": "completed",
            "model": answer.model,
            "output": self._items(answer),
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": answer.input_tokens,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": answer.output_tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": answer.input_tokens + answer.output_tokens,
            },
        }

    def stream(self, answer: WireAnswer, piece: int) -> Iterator[SseEvent]:
        whole = self.plain(answer)
        written = 0

        def event(kind: str, **fields: Any) -> SseEvent:
            nonlocal written
            written += 1
            return SseEvent(kind, {"type": kind, "sequence_number": written - 1, **fields})

        yield event(
            "response.created", response={**whole, "status": "in_progress", "output": [], "usage": None}
        )
        for index, item in enumerate(whole["output"]):
            where = {"output_index": index, "item_id": item["id"]}
            if item["type"] == "message":
                begun = {**item, "status": "in_progress", "content": []}
                yield event("response.output_item.added", output_index=index, item=begun)
                (part,) = item["content"]
                where["content_index"] = 0
                yield event("response.content_part.added", **where, part={**part, "text": ""})
                for text in _pieces(part["text"], piece):
                    yield event("response.output_text.delta", **where, delta=text, logprobs=[])
                yield event("response.output_text.done", **where, text=part["text"], logprobs=[])
                yield event("response.content_part.done", **where, part=part)
            else:
                begun = {**item, "status": "in_progress", "arguments": ""}
                yield event("response.output_item.added", output_index=index, item=begun)
                for text in _pieces(item["arguments"], piece):
                    yield event("response.function_call_arguments.delta", **where, delta=text)
                yield event(
                    "response.function_call_arguments.done",
                    **where,
                    name=item["name"],
                    arguments=item["arguments"],
                )
            yield event("response.output_item.done", output_index=index, item=item)
        yield event("response.completed", response=whole)

    def error(self, kind: str, message: str) -> Json:
        return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


PROTOCOLS: Sequence[WireProtocol] = (OpenAiChat(), AnthropicMessages(), OpenAiResponses())
