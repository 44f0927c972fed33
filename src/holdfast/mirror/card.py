"""The card of a mirror: up to which event of the log its files are written."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from holdfast import typed_values
from holdfast.errors import Resync
from holdfast.mirror import sealed_json
from holdfast.mirror.line_file import Mark
from holdfast.mirror.mirror_directory import MirrorDirectory

if TYPE_CHECKING:
    from holdfast.store.port import Store

NAME: Final = "mirror.json"
FORMAT: Final = 1
"""Another number means other files: the mirror is made again."""


class Card(msgspec.Struct, frozen=True):
    """`cursor` is that of the store's feed: the files show every event up to it. `lines` has the mark of
    each file that is only added to, by its path in the mirror; `session` is the one that
    `tasks/current.json` shows. `checklists` are the runs of checklists that have not ended. `log` is the hash
    of the first event of the store's log: a restore does not change it."""

    format: int
    cursor: str
    written_at: str
    session: str = ""
    active_at: int = 0
    lines: dict[str, Mark] = {}
    checklists: tuple[str, ...] = ()
    log: str = ""
    sha256: str = ""


def read(directory: MirrorDirectory) -> Card | None:
    """The card; None if there is none that can be relied on."""
    data = directory.read(NAME)
    if data is None or sealed_json.state_of(data) != "own":
        return None
    try:
        card = typed_values.decode(data, Card)
    except msgspec.DecodeError:
        return None
    return card if card.format == FORMAT else None


class Shown(NamedTuple):
    """The parts of a cursor: the incarnation of the store, the position of an event in its log, and the
    beginning of the hash of that event (hexadecimal)."""

    incarnation: str = ""
    position: int = 0
    piece: str = ""


def shown(cursor: str) -> Shown:
    """The parts of a cursor; empty if it cannot be read."""
    try:
        incarnation, position, piece = base64.urlsafe_b64decode(cursor).decode().split(".")
        return Shown(incarnation, int(position), piece)
    except (binascii.Error, ValueError):
        return Shown()


def whose(card: Card, store: Store) -> str:
    """The origin of the events in the files: `own`; `ahead` if they are events of this store that its log
    lacks; `earlier` if they are from before a restore or a repair of this store; `other` if they are of
    another store, or the card does not name one."""
    try:
        store.feed(card.cursor, limit=1)
    except Resync as error:
        if error.is_removed:
            return "own"
        if shown(card.cursor).incarnation == store.incarnation:
            return "ahead"
        return "earlier" if card.log and card.log == log_of(store) else "other"
    return "own"


def log_of(store: Store) -> str:
    """The hash of the first event of the log, hexadecimal; empty if it has none."""
    return next((entry.hash.hex() for entry in store.feed(limit=1).entries), "")


def write(directory: MirrorDirectory, card: Card) -> None:
    body: dict[str, Any] = msgspec.to_builtins(card)
    directory.replace_sealed(NAME, sealed_json.seal(body))
