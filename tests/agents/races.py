"""Somebody swaps a directory for a symlink that leads outside, again and again, while tools work.

python -m tests.agents.races [--races 1000]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.workspace.races import following_links
from tests.workspace.trees import look

from holdfast.agents.tools import file_tools, searching
from holdfast.agents.tools.confinement import Confinement
from holdfast.errors import ToolFailed
from holdfast.workspace.fs.exchange import exchange

FILES = 6
_OUTSIDE = "not yours"


class Race:
    """A workspace whose directory `inner` is being swapped, and a place outside that must not be touched."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "tree"
        self.outside = directory / "outside"
        self._inner = self.root / "inner"
        for number in range(FILES):
            for top, content in ((self._inner, "good"), (self.outside, _OUTSIDE)):
                (top / f"d{number}").mkdir(parents=True)
                (top / f"d{number}" / "file").write_text(content)
        (self.outside / "only-outside").write_text(_OUTSIDE)
        (self.root / "other").symlink_to(self.outside)
        self._before = look(self.outside)
        self.seen = ""
        self.done = 0

    def run(self) -> None:
        """All tools, on each file, under attack."""
        with self._swapping(), Confinement(self.root) as inside:
            for number in range(FILES):
                path = f"inner/d{number}/file"
                for act in self._acts(inside, path):
                    try:
                        self.seen += str(act())
                        self.done += 1
                    except ToolFailed as refused:
                        self.seen += str(refused).replace(str(self.outside), "")

    @staticmethod
    def _acts(inside: Confinement, path: str) -> list[Callable[[], object]]:
        query = searching.Query("yours", "inner", (), True, False, 0, 100, 60.0)
        return [
            lambda: file_tools.read(inside, path, 1, 0, 1000, None),
            lambda: file_tools.write(inside, path, "written", "utf-8", False),
            lambda: file_tools.write(inside, path.replace("file", "new/file"), "written", "utf-8", False),
            lambda: file_tools.edit(inside, path, "written", "edited", False),
            lambda: file_tools.list_files(inside, "inner", (), 0, False, 1000).entries,
            lambda: searching.search(inside, query).matches,
        ]

    @property
    def has_escaped(self) -> bool:
        """Whether something outside was written, or its content or names were returned."""
        return look(self.outside) != self._before or _OUTSIDE in self.seen or "only-outside" in self.seen

    @contextmanager
    def _swapping(self) -> Iterator[None]:
        stop = threading.Event()

        def swap() -> None:
            root = os.open(self.root, os.O_RDONLY)
            while not stop.is_set():
                for _ in range(2):
                    assert exchange(root, b"inner", b"other"), "this filesystem swaps names"
            os.close(root)

        thread = threading.Thread(target=swap)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def races(directory: Path, count: int) -> Race:
    """So many, the last one being returned: its `has_escaped` is about all of them."""
    race = Race(directory)
    for _ in range(count):
        race.run()
    return race


def escapes_unprotected(directory: Path, most: int) -> int:
    """The control: after how many races the same tools escape if links are followed; 0 if they do not."""
    race = Race(directory)
    with following_links():
        for number in range(most):
            race.run()
            if race.has_escaped:
                return number + 1
    return 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--races", type=int, default=1000)
    count = parser.parse_args().races
    with tempfile.TemporaryDirectory() as made:
        race = races(Path(made, "race"), count)
        escaped = race.has_escaped
        control = escapes_unprotected(Path(made, "control"), count)
    print(f"{count} races: {'ESCAPED' if escaped else 'no escape'}; {race.done} calls succeeded")
    print(f"the control, following links, escaped after {control} races" if control else "control: no escape")
    return int(escaped or not control)


if __name__ == "__main__":
    sys.exit(main())
