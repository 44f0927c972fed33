"""The open index: what is in it, and how it is changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import apsw

from holdfast.search import relevance
from holdfast.search.item import MOST_CHARS, Item
from holdfast.search.words import Tokenizer, spaced

BUSY_MS: Final = 30_000
"""Another process that fills the index at the same time commits many times a second."""


@cache
def script(name: str) -> str:
    """An SQL file beside this module."""
    return Path(__file__).with_name(name).read_text("utf-8")


class Index:
    """A connection to an index. Raises `apsw.Error`: `index_file` knows what each of them means."""

    def __init__(self, path: str, format: str) -> None:
        """`path` is that of a file, which is made if it is not there; empty for a temporary one. Raises
        `apsw.FormatError` for an index of another format."""
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_NOFOLLOW
        is_new = bool(path) and not Path(path).exists()
        self.db = apsw.Connection(path, flags=flags)
        try:
            if is_new:
                Path(path).chmod(0o600)  # still empty; what SQLite puts beside it gets the same mode
            self.db.set_busy_timeout(BUSY_MS)
            self.db.execute("PRAGMA trusted_schema=OFF; PRAGMA cache_size=-32000")
            if path:
                self.db.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL")
            self._format = format
            found = self._meta("format")
            if found and found != format:  # what it has must not stay in the file: it may be redacted now
                raise apsw.FormatError("an index of another format")
            if not found:
                with self.transaction():
                    if not self._meta("format"):  # not made meanwhile
                        self.clear()
            self.tokens = Tokenizer(self.db)
            relevance.register(self.db)
        except BaseException:
            self.db.close(True)
            raise

    def close(self) -> None:
        self.db.close(True)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction: everything inside is done, or nothing."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.db.execute("COMMIT")
        except BaseException:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            raise

    def clear(self) -> None:
        """Inside a transaction: make it empty, whatever tables it has."""
        for name in ("words", "items", "meta"):
            self.db.execute(f"DROP TABLE IF EXISTS {name}")
        self.db.execute(script("index.sql"))
        self._set_meta("format", self._format)

    def _meta(self, key: str) -> str:
        there = self.db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'meta'").get
        found = self.db.execute("SELECT value FROM meta WHERE key = ?", (key,)).get if there else None
        return str(found or "")

    def _set_meta(self, key: str, value: str) -> None:
        self.db.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))

    @property
    def cursor(self) -> str:
        """How much of the store's feed is in it."""
        return self._meta("cursor")

    def read_up_to(self, cursor: str) -> None:
        self._set_meta("cursor", cursor)

    # Changes

    def put(self, item: Item) -> None:
        columns = tuple(_stored(value) for value in item)
        texts = (columns[2], *columns[8:])
        known = self.db.execute(
            "SELECT key, step, title, body, rest, names FROM items WHERE id = ?", (item.id,)
        ).fetchone()
        self.db.execute(
            "INSERT OR REPLACE INTO items VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", columns
        )
        if known == texts:
            return
        if known is not None:
            self.db.execute("DELETE FROM words WHERE rowid = ?", (item.id,))
        key, step, title, body, rest, names = map(spaced, texts)
        if item.version:  # an event: it counts least, also where it has the word in its title
            words: tuple[str, ...] = ("", "", f"{step}\n{title}\n{body}\n{rest}")
        else:
            words = (f"{key}\n{title}\n{names}", body, rest)
        self.db.execute("INSERT INTO words (rowid, names, body, rest) VALUES (?, ?, ?, ?)", (item.id, *words))

    def drop(self, family: str, key: str) -> None:
        ids = "SELECT id FROM items WHERE key = ? AND family = ?"
        self.db.execute(f"DELETE FROM words WHERE rowid IN ({ids})", (key, family))
        self.db.execute("DELETE FROM items WHERE key = ? AND family = ?", (key, family))

    def id_of(self, family: str, key: str) -> int | None:
        found: int | None = self.db.execute(
            "SELECT min(id) FROM items WHERE key = ? AND family = ?", (key, family)
        ).get
        return found

    def rows(self, sql: str, values: Sequence[Any] | dict[str, Any]) -> list[tuple[Any, ...]]:
        return self.db.execute(sql, values).fetchall()


def _stored(value: Any) -> Any:
    """As a column takes it: a text has bounds, and no half characters or zeros."""
    if not isinstance(value, str):
        return int(value)
    text = value[:MOST_CHARS].replace("\0", " ")
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
