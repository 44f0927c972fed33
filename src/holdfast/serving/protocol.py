"""The messages between `Workers` and a worker process: one line of JSON for each request and each answer.

to the worker      {"do": "resume" | "replay", "run": ID, "number": N}, {"do": "stop", "why": TEXT},
                   {"do": "end"}
from the worker    {"protocol": N} when it is ready, or {"refused": ERROR} if it cannot open the store
                   {"number": N, "taken": true}: it works on the request
                   {"number": N, "changed": PATH}: it does not, a file that it has loaded was changed
                   {"number": N, "claimed": {...}}: it owns the run now; the fields are those of `Taken`
                   {"number": N, "error": ERROR | null, ...}: the request is done
                   {"scan": [ENTRIES, BYTES]}: how far it is with a scan of the files
"""

from __future__ import annotations

import json
import signal
import socket
from typing import Any

from holdfast import errors
from holdfast.errors import EndedElsewhere, HoldfastError, RunInterrupted, StoreError

PROTOCOL = 2
"""Incremented when the other side would misread requests or answers: processes with different numbers are not
compatible."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Signals that a worker gets only when it is ready for them."""
INTERRUPTED = RunInterrupted.exit_code


def encode(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def send(channel: socket.socket, fields: dict[str, Any]) -> bool:
    """Send one message; False if the reader is gone."""
    try:
        channel.sendall(encode(fields))
    except OSError:
        return False
    return True


def error_fields(error: BaseException | None) -> dict[str, Any] | None:
    """An error as a message has it, with the error of the store that is its cause, if it has one."""
    if error is None:
        return None
    if not isinstance(error, HoldfastError):
        return {"code": "", "message": f"{type(error).__name__}: {error}"}
    lost = error.__cause__
    return {**_fields(error), "cause": _fields(lost) if isinstance(lost, StoreError) else None}


def _fields(error: HoldfastError) -> dict[str, Any]:
    return {"code": error.code, "message": str(error), "fields": _plain(vars(error))}


def _plain(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes that a message can hold."""
    found = {}
    for name, value in attributes.items():
        try:
            found[name] = json.loads(json.dumps(value))
        except (TypeError, ValueError):
            continue
    return found


def error_of(fields: dict[str, Any] | None) -> HoldfastError | None:
    """The error that a worker names, as one of the same class, with the same message and fields; if that
    cannot be, an `EndedElsewhere` with the message. So is its cause."""
    if fields is None:
        return None
    error = _same(fields) or EndedElsewhere(fields["message"], 1)
    error.__cause__ = error_of(fields.get("cause"))
    return error


def _same(fields: dict[str, Any]) -> HoldfastError | None:
    cls = _classes().get(fields["code"])
    if cls is not None:
        error = cls.__new__(cls)
        error.args = (fields["message"],)
        vars(error).update(fields.get("fields", {}))
        try:
            if str(error) == fields["message"] and error.ways is not None:
                return error
        except (AttributeError, TypeError, ValueError):
            pass  # its message or its ways need what no message can hold
    return None


def _classes() -> dict[str, type[HoldfastError]]:
    found = (one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, HoldfastError))
    return {cls.code: cls for cls in found}
