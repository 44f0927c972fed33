"""Names that are spelled almost like a given one."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def nearest(text: str, names: Iterable[str], *, most: int = 3, cutoff: float = 0.4) -> list[str]:
    """The names that are most like `text`, the best first."""
    from difflib import get_close_matches  # a mistake is rare, and every command loads this room

    return get_close_matches(text, list(names), most, cutoff)


def did_you_mean(
    text: str,
    names: Iterable[str],
    otherwise: str = "",
    *,
    cutoff: float = 0.6,
    written: Callable[[str], str] = str,
) -> str:
    """`did you mean NAME?`, for the name that is most like `text`, as `written` writes it; `otherwise` if no
    name is like it."""
    near = nearest(text, names, most=1, cutoff=cutoff)
    return f"did you mean {written(near[0])}?" if near else otherwise
