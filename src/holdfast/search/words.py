"""The words of a text, as the index has them.

SQLite's tokenizer splits a text at everything that is neither a letter nor a digit, and folds case and
accents. It takes a line of Chinese, Japanese or Korean for one word, because nothing is between the
characters: here each of them is a word of its own, and a word of a query is a phrase of them.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import apsw

_IDEOGRAPH: Final = re.compile(
    "[\u2e80-\u2fdf\u3040-\u30ff\u3100-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)


def spaced(text: str) -> str:
    """The text with spaces around each character that is a word of its own."""
    return text if text.isascii() else _IDEOGRAPH.sub(r" \g<0> ", text)


class Word(NamedTuple):
    """A word at [start, end) of a text, folded."""

    start: int
    end: int
    text: str


class Tokenizer:
    """Splits texts as the index does."""

    def __init__(self, db: apsw.Connection) -> None:
        self._tokenize = db.fts5_tokenizer("unicode61", ["remove_diacritics", "2"])

    def __call__(self, text: str) -> list[Word]:
        text = text.replace("\0", " ")
        if text.isascii():
            return self._split(text.encode())
        return self._words(text)

    def _split(self, data: bytes) -> list[Word]:
        found: Any = self._tokenize(data, apsw.FTS5_TOKENIZE_QUERY, None)
        return [Word(*one) for one in found]

    def _words(self, text: str) -> list[Word]:
        origin: list[int] = []
        """Of each byte of what is split: the place in the text of the character that it is a part of."""
        data = bytearray()
        for at, char in enumerate(text):
            one = char.encode("utf-8", "replace")
            if _IDEOGRAPH.match(char):
                one = b" " + one + b" "
            data += one
            origin += [at] * len(one)
        return [
            Word(origin[one.start], origin[one.end - 1] + 1, one.text) for one in self._split(bytes(data))
        ]
