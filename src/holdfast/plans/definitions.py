"""Definitions and imports of a source file, found by regular expressions: fast, for many languages, and not
exact."""

from __future__ import annotations

import re

import msgspec

_DEFINITION = re.compile(
    r"""^[ \t]*(?:
        (?:export[ ]+|default[ ]+|public[ ]+|private[ ]+|protected[ ]+|static[ ]+|abstract[ ]+|final[
        ]+|async[ ]+|pub(?:\([a-z]+\))?[ ]+|unsafe[ ]+|declare[ ]+)* (?:def|class|function\*?|func(?:[
        ]+\([^)\n]*\))?|fn|interface|struct|enum|trait|type|module|record|macro_rules!|impl|object|protocol)[
        ]+ ([A-Za-z_$][\w$]*)
      | (?:export[ ]+)?(?:const|let|var|static|val)[ ]+([A-Za-z_$][\w$]*)
      | \#define[ ]+([A-Za-z_]\w*)
    )
    | ^([A-Za-z_]\w*)[ ]*(?::[^=\n]{1,80})?=(?!=)""",
    re.MULTILINE | re.VERBOSE,
)
_IMPORT = re.compile(
    r"""^[ \t]*(?:
        from[ ]+([.\w]+)[ ]+import\b
      | import[ ]+([\w.]+)
      | use[ ]+([\w:]+)
      | \#include[ ]+["<]([^">\n]+)[">]
      | (?:import|export)\b[^'"\n]*?from[ ]+['"]([^'"\n]+)['"]
      | require(?:_relative)?[ ]+['"]([^'"\n]+)['"]
    )""",
    re.MULTILINE | re.VERBOSE,
)

_REQUIRE = re.compile(r"""require\(['"]([^'"\n]+)['"]\)""")


class Definition(msgspec.Struct, frozen=True):
    """A name that a file defines, and where."""

    name: str
    line: int


def definitions(text: str) -> list[Definition]:
    """Functions, classes, types and top-level values, in the order of the file."""
    found: list[Definition] = []
    line, at = 1, 0
    for match in _DEFINITION.finditer(text):
        name = next(one for one in match.groups() if one)
        place = match.start() + len(match[0]) - len(match[0].lstrip())
        line, at = line + text.count("\n", at, place), place
        found.append(Definition(name, line))
    return found


def imports(text: str) -> list[str]:
    """The imports of a file, as it names them, each once."""
    found = [next(one for one in groups if one) for groups in _IMPORT.findall(text)]
    return list(dict.fromkeys([*found, *_REQUIRE.findall(text)]))
