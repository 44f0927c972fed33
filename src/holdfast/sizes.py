"""Numbers of bytes as people read and write them."""

from __future__ import annotations

import re

from holdfast.errors import BadInput

_UNITS = ("", "K", "M", "G", "T")


def amount(count: int) -> str:
    """Such as `812 bytes`, `9.6 KB`, `140 KB`, `1.2 GB`."""
    if count == 1:
        return "1 byte"
    size = float(count)
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"


def parse(text: str) -> int:
    """The inverse: `812`, `140KB`, `16 MB`, `1.5G`. A unit is 1024 times the one before, as `amount` has it.
    Raises `BadInput`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B|bytes?)?", text.strip(), re.IGNORECASE)
    if found is None:
        raise BadInput(f"{text!r} is no size: write 812, 140KB, 16MB or 1.5GB")
    return int(float(found[1]) * 1024 ** _UNITS.index(found[2].upper()))
