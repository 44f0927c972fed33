"""Errors of steps: how they fail, and how they are called wrongly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.errors.base import HoldfastError, NotFound


class ProgramNotFound(NotFound):
    code = "program_not_found"

    def __init__(self, program: str, hint: str = "") -> None:
        self.program = program
        super().__init__(f"no program {program!r} on the PATH{hint}")


class StepError(HoldfastError):
    """A step failed with an error whose own class cannot be rebuilt from data.

    It keeps what is known: the original class's name, the message and the attributes.
    """

    code = "step_failed"
    exit_code = 1

    def __init__(self, type_name: str, message: str, attributes: Mapping[str, Any] | None = None) -> None:
        self.type_name = type_name
        self.message = message
        self.attributes: dict[str, Any] = dict(attributes or {})
        super().__init__(type_name, message, self.attributes)

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}" if self.message else self.type_name


class CommandFailed(HoldfastError):
    code = "command_failed"
    exit_code = 1

    def __init__(self, program: str, exit_code: int, output: str = "") -> None:
        self.program = program
        self.returncode = exit_code
        self.output = output
        super().__init__(program, exit_code, output)

    def __str__(self) -> str:
        how = (
            f"was ended by signal {-self.returncode}"
            if self.returncode < 0
            else f"ended with code {self.returncode}"
        )
        last = self.output.strip().splitlines()[-1:] if self.output else []
        return f"{self.program} {how}" + (f": {last[0]}" if last else "")


class StepTimeout(HoldfastError, TimeoutError):
    code = "step_timeout"
    exit_code = 1

    def __init__(self, step: str, seconds: float, scope: str = "attempt") -> None:
        self.step = step
        self.seconds = seconds
        self.scope = scope
        super().__init__(step, seconds, scope)

    def __str__(self) -> str:
        return f"step {self.step}: the {self.scope} took longer than {self.seconds:g} s"


class NotStorable(HoldfastError, TypeError):
    """A value that cannot be stored so that it comes back equal and of the same type."""

    code = "not_storable"
    exit_code = 1

    def __init__(self, path: str, why: str, where: str = "") -> None:
        self.path = path
        self.why = why
        self.where = where
        super().__init__(path, why, where)

    def __str__(self) -> str:
        place = f"{self.where} at {self.path}" if self.where else self.path
        return f"{place} cannot be stored: {self.why}"


class DetachedStep(HoldfastError, RuntimeWarning):
    code = "detached_step"
    exit_code = 2


class ArgumentChanged(HoldfastError, RuntimeWarning):
    code = "argument_changed"
    exit_code = 2


class NotAwaited(HoldfastError):
    code = "not_awaited"
    exit_code = 2
