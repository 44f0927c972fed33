"""Text of a file: which encoding and line breaks it has, and whether it is text at all."""

from __future__ import annotations

import codecs
from typing import NamedTuple

from holdfast.errors import ToolFailed
from holdfast.sizes import amount

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_PROBED = 8192
_KINDS = (
    (b"\x89PNG", "PNG image"), (b"\xff\xd8\xff", "JPEG image"), (b"GIF8", "GIF image"),
    (b"%PDF", "PDF document"),
    (b"PK\x03\x04", "ZIP archive"), (b"\x1f\x8b", "gzip archive"), (b"BZh", "bzip2 archive"),
    (b"\xfd7zXZ", "xz archive"), (b"\x28\xb5\x2f\xfd", "Zstandard archive"), (b"\x7fELF", "ELF program"),
    (b"SQLite format 3", "SQLite database"), (b"RIFF", "RIFF media file"), (b"wOF", "font"),
    (b"OggS", "Ogg media file"),
)  # fmt: skip


class Text(NamedTuple):
    """The text of a file; `mark` are the bytes in front of it that only name the encoding."""

    text: str
    encoding: str
    mark: bytes = b""

    def encode(self, text: str) -> bytes:
        """Another text for the same file."""
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise ToolFailed(
                f"{error.object[error.start]!r} cannot be written as {self.encoding}, its encoding"
            ) from error


def kind_of(data: bytes) -> str:
    """The kind of a binary file, guessed from its beginning; empty for text."""
    if data.startswith(tuple(mark for mark, _ in _MARKS)):
        return ""
    for mark, kind in _KINDS:
        if data.startswith(mark):
            return kind
    return "unknown kind" if b"\0" in data[:_PROBED] else ""


def decode(data: bytes, path: str, size: int, encoding: str | None = None) -> Text:
    """The text of a file of which `data` is the beginning, or all.

    The encoding is the one that is named, or UTF-8, or UTF-16 if the file has its mark, else Latin-1, which
    has a character for each byte. Raises `ToolFailed` for a binary file.
    """
    if encoding is None:
        kind = kind_of(data)
        if kind:
            raise ToolFailed(f"{path!r} is a binary file ({kind}, {amount(size)}), and has no text")
        mark, encoding = next((one for one in _MARKS if data.startswith(one[0])), (b"", "utf-8"))
        try:
            text = _decoded(data[len(mark) :], encoding, whole=len(data) == size)
            return Text(text, encoding, mark)
        except UnicodeDecodeError:
            return Text(data.decode("latin-1"), "latin-1")
    try:
        return Text(_decoded(data, encoding, whole=len(data) == size), encoding)
    except LookupError:
        raise ToolFailed(f"there is no encoding {encoding!r}; leave it out to have it detected") from None
    except UnicodeDecodeError as error:
        raise ToolFailed(f"{path!r} is not {encoding}: {error.reason} at byte {error.start}") from error


def _decoded(data: bytes, encoding: str, *, whole: bool) -> str:
    """Of a file that was not read to its end, the last character may be cut off."""
    return codecs.getincrementaldecoder(encoding)().decode(data, final=whole)


def breaks_of(text: str) -> str:
    """The line break that a text uses throughout: `\\r\\n`, or `\\n` where it uses both or none."""
    windows = text.count("\r\n")
    return "\r\n" if windows and windows == text.count("\n") else "\n"


def with_breaks(text: str, breaks: str) -> str:
    """The text with these line breaks, whatever it has."""
    plain = text.replace("\r\n", "\n")
    return plain.replace("\n", breaks) if breaks != "\n" else plain
