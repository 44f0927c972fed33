"""Numbers of bytes as people read them."""

from __future__ import annotations


def amount(count: int) -> str:
    """Such as `812 bytes`, `9.6 KB`, `140 KB`, `1.2 GB`."""
    size = float(count)
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"
