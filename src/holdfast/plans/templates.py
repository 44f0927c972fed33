"""Texts with `${...}`: an expression inside one argument, variable, prompt or title.

The value of an expression stays inside the text that it stands in: it never becomes several arguments, and no
shell reads it. `$${` is a plain `${`.
"""

from __future__ import annotations

import json
import shlex
from functools import lru_cache
from typing import Any

from holdfast.errors import BadExpression
from holdfast.plans.expressions import Expression, Values, evaluate, parse

Part = str | Expression
_HOLDER = "\ue000"
"""Stands for an expression while a command line is split; a character of no language."""


@lru_cache(maxsize=4096)
def parts(text: str) -> tuple[Part, ...]:
    """The texts and expressions in their order. Raises `BadExpression`."""
    found: list[Part] = []
    at, plain = 0, ""
    while at < len(text):
        if text.startswith("$${", at):
            plain += "${"
            at += 3
        elif text.startswith("${", at):
            end = _end(text, at + 2)
            if plain:
                found.append(plain)
            plain = ""
            found.append(parse(text[at + 2 : end]))
            at = end + 1
        else:
            plain += text[at]
            at += 1
    return (*found, plain) if plain else tuple(found)


def _end(text: str, at: int) -> int:
    """The place of the brace that closes the expression."""
    quote, depth = "", 0
    for place in range(at, len(text)):
        char = text[place]
        if quote:
            quote = "" if char == quote and text[place - 1] != "\\" else quote
        elif char in "'\"":
            quote = char
        elif char == "{":
            depth += 1
        elif char == "}":
            if depth == 0:
                return place
            depth -= 1
    raise BadExpression("`${` is not closed; write `$${` for the characters themselves")


def expressions(text: str) -> list[Expression]:
    return [part for part in parts(text) if isinstance(part, Expression)]


def is_plain(text: str) -> bool:
    """Whether it holds no expression."""
    return "${" not in text or not expressions(text)


def render(text: str, values: Values) -> str:
    """The text with its values. Raises `BadExpression` if one has none here."""
    if "${" not in text:
        return text
    return "".join(
        part if isinstance(part, str) else shown(evaluate(part.text, values)) for part in parts(text)
    )


def fill(value: Any, values: Values) -> Any:
    """Data with its values: a text that is one expression becomes the value itself."""
    if isinstance(value, str):
        found = parts(value) if "${" in value else ()
        if len(found) == 1 and isinstance(found[0], Expression):
            return evaluate(found[0].text, values)
        return render(value, values)
    if isinstance(value, list):
        return [fill(one, values) for one in value]
    if isinstance(value, dict):
        return {key: fill(one, values) for key, one in value.items()}
    return value


def shown(value: Any) -> str:
    """A value as text: text as it is, nothing for None, JSON for all else."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return json.dumps(value, ensure_ascii=False, default=_record)
    except (TypeError, ValueError):
        raise BadExpression(f"a {type(value).__name__} has no text; name a part of it") from None


def _record(value: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(value)


def split(line: str) -> tuple[str, ...]:
    """A command line as words; an expression is never split. Raises `ValueError`."""
    held: list[str] = []
    text, at = "", 0
    while at < len(line):
        if line.startswith("${", at) and not line.startswith("$${", at - 1):
            end = _end(line, at + 2)
            held.append(line[at : end + 1])
            text += _HOLDER
            at = end + 1
        else:
            text += line[at]
            at += 1
    kept = iter(held)
    return tuple(
        "".join(next(kept) if char == _HOLDER else char for char in word) for word in shlex.split(text)
    )


_SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "fish", "ash", "busybox"}
_INTERPRETERS = {"python", "python3", "perl", "ruby", "node", "osascript"}


_JOINING = {"eval", "ssh", "rsh", "watch"}
"""Programs that join their arguments to one text, which a shell reads, `ssh` that of the other machine."""


def _command_words(argv: tuple[str, ...], place: int, program: str) -> range:
    """The places of the words that such a program joins: behind its options, and behind the host."""
    n = place + 1
    while program != "eval" and n < len(argv) and argv[n].startswith("-"):
        n += 2 if len(argv[n]) == 2 and argv[n][1] in _WITH_VALUE.get(program, "n") else 1
    return range(n + 1 if program in ("ssh", "rsh") else n, len(argv))


_WITH_VALUE = {"ssh": "bcDEeFIiJLlmOopPQRSWw", "rsh": "l"}
"""Options that the next argument belongs to; of `watch`, `-n`."""


def reads_as_code(argv: tuple[str, ...], is_value: tuple[bool, ...]) -> int | None:
    """The place of an argument with a value in it that a shell or an interpreter would read as a program:
    `sh -c "echo ${x}"`. None if there is none."""
    for place, word in enumerate(argv):
        program = word.rpartition("/")[2]
        flags = "c" if program in _SHELLS else "ce" if program.rstrip(".0123456789") in _INTERPRETERS else ""
        if program in _JOINING:
            return next((n for n in _command_words(argv, place, program) if is_value[n]), None)
        if not flags:
            continue
        for n in range(place + 1, len(argv)):
            word_n = argv[n]
            if word_n.startswith("-") and not word_n.startswith("--") and set(flags) & set(word_n[1:]):
                if is_value[n]:
                    return n
                if n + 1 < len(argv) and is_value[n + 1]:
                    return n + 1
                break
            if not word_n.startswith("-") and argv[n - 1] not in ("-o", "-O", "-W", "-X"):
                break
    return None
