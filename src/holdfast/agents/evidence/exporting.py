"""Evidence as files: a directory that can be sent to a reader who has no store."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import msgspec

from holdfast.durable_file import replace_file
from holdfast.errors import BadInput, ContentsDamaged, EvidenceNotFound
from holdfast.views.evidence import LiveEvidence, evidence_of
from holdfast.workspace.contents.refs import Ref

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.redaction import Redactor

_INDEX = "index.json"
_IMAGES = "images"
_MODE = 0o644


def export(
    engine: Engine, run_id: str, found: Sequence[LiveEvidence], redactor: Redactor, directory: Path
) -> list[str]:
    """Write `NAME.md` for each milestone, `index.json`, and `images/SHA256.png`; the paths that were written.
    An image whose content is not kept any more is left out, and the index says so. Raises
    `EvidenceNotFound`, and `BadInput` if the directory cannot be written."""
    if not found:
        raise EvidenceNotFound(run_id)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return _Export(engine, redactor, directory).write(found)
    except OSError as error:
        raise BadInput(f"{directory} cannot be written: {error.strerror}; name another directory") from error


class _Export:
    def __init__(self, engine: Engine, redactor: Redactor, directory: Path) -> None:
        self._engine = engine
        self._redactor = redactor
        self._directory = directory
        self._written: list[str] = []

    def write(self, found: Sequence[LiveEvidence]) -> list[str]:
        index = []
        for one in found:
            evidence = evidence_of(one, self._engine.store, self._redactor)
            name = f"{file_name(one.event.key)}.md"
            self._put(name, evidence.document.encode())
            images = {
                path: {"sha256": digest, "file": self._image(path, digest)}
                for path, digest in evidence.images.items()
            }
            fields = {key: value for key, value in evidence.to_json().items() if key != "document"}
            index.append({**fields, "file": name, "images": images})
        self._put(_INDEX, msgspec.json.format(msgspec.json.encode(index), indent=2) + b"\n")
        return self._written

    def _image(self, path: str, digest: str) -> str | None:
        try:
            contents = self._engine.files.contents
            with contents.hold():
                data = b"".join(contents.pieces(Ref(bytes.fromhex(digest))))
        except ContentsDamaged:
            return None
        name = f"{_IMAGES}/{digest}{PurePath(path).suffix.lower()}"
        if name not in self._written:
            (self._directory / _IMAGES).mkdir(exist_ok=True)
            self._put(name, data)
        return name

    def _put(self, name: str, data: bytes) -> None:
        path = self._directory / name
        replace_file(path, data, mode=_MODE, sync=False)
        self._written.append(name)


def file_name(key: str) -> str:
    """A key as the name of a file: `tests-pass#1` is `tests-pass-1`. Different keys have different names."""
    return re.sub(r"[^A-Za-z0-9._-]", lambda found: "-" if found[0] == "#" else f"%{ord(found[0]):x}", key)
