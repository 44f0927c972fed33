"""The fake provider, asked by the clients of OpenAI and Anthropic themselves."""

import json
import subprocess
import sys
import urllib.request

import anthropic
import openai
import pytest

from holdfast.testing import Answer, FakeProvider, Fault, ToolCall

TWO = [ToolCall("read", {"path": "a"}), ToolCall("list", {})]
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]


def openai_client(provider: FakeProvider, **options) -> openai.OpenAI:
    return openai.OpenAI(base_url=provider.openai_url, api_key="any", max_retries=0, **options)


def anthropic_client(provider: FakeProvider, **options) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=provider.url, api_key="any", max_retries=0, **options)


def chat(client: openai.OpenAI, messages: list, **options):
    return client.chat.completions.create(model="m", messages=messages, **options)


def test_chat_completions_follow_the_script():
    """Turns are found by the conversation: calls, parallel calls, a text; a request sent again gets the same
    answer."""
    with FakeProvider([TWO, "done"]) as provider, openai_client(provider) as client:
        messages: list = [{"role": "user", "content": "go"}]
        for _ in range(2):
            message = chat(client, messages).choices[0].message
        calls = [(c.id, c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls]
        assert calls == [("call_0_0", "read", {"path": "a"}), ("call_0_1", "list", {})]
        messages.append(message.model_dump(exclude_none=True))
        messages += [{"role": "tool", "tool_call_id": c.id, "content": "x"} for c in message.tool_calls]
        answer = chat(client, messages, extra_headers={"Idempotency-Key": "k1"})
        assert (answer.choices[0].message.content, answer.usage.prompt_tokens) == ("done", 100)
        assert [request.turn for request in provider.requests] == [0, 0, 1]
        assert provider.requests[2].idempotency_key == "k1"
        assert provider.requests[2].body["messages"] == messages
        assert provider.requests[2].whole


def test_chat_completions_are_streamed():
    """Texts and arguments come in pieces, the usage at the end."""
    answer = Answer(text="hello, world", calls=tuple(TWO), output_tokens=7)
    with FakeProvider([answer]) as provider, openai_client(provider) as client:
        events = list(chat(client, [{"role": "user", "content": "go"}], stream=True))
    deltas = [event.choices[0].delta for event in events if event.choices]
    assert "".join(delta.content or "" for delta in deltas) == "hello, world"
    assert len([delta for delta in deltas if delta.content]) == 2
    arguments = ["", ""]
    for delta in deltas:
        for call in delta.tool_calls or ():
            arguments[call.index] += call.function.arguments
    assert [json.loads(one) for one in arguments] == [{"path": "a"}, {}]
    assert events[-1].usage.completion_tokens == 7


@pytest.mark.parametrize("stream", [False, True])
def test_anthropic_messages(stream: bool):
    """Anthropic's client reads the same message from the plain answer and from the stream."""
    with (
        FakeProvider([Answer(text="two", calls=tuple(TWO), output_tokens=7), "done"]) as provider,
        anthropic_client(provider) as client,
    ):

        def ask(messages: list):
            asked = {"model": "m", "max_tokens": 10, "messages": messages}
            if not stream:
                return client.messages.create(**asked)
            with client.messages.stream(**asked) as events:
                return events.get_final_message()

        messages: list = [{"role": "user", "content": "go"}]
        first = ask(messages)
        assert [(block.type, getattr(block, "input", None)) for block in first.content] == [
            ("text", None),
            ("tool_use", {"path": "a"}),
            ("tool_use", {}),
        ]
        assert (first.stop_reason, first.usage.input_tokens, first.usage.output_tokens) == (
            "tool_use",
            100,
            7,
        )
        messages.append({"role": "assistant", "content": [block.model_dump() for block in first.content]})
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": "x"} for block in first.content[1:]
        ]
        messages.append({"role": "user", "content": results})
        assert [block.text for block in ask(messages).content] == ["done"]
        assert {request.stream for request in provider.requests} == {stream}


@pytest.mark.parametrize("stream", [False, True])
def test_openai_responses(stream: bool):
    """The same for the protocol that Codex speaks."""
    with (
        FakeProvider([Answer(text="two", calls=tuple(TWO)), "done"]) as provider,
        openai_client(provider) as client,
    ):

        def ask(given: list):
            if not stream:
                return client.responses.create(model="m", input=given)
            with client.responses.stream(model="m", input=given) as events:
                return events.get_final_response()

        given: list = [{"role": "user", "content": "go"}]
        first = ask(given)
        assert [item.type for item in first.output] == ["message", "function_call", "function_call"]
        assert first.usage.total_tokens == 120
        given += [item.model_dump(exclude_none=True) for item in first.output]
        given += [
            {"type": "function_call_output", "call_id": item.call_id, "output": "x"}
            for item in first.output[1:]
        ]
        assert ask(given).output_text == "done"


@pytest.mark.parametrize("status", [401, 404, 429, 500])
@pytest.mark.parametrize("client", [openai_client, anthropic_client])
def test_faults_are_errors_of_the_client(client, status: int):
    """A status is the error class that each client has for it, with `retry-after` where it is given."""
    kinds = {
        401: "AuthenticationError",
        404: "NotFoundError",
        429: "RateLimitError",
        500: "InternalServerError",
    }
    library = anthropic if client is anthropic_client else openai
    messages = [{"role": "user", "content": "go"}]
    with FakeProvider(["done"], faults={1: Fault(status=status, retry_after_s=3)}) as provider:
        with client(provider) as opened:
            with pytest.raises(getattr(library, kinds[status])) as caught:
                if library is openai:
                    chat(opened, messages)
                else:
                    opened.messages.create(model="m", max_tokens=1, messages=messages)
            assert caught.value.response.headers["retry-after"] == "3"
        assert [request.status for request in provider.requests] == [status]


def test_faults_of_a_model_of_a_key_and_of_unknown_models():
    """A fault can belong to a model; other keys and other models are refused."""
    messages: list = [{"role": "user", "content": "go"}]
    with (
        FakeProvider(["done"], faults={"bad": Fault(status=500)}, models=["m", "bad"], key="any") as provider,
        openai_client(provider) as client,
    ):
        assert chat(client, messages).choices[0].message.content == "done"
        with pytest.raises(openai.InternalServerError):
            client.chat.completions.create(model="bad", messages=messages)
        with pytest.raises(openai.NotFoundError, match="the model other does not exist"):
            client.chat.completions.create(model="other", messages=messages)
        with pytest.raises(openai.AuthenticationError):
            chat(client.with_options(api_key="wrong"), messages)


def test_a_hanging_request_ends_with_the_client_or_with_a_release():
    """The client's own timeout ends it; so does closing the provider."""
    with FakeProvider(["done"], faults={1: Fault(hang=True)}) as provider, openai_client(provider) as client:
        with pytest.raises(openai.APITimeoutError):
            chat(client.with_options(timeout=0.2), [{"role": "user", "content": "go"}])
        assert provider.wait_for(1).status == 0
        assert chat(client, [{"role": "user", "content": "go"}]).choices[0].message.content == "done"


@pytest.mark.parametrize("stream", [False, True])
def test_a_cut_answer_is_no_answer(stream: bool):
    """The connection breaks in the middle, and the client says so."""
    import httpx

    with (
        FakeProvider(["a long text that comes in pieces"], faults={1: Fault(cut=True)}) as provider,
        openai_client(provider) as client,
    ):
        with pytest.raises((openai.APIConnectionError, httpx.RemoteProtocolError)) as caught:
            answer = chat(client, [{"role": "user", "content": "go"}], stream=stream)
            list(answer)
        assert caught.value is not None
        assert [request.whole for request in provider.requests] == [False]


def test_side_requests_and_the_end_of_a_script():
    """Requests without tools get the side text; a script that ends with calls can be over."""
    with (
        FakeProvider([ToolCall("read", id="c9")], side_text="a title") as provider,
        openai_client(provider) as client,
    ):
        messages: list = [{"role": "user", "content": "go"}]
        assert chat(client, messages).choices[0].message.content == "a title"
        message = chat(client, messages, tools=TOOLS).choices[0].message
        messages += [message.model_dump(exclude_none=True)]
        messages += [{"role": "tool", "tool_call_id": "c9", "content": "x"}]
        with pytest.raises(openai.BadRequestError, match="is over"):
            chat(client, messages, tools=TOOLS)
        assert [request.turn for request in provider.requests] == [None, 0, 1]


def test_from_a_shell(tmp_path):
    """The script is a file; requests are logged without the key."""
    script, log = tmp_path / "script.json", tmp_path / "log.jsonl"
    turns = [{"tool": "read", "arguments": {"path": "a"}}, {"text": "done", "output_tokens": 3}]
    script.write_text(json.dumps({"turns": turns, "faults": {"1": {"status": 429}}}))
    argv = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "holdfast.testing.fake_provider",
        str(script),
        "--log",
        str(log),
    ]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            asked = urllib.request.Request(
                f"{url}/v1/messages",
                json.dumps({"model": "m", "messages": []}).encode(),
                {"x-api-key": "hidden"},
            )
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(asked)
            refused.value.close()
            with urllib.request.urlopen(asked) as answer:
                assert json.loads(answer.read())["content"][0]["input"] == {"path": "a"}
        finally:
            process.terminate()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["number"] for line in lines] == [1, 2]
    assert "hidden" not in log.read_text()


def test_a_conversation_chooses_its_answers_by_a_text_in_it():
    """The first text that the conversation has in it counts; a conversation without one gets the turns."""
    with FakeProvider(["plain"], conversations={"review": ["looks right"], "plan": ["one step"]}) as provider:
        client = openai.OpenAI(base_url=provider.openai_url, api_key="any", max_retries=0)

        def said(text: str) -> str | None:
            messages = [{"role": "user", "content": text}]
            done = client.chat.completions.create(model="m", messages=messages)  # type: ignore[arg-type]
            return done.choices[0].message.content

        assert [said("plan it"), said("review the plan"), said("hello")] == [
            "one step",
            "looks right",
            "plain",
        ]
        assert [one.conversation for one in provider.requests] == ["plan", "review", ""]
