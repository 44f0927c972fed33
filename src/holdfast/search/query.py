"""The language of queries: words, "phrases", prefix*, -word. Everything else is text to look for.

All words and phrases must be in an item; none of those with a `-` in front may be. What stands between
letters and digits is not looked at: `read_config` and `a-b` are phrases of two words. A word without any
letter or digit is left out.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from holdfast.errors import BadInput
from holdfast.search.words import Tokenizer

MOST_TERMS: Final = 64
MOST_WORDS: Final = 1000
_TERM: Final = re.compile(r'(?P<no>-(?=["\w]))?(?:"(?P<phrase>[^"]*)(?:"|$)(?P<more>\*)?|(?P<word>\S+))')


class Term(NamedTuple):
    """Words that follow each other; with `prefix` the last one is the beginning of a word."""

    words: tuple[str, ...]
    prefix: bool = False

    def matched_at(self, words: list[str], at: int) -> bool:
        """Whether these words have the term at that place."""
        last = at + len(self.words) - 1
        if last >= len(words) or tuple(words[at:last]) != self.words[:-1]:
            return False
        return words[last].startswith(self.words[-1]) if self.prefix else words[last] == self.words[-1]

    @property
    def expression(self) -> str:
        """In the syntax of FTS5: words have neither quotes nor operators in them."""
        return f'"{" ".join(self.words)}"' + (" *" if self.prefix else "")


class Query(NamedTuple):
    """The terms that an item must have, and those it must not have."""

    has: tuple[Term, ...] = ()
    lacks: tuple[Term, ...] = ()
    is_hopeless: bool = False
    """There was something to look for, and no word in it."""

    @property
    def wanted(self) -> str:
        """The terms that an item must have and must not have, in the syntax of FTS5; empty for none."""
        found = " AND ".join(term.expression for term in self.has)
        return f"({found}) NOT ({self.unwanted})" if found and self.lacks else found

    @property
    def unwanted(self) -> str:
        """The terms that it must not have, in the same syntax."""
        return " OR ".join(term.expression for term in self.lacks)


def read_query(text: str, tokens: Tokenizer) -> Query:
    """Raises `BadInput` for one that is too long; for no other text."""
    has: list[Term] = []
    lacks: list[Term] = []
    terms = list(_TERM.finditer(text.replace("\0", " ")))
    for found in terms:
        word, phrase = found["word"], found["phrase"]
        prefix = word.endswith("*") if word is not None else found["more"] is not None
        words = tuple(one.text for one in tokens(phrase if word is None else word))
        if words:
            (lacks if found["no"] else has).append(Term(words, prefix))
    count = sum(len(term.words) for term in (*has, *lacks))
    if len(has) + len(lacks) > MOST_TERMS or count > MOST_WORDS:
        raise BadInput(
            f"the query has {count:,} words in {len(has) + len(lacks):,} parts; name at most {MOST_TERMS} "
            "words or phrases"
        )
    return Query(
        tuple(dict.fromkeys(has)), tuple(dict.fromkeys(lacks)), bool(terms) and not has and not lacks
    )
