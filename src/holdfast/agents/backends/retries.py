"""Retries of a job as data: what `Retry` says, without the classes that it is for."""

from __future__ import annotations

import msgspec

from holdfast.engine.execution.step_options import Retry, seconds
from holdfast.errors import BadInput


class Retries(msgspec.Struct, frozen=True):
    """How often an attempt is made; times are in seconds."""

    attempts: int = 3
    initial: float = 1.0
    factor: float = 2.0
    cap: float = 60.0
    jitter: float = 0.1
    total: float | None = None

    @classmethod
    def of(cls, retry: Retry | Retries | None) -> Retries | None:
        """Raises `BadInput` for a `Retry` that is for some errors only: a class is not data."""
        if retry is None or isinstance(retry, Retries):
            return retry
        if retry.on is not Exception:
            raise BadInput("retry=Retry(on=...): an agent is tried again after any error; leave `on` out")
        total = None if retry.total is None else seconds(retry.total)
        initial, cap = seconds(retry.initial), seconds(retry.cap)
        return cls(retry.attempts, initial, retry.factor, cap, retry.jitter, total)

    def as_retry(self) -> Retry:
        return Retry(**msgspec.structs.asdict(self))
