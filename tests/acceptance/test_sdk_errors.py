"""Errors of real SDKs in a process that is killed: the resumed run catches what the first one caught."""

import pytest

SCRIPT = """
import os, signal
import anthropic, botocore.exceptions, httpx, openai, pydantic, requests, sqlalchemy.exc
from pathlib import Path
from holdfast import Retry, step, workflow

REQUEST = httpx.Request("POST", "https://api.example/v1")


def response(status):
    return httpx.Response(status, request=REQUEST, headers={"x-request-id": "r-1"}, json={"a": 1})


def old_response(status):
    made = requests.Response()
    made.status_code, made._content, made.headers["x-request-id"] = status, b"busy", "r-1"
    return made


class Order(pydantic.BaseModel):
    size: int


def invalid():
    try:
        Order(size="large")
    except pydantic.ValidationError as error:
        return error


ERRORS = {
    "openai": lambda: openai.RateLimitError("slow", response=response(429), body={"code": "limit"}),
    "anthropic": lambda: anthropic.InternalServerError("down", response=response(500), body={"type": "x"}),
    "httpx": lambda: httpx.HTTPStatusError("bad", request=REQUEST, response=response(503)),
    "requests": lambda: requests.HTTPError("bad", response=old_response(503)),
    "botocore": lambda: botocore.exceptions.ClientError({"Error": {"Code": "Throttled"}}, "PutItem"),
    "sqlalchemy": lambda: sqlalchemy.exc.IntegrityError("INSERT", {"id": 1}, ValueError("twice")),
    "pydantic": invalid,
}
CAUGHT = {
    "openai": (openai.APIStatusError, lambda e: [e.status_code, e.code, e.body, e.request_id]),
    "anthropic": (anthropic.APIStatusError, lambda e: [e.status_code, e.body, e.request_id]),
    "httpx": (httpx.HTTPStatusError, lambda e: [e.response.status_code, e.response.headers["x-request-id"]]),
    "requests": (requests.RequestException, lambda e: [e.response.status_code, e.response.text]),
    "botocore": (botocore.exceptions.ClientError, lambda e: [e.response["Error"]["Code"], e.operation_name]),
    "sqlalchemy": (sqlalchemy.exc.DBAPIError, lambda e: [e.statement, e.params]),
    "pydantic": (pydantic.ValidationError, lambda e: [e.error_count(), e.errors()[0]["type"]]),
}
FILTERS = {"class": lambda sdk: CAUGHT[sdk][0], "predicate": lambda sdk: lambda e: bool(CAUGHT[sdk][1](e))}


def body(sdk):
    with Path("bodies").open("a") as file:
        file.write("body\\n")
    raise ERRORS[sdk]()


@step
def dies_once():
    if not Path("died").exists():
        Path("died").touch()
        os.kill(os.getpid(), signal.SIGKILL)


@workflow
def main(filtered):
    for sdk, (kind, read) in CAUGHT.items():
        call = step(name="call", retry=Retry(attempts=3, initial=0, on=FILTERS[filtered](sdk)))(body)
        try:
            call(sdk)
        except kind as error:
            seen = [type(error).__name__, isinstance(error, kind), read(error), str(error)]
        with Path("seen").open("a") as file:
            file.write(f"{seen}\\n")
    dies_once()
    return len(CAUGHT)
"""


@pytest.mark.parametrize("filtered", ["class", "predicate"])
def test_caught_before_and_after_a_kill(cli, filtered):
    """By its class, with its attributes; the filter retried it, and the replay does not run it again."""
    (cli.directory / "flow.py").write_text(SCRIPT)
    cli("run", "--id", "x", "flow.py:main", filtered, code=-9)
    assert cli("resume", "x").out.strip() == "7"
    seen = (cli.directory / "seen").read_text().splitlines()
    assert (len(seen), seen[:7]) == (14, seen[7:])
    assert (cli.directory / "bodies").read_text().count("body") == 3 * 7
