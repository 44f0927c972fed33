"""The options of every command that executes the code of recorded runs: which interpreter, and where."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from holdfast.cli.terminal import say


def code_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--python` and `--root`, which arrive as `python` and `root`."""
    for option in (
        click.option(
            "--root",
            type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
            metavar="DIR",
            help="Where the project is now, if it was moved; with --all, for runs whose project is gone.",
        ),
        click.option(
            "--python",
            metavar="PATH",
            help="The interpreter for the code (default: the one a run was started with).",
        ),
    ):
        command = option(command)
    return command


def print_note(text: str) -> None:
    """Print which interpreter is used for the code, and why."""
    say(f"note: {text}")
