"""Redaction: secrets do not leave holdfast in text, and a `Secret` does not show itself.

Two sources say what is secret: patterns for the usual kinds, and values that are known to be
secret. What matches becomes `[redacted:kind]`, or `[redacted]` for a known value; redacting twice
changes nothing more. It errs towards hiding, and it is no proof: a secret of an unknown kind that
was not registered looks like any other text.
"""

from __future__ import annotations

import codecs
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple, NoReturn
from weakref import WeakValueDictionary

from holdfast import errors

MIN_VALUE = 6  # shorter values would blank out ordinary words
_MIN_LINE = 12  # the same for the lines of a value that has several

_LOOKBEHIND = 16  # how far before its anchor a pattern may look
_REDACTED = r"(?!\[redacted)"
# What stands where a secret would, and is none: a variable, a placeholder, nothing.
_HARMLESS = (
    r"(?!\[redacted|(?i:none|null|nil|true|false|undefined)(?:[\s\"',;)}\]]|$)"
    r"|\$\{?[A-Z_][A-Z0-9_]*+\}?(?:[\s\"']|$)|\$\(|<[\w -]{1,40}>|\*+(?:\W|$))"
)
_PEM = r"[A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----"
_PEM_SPACE = r"(?:\s|\\[nr])*+"
_QUOTE = r"\\{0,3}[\"']"  # JSON inside JSON escapes its quotes

# Names whose values are secret, from the word that is searched for. `token` but not `max_tokens`;
# `key` after a word that makes it one, or in capitals as in an environment. PWD is a directory.
_NAME = (
    r"(?:(?i:passw(?:or)?d|passphrase|secret|token|(?<=_)pass(?==))|KEY"
    r"|(?i:(?:(?<=api)|(?<=api[_-])|(?<=access)|(?<=access[_-])|(?<=auth[_-])|(?<=private)|(?<=private[_-])"
    r"|(?<=secret)|(?<=secret[_-])|(?<=signing[_-])|(?<=encryption[_-])|(?<=account)|(?<=account[_-]))key))"
    r"(?i:[_-]?(?:\d{1,3}|access[_-]?key|key|value|prod|staging|live|dev|test))?"
)


class _Span(NamedTuple):
    """A secret at [start, end) and its mark; it is found only in text that begins at `reach`."""

    start: int
    end: int
    mark: str
    reach: int


class _Kind:
    """One kind of secret: the pattern is tried only where one of the anchors stands.

    A group named `secret` is what gets replaced; without one it is the whole match. Quantifiers
    are bounded or possessive, so text of any shape takes linear time. Only the pattern for private
    keys crosses lines; StreamRedactor relies on it. It is compiled where its anchor first stands: all
    of them at import would cost 5 ms.
    """

    def __init__(self, name: str, anchors: str, *pattern: str) -> None:
        self.name = name
        self.anchors = tuple(anchors.split())
        self._source = "".join(pattern)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self._source)

    def spans(self, text: str, searched: str, anchor: str) -> Iterator[_Span]:
        pattern = self._pattern
        group = "secret" if "secret" in pattern.groupindex else 0
        at = searched.find(anchor)
        while at >= 0:
            match = pattern.match(text, at)
            if match is not None:
                yield _Span(*match.span(group), f"[redacted:{self.name}]", max(0, at - _LOOKBEHIND))
                at = match.end() - 1
            at = searched.find(anchor, at + 1)


def _by_anchor(*kinds: _Kind) -> tuple[tuple[str, list[_Kind]], ...]:
    anchors = dict.fromkeys(anchor for kind in kinds for anchor in kind.anchors)
    return tuple((anchor, [kind for kind in kinds if anchor in kind.anchors]) for anchor in anchors)


# By a character that text must contain: one fast search spares the anchors of a whole group.
_KINDS = {
    "-": _by_anchor(
        _Kind("anthropic-key", "sk-ant-", r"\bsk-ant-[\w-]{8,}+"),
        _Kind(
            "api-key",
            "sk-",
            r"\bsk-(?!ant-)(?:(?:proj|svcacct|admin|or)-[\w-]{12,}+|[A-Za-z0-9]{20,}+",
            r"|(?=[A-Za-z_-]{0,200}\d)[\w-]{12,}+)",
        ),
        _Kind("slack-token", "xox", r"\bxox[abeoprs]-[\w-]{8,}+"),
        _Kind("gitlab-token", "glpat-", r"\bglpat-[\w-]{16,}+"),
        _Kind(
            "private-key",
            "-----BEGIN",
            rf"-----BEGIN{_PEM}{_PEM_SPACE}(?:[A-Z][A-Za-z-]{{2,20}}: [^\r\n\\\"]*+{_PEM_SPACE})*+",
            rf"[\sA-Za-z0-9+/=\\]*+(?:-----END{_PEM})?",
        ),
    ),
    "_": _by_anchor(
        _Kind("github-token", "gh", r"\bgh[pousr]_[A-Za-z0-9]{16,}+"),
        _Kind("github-token", "github_pat_", r"\bgithub_pat_\w{16,}+"),
        _Kind("stripe-key", "sk_ rk_ wk_", r"\b[srw]k_(?:live|test)_\w{10,}+"),
    ),
    "A": _by_anchor(
        _Kind("aws-key-id", "AKIA ASIA", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
        _Kind("google-key", "AIza", r"\bAIza[\w-]{30,}+"),
    ),
    "J": _by_anchor(_Kind("jwt", "eyJ", r"\beyJ[\w-]{6,8192}+\.[\w-]{6,16384}+\.[\w-]{6,4096}+")),
    "@": _by_anchor(
        _Kind(
            "password",
            "://",
            rf"://[^\s/:@\"'<>]{{0,256}}+:{_REDACTED}(?P<secret>[^\s/@\"'<>]{{1,512}}+)(?=@)",
        ),
    ),
}
_BEARER = _Kind(
    "authorization",
    "bearer",
    rf"\b(?i:bearer)[ \t]{{1,8}}{_HARMLESS}(?=\S{{20}}|\S{{0,64}}\d)(?P<secret>[\w.~+/=-]{{6,}}+)",
)
# Searched in lower-case text, and only where a name can have a value.
_NAMED = _by_anchor(
    _Kind(
        "authorization",
        "authorization",
        rf"(?i:authorization(?:{_QUOTE})?[ \t]{{0,8}}[:=][ \t]{{0,8}}(?:{_QUOTE})?",
        r"(?:(?:bearer|basic|token|digest)[ \t]{1,8}|(?=\S{0,64}\d)))",
        rf"{_HARMLESS}(?P<secret>[\w.~+/=:-]{{4,}}+)",
    ),
    _Kind(
        "secret",
        "pass secret token key",
        rf"{_NAME}(?:{_QUOTE})?[ \t]{{0,8}}(?::=|=>|[:=])[ \t]{{0,8}}[bru]?(?P<quote>{_QUOTE}){_HARMLESS}",
        r"(?P<secret>(?:(?!(?P=quote))[^\r\n]){1,4096}+)",
    ),
    _Kind(
        "secret",
        "pass secret token key",
        rf"{_NAME}(?:=(?!=)|(?:{_QUOTE})?[ \t]{{0,8}}[:=][ \t]{{0,8}}(?=\S{{0,64}}\d)(?=\S{{6}})){_HARMLESS}",
        r"(?P<secret>[^\s\"'`&,;|)\]}\\]{1,4096}+)",
    ),
)


@cache
def _secret_key() -> re.Pattern[str]:
    names = r"(?i:(?:proxy[_-])?authorization|(?:set[_-])?cookie)"
    return re.compile(rf"(?:.*[\W_a-z]|){_NAME}|{names}", re.DOTALL)


class Redactor:
    """Replaces secrets in text. Safe to share between threads; `add` takes effect at once."""

    def __init__(self, extra_patterns: Sequence[str] = (), values: Iterable[str] = ()) -> None:
        """`extra_patterns` are regular expressions; a group named `secret` narrows what is replaced.

        SettingsError for one that does not compile.
        """
        self._values: tuple[str, ...] = ()
        self._extra: list[re.Pattern[str]] = []
        for pattern in extra_patterns:
            try:
                self._extra.append(re.compile(pattern))
            except re.error as error:
                raise errors.SettingsError(
                    f"{pattern!r} is no regular expression: {error}; correct it"
                ) from error
        for value in values:
            self.add(value)

    def add(self, value: str) -> None:
        """Register a value as secret, also as it looks in JSON and in a URL, and its longer lines.

        One of fewer than MIN_VALUE characters is ignored.
        """
        # Longest first, so that no value is left with the ends of one that contains it.
        self._values = tuple(sorted({*self._values, *_forms(value)}, key=lambda form: (-len(form), form)))

    @property
    def longest(self) -> int:
        """The length of the longest value."""
        return max(map(len, (*self._values[:1], *_known.forms())), default=0)

    def redact(self, text: str) -> str:
        spans = self.spans(text)
        return _apply(text, spans) if spans else text

    def redact_value(self, value: Any) -> Any:
        """A copy of JSON-like data with every string redacted, and whole under a name like `password`."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {self.redact_value(key): self._redact_under(key, item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.redact_value(item) for item in value]
        if type(value) is tuple:
            return tuple(self.redact_value(item) for item in value)
        return value

    def redact_under(self, name: str, text: str) -> str:
        """The text that stands under a name: nothing is left of it if that is one like `password`."""
        if text and _secret_key().fullmatch(name):
            return text if text.startswith("[redacted") else "[redacted:secret]"
        return self.redact(text)

    def _redact_under(self, key: object, value: Any) -> Any:
        if isinstance(key, str) and key != "$secret":  # the codec's tag: a Secret by its name
            if isinstance(value, str):
                return self.redact_under(key, value)
            if isinstance(value, list):
                return [self._redact_under(key, item) for item in value]
            if type(value) is tuple:
                return tuple(self._redact_under(key, item) for item in value)
        return self.redact_value(value)

    def spans(self, text: str) -> list[_Span]:
        """Where secrets are, in order of their start; they may overlap."""
        spans: list[_Span] = []
        for value in (*self._values, *_known.forms()):
            if value in text:
                spans.extend(
                    _Span(*match.span(), "[redacted]", match.start())
                    for match in re.finditer(re.escape(value), text)
                )
        for gate, anchors in _KINDS.items():
            if gate in text:
                for anchor, kinds in anchors:
                    if anchor in text:
                        for kind in kinds:
                            spans.extend(kind.spans(text, text, anchor))
        if "earer" in text:
            spans.extend(_BEARER.spans(text, _lower(text), "bearer"))
        if "=" in text or ":" in text:
            lower = _lower(text)
            for anchor, kinds in _NAMED:
                if anchor in lower:
                    for kind in kinds:
                        spans.extend(kind.spans(text, lower, anchor))
        for pattern in self._extra:
            group = "secret" if "secret" in pattern.groupindex else 0
            spans.extend(
                _Span(*match.span(group), "[redacted]", match.start())
                for match in pattern.finditer(text)
                if match.end() > match.start()
            )
        spans.sort()
        return spans


def _forms(value: str) -> tuple[str, ...]:
    """A secret value as it may stand in text, the longest form first; none for one that is too short."""
    value = value.strip()
    if len(value) < MIN_VALUE:
        return ()
    from json import dumps
    from urllib.parse import quote

    forms = {value, dumps(value)[1:-1], quote(value, safe="")}
    forms.update(line for part in value.splitlines() if len(line := part.strip()) >= _MIN_LINE)
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def _lower(text: str) -> str:
    """Lower case with every character at its place: İ is the one that would become two."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text.replace("İ", "I").lower()


def _apply(text: str, spans: Iterable[_Span]) -> str:
    parts: list[str] = []
    done = 0
    for span in spans:
        if span.start >= done:
            parts += text[done : span.start], span.mark
        done = max(done, span.end)
    parts.append(text[done:])
    return "".join(parts)


class StreamRedactor:
    """Redacts text that arrives as chunks of bytes: what a chunk's edge splits does not leak.

    It lets whole lines out and holds the rest back until the line is complete, so a prompt without
    a newline shows only when more follows. Of a line longer than LINE_MAX it holds back a window
    that any secret fits into; a private key is held until its end. Nothing is held beyond HOLD_MAX.
    """

    LINE_MAX = 16 * 1024
    WINDOW = 4 * 1024
    HOLD_MAX = 128 * 1024

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""

    def feed(self, data: bytes) -> str:
        """Take a chunk; the text that can be shown now."""
        text = self._held + self._decoder.decode(data)
        cut = max(text.rfind("\n"), text.rfind("\r")) + 1
        if len(text) - cut > self.LINE_MAX:
            cut = len(text) - max(self.WINDOW, self._redactor.longest)
        if cut <= 0:
            self._held = text
            return ""
        spans = self._redactor.spans(text)
        for span in sorted(spans, key=lambda span: span.reach, reverse=True):
            if span.reach < cut <= span.end:
                cut = span.reach
        if len(text) - cut > self.HOLD_MAX:
            cut = len(text)
        self._held = text[cut:]
        return _apply(text[:cut], (span for span in spans if span.end <= cut))

    def flush(self) -> str:
        """The rest, at the end of the stream."""
        text, self._held = self._held + self._decoder.decode(b"", final=True), ""
        return self._redactor.redact(text)


class _KnownValue:
    """The value of Secrets: each of them refers to it, so it lives as long as one of them."""

    __slots__ = ("__weakref__", "forms", "text")

    def __init__(self, text: str, forms: tuple[str, ...]) -> None:
        self.text = text
        self.forms = forms


class _KnownValues:
    """The values of the Secrets of this process, with the forms in which they are looked for.

    Code that uses one may fail with it in a message, or start a program that prints it. A value is known as
    long as there is a Secret that has it. A revealed value outlives its Secret: those that were made or
    revealed last are known for longer.
    """

    MOST_RECENT = 1000

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may use a Secret
        self._living: WeakValueDictionary[str, _KnownValue] = WeakValueDictionary()
        self._recent: dict[str, _KnownValue] = {}
        self._forms: tuple[str, ...] | None = ()
        """None where it must be worked out again."""
        os.register_at_fork(after_in_child=self._in_child)

    def add(self, text: str) -> _KnownValue | None:
        """Every redactor of this process hides the value from now on, if it is long enough."""
        forms = _forms(text)
        if not forms:
            return None
        with self._lock:
            known = self._living.get(text)
            if known is None:
                known = self._living[text] = _KnownValue(text, forms)
                self._forms = None
            self._renew(known)
        return known

    def renew(self, known: _KnownValue) -> None:
        """It is in use."""
        with self._lock:
            self._renew(known)

    def _renew(self, known: _KnownValue) -> None:
        self._recent.pop(known.text, None)
        self._recent[known.text] = known
        if len(self._recent) > self.MOST_RECENT:
            del self._recent[next(iter(self._recent))]

    def forms(self) -> tuple[str, ...]:
        forms = self._forms
        if forms is None:
            with self._lock:
                living = [known for one in self._living.valuerefs() if (known := one()) is not None]
                forms = self._forms = tuple(form for known in living for form in known.forms)
        return forms

    def _in_child(self) -> None:
        self._lock = threading.RLock()  # another thread of the parent may have had it


_known = _KnownValues()


def revealed(word: str | Secret) -> str:
    """The text for the program or function that needs it."""
    return word.reveal() if isinstance(word, Secret) else word


class Secret:
    """A value that is used but not shown: it prints, digests and compares by its name.

    It is neither pickled nor stored; `reveal` gives the value to the code that needs it. As long as there is
    a Secret with it, the value is hidden where text of this process is stored or shown: in errors, and in the
    output of steps and commands. The 1000 values that were made or revealed last are hidden in any case.
    """

    __slots__ = ("_known", "_name", "_value")

    def __init__(self, name: str, value: str) -> None:
        given: tuple[object, object] = (name, value)
        if not all(isinstance(part, str) for part in given) or not name:
            raise errors.BadArguments("a Secret takes a name and a value, both text: Secret('name', 'value')")
        self._name = name
        self._value = value
        self._known = _known.add(value)

    @property
    def name(self) -> str:
        return self._name

    def reveal(self) -> str:
        if self._known is not None:
            _known.renew(self._known)
        return self._value

    def __repr__(self) -> str:
        return f"Secret({self._name!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return (self._name, self._value) == (other._name, other._value)

    def __hash__(self) -> int:
        return hash((Secret, self._name, self._value))

    def __holdfast_digest__(self) -> str:
        return f"secret:{self._name}"

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(f"{self!r} is not pickled, so that its value stays in this process; pass its name")
