"""The options of every command that executes the code of recorded runs: which interpreter, and where."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.drawing.terminal import say
from holdfast.cli.options import together

code_options = together(
    click.option(
        "--python",
        metavar="PATH",
        help="The interpreter for the code (default: the one a run was started with).",
    ),
    click.option(
        "--root",
        type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
        metavar="DIR",
        help="Where the project is now, if it was moved; with --all, for runs whose project is gone.",
    ),
)


def print_note(text: str) -> None:
    """Print which interpreter is used for the code, and why."""
    say(f"note: {text}")
