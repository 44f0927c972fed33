"""Runs that were archived: a file of theirs, read as docs/formats.md describes it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.history import require

GENESIS = bytes(32)


def chain(previous: bytes, stream: str, version: int, type: str, time: int, payload: str) -> bytes:
    """The hash of an event as docs/formats.md defines it."""
    return hashlib.sha256(previous + f"{stream}\0{version}\0{type}\0{time}\0{payload}".encode()).digest()


@dataclass
class Archive:
    heads: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Run → its last version, and the hash of that event."""
    blobs: set[str] = field(default_factory=set)


def read_archive(file: Path) -> Archive:
    """The runs of a file, every event chained to the one before, every large value what its name says."""
    found, stream = Archive(), ""
    for number, text in enumerate(gzip.decompress(file.read_bytes()).decode().splitlines()):
        line = json.loads(text)
        where = f"{file.name}, line {number + 1}"
        if not number:
            require(line == {"holdfast": "archive", "format": 1}, f"{where}: no archive of this format")
        elif "stream" in line:
            stream = line["stream"]
            require(stream not in found.heads, f"{where}: run {stream} again")
            found.heads[stream] = (0, GENESIS.hex())
        elif "version" in line:
            last, previous = found.heads[stream]
            require(line["version"] == last + 1, f"{where}: version {line['version']} after {last}")
            known = [line[name] for name in ("version", "type", "at", "payload")]
            hash = chain(bytes.fromhex(previous), stream, *known).hex()
            require(line["hash"] == hash, f"{where}: wrong hash")
            found.heads[stream] = (last + 1, hash)
        else:
            data = base64.b64decode(line["data"])
            require(hashlib.sha256(data).hexdigest() == line["blob"], f"{where}: not its large value")
            found.blobs.add(line["blob"])
    return found
