"""A command line: its words, directory, variables and input, what identifies it, and how it is shown."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from holdfast.engine.execution.arguments import Digested, Signature
from holdfast.errors import BadInput
from holdfast.kernel.identity import check_text
from holdfast.redaction import Secret, revealed

if TYPE_CHECKING:
    from holdfast.redaction import Redactor


Word = str | Secret
"""One word of a command line."""


def _parameters(
    argv: Sequence[Word],
    cwd: str | None = None,
    env: Mapping[str, Word] | None = None,
    stdin: Word | None = None,
) -> None:
    """The parts of a command that identify it."""


def _shown(argv: Sequence[Word], cwd: str | None = None, env: Mapping[str, Word] | None = None) -> None:
    """The command as the log shows it: an input may be long, and the words matter more."""


class CommandLine(NamedTuple):
    """The input of a program: its words, directory, added variables, and the text of its standard input."""

    argv: tuple[Word, ...]
    cwd: str | None
    env: Mapping[str, Word]
    stdin: Word | None

    @classmethod
    def of(
        cls,
        argv: Sequence[Word | os.PathLike[str]],
        cwd: str | os.PathLike[str] | None,
        env: Mapping[str, Word] | None,
        stdin: Word | None,
    ) -> CommandLine:
        """Raises `BadInput` for what a program cannot be given, and for a secret where it would show."""
        words = tuple(_word(word, "command(): a word of the command") for word in argv)
        check_text(words[0], "command(): the program")
        variables = {
            check_text(name, "command(env=...): the name of a variable"): _word(
                value, f"command(env=...): the variable {name}"
            )
            for name, value in (env or {}).items()
        }
        where = None if cwd is None else check_text(_plain(cwd), "command(cwd=...)")
        if stdin is not None and not isinstance(stdin, (str, Secret)):
            raise BadInput(f"command(stdin=...) must be text or a Secret, not {stdin!r}")
        return cls(words, where, variables, stdin)

    @property
    def program(self) -> str:
        return revealed(self.argv[0])

    @property
    def identity(self) -> str:
        """The digest of all words, a secret by its name."""
        return _SIGNATURE.digest((self.argv, self.cwd, self.env or None, self.stdin), {}).digest

    def digested(self, redactor: Redactor) -> Digested:
        """The identity by all words, a secret by its name. What the log shows of them is redacted: plain text
        may be a secret too."""
        hidden = redactor.redact_value({"argv": self.argv, "env": dict(self.env) or None})
        shown = _SHOWN.digest((hidden["argv"], self.cwd, hidden["env"]), {})
        return Digested(self.identity, shown.args, shown.preview, shown.size)

    def older_digests(self) -> Iterable[str]:
        """The digest that this command had when its input did not count."""
        return (_SHOWN.digest((self.argv, self.cwd, self.env or None), {}).digest,)

    def shown(self, redactor: Redactor) -> tuple[str, ...]:
        """The words as a result has them."""
        return tuple(repr(one) if isinstance(one, Secret) else redactor.redact(one) for one in self.argv)


def _word(value: object, what: str) -> Word:
    value = _plain(value)
    if isinstance(value, (str, Secret)):
        return value
    if isinstance(value, (int, float)):
        return str(value)
    raise BadInput(f"{what} must be text or a Secret, not {value!r}")


def _plain(value: object) -> object:
    """A path as its text."""
    return os.fsdecode(value) if isinstance(value, (bytes, os.PathLike)) else value


_SIGNATURE = Signature(_parameters, "command")
_SHOWN = Signature(_shown, "command")
