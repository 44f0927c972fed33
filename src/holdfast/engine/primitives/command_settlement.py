"""The result of a command that a person has settled as done."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from holdfast import typed_values
from holdfast.engine.primitives.command import CommandResult
from holdfast.errors import BadInput

SHAPE = '{"exit_code": 0, "stdout": "", "stderr": ""}'


class _Given(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `CommandResult` as JSON, with what a person need not say."""

    exit_code: int
    stdout: str = ""
    stderr: str = ""
    argv: tuple[str, ...] = ()
    duration_s: float = 0.0
    left_out: int = 0


def settled_result(key: str, value: object, redact: Callable[[str], str]) -> CommandResult:
    """The result that step `key` is settled with; its texts are redacted, as those of any command are. Words
    that are not given are those of the call that receives it. Raises `BadInput` for another shape."""
    try:
        given = value if isinstance(value, CommandResult) else typed_values.convert(value, _Given)
    except msgspec.ValidationError as error:
        raise BadInput(
            f"step {key} is a command: its result is an object such as {SHAPE} (--fail for a command that "
            f"failed), and this one does not fit: {error}"
        ) from None
    argv, stdout, stderr = tuple(map(redact, given.argv)), redact(given.stdout), redact(given.stderr)
    return CommandResult(argv, given.exit_code, stdout, stderr, given.duration_s, given.left_out)
