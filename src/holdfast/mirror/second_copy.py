"""The mirror as a copy of its store: read for `repair`, without the store, and never written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

import msgspec

from holdfast import typed_values
from holdfast.clock import microseconds
from holdfast.mirror import card as cards
from holdfast.mirror import run_file, sealed_json
from holdfast.mirror.mirror_directory import MirrorDirectory
from holdfast.operations.repairing.mirrored import Mirrored, MirroredRun


def read(directory: Path, *, named: bool = False) -> Mirrored:
    """Read the mirror in a directory as a copy of its store. The directory may be a link if the user `named`
    it."""
    found = Mirrored(directory, runs=partial(_runs, directory, named))
    if not directory.is_dir():
        return found
    try:
        with MirrorDirectory.opened(directory, "", follow=named) as top:
            card = cards.read(top)
    except OSError:
        return found
    return found if card is None else found._replace(**cards.shown(card.cursor)._asdict())


class _Run(msgspec.Struct, frozen=True):
    """The fields of a `RunFile` that are needed here."""

    id: str
    title: str
    workflow: str
    version: int
    created_at: datetime


def _runs(directory: Path, named: bool) -> Iterator[MirroredRun]:
    """The runs whose files are as holdfast wrote them."""
    inside = directory / run_file.DIRECTORY
    if inside.is_symlink() or not inside.is_dir():
        return
    with (
        MirrorDirectory.opened(directory, "", follow=named) as top,
        top.within(run_file.DIRECTORY) as files,
    ):
        for name in files.names():
            data = files.read(name) if name.endswith(".json") else None
            if data is None or sealed_json.state_of(data) != "own":
                continue
            try:
                run = typed_values.decode(data, _Run)
            except msgspec.DecodeError:
                continue
            if name == run_file.file_name(run.id):
                yield MirroredRun(
                    run.id, run.title or run.workflow, run.version, microseconds(run.created_at)
                )
