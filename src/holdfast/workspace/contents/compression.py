"""Zstandard, from the standard library where it is there (Python 3.14)."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Compressor = zstd.ZstdCompressor
Decompressor = zstd.ZstdDecompressor
CompressionError = zstd.ZstdError
decompress = zstd.decompress

_PAYS_BELOW = 0.95


def pays(raw: int, compressed: int) -> bool:
    """Whether a content is worth decompressing whenever it is read."""
    return compressed < raw * _PAYS_BELOW


def squeeze(data: bytes, level: int) -> bytes:
    """One whole frame of `data`."""
    return Compressor(level=level).compress(data, mode=Compressor.FLUSH_FRAME)
