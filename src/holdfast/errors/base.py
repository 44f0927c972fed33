"""The root of all errors, and the three kinds that most others are: a wrong request, a command that does
not fit, something that is not there."""

from __future__ import annotations

from typing import ClassVar

from holdfast.ways import Way


def not_text(text: str) -> str:
    """The sentence on a name with bytes that are not UTF-8, which Python passes on as lone surrogates."""
    shown = text if len(text) <= 200 else f"{text[:200]}..."
    return f"{shown!r} has bytes that are not UTF-8, and the log keeps only text: name it otherwise"


class HoldfastError(Exception):
    """The root: catch it to catch everything that holdfast itself raises."""

    code: ClassVar[str] = "holdfast"
    exit_code: ClassVar[int] = 70

    @property
    def ways(self) -> tuple[Way, ...]:
        """The ways to continue, as data; the message names the same as command lines."""
        return ()


def with_more(error: HoldfastError, more: str) -> HoldfastError:
    """An error of the same kind with a longer message. A new one: those who shared a commit may
    all have the one that was raised."""
    fuller = type(error).__new__(type(error))
    fuller.__dict__.update(vars(error))
    fuller.args = (f"{error}; {more}",)
    return fuller


class BadInput(HoldfastError):
    code = "bad_input"
    exit_code = 2


class BadArguments(BadInput, TypeError):
    code = "bad_arguments"


class Refused(BadInput):
    """The command does not fit the run's state."""

    code = "refused"


class SettingsError(BadInput):
    code = "bad_setting"


class NotTrusted(BadInput):
    """A file or store came from somewhere else, or others can change it."""

    code = "not_trusted"
    exit_code = 9


class WrongColour(BadInput, RuntimeError):
    code = "wrong_colour"


class NotFound(HoldfastError):
    code = "not_found"
    exit_code = 3
