"""What the redactor hides, what it leaves alone, and what a Secret shows."""

import copy
import json
import pickle
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import errors, redaction
from holdfast.redaction import Redactor, Secret, StreamRedactor

PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A\n\n"
    "MIIEpAIBAAKCAQEA7bq\nx+/9Zw==\n-----END RSA PRIVATE KEY-----"
)
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("use sk-abcdefghijklmnopqrstuvwxyz now", "use [redacted:api-key] now"),
        ("sk-proj-a_b-c1d2e3f4g5h6", "[redacted:api-key]"),
        ("sk-ant-api03-abc_DEF-123", "[redacted:anthropic-key]"),
        ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "[redacted:github-token]"),
        ("github_pat_11ABCDEFG0_abcdefghijklmnop", "[redacted:github-token]"),
        ("glpat-abcDEF_123456789-xy", "[redacted:gitlab-token]"),
        ("id=AKIAIOSFODNN7EXAMPLE.", "id=[redacted:aws-key-id]."),
        ("ASIAIOSFODNN7EXAMPLE", "[redacted:aws-key-id]"),
        ("xoxb-123456789012-abcdef", "[redacted:slack-token]"),
        ("AIzaSyA-1234567890abcdefghijklmnopqrstu", "[redacted:google-key]"),
        ("rk_live_abcdefghijkl", "[redacted:stripe-key]"),
        (f"a\n{PEM}\nb", "a\n[redacted:private-key]\nb"),
        (json.dumps({"k": PEM}), '{"k": "[redacted:private-key]"}'),
        (f"jwt {JWT}", "jwt [redacted:jwt]"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer [redacted:authorization]"),
        ('"authorization": "Basic dXNlcjpw"', '"authorization": "Basic [redacted:authorization]"'),
        ("-H 'bearer abcdef123456'", "-H 'bearer [redacted:authorization]'"),
        ("https://me:p%40ss@host/x", "https://me:[redacted:password]@host/x"),
        ("redis://:pw@h:6379", "redis://:[redacted:password]@h:6379"),
        ("OPENAI_API_KEY=abc", "OPENAI_API_KEY=[redacted:secret]"),
        ("DB_PASS=x TOKEN=y", "DB_PASS=[redacted:secret] TOKEN=[redacted:secret]"),
        ("AWS_SECRET_ACCESS_KEY=a/b+c", "AWS_SECRET_ACCESS_KEY=[redacted:secret]"),
        ("export PASSWORD='two words'", "export PASSWORD='[redacted:secret]'"),
        ("?access_token=abc&x=1", "?access_token=[redacted:secret]&x=1"),
        ('{"apiKey": "abc"}', '{"apiKey": "[redacted:secret]"}'),
        (r"{\"password\": \"abc\"}", r"{\"password\": \"[redacted:secret]\"}"),
        ("password: hunter2", "password: [redacted:secret]"),
        ("İ password=hunter2", "İ password=[redacted:secret]"),
    ],
)
def test_common_kinds_are_hidden(text: str, redacted: str) -> None:
    """Each usual kind of secret is replaced by a mark that names the kind; twice is the same as once."""
    redactor = Redactor()
    assert redactor.redact(text) == redacted
    assert redactor.redact(redacted) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "task-name-that-is-long-enough-1",
        "def login(password: str, token: Optional[str] = None) -> None:",
        "if token == other: pass",
        "max_tokens=4096 tokens: 123456",
        "sorted(key=lambda item: item.key1)",
        "PWD=/home/me",
        "TOKEN=$TOKEN PASSWORD=${DB_PASSWORD} SECRET=$(pass show x)",
        "password=<your password>",
        "https://example.com:8080/a@b",
        "the bearer certificates",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    """Code, placeholders and variables that only look like secrets stay readable."""
    assert Redactor().redact(text) == text


def test_known_values_are_hidden_in_every_form() -> None:
    """A registered value is hidden as it is, as JSON and in a URL, longest first; a short one is ignored."""
    redactor = Redactor(values=["kelp", "kelp forest", 'sea"weed/bed'])
    redactor.add("kelp forest floor\n")
    text = 'kelp; kelp forest floor; kelp forest; sea\\"weed/bed; sea%22weed%2Fbed'
    assert redactor.redact(text) == "kelp; [redacted]; [redacted]; [redacted]; [redacted]"


def test_lines_of_a_known_value_are_hidden() -> None:
    """A value of several lines is hidden also where only one of its longer lines appears."""
    redactor = Redactor(values=["first line of it\nsecond line of it"])
    assert redactor.redact("> second line of it <") == "> [redacted] <"


def test_extra_patterns() -> None:
    """A project's own pattern hides its match, or its group `secret`; a broken one is refused by name."""
    redactor = Redactor([r"ACME-\d+", r"pin (?P<secret>\d{4})"])
    assert redactor.redact("ACME-12 pin 1234") == "[redacted] pin [redacted]"
    with pytest.raises(errors.SettingsError, match=r"'\('"):
        Redactor(["("])


def test_redact_value_walks_data() -> None:
    """Data keeps its shape; strings are redacted, and everything under a secret name is."""
    data = {
        "password": "x",
        "dbPassword": "y",
        "n": 1,
        "list": [("TOKEN=z", None)],
        "tokens": "5",
        "key": "k",
        "Set-Cookie": ["a=b", ("c=d",)],
        "proxy-authorization": "x",
    }
    assert Redactor().redact_value(data) == {
        "password": "[redacted:secret]",
        "dbPassword": "[redacted:secret]",
        "n": 1,
        "list": [("TOKEN=[redacted:secret]", None)],
        "tokens": "5",
        "key": "k",
        "Set-Cookie": ["[redacted:secret]", ("[redacted:secret]",)],
        "proxy-authorization": "[redacted:secret]",
    }


def chunks(text: str, size: int) -> list[bytes]:
    data = text.encode()
    return [data[at : at + size] for at in range(0, len(data), size)]


def stream(redactor: Redactor, parts: list[bytes]) -> str:
    streaming = StreamRedactor(redactor)
    return "".join(map(streaming.feed, parts)) + streaming.flush()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
def test_stream_hides_what_chunks_split(size: int) -> None:
    """However the bytes are cut, a stream is redacted as the whole text is, private keys included."""
    text = f"höhe ghp_16C7e42F292c6912E7710c838347Ae178B4a\r\n{PEM}\nPASSWORD=hunter2 and known-value\nend é"
    redactor = Redactor(values=["known-value"])
    assert stream(redactor, chunks(text, size)) == redactor.redact(text)


@given(
    st.lists(st.sampled_from(["a", "\n", "é", " ", "TOKEN=x1", PEM, JWT, "known-value"]), max_size=12),
    st.data(),
)
def test_stream_equals_whole(words: list[str], data: st.DataObject) -> None:
    """For any text and any cuts, the stream's output is the redacted text."""
    raw = "".join(words).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6)))
    parts = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    redactor = Redactor(values=["known-value"])
    assert stream(redactor, parts) == redactor.redact(raw.decode())


def test_stream_lets_lines_out_as_they_end() -> None:
    """A line shows when it is complete, also one that ends in a carriage return; the rest at the end."""
    streaming = StreamRedactor(Redactor())
    assert streaming.feed(b"one\ntw") == "one\n"
    assert streaming.feed(b"o\r") == "two\r"
    assert streaming.feed(b"thr\xc3") == ""
    assert streaming.flush() == "thr\ufffd"


@pytest.mark.parametrize("before", range(StreamRedactor.WINDOW - 40, StreamRedactor.WINDOW + 8, 3))
def test_stream_of_one_long_line_is_bounded_and_safe(before: int) -> None:
    """Of an endless line only a window is held back, and a secret across its edge is hidden."""
    secret = "my_api_key='hunter2hunter2'"
    text = "." * (40_000 - before) + secret + "." * before
    streaming = StreamRedactor(Redactor())
    first = streaming.feed(text.encode())
    assert len(first) > 30_000
    assert first + streaming.flush() == Redactor().redact(text)
    assert "hunter2" not in first


def test_stream_holds_no_more_than_its_bound() -> None:
    """A private key that never ends is hidden, and is let go of when it exceeds the bound."""
    streaming = StreamRedactor(Redactor())
    held = b"-----BEGIN PRIVATE KEY-----\n" + b"QUJD\n" * 30_000
    assert streaming.feed(held).strip() == "[redacted:private-key]"


@pytest.mark.parametrize("unit", ["eyJ", "key=", "a-_A@J=:", "-----BEGIN", "password: ", "://a:b", "sk-a"])
def test_time_is_linear(unit: str) -> None:
    """No shape of text makes redaction slow: a megabyte of near-misses takes seconds at most."""
    text = unit * (1_000_000 // len(unit))
    started = time.process_time()
    Redactor().redact(text)
    assert time.process_time() - started < 10


def test_secret_does_not_show_itself() -> None:
    """repr, str and format give the name; pickle and JSON refuse; copies are the same object."""
    secret = Secret("github", "hunter2")
    assert [repr(secret), str(secret), f"{secret}", secret.__holdfast_digest__()] == [
        "Secret('github')",
        "Secret('github')",
        "Secret('github')",
        "secret:github",
    ]
    assert secret.reveal() == "hunter2"
    assert copy.deepcopy([secret])[0] is secret
    with pytest.raises(TypeError, match=r"Secret\('github'\)"):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        json.dumps(secret)
    assert not hasattr(secret, "__dict__")


def test_secret_compares_by_name_and_value() -> None:
    """Equal name and value are equal and hash alike; either differing is not."""
    assert {Secret("a", "x"), Secret("a", "x")} == {Secret("a", "x")}
    assert Secret("a", "x") != Secret("a", "y")
    assert Secret("a", "x") != Secret("b", "x")
    assert Secret("a", "x") != "x"


def test_secret_without_a_value_is_refused() -> None:
    """A value that is missing, as from an unset variable, is refused where the Secret is made."""
    with pytest.raises(errors.BadArguments):
        Secret("github", None)  # type: ignore[arg-type]
    with pytest.raises(errors.BadArguments):
        Secret("", "x")


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[redaction._KnownValues]:
    """The known values of a process of its own."""
    values = redaction._KnownValues()
    monkeypatch.setattr(redaction, "_known", values)
    yield values


def hidden(value: str) -> bool:
    return Redactor().redact(f"it is {value}!") == "it is [redacted]!"


@pytest.mark.usefixtures("known")
def test_a_secret_that_lives_is_known() -> None:
    """However many others were made since."""
    key = Secret("key", "the key in constant use")
    for n in range(3000):
        Secret("other", f"value of request {n}")
    assert hidden(key.reveal())
    assert hidden("value of request 2999")
    assert not hidden("value of request 0")


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("use", ["made", "revealed", "made elsewhere"])
def test_a_secret_in_use_is_known_for_longer(use: str) -> None:
    """Each use puts it in front of those that were used before, also when it is gone by then."""
    secrets = [Secret("key", "the key in use")]
    others = [Secret("other", f"value {n:9}") for n in range(999)]
    if use == "revealed":
        secrets[0].reveal()
    elif use == "made":
        secrets = [Secret("key", "the key in use")]
    else:
        Secret("another name", "the key in use")
    secrets.clear()
    others.clear()
    for n in range(999):
        Secret("more", f"new value {n:9}")
    assert hidden("the key in use")
    Secret("more", "one more value")
    assert not hidden("the key in use")


@pytest.mark.usefixtures("known")
def test_secrets_made_by_threads_are_all_known() -> None:
    """None is lost when several are made at once."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    made: list[Secret] = []

    def make(thread: int) -> None:
        for n in range(200):
            made.append(Secret("n", f"value {thread} of {n:9}"))
            Redactor().redact("text")

    try:
        threads = [threading.Thread(target=make, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert len(made) == 800 and all(hidden(one.reveal()) for one in made)
