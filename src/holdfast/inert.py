"""Text from outside, made so that a terminal obeys nothing in it and a person sees all of it.

Names, titles, errors, results, file names and the output of programs may hold anything: sequences that set
the clipboard or clear the screen, marks that turn the direction of text around, characters that take no room.
Each becomes a sign that shows it: `␛` for a control character, `<U+200B>` for one that would not be seen.

A zero-width joiner or non-joiner is marked too, also where a language needs it: what a person approves must
read as what it is.
"""

from __future__ import annotations

import re

_SPACES = "\t\n\r"
_BLANK = frozenset(
    (
        0x034F,  # combining grapheme joiner
        0x115F, 0x1160, 0x3164, 0xFFA0,  # Hangul fillers
        0x17B4, 0x17B5,  # Khmer vowels without a sign
        0x2800,  # an empty Braille pattern
        *range(0x180B, 0x1810),  # Mongolian selectors
        *range(0xFE00, 0xFE0E),  # variation selectors; the two that choose between emoji and text stay
        *range(0xE0100, 0xE01F0),
    )
)  # fmt: skip
"""Characters that count as letters or marks and are not seen."""
# As text: `re` compiles and keeps each when it is first needed, and most commands need none.
_SELECTORS = "([\ufe0e\ufe0f])([\ufe0e\ufe0f]+)"
_COLOUR = "\x1b\\[([0-9;:]{0,64})m"
"""Longer ones are marked as any other control sequence."""
_SUBPARAMETERS = "4:[0-5]|[345]8:5:[0-9]+|[345]8:2(?::[0-9]*){3,6}"
"""A kind of underline, and a colour by its number or its parts, written with colons."""
_HARMLESS = frozenset((*range(8), 9, *range(20, 28), 29, *range(30, 50), 53, 55, 59, *range(90, 108)))
"""The permitted colours and weights: all but `conceal`."""
_RESET = "\x1b[0m"


class _Signs(dict[int, str]):
    """A character → what stands for it; worked out when it is first seen."""

    def __missing__(self, code: int) -> str:
        sign = self[code] = _sign(code)
        return sign


def _sign(code: int) -> str:
    char = chr(code)
    if code in _BLANK:
        return f"<U+{code:04X}>"
    if char.isprintable():
        return char
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    from unicodedata import category

    # Other spaces are seen as such; a private character is seen as something.
    return char if category(char) in ("Zs", "Co") else f"<U+{code:04X}>"


_signs = _Signs()
_line_signs = _Signs(dict.fromkeys(map(ord, _SPACES), " "))
_text_signs = _Signs({ord("\n"): "\n", ord("\t"): "\t"})
_live_signs = _Signs({ord("\n"): "\n", ord("\t"): "\t", ord("\r"): "\r"})


def one_line(text: str) -> str:
    """The text on one line: a line break or a tab is a space."""
    return _marked(text, _line_signs)


def lines(text: str) -> str:
    """The text with its line breaks and tabs; a lone carriage return, which would let the rest of the line be
    written over what was there, is a line break."""
    return _marked(text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text, _text_signs)


def printed(text: str, *, colour: bool, live: bool = False) -> str:
    """The output of a program: as `lines`, with its colours if the terminal has any. While it is `live`, a
    carriage return is obeyed: that is how programs show how far they are."""
    signs = _live_signs if live else _text_signs
    if "\r" in text and not live:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    parts = re.split(_COLOUR, text)
    made = [_marked(parts[0], signs)]
    last = ""
    for codes, rest in zip(parts[1::2], parts[2::2], strict=True):
        if not _is_harmless(codes):
            made.append(f"␛[{codes}m")
        elif colour:
            last = codes
            made.append(f"\x1b[{codes}m")
        made.append(_marked(rest, signs))
    if last.strip("0"):
        made.append(_RESET)  # what comes next is not the program's
    return "".join(made)


def _is_harmless(codes: str) -> bool:
    """Whether a terminal that splits at `;` first, as terminals do, finds nothing but colours and weights. A
    colour that is not complete is none: the terminal would take the number after it for a code."""
    parameters = codes.split(";")
    while parameters:
        first = parameters.pop(0)
        if ":" in first:
            if not re.fullmatch(_SUBPARAMETERS, first):
                return False
        elif int(first or 0) in (38, 48, 58):
            count = {"5": 1, "2": 3}.get(parameters.pop(0) if parameters else "", 0)
            parts, parameters = parameters[:count], parameters[count:]
            # A terminal that does not know 58 would take the parts for codes.
            if not count or len(parts) < count or ":" in "".join(parts) or (first == "58" and "8" in parts):
                return False
        elif int(first or 0) not in _HARMLESS:
            return False
    return True


def json(text: str) -> str:
    """JSON that means the same: what a terminal would obey, or not show, is written as an escape. It stands
    only inside of strings."""
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(char if char == "\n" or _signs[ord(char)] == char else _escape(char) for char in text)


def _escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[n]:02x}{units[n + 1]:02x}" for n in range(0, len(units), 2))


def _marked(text: str, signs: _Signs) -> str:
    if text.isascii() and text.isprintable():
        return text
    marked = text.translate(signs)
    if "\ufe0e" in marked or "\ufe0f" in marked:
        marked = re.sub(_SELECTORS, lambda found: found[1] + "".join(map(_selector, found[2])), marked)
    return marked


def _selector(char: str) -> str:
    return f"<U+{ord(char):04X}>"
