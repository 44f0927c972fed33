"""The analysis of a task, with what it keeps in the store's directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import BadInput, BadWorkspace

if TYPE_CHECKING:
    from holdfast.plans.analyzer import Analysis


def analysis_of(root: Path, text: str, limit: int, home: Path | None) -> Analysis:
    """`home` is the store's directory, None if there is no store. Raises `BadInput` for a text without words,
    `BadWorkspace` if the root cannot be read."""
    from holdfast.plans.analyzer import CACHE, analyze

    if not text.strip():
        raise BadInput("the task is empty: describe in a sentence what is to be done")
    if limit < 1:
        raise BadInput(f"analyze(limit={limit}): at least 1")
    try:
        return analyze(root, text, limit=limit, cache=None if home is None else home / CACHE)
    except OSError as error:
        raise BadWorkspace(f"the workspace {root} cannot be read ({error.strerror})") from error
