-- What can be found. `id` is the position in the log of the event that an item began with: a rebuilt index has
-- the same ids, and a larger one is newer. `key` is what people paste: the id of a run, a task, a memory; an
-- event has its run's. The short columns stand first: a filter reads no overflow page.
CREATE TABLE items (
    id      INTEGER PRIMARY KEY,
    family  TEXT    NOT NULL,
    key     TEXT    NOT NULL,
    version INTEGER NOT NULL,
    kind    TEXT    NOT NULL,
    status  TEXT    NOT NULL,
    hidden  INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    step    TEXT    NOT NULL,
    title   TEXT    NOT NULL,
    body    TEXT    NOT NULL,
    rest    TEXT    NOT NULL,
    names   TEXT    NOT NULL
) STRICT;

CREATE INDEX items_by_key ON items (key, family);

-- The words of an item, by the id of the item: its names (id and title), its text, and what counts least. The
-- texts themselves are in `items`. Prefixes of three and four characters have lists of their own: any other one
-- is merged from all words that begin so.
CREATE VIRTUAL TABLE words USING fts5 (
    names, body, rest,
    content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 2', prefix='3 4'
);

-- `format`: what the index was made by and with. `cursor`: how much of the store's feed is in it.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
