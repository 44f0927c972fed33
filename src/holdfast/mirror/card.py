"""The card of a mirror: up to which event of the log its files are written."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import msgspec

from holdfast.mirror import sealed_json
from holdfast.mirror.line_file import Mark
from holdfast.mirror.mirror_directory import MirrorDirectory

NAME: Final = "mirror.json"
FORMAT: Final = 1
"""Another number means other files: the mirror is made again."""


class Card(msgspec.Struct, frozen=True):
    """`cursor` is that of the store's feed: the files show every event up to it. `lines` has the mark of
    each file that is only added to, by its path in the mirror; `session` is the one that
    `tasks/current.json` shows. `checklists` are the runs of checklists that have not ended."""

    format: int
    cursor: str
    written_at: str
    session: str = ""
    active_at: int = 0
    lines: dict[str, Mark] = {}
    checklists: tuple[str, ...] = ()
    sha256: str = ""


def read(directory: MirrorDirectory) -> Card | None:
    """The card; None if there is none that can be relied on."""
    data = directory.read(NAME)
    if data is None or sealed_json.state_of(data) != "own":
        return None
    try:
        card = msgspec.json.decode(data, type=Card)
    except msgspec.DecodeError:
        return None
    return card if card.format == FORMAT else None


def history_of(card: Card) -> str:
    """The incarnation of the store that wrote the files; empty if the cursor does not say."""
    try:
        return base64.urlsafe_b64decode(card.cursor).decode().partition(".")[0]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def write(directory: MirrorDirectory, card: Card) -> None:
    body: dict[str, Any] = msgspec.to_builtins(card)
    directory.replace_sealed(NAME, sealed_json.seal(body))
