"""The command line."""

from __future__ import annotations


def main() -> None:
    """The program `holdfast`."""
