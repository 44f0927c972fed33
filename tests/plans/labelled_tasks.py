"""Tasks as people write them, and the file that each is about, in source trees of installed packages.

    python -m tests.plans.labelled_tasks [-v]

`TASKS` were there while the analyzer was tuned. `HELD_OUT` were written after it, and nothing was tuned on
them.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from holdfast.plans.analyzer import analyze

Labelled = tuple[str, str, str]
"""The package, the task, and its file."""

TASKS: Sequence[Labelled] = (
    ("click", "The progress bar shows a wrong ETA when the length is not known", "_termui_impl.py"),
    ("click", "Add completion for the nushell shell", "shell_completion.py"),
    (
        "click",
        "Help pages should wrap long option descriptions at the width of the terminal",
        "formatting.py",
    ),
    ("click", "IntRange accepts values outside of an open bound", "types.py"),
    ("click", "CliRunner mixes standard error into the output", "testing.py"),
    (
        "click",
        "A missing required parameter should suggest similar option names in the error",
        "exceptions.py",
    ),
    ("click", "ANSI colours are not stripped when Windows prints to a file", "_winconsole.py"),
    ("rich", "Markdown tables ignore the alignment of columns", "markdown.py"),
    ("rich", "The spinner of a status message flickers", "spinner.py"),
    ("rich", "Traceback should hide frames of suppressed modules", "traceback.py"),
    ("rich", "Highlight UUIDs in log output", "highlighter.py"),
    ("rich", "`Prompt.ask` should accept a default that is not in the choices", "prompt.py"),
    ("rich", "Cells of wide East Asian characters are cut in the wrong place", "cells.py"),
    ("rich", "A tree with hidden root draws guide lines one level too deep", "tree.py"),
    ("httpx", "Redirects drop the authorization header when only the port differs", "_client.py"),
    ("httpx", "Digest authentication fails if the server sends no qop", "_auth.py"),
    ("httpx", "Decode zstd responses in streaming mode", "_decoders.py"),
    ("httpx", "Multipart uploads with a generator as file content hang", "_multipart.py"),
    ("httpx", "NO_PROXY entries with a port are not respected", "_utils.py"),
    ("httpx", "URL with an IPv6 host loses its brackets when it is normalised in urlparse", "_urlparse.py"),
)

HELD_OUT: Sequence[Labelled] = (
    ("sqlalchemy", "The connection pool overflows when checkouts time out under load", "pool/impl.py"),
    (
        "sqlalchemy",
        "RETURNING does not work for SQLite inserts with default values",
        "dialects/sqlite/base.py",
    ),
    (
        "sqlalchemy",
        "Passwords with an at sign are not quoted when the database URL is rendered",
        "engine/url.py",
    ),
    (
        "hypothesis",
        "Datetimes strategy generates imaginary times for a timezone",
        "strategies/_internal/datetime.py",
    ),
    ("hypothesis", "The example database on disk should survive a read-only directory", "database.py"),
    ("anyio", "A memory object stream leaks its buffer when the receiver is closed", "streams/memory.py"),
    (
        "anyio",
        "CapacityLimiter lets more borrowers in than there are tokens on asyncio",
        "_backends/_asyncio.py",
    ),
    ("requests", "Cookies are lost when a response is pickled", "cookies.py"),
    ("urllib3", "Retry-After headers with an HTTP date are ignored", "util/retry.py"),
    ("pluggy", "Wrappers that yield twice should name the plugin in the error", "_callers.py"),
)


def tree(package: str) -> Path:
    found = find_spec(package)
    assert found is not None and found.submodule_search_locations, f"{package} is installed"
    return Path(found.submodule_search_locations[0])


def rank(labelled: Labelled, cache: Path) -> int:
    """At which place the right file is, of the first ten; 0 if it is not among them."""
    package, text, path = labelled
    found = [one.path for one in analyze(tree(package), text, cache=cache).files]
    return found.index(path) + 1 if path in found else 0


def hits(tasks: Sequence[Labelled], cache: Path, within: int = 5) -> int:
    """For how many tasks the right file is among the first `within`."""
    return sum(1 for one in tasks if 0 < rank(one, cache) <= within)


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        for name, tasks in (("tuned on", TASKS), ("held out", HELD_OUT)):
            ranks = [rank(one, Path(made)) for one in tasks]
            top = sum(1 for one in ranks if one == 1)
            five = sum(1 for one in ranks if 0 < one <= 5)
            print(f"{name}: right file in the top 5 for {five} of {len(tasks)}, first for {top}")
            if "-v" in sys.argv:
                for number, task in zip(ranks, tasks, strict=True):
                    print(f"  {number or '-':>2}  {task[0]}: {task[1]} → {task[2]}")


if __name__ == "__main__":
    main()
