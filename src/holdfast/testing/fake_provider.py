"""`FakeProvider`: a model provider on the loopback interface whose answers and faults a test writes down.

    with FakeProvider(
        [ToolCall("read", {"path": "a.py"}), [ToolCall("read", {"path": "b.py"}), ToolCall("list")], "done"],
        faults={2: Fault(status=429, retry_after_s=1)},
    ) as provider:
        client = openai.OpenAI(base_url=provider.openai_url, api_key="any")
        ...
        assert [request.turn for request in provider.requests] == [0, 1, 1, 2]

It speaks OpenAI chat completions, OpenAI responses and Anthropic messages, plain and as a stream.
From a shell:

    python -m holdfast.testing.fake_provider SCRIPT.json --log requests.jsonl

prints its address. SCRIPT.json is `{"turns": [...], "faults": {...}}`, or the list of turns alone; a turn
is a text, `{"tool": NAME, "arguments": {...}}`, a list of these, or an object with the fields of `Answer`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import msgspec

from holdfast import typed_values
from holdfast.testing.wire_protocols import PROTOCOLS, Seen, WireAnswer, WireCall, WireProtocol

__all__ = ["Answer", "FakeProvider", "Fault", "ProviderRequest", "ToolCall"]

HELD_S = 60.0
"""A request that hangs is let go after so long, whatever the test does."""


class ToolCall(msgspec.Struct, frozen=True):
    """A call of a tool that the model asks for. Without an `id` it gets `call_TURN_INDEX`."""

    tool: str
    arguments: dict[str, Any] = {}
    id: str = ""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of the model: a text, tool calls, or both. `delay_s` passes before it is sent."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    input_tokens: int = 100
    output_tokens: int = 20
    delay_s: float = 0.0


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that a request meets instead of its answer.

    status         an HTTP error: 401 (bad key), 404 (no such model), 429, 500, 529, ...
    retry_after_s  the header `retry-after` of that error
    hang           no answer at all, until the client goes away, `release()`, or the provider is closed
    cut            the answer breaks off in the middle, and the connection is closed; with `hang`, after that
    """

    status: int = 0
    retry_after_s: float | None = None
    hang: bool = False
    cut: bool = False


class ProviderRequest(msgspec.Struct, kw_only=True):
    """A request as it came. `turn` is the answer of the script that it asks for, None if it asks for none;
    `conversation` is the text by which that script was chosen; `status` is what was answered, 0 until then;
    `whole` says that the answer was written to its end, `held` that it hangs, or hung."""

    number: int
    protocol: str
    path: str
    model: str
    stream: bool
    turn: int | None
    idempotency_key: str
    body: dict[str, Any]
    headers: dict[str, str]
    conversation: str = ""
    status: int = 0
    whole: bool = False
    held: bool = False


Turn = Answer | ToolCall | str | Sequence[ToolCall]


class FakeProvider:
    """A server in a thread of its own, from `__enter__` to `__exit__`. Thread-safe.

    turns       the answers in order. Which one a request gets is read from the conversation in it, so a
                request that is sent again gets the same answer, and conversations do not disturb each other.
                A text at the end is repeated; after tool calls at the end, requests fail with 400
    conversations  other answers for a conversation that has this text in it; the first that fits counts
    faults      a fault for the request with this number (the first is 1), or for every request of this model
                or with this idempotency key
    key         requests with another key are answered with 401; empty accepts every key
    models      requests for other models are answered with 404; None accepts every model
    delay_s     passes before each answer, and `piece_delay_s` before each event of a stream
    piece       characters in each event of a stream
    side_text   the answer to requests without tools (titles and summaries that programs ask for); None
                answers them by the script too
    log         a file that gets a line of JSON for each request, without keys

    `requests` has all requests so far.
    """

    def __init__(
        self,
        turns: Sequence[Turn] = ("done",),
        *,
        conversations: Mapping[str, Sequence[Turn]] | None = None,
        faults: Mapping[int | str, Fault] | None = None,
        key: str = "",
        models: Sequence[str] | None = None,
        delay_s: float = 0.0,
        piece_delay_s: float = 0.0,
        piece: int = 8,
        side_text: str | None = None,
        log: str | Path | None = None,
        port: int = 0,
    ) -> None:
        self.turns = _answers(turns)
        self.conversations = {text: _answers(own) for text, own in (conversations or {}).items()}
        self.faults = dict(faults or {})
        self.key = key
        self.models = models
        self.delay_s = delay_s
        self.piece_delay_s = piece_delay_s
        self.piece = piece
        self.side_text = side_text
        self.requests: list[ProviderRequest] = []
        self._log = None if log is None else Path(log)
        self._port = port
        self._lock = threading.Condition()
        self._released = threading.Event()
        self._server: _Server | None = None

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", self._port), self)
        threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.05},
            name="fake-provider",
            daemon=True,
        ).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    @property
    def url(self) -> str:
        """The address of the server, which is the base address for Anthropic's client."""
        assert self._server is not None, "the provider is not open: use it in a `with` block"
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def openai_url(self) -> str:
        """The base address for OpenAI's client."""
        return f"{self.url}/v1"

    def release(self) -> None:
        """Let go of all requests that hang, and of those that would."""
        self._released.set()

    def wait_for(self, which: int | str, timeout_s: float = 30.0, *, held: bool = False) -> ProviderRequest:
        """The request with this number, or the first one with this idempotency key, once it has come. With
        `held`, once it hangs: what `cut` lets through of its answer is written then."""

        def came() -> ProviderRequest | None:
            found = (one for one in self.requests if which in (one.number, one.idempotency_key))
            return next((one for one in found if one.held or not held), None)

        with self._lock:
            request = self._lock.wait_for(came, timeout_s)
            if request is None:
                raise TimeoutError(f"only {len(self.requests)} requests came in {timeout_s:g} s")
            return request

    # What the handler asks

    def take(
        self, protocol: WireProtocol, path: str, body: dict[str, Any], headers: dict[str, str]
    ) -> _Reply:
        """Number and record a request, and decide what becomes of it."""
        seen = protocol.seen(body)
        said = json.dumps(body, ensure_ascii=False)
        conversation = next((text for text in self.conversations if text in said), "")
        turns = self._turns(conversation)
        turn = None if self.side_text is not None and not seen.has_tools else _turn(turns, seen)
        model = str(body.get("model", ""))
        with self._lock:
            request = ProviderRequest(
                number=len(self.requests) + 1,
                protocol=protocol.name,
                path=path,
                model=model,
                stream=bool(body.get("stream")),
                turn=turn,
                idempotency_key=headers.get("idempotency-key", ""),
                body=body,
                headers=headers,
                conversation=conversation,
            )
            self.requests.append(request)
            self._write(request)
            self._lock.notify_all()
        fault = (
            self.faults.get(request.number)
            or self.faults.get(request.idempotency_key)
            or self.faults.get(model)
        )
        if fault is None:
            fault = self._refusal(request)
        return _Reply(request, self._wire(request), fault)

    def _turns(self, conversation: str) -> list[Answer]:
        return self.conversations.get(conversation, self.turns)

    def _refusal(self, request: ProviderRequest) -> Fault | None:
        """The reason why the request itself is refused; empty if it is not."""
        sent = request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix(
            "Bearer "
        )
        if self.key and sent != self.key:
            return Fault(status=401)
        if self.models is not None and request.model not in self.models:
            return Fault(status=404)
        turns = self._turns(request.conversation)
        return Fault(status=400) if request.turn is not None and request.turn >= len(turns) else None

    def _wire(self, request: ProviderRequest) -> tuple[WireAnswer, float]:
        turns = self._turns(request.conversation)
        if request.turn is None:
            said = Answer(text=self.side_text or "")
        elif request.turn < len(turns):
            said = turns[request.turn]
        else:
            said = Answer()
        calls = [
            WireCall(call.id or f"call_{request.turn}_{index}", call.tool, call.arguments)
            for index, call in enumerate(said.calls)
        ]
        answer = WireAnswer(
            request.number, request.model, said.text, calls, said.input_tokens, said.output_tokens
        )
        return answer, said.delay_s + self.delay_s

    def _write(self, request: ProviderRequest) -> None:
        if self._log is None:
            return
        fields = msgspec.to_builtins(request)
        for name in ("status", "whole", "held"):
            del fields[name]
        for name in ("authorization", "x-api-key", "cookie"):
            if name in request.headers:
                fields["headers"] = {**fields["headers"], name: "(left out)"}
        with self._log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(fields) + "\n")

    def hold(self, request: ProviderRequest, client: socket.socket) -> None:
        """Wait until the client goes away or `release` is called."""
        with self._lock:
            request.held = True
            self._lock.notify_all()
        ends = time.monotonic() + HELD_S
        client.settimeout(0.05)
        while not self._released.is_set() and time.monotonic() < ends:
            try:
                if not client.recv(1, socket.MSG_PEEK):
                    return
                self._released.wait(0.05)  # it sends more meanwhile; that is not read
            except TimeoutError:
                continue
            except OSError:
                return


class _Reply(msgspec.Struct):
    """The response to a request."""

    request: ProviderRequest
    wire: tuple[WireAnswer, float]
    fault: Fault | None


def _answers(turns: Sequence[Turn]) -> list[Answer]:
    return [_answer(turn, number) for number, turn in enumerate(turns)]


def _answer(turn: Turn, number: int) -> Answer:
    if isinstance(turn, Answer):
        answer = turn
    elif isinstance(turn, str):
        answer = Answer(text=turn)
    else:
        answer = Answer(calls=(turn,) if isinstance(turn, ToolCall) else tuple(turn))
    if not answer.text and not answer.calls:
        raise ValueError(f"turn {number} has neither a text nor tool calls")
    return answer


def _turn(turns: Sequence[Answer], seen: Seen) -> int:
    """The first turn that the conversation does not have yet."""
    results, texts = list(seen.results), list(seen.texts)
    for number, answer in enumerate(turns):
        ids = [call.id or f"call_{number}_{index}" for index, call in enumerate(answer.calls)]
        if ids:
            if not all(one in results for one in ids):
                return number
            for one in ids:
                results.remove(one)
        elif answer.text not in texts:
            return number
        if answer.text in texts:
            texts.remove(answer.text)
    return len(turns) if not turns or turns[-1].calls else len(turns) - 1


ERRORS = {
    400: ("invalid_request_error", "the script of the fake provider is over"),
    401: ("authentication_error", "invalid x-api-key"),
    404: ("not_found_error", "the model {model} does not exist"),
    429: ("rate_limit_error", "too many requests"),
    529: ("overloaded_error", "overloaded"),
}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], provider: FakeProvider) -> None:
        super().__init__(address, _Handler)
        self.provider = provider

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is killed in the middle of an answer is the purpose of many a test."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = (
        True  # else the body of an answer waits 40 ms for the client to confirm its head
    )
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        """Requests are in `provider.requests`."""

    def do_HEAD(self) -> None:
        self._json(200, {})

    def do_GET(self) -> None:
        names = self.server.provider.models or ("fake",)
        self._json(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in names]})

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        body = self._body()
        if path.endswith("/count_tokens"):
            self._json(200, {"input_tokens": 100})
            return
        protocol = next((one for one in PROTOCOLS if path.endswith(one.path)), None)
        if protocol is None or body is None:
            self._json(404 if protocol is None else 400, {"error": {"message": f"no protocol has {path}"}})
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        self._reply(protocol, self.server.provider.take(protocol, path, body, headers))

    def _reply(self, protocol: WireProtocol, reply: _Reply) -> None:
        request, fault = reply.request, reply.fault
        answer, delay_s = reply.wire
        if fault is not None and fault.hang and not fault.cut:
            self.server.provider.hold(request, self.connection)
            self.close_connection = True
            return
        if delay_s:
            time.sleep(delay_s)
        if fault is not None and fault.status:
            request.status = fault.status
            kind, message = ERRORS.get(fault.status, ("api_error", "the provider failed"))
            error = protocol.error(kind, message.format(model=request.model))
            after = None if fault.retry_after_s is None else f"{fault.retry_after_s:g}"
            self._json(fault.status, error, {} if after is None else {"retry-after": after})
            return
        request.status = 200
        cut = fault is not None and fault.cut
        request.whole = not cut  # before its last byte: a client that has that may look at once
        try:
            if request.stream:
                pieces = protocol.stream(answer, self.server.provider.piece)
                self._stream([one.encode() for one in pieces], cut)
            else:
                self._json(200, protocol.plain(answer), cut=cut)
        except BaseException:
            request.whole = False
            raise
        if fault is not None and fault.cut:
            if fault.hang:
                self.server.provider.hold(request, self.connection)
            self._break_off()

    def _json(
        self, status: int, value: object, headers: Mapping[str, str] | None = None, *, cut: bool = False
    ) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if cut else data)

    def _stream(self, events: Sequence[bytes], cut: bool) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in events[: len(events) // 2] if cut else events:
            if self.server.provider.piece_delay_s:
                time.sleep(self.server.provider.piece_delay_s)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
        if not cut:
            self.wfile.write(b"0\r\n\r\n")

    def _break_off(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _body(self) -> dict[str, Any] | None:
        raw = b"".join(self._chunks())
        encoding = self.headers.get("content-encoding", "")
        if encoding == "gzip":
            raw = gzip.decompress(raw)
        elif encoding == "zstd":
            raw = _zstd(raw)
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            return None
        return body if isinstance(body, dict) else None

    def _chunks(self) -> Iterator[bytes]:
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            yield self.rfile.read(int(self.headers.get("content-length") or 0))
            return
        while size := int(self.rfile.readline().partition(b";")[0].strip() or b"0", 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()


def _zstd(data: bytes) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return bytes(zstd.decompress(data))


# From a shell


def _read_turn(turn: Any) -> Turn:
    if isinstance(turn, str):
        return turn
    if isinstance(turn, list):
        return typed_values.convert(turn, tuple[ToolCall, ...])
    return typed_values.convert(turn, ToolCall) if "tool" in turn else typed_values.convert(turn, Answer)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve a script until the process is ended."""
    parser = argparse.ArgumentParser(
        "python -m holdfast.testing.fake_provider", description=__doc__.split("\n")[0]
    )
    parser.add_argument("script", type=Path)
    parser.add_argument("--log", type=Path, help="a file for the requests, one line of JSON each")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--side-text", help="the answer to requests without tools")
    chosen = parser.parse_args(arguments)
    script = json.loads(chosen.script.read_text("utf-8"))
    if isinstance(script, list):
        script = {"turns": script}
    faults = typed_values.convert(script.get("faults", {}), dict[str, Fault])
    provider = FakeProvider(
        [_read_turn(turn) for turn in script["turns"]],
        faults={int(name) if name.isdigit() else name: fault for name, fault in faults.items()},
        models=script.get("models"),
        side_text=chosen.side_text,
        log=chosen.log,
        port=chosen.port,
    )
    with provider, suppress(KeyboardInterrupt):
        sys.stdout.write(provider.url + "\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main()
