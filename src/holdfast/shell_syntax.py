"""Shell syntax in a command line: `holdfast run` starts no shell, so it refuses such a line."""

from __future__ import annotations

import re
from glob import glob

_OPERATORS = re.compile(r"&&|\|\||;;|>>|<<|[0-9]?>&[0-9-]|&>|[|&;<>()\n]")
_EXPANSION = re.compile(r"\$(?:\w+|\{[^}]*\}?|[@*#?$!-])|\$\(\(?|`")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=\S*(?=\s)")


def shell_syntax(line: str) -> str | None:
    """The first thing in the line that only a shell understands, None if there is none.

    Quoted text is a word, but a shell replaces variables and substitutions inside double quotes, too. A
    pattern counts if it matches files here: without a match, a shell passes it on as it is.
    """
    line = line.strip()
    assigned = _ASSIGNMENT.match(line)
    if assigned:
        return assigned[0]
    at, quote, word = 0, "", ""
    while at < len(line):
        char = line[at]
        if quote == "'":
            quote = "" if char == "'" else quote
        elif char == "\\":
            word += line[at : at + 2]
            at += 1
        elif quote:
            found = _EXPANSION.match(line, at)
            if found:
                return found[0]
            quote = "" if char == '"' else quote
        elif char in "'\"":
            quote = char
            word += "\\"  # no longer bare: a quoted word is no pattern, home or comment
        else:
            found = _OPERATORS.match(line, at) or _EXPANSION.match(line, at)
            if found:
                return found[0]
            if char.isspace():
                if _is_replaced(word):
                    return word
                word = ""
            else:
                word += char
        at += 1
    return word if _is_replaced(word) else None


def _is_replaced(word: str) -> bool:
    """Whether a shell would put something else in the place of a bare word."""
    if "\\" in word:
        return False
    if word.startswith(("~", "#")):
        return True
    return any(char in word for char in "*?[") and bool(glob(word))  # noqa: PTH207
