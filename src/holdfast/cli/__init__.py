"""The command line: one module for each command, loaded when the command is given."""

from __future__ import annotations


def main() -> None:
    """The program `holdfast`."""
    from holdfast.cli.app import run_program

    raise SystemExit(run_program())
