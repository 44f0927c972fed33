"""The console blocks of a page, and a reader who types them line by line.

A console block is a fence marked `console`, or indented lines of which the first is a command. In a block
with prompts, a line that begins with `# ` is a comment on the command below it. The blocks of a page
are played in their order by one reader, who begins with an empty home in an empty directory outside
any project, and has only the files that the page says to save. The shell runs each command as it stands; the
working directory and the `PATH` are kept from one command to the next. Each command must have its effect
asserted: `Console.next` refuses to run one for which nothing is expected.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
GENERATED = ("cli.md", "errors.md", "settings.md", "states.md")
PAGES = [ROOT / "README.md", *(p for p in sorted((ROOT / "docs").glob("*.md")) if p.name not in GENERATED)]
_BLOCK = re.compile(
    r"^```(?P<language>\w*)[^\n]*\n(?P<fenced>.*?)^```|(?<=\n\n)(?P<indented>(?:    [^\n]*\n)+)",
    re.MULTILINE | re.DOTALL,
)
_PROGRAM = re.compile(r"(?:# [^\n]*\n)*\$ |(?:holdfast|python|make|pip|mkdir|cd|echo) ")
_VARIES = re.compile(r"\\\.\\\.\\\.|[0-9a-f]{12,}|\d{8}T\d{6}Z|\d+(?:\\\.\d+)?")
"""What differs from one time to the next in what is printed: `...`, ids, times, numbers."""


class Command(NamedTuple):
    line: str
    printed: list[str]
    """What the page shows below it."""


class Block(NamedTuple):
    page: str
    heading: str
    number: int
    """1 for the first block under its heading."""
    commands: list[Command]

    @property
    def name(self) -> str:
        return f"{self.page}: {self.heading} {self.number}"


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text()
        counts: dict[str, int] = {}
        for found in _BLOCK.finditer(text):
            body = found["fenced"] or re.sub(r"^    ", "", found["indented"] or "", flags=re.MULTILINE)
            if found["language"] not in (None, "console") or not _PROGRAM.match(body):
                continue
            before = re.sub(r"^```.*?^```", "", text[: found.start()], flags=re.MULTILINE | re.DOTALL)
            heading = re.findall(r"^#+ (.*)$", before, re.MULTILINE)[-1]
            counts[heading] = counts.get(heading, 0) + 1
            yield Block(page.name, heading, counts[heading], _commands(body))


def _commands(body: str) -> list[Command]:
    """With prompts, what has none is output or a comment; without, each line is a command."""
    prompted = re.search(r"^\$ ", body, re.MULTILINE) is not None
    found: list[Command] = []
    for line in body.splitlines():
        if line.startswith("$ ") or not prompted:
            found.append(Command(line.removeprefix("$ "), []))
        elif not line.startswith("# "):
            found[-1].printed.append(line)
    return found


def saved_as(page: str, name: str) -> list[str]:
    """The blocks of Python, YAML or TOML of a page that it says to save as `name`, in the paragraph before
    them."""
    path = ROOT / page if page == "README.md" else ROOT / "docs" / page
    text = path.read_text()
    fences = re.finditer(r"^```(?:python|yaml|toml)[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    before = [(text[: found.start()].rstrip().rpartition("\n\n")[2], found[1]) for found in fences]
    blocks = [code for paragraph, code in before if f"`{name}`" in paragraph]
    assert blocks, f"{page} does not say what to save as {name}"
    return blocks


class Console:
    """A person at a shell who reads a page from its beginning, and types what its blocks say.

    `/tmp/` of a page is a directory of this reader's own.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        for above in (place, *place.parents):
            assert not (above / ".git").exists() and not (above / ".holdfast").exists(), above
        self.directory = place / "begin"
        self._home = place / "home"
        self._tmp = place / "tmp"
        for made in (self.directory, self._home, self._tmp):
            made.mkdir()
        self.page = ""
        self._left: list[Command] = []
        self._words: dict[str, str] = {}
        self.env = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith(("HOLDFAST_", "XDG_", "PIP_", "PYTEST_"))
        }
        self.env |= {
            "HOME": str(self._home),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",  # as at a terminal: what was printed before a kill is seen
        }

    def read(self, block: Block) -> None:
        """Come to the next block of the page."""
        self.close()
        self.page, self._left, self._words = block.page, list(block.commands), {}

    def saves(self, name: str) -> None:
        """Save the file that the page says to save here."""
        self.write(name, saved_as(self.page, name)[0])

    def write(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text)

    def text(self, name: str) -> str:
        return (self.directory / name).read_text()

    def there(self, name: str) -> bool:
        return (self.directory / name).exists()

    def where(self, word: str, means: str) -> None:
        """A placeholder of the block, and what it stands for here."""
        assert any(word in command.line for command in self._left), word
        self._words[word] = means

    def shell(self, line: str, code: int | None = 0) -> str:
        """What it prints, to both streams. For what looks at the effect of a block, or makes a situation that
        the page only speaks of."""
        after = self.place / "after"
        done = subprocess.run(
            ["sh", "-c", f'{line}\ncode=$?\n{{ pwd; echo "$PATH"; }} > "{after}"\nexit $code'],
            cwd=self.directory,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
        )
        assert "Traceback" not in done.stdout, done.stdout
        assert code is None or done.returncode == code, (line, done.returncode, done.stdout)
        directory, self.env["PATH"] = after.read_text().splitlines()
        self.directory = Path(directory)
        return done.stdout

    def next(
        self, beginning: str, *shows: str, code: int = 0, then: Callable[[], object] | None = None
    ) -> str:
        """Type the block's next command, which begins so; it prints what the page shows and the patterns
        `shows`, and `then()` is true after it."""
        assert shows or then is not None, "the effect of a command must be asserted"
        command = self._left.pop(0)
        assert command.line.startswith(beginning), command.line
        line = command.line.replace("/tmp/", f"{self._tmp}/")
        for word, means in self._words.items():
            line = line.replace(word, means)
        printed = self.shell(line, code)
        for pattern in (*shows, *map(_like, command.printed)):
            assert re.search(pattern, printed, re.MULTILINE), f"{line}: {pattern!r} is not in\n{printed}"
        assert then is None or then(), f"{line} has not had its effect:\n{printed}"
        return printed

    def close(self) -> None:
        assert not self._left, f"nothing asserts the effect of {self._left[0].line!r}"


def _like(line: str) -> str:
    """A pattern for a line that the page shows: ids, times and numbers may be others. The second file of one
    second has a number after its time."""
    return _VARIES.sub(
        lambda found: ".*" if found[0].startswith("\\") else r"[\w.,]+(?:-\d+)?", re.escape(line)
    )
