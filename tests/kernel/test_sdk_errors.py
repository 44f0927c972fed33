"""Errors of the SDKs that agents use come back as their own classes, with what is documented of them.

Every public error class of these packages that can be constructed is: in the ways in which its package
constructs it, with a real response.
"""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import aiohttp
import anthropic
import botocore.exceptions
import httpx
import msgspec
import openai
import pydantic
import pydantic_core
import pytest
import requests
import sqlalchemy.exc

from holdfast.errors import NotStorable
from holdfast.kernel import codec
from holdfast.kernel.events import Failure
from holdfast.kernel.failure import as_recorded, capture, rebuild


class Nothing:
    """A redactor that hides nothing."""

    def redact(self, text: str) -> str:
        return text

    def redact_under(self, name: str, text: str) -> str:
        return text


KEY = "sk-live-4242"
REQUEST = httpx.Request("POST", "https://api.example/v1/chat", headers={"authorization": f"Bearer {KEY}"})
RESPONSE = httpx.Response(
    429,
    request=REQUEST,
    headers={
        "Retry-After": "3",
        "x-request-id": "req_1",
        "request-id": "req_1",
        "set-cookie": f"session={KEY}",
    },
    json={"error": {"message": "slow down", "code": "rate_limit"}},
)
BODY = {"message": "slow down", "code": "rate_limit", "param": None, "type": "tokens"}
PAGE = requests.Response()
PAGE.status_code = 503
PAGE.url = "http://example/page"
PAGE._content = b'{"down": true}'
PAGE.headers["Retry-After"] = "2"
SENT = requests.Request("GET", "http://example/page", headers={"Authorization": KEY}).prepare()
THROTTLED = {
    "Error": {"Code": "ThrottlingException", "Message": "slow down"},
    "ResponseMetadata": {"HTTPStatusCode": 400, "RequestId": "r"},
}


def _by_fields(cls: Any) -> BaseException:
    """botocore's are made from the fields of their text."""
    made: BaseException = cls(
        **{field: field for _, field, _, _ in string.Formatter().parse(cls.fmt) if field}
    )
    return made


def _by_names(cls: Any) -> BaseException:
    names = [name for name in inspect.signature(cls.__init__).parameters if name != "self"]
    made: BaseException = cls(**dict.fromkeys(names, "x"))
    return made


WAYS: list[Callable[[Any], BaseException]] = [
    lambda cls: cls("slow down", response=RESPONSE, body=BODY),
    lambda cls: cls(response=RESPONSE, body=BODY),
    lambda cls: cls(response=RESPONSE),
    lambda cls: cls("slow down", request=REQUEST, body=BODY),
    lambda cls: cls(message="slow down", request=REQUEST),
    lambda cls: cls(request=REQUEST),
    lambda cls: cls("slow down", request=REQUEST, response=RESPONSE),
    lambda cls: cls("slow down", response=PAGE, request=SENT),
    lambda cls: cls("bad", "{", 1),
    lambda cls: cls(THROTTLED, "PutItem"),
    _by_fields,
    lambda cls: cls("SELECT 1", {"id": 1, "sent": object()}, ValueError("gone")),
    lambda cls: cls("slow down"),
    lambda cls: cls(),
    lambda cls: cls("a", code="b"),
    lambda cls: cls("a", "b"),
    lambda cls: cls("a", "b", "c"),
    _by_names,
]
PACKAGES: list[ModuleType] = [
    openai, anthropic, httpx, requests.exceptions, botocore.exceptions, sqlalchemy.exc, pydantic,
    pydantic.errors,
]  # fmt: skip
NOT_MADE = {"LengthFinishReasonError", "ValidationError", "PydanticErrorMixin", "PydanticForbiddenQualifier"}
"""These take objects of their own package; they are below, or not errors."""


def _classes() -> Iterator[Any]:
    for package in PACKAGES:
        for name, cls in sorted(vars(package).items()):
            public = inspect.isclass(cls) and issubclass(cls, Exception) and not issubclass(cls, Warning)
            if public and not name.startswith("_") and cls.__module__ != "builtins" and name not in NOT_MADE:
                yield pytest.param(cls, id=f"{package.__name__}.{name}")


def made(cls: Any) -> BaseException:
    for way in WAYS:
        try:
            error = way(cls)
            str(error)
        except Exception:
            continue
        return error
    raise AssertionError(f"{cls} cannot be constructed in any of the ways that are known here")


def from_the_log(error: BaseException) -> BaseException:
    return rebuild(msgspec.json.decode(msgspec.json.encode(capture(error)), type=Failure))


@pytest.mark.parametrize("cls", list(_classes()))
def test_an_error_of_an_sdk_keeps_its_class(cls: Any) -> None:
    """Also its text, and each attribute that can be stored; live and in replay it is the same."""
    error = made(cls)
    failure, live = as_recorded(error, Nothing())
    again = from_the_log(error)
    assert type(again) is type(live) is cls
    assert str(again) == str(live) == str(error)
    assert again.args == live.args or "object at" in repr(error.args)
    for name, value in vars(error).items():
        try:
            codec.encode(value)
        except NotStorable:
            assert repr(getattr(again, name)) == repr(getattr(live, name))
        else:
            if not isinstance(value, BaseException):
                assert getattr(again, name) == getattr(live, name) == value
    assert KEY.encode() not in msgspec.json.encode(failure)


@pytest.mark.parametrize("cls", [openai.RateLimitError, anthropic.RateLimitError])
def test_what_is_documented_of_a_status_error_is_there(cls: Any) -> None:
    again: Any = from_the_log(cls("slow down", response=RESPONSE, body=BODY))
    assert (again.status_code, again.body, again.request_id) == (429, BODY, "req_1")
    assert again.response.status_code == 429
    assert again.response.headers["Retry-After"] == again.response.headers.get("retry-after") == "3"
    assert again.response.json()["error"]["code"] == "rate_limit"
    assert "set-cookie" not in again.response.headers
    assert (again.request.method, again.request.url) == ("POST", "https://api.example/v1/chat")


def test_what_is_not_kept_is_missing_with_a_sentence() -> None:
    again: Any = from_the_log(openai.RateLimitError("slow down", response=RESPONSE, body=BODY))
    with pytest.raises(AttributeError, match=r"left of an object of httpx:Response.*and no elapsed"):
        again.response.elapsed  # noqa: B018
    assert not hasattr(again.request, "headers")


def test_errors_of_httpx_and_requests_keep_their_response() -> None:
    with pytest.raises(httpx.HTTPStatusError) as caught:
        RESPONSE.raise_for_status()
    again: Any = from_the_log(caught.value)
    assert (again.response.status_code, again.response.text) == (429, RESPONSE.text)
    with pytest.raises(requests.HTTPError) as refused:
        PAGE.raise_for_status()
    page: Any = from_the_log(refused.value)
    assert (page.response.status_code, page.response.json(), page.response.content) == (
        503, {"down": True}, b'{"down": true}',
    )  # fmt: skip
    assert page.response.headers["retry-after"] == "2"


def test_a_refused_connection_keeps_its_class() -> None:
    """Its arguments hold an error that holds a pool of connections."""
    with pytest.raises(requests.ConnectionError) as caught:
        requests.get("http://127.0.0.1:9/", timeout=2)
    again = from_the_log(caught.value)
    assert type(again) is requests.ConnectionError
    assert isinstance(again.args[0], type(caught.value.args[0]))


def test_an_error_of_aiohttp_keeps_its_headers() -> None:
    info = aiohttp.RequestInfo(aiohttp.typedefs.URL("http://x/"), "GET", None, None)  # type: ignore[arg-type]
    headers = aiohttp.typedefs.CIMultiDict({"Retry-After": "5"})
    again: Any = from_the_log(aiohttp.ClientResponseError(info, (), status=429, message="m", headers=headers))
    assert (type(again), again.status, again.headers["retry-after"]) == (
        aiohttp.ClientResponseError,
        429,
        "5",
    )


class Order(pydantic.BaseModel):
    size: int = pydantic.Field(gt=0)
    note: str = pydantic.Field(max_length=2)

    @pydantic.field_validator("note")
    @classmethod
    def known(cls, note: str) -> str:
        if note == "no":
            raise ValueError("not {this}")
        if note == "my":
            raise pydantic_core.PydanticCustomError("my_own", "it is {what}", {"what": "mine"})
        return note


@pytest.mark.parametrize(
    "given", [{}, {"size": "x", "note": "abc"}, {"size": 0, "note": "no"}, {"size": 1, "note": "my"}]
)
def test_a_validation_error_is_pydantics_own(given: dict[str, Any]) -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        Order(**given)
    error = caught.value
    again = from_the_log(error)
    assert isinstance(again, pydantic.ValidationError)
    assert str(again) == str(error)
    shown = error.errors(include_url=False, include_context=False)
    assert again.errors(include_url=False, include_context=False) == shown
    assert str(from_the_log(again)) == str(error)
