"""Reading one step of a plan file: its keys, their types, and what they must say."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from holdfast.errors import BadExpression
from holdfast.kernel.identity import NAME
from holdfast.plans import document, keys, templates
from holdfast.plans.document import Entry, Items, Mapping, Node, Scalar
from holdfast.plans.durations import seconds
from holdfast.plans.faults import nearest
from holdfast.plans.model import Effect, Kind, Retries
from holdfast.shell_syntax import shell_syntax

if TYPE_CHECKING:
    from holdfast.plans.reading import FaultList

_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
_TARGET = re.compile(r"(?:[^\W\d]\w*(?:\.[^\W\d]\w*)*|[^:]+\.py):[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_EFFECTS = get_args(Effect)


class StepReader:
    """Collects the fields of one `PlanStep`; each fault goes to `faults`, and reading continues."""

    def __init__(self, faults: FaultList, node: Mapping, defaults: dict[str, Entry]) -> None:
        self._faults = faults
        self.node = node
        self.fields: dict[str, Any] = {}
        self.kind: Kind | None = self._kind()
        self.id = self._id()
        takes_defaults = self.kind in keys.TAKE_DEFAULTS
        taken = keys.OF_KIND[self.kind] if self.kind else ()
        self._entries = {
            **({key: entry for key, entry in defaults.items() if takes_defaults and key in taken}),
            **node.value,
        }

    def read(self) -> None:
        """Every key but `plan`, `needs` and expressions, which need the other steps."""
        for name, entry in self.node.value.items():
            self._check_key(name, entry)
        readers: dict[str, Callable[[Entry], None]] = {
            "description": self._text_of("description"),
            "run": self._run, "python": self._python, "agent": self._text_of("text", "a prompt"),
            "approve": self._text_of("text", "the question"),
            "wait": self._name_of("text", "a signal's name"), "sleep": self._sleep,
            "tool": self._name_of("text", "a tool's name"), "by": self._name_of("by", "an agent's name"),
            "with": self._with, "show": self._expression_of("show"), "when": self._expression_of("when"),
            "foreach": self._expression_of("foreach"), "retry": self._retry, "timeout": self._timeout,
            "effect": self._effect, "writes": self._writes, "isolate": self._isolate, "env": self._env,
            "cwd": self._text_of("cwd", "a directory"), "stdin": self._text_of("stdin"),
            "milestone": self._name_of("milestone", "a name"),
        }  # fmt: skip
        for name, entry in self._entries.items():
            if name in readers:
                readers[name](entry)
        self._check_together()

    def _kind(self) -> Kind | None:
        given = [kind for kind in keys.KINDS if kind in self.node.value]
        if len(given) == 1:
            return given[0]
        where = self.node.value[given[1]] if given else self.node
        said = ", ".join(f"`{kind}`" for kind in given or keys.KINDS)
        text = f"a step does one thing, and this has {said}" if given else f"a step needs one of {said}"
        self._faults.add(where, text)
        return None

    def _id(self) -> str:
        entry = self.node.value.get("id")
        if entry is None:
            self._faults.add(self.node, "a step needs an `id`")
            return ""
        value = entry.node.value
        if not isinstance(value, str) or not _ID.fullmatch(value):
            self._faults.add(
                entry.node, f"`id: {document.plain(entry.node)}`: a letter, then letters, digits, `_` and `-`"
            )
            return ""
        if value in keys.RESERVED:
            self._faults.add(entry.node, f"`{value}` means something else in plans; choose another id")
        return value

    def _check_key(self, name: str, entry: Entry) -> None:
        if name not in keys.STEP:
            self._faults.add(entry, f"a step has no key `{name}`{nearest(name, keys.STEP)}")
        elif self.kind and name not in (*keys.ANY, *keys.KINDS, *keys.OF_KIND[self.kind]):
            self._faults.add(entry, f"`{name}` has no meaning for a `{self.kind}` step")

    def _check_together(self) -> None:
        effect, retry = self.fields.get("effect"), self.fields.get("retry")
        if effect == "once" and retry is not None and retry.attempts > 1:
            where = self._entries["retry"]
            self._faults.add(
                where, "`effect: once` forbids `retry`: a failed attempt may have happened; drop one of them"
            )
        for name in ("writes", "isolate"):
            if effect in ("once", "idempotent") and self.fields.get(name):
                self._faults.add(self._entries[name], f"`{name}` is for `effect: workspace`")

    # Texts and expressions

    def _string(self, entry: Entry, what: str) -> str | None:
        """A text; a number counts as its text."""
        node = entry.node
        if isinstance(node, Scalar) and isinstance(node.value, str) and "\0" not in node.value:
            return node.value
        if isinstance(node, Scalar) and type(node.value) in (int, float):
            return str(node.value)
        self._faults.add(node, f"{what} must be text, not {_kind(node)}")
        return None

    def _text_of(self, field: str, what: str = "") -> Callable[[Entry], None]:
        def read(entry: Entry) -> None:
            text = self._string(entry, what or f"`{field}`")
            if text is None:
                return
            if what and not text.strip():
                self._faults.add(entry.node, f"{what} is empty")
            self.template(entry.node, text)
            self.fields[field] = text

        return read

    def _name_of(self, field: str, what: str) -> Callable[[Entry], None]:
        def read(entry: Entry) -> None:
            text = self._string(entry, what)
            if text is None:
                return
            if not NAME.fullmatch(text) or "${" in text:
                self._faults.add(
                    entry.node, f"`{text}`: {what} has 1 to 200 characters, no space, none of / @ # [ ]"
                )
            self.fields[field] = text

        return read

    def _expression_of(self, field: str) -> Callable[[Entry], None]:
        def read(entry: Entry) -> None:
            value = entry.node.value
            if isinstance(value, bool) and isinstance(entry.node, Scalar):
                value = str(value).lower()
            if isinstance(entry.node, Items) and field == "foreach":
                value = repr(document.plain(entry.node))
            if not isinstance(value, str):
                self._faults.add(entry.node, f"`{field}` is an expression, not {_kind(entry.node)}")
                return
            inner = value.strip()
            if inner.startswith("${") and inner.endswith("}"):
                inner = inner[2:-1]
            self._faults.expression(entry.node, inner, self, field)
            self.fields[field] = inner

        return read

    def template(self, node: Node, text: str) -> None:
        """Look at the expressions of a text."""
        if "${" not in text:
            return
        try:
            found = templates.expressions(text)
        except BadExpression as error:
            self._faults.add(node, str(error))
            return
        for one in found:
            self._faults.expression(node, one.text, self, "")

    # What a step does

    def _run(self, entry: Entry) -> None:
        node = entry.node
        if isinstance(node, Items):
            words = [self._string(Entry(one, one.line, one.column), "a word of `run`") for one in node.value]
            argv = tuple(word for word in words if word is not None)
        else:
            line = self._string(entry, "`run`")
            argv = () if line is None else self._split(node, line)
        self.fields["argv"] = argv
        if not argv:
            if not isinstance(node, Items) and node.value not in ("", None):
                return  # said already
            self._faults.add(node, "`run` needs a program and its arguments: [git, status]")
            return
        for word in argv:
            self.template(node, word)
        self._check_program(node, argv)

    def _split(self, node: Node, line: str) -> tuple[str, ...]:
        try:
            argv = templates.split(line)
        except ValueError as error:
            self._faults.add(node, f"`run` cannot be split into words: {str(error).lower()}")
            return ()
        except BadExpression:
            return (line,)  # `template` has more to say about it
        sign = shell_syntax(_without_expressions(line))
        if sign is not None:
            self._faults.add(
                node, f"no shell reads `run`, and `{sign}` needs one: write [sh, -c, '...'], values in `env`"
            )
        return argv

    def _check_program(self, node: Node, argv: tuple[str, ...]) -> None:
        try:
            is_value = tuple(not templates.is_plain(word) for word in argv)
        except BadExpression:
            return
        place = templates.reads_as_code(argv, is_value)
        if place is not None:
            self._faults.add(
                node,
                f"`{argv[place]}` puts a value into a program that {argv[0]} reads; pass it in `env`, or as "
                'an argument behind the program: [sh, -c, \'echo "$1"\', sh, "${...}"]',
            )
        if not is_value[0]:
            self._faults.program(node, argv[0], self)

    def _python(self, entry: Entry) -> None:
        text = self._string(entry, "`python`")
        if text is None:
            return
        if not _TARGET.fullmatch(text):
            self._faults.add(entry.node, f"`{text}` names no function; write `module:function`")
            return
        self.fields["text"] = text
        self._faults.target(entry.node, text)

    def _sleep(self, entry: Entry) -> None:
        self._duration(entry, "seconds", "sleep")

    def _timeout(self, entry: Entry) -> None:
        self._duration(entry, "timeout", "timeout")
        if self.fields.get("timeout") == 0:
            self._faults.add(entry.node, "`timeout` must be more than 0 seconds")

    def _duration(self, entry: Entry, field: str, name: str) -> None:
        value = seconds(document.plain(entry.node))
        if value is None:
            self._faults.add(
                entry.node, f"`{name}` is a duration: a number of seconds, `90s`, `10m` or `1h30m`"
            )
        else:
            self.fields[field] = value

    def _with(self, entry: Entry) -> None:
        if not isinstance(entry.node, Mapping):
            self._faults.add(
                entry.node, f"`with` has arguments by name, {{path: a.txt}}, not {_kind(entry.node)}"
            )
            return
        for text in document.texts(entry.node):
            self.template(text, text.value)
        self.fields["given"] = document.plain(entry.node)

    # How it is done

    def _retry(self, entry: Entry) -> None:
        node = entry.node
        if isinstance(node, Scalar) and type(node.value) is int:
            node = Mapping({"attempts": Entry(node, node.line, node.column)}, node.line, node.column)
        if not isinstance(node, Mapping):
            self._faults.add(node, f"`retry` is {{attempts: 3}} or a number, not {_kind(node)}")
            return
        given: dict[str, Any] = {}
        for name, one in node.value.items():
            value: Any = document.plain(one.node)
            if name not in keys.RETRY:
                self._faults.add(one, f"`retry` has no key `{name}`{nearest(name, keys.RETRY)}")
            elif name == "attempts":
                given[name] = self.number(one.node, "`attempts`", least=1)
            elif name == "factor":
                if isinstance(value, int | float) and not isinstance(value, bool) and value >= 1:
                    given[name] = float(value)
                else:
                    self._faults.add(one.node, "`factor` is a number, at least 1")
            elif seconds(value) is None:
                self._faults.add(one.node, f"`{name}` is a duration: a number of seconds, `90s` or `10m`")
            else:
                given[name] = seconds(value)
        if None not in given.values():
            self.fields["retry"] = Retries(**given)

    def number(self, node: Node, what: str, *, least: int) -> int | None:
        value = node.value
        if type(value) is int and value >= least:
            return value
        shown = document.plain(node) if isinstance(node, Scalar) and type(value) is int else _kind(node)
        self._faults.add(node, f"{what} is a whole number, at least {least}, not {shown}")
        return None

    def _effect(self, entry: Entry) -> None:
        self._choice(entry, "effect", _EFFECTS)

    def _isolate(self, entry: Entry) -> None:
        self._choice(entry, "isolate", ("copy",))

    def _choice(self, entry: Entry, name: str, known: tuple[str, ...]) -> None:
        value = entry.node.value
        if value in known:
            self.fields[name] = value
        else:
            self._faults.add(
                entry.node, f"`{name}: {document.plain(entry.node)}` is not known{nearest(str(value), known)}"
            )

    def _writes(self, entry: Entry) -> None:
        value = document.plain(entry.node)
        patterns = [value] if isinstance(value, str) else value
        if isinstance(patterns, list) and all(isinstance(one, str) and one for one in patterns):
            self.fields["writes"] = tuple(patterns)
        else:
            self._faults.add(entry.node, "`writes` is a list of patterns: [src/**, docs/*.md]")

    def _env(self, entry: Entry) -> None:
        if not isinstance(entry.node, Mapping):
            self._faults.add(entry.node, f"`env` has variables by name, {{CI: '1'}}, not {_kind(entry.node)}")
            return
        found: dict[str, str] = {}
        for name, one in entry.node.value.items():
            if "=" in name or "\0" in name or not name:
                self._faults.add(one, f"`{name}` cannot be the name of a variable")
            value = self._string(one, f"the variable `{name}`")
            if value is not None:
                self.template(one.node, value)
                found[name] = value
        self.fields["env"] = found

    def directory(self) -> Path:
        """Where its program is looked for."""
        return Path(self.fields.get("cwd") or ".")


def _without_expressions(line: str) -> str:
    """The line with a word in the place of each expression."""
    return "".join(part if isinstance(part, str) else "x" for part in templates.parts(line))


def _kind(node: Node) -> str:
    if isinstance(node, Items):
        return "a list"
    if isinstance(node, Mapping):
        return "a mapping"
    if node.value is None:
        return "nothing"
    return {bool: "a truth value", str: "text"}.get(type(node.value), "a number")
