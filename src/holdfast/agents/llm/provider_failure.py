"""How requests to a provider fail: as `ModelFailed`, the same live and in every replay, whatever client
raised it."""

from __future__ import annotations

import socket

from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError

from holdfast.engine.execution.step_options import Retry, seconds
from holdfast.errors import ModelFailed

_TEMPORARY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_HTTP = ("httpx", "httpx2", "httpcore", "httpcore2")
_NO_CONNECTION = ("ConnectError", "ConnectTimeout", "PoolTimeout")
_TRANSPORTS = (*_HTTP, "openai", "anthropic", "anyio")


def as_failure(model: str, error: Exception) -> ModelFailed | None:
    """The failure of a provider; None if the error is something else, a fault of the program."""
    if isinstance(error, ModelFailed):
        return error
    if isinstance(error, ModelHTTPError):
        status = error.status_code
        return ModelFailed(
            model, _message_of(error), status, _retry_after(error), temporary=status in _TEMPORARY
        )
    if isinstance(error, ModelAPIError | TimeoutError | ConnectionError):
        return ModelFailed(model, _message_of(error), temporary=True)
    if type(error).__module__.partition(".")[0] in _TRANSPORTS:
        return ModelFailed(model, _message_of(error), temporary=True)
    return None


def was_not_sent(error: BaseException) -> bool:
    """Whether the try that raised this had no connection to go by: refused, not resolved, not made in time.
    The outermost error of the transport decides; with one that is not known, the request may have been sent.
    Earlier tries of the same client are not in it (`provider_request.sends_once`)."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError):
            return isinstance(cause, ConnectionRefusedError | socket.gaierror)
        if type(cause).__module__.partition(".")[0] in _HTTP:
            return type(cause).__name__ in _NO_CONNECTION
        cause = cause.__cause__
    return False


def as_model_error(failure: ModelFailed) -> Exception:
    """The error that pydantic-ai would have raised."""
    if failure.status:
        return ModelHTTPError(failure.status, failure.model, failure.why)
    return ModelAPIError(failure.model, failure.why)


def _message_of(error: Exception) -> str:
    """The sentence of the provider, if it gives one."""
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        inner = body.get("error")
        message = (inner if isinstance(inner, dict) else body).get("message")
        if isinstance(message, str) and message:
            return message
    return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)


def _retry_after(error: ModelHTTPError) -> float | None:
    try:
        given = float((error.headers or {}).get("retry-after", ""))
    except ValueError:
        return None
    return given if 0 <= given < 1e7 else None


class ProviderRetry(Retry):
    """Retries failures that pass, and waits as long as the provider asks for. One that asks for longer than
    `cap` is not waited for: another model may answer at once."""

    def wants(self, error: BaseException) -> bool:
        asked = error.retry_after_s if isinstance(error, ModelFailed) else None
        object.__setattr__(self, "_asked_s", asked or 0.0)
        if not isinstance(error, ModelFailed):
            return False
        return error.temporary and (asked or 0.0) <= seconds(self.cap) and super().wants(error)

    def delay(self, failures: int, random: float) -> float:
        asked: float = getattr(self, "_asked_s", 0.0)
        return max(asked, super().delay(failures, random))

    @classmethod
    def like(cls, retry: Retry) -> ProviderRetry:
        """For one call: it remembers what the provider asked for."""
        return cls(
            retry.attempts, retry.initial, retry.factor, retry.cap, retry.jitter, retry.on, retry.total
        )
