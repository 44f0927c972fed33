"""The side of `Holdfast` that is about the readable mirror in the project."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast import wiring
from holdfast.errors import BadInput, HoldfastError, NotFound, Refused, StoreError
from holdfast.facade.open_store import blocking
from holdfast.facade.tracking import Tracking

if TYPE_CHECKING:
    from holdfast.mirror.draining import Mirror
    from holdfast.views.mirror import ImportChange, MirrorImport, MirrorRebuilt, MirrorStatus

_LARGEST = 64 << 20


class Mirroring(Tracking):
    """Methods on the mirror: the JSON files that show tasks, sessions, memory and runs."""

    @blocking
    def mirror_status(self) -> MirrorStatus:
        """Whether the mirror shows all of the log, and which of its files were edited, are torn or missing,
        or were kept aside. Changes nothing."""
        from holdfast.views.mirror import MirrorStatus

        directory = wiring.mirror_directory(self._place)
        if directory is None:
            return MirrorStatus(None, wiring.why_no_mirror(self._place))
        from holdfast.mirror.inspecting import status

        try:
            is_named = self._place.store_project.is_named
            return status(self._store, self._reader, directory, named=is_named)
        except OSError as error:
            raise StoreError(f"the mirror cannot be read: {error.filename} ({error.strerror})") from error

    @blocking
    def mirror_rebuild(self) -> MirrorRebuilt:
        """Make all files of the mirror again from the log. Files that are not as holdfast wrote them are kept
        aside. Raises `Refused` if there is no mirror, `StoreError` if it cannot be written."""
        from holdfast.mirror.inspecting import count_files
        from holdfast.views.mirror import MirrorRebuilt

        mirror = self._mirror()
        try:
            done = mirror.rebuild()
        except OSError as error:
            raise StoreError(
                f"the mirror cannot be written: {error.filename} ({error.strerror}); fix that, and try again"
            ) from error
        if not done.is_current:
            raise Refused(
                "another process has been writing the mirror for a minute; try again when it has ended"
            )
        files = count_files(mirror.directory, named=self._place.store_project.is_named)
        return MirrorRebuilt(str(mirror.directory), done.events, done.replaced, done.kept, files)

    @blocking
    def mirror_import(self, file: str | os.PathLike[str], *, apply: bool = False) -> MirrorImport:
        """The changes in an edited `current.json`, session file or `memory.json` that the store does not
        have: names, texts and statuses of tasks, decisions, files, memories. With `apply` it is recorded,
        one change after the other; one that is refused, as it would be by hand, is named in `refused`, and
        the others are recorded. Nothing is removed because a file leaves it out. Raises `NotFound`,
        `BadInput`."""
        from holdfast.mirror.importing import Importing
        from holdfast.views.mirror import MirrorImport

        path = Path(file)
        found = Importing(self._store, self._reader.redactor, _read(path), str(path))
        changes = tuple(found.changes())
        if not apply:
            return MirrorImport(str(path), changes, False, tuple(found.left))
        self._refuse_read_only()
        ends = [(change, self._applied(change)) for change in changes]
        recorded = tuple(change for change, why in ends if not why)
        return MirrorImport(
            str(path), recorded, True, tuple(found.left), tuple(why for _, why in ends if why)
        )

    def _applied(self, change: ImportChange) -> str:
        """Record one change; why that was refused, or nothing."""
        try:
            self._apply(change)
        except StoreError:
            raise
        except HoldfastError as error:
            return f"{change.action} {change.target}".strip() + f": {error}"
        return ""

    def _apply(self, change: ImportChange) -> None:
        """Record one change, as if it were made by hand."""
        fields, text = change.fields, change.fields.get("text", "")
        match change.action:
            case "create":
                self.tasks.create(fields["name"], body=fields["body"])
            case "edit":
                self.tasks.edit(change.target, name=fields.get("name"), body=fields.get("body"))
            case "claim":
                self.tasks.claim(change.target)
            case "release":
                self.tasks.release(change.target)
            case "complete":
                self.tasks.complete(change.target, summary=text)
            case "fail":
                self.tasks.fail(change.target, text or "as a file of the mirror says")
            case "reopen":
                self.tasks.reopen(change.target)
            case "note":
                self.tasks.note(change.target, text, fields["kind"])
            case "remember":
                self.memory.remember(
                    text, kind=fields["kind"], scope=fields["scope"], supersedes=change.target or None
                )

    def _mirror(self) -> Mirror:
        self._refuse_read_only()
        mirror = wiring.open_mirror(self._place, self._store, self._reader, self._clock)
        if mirror is None:
            raise Refused(wiring.why_no_mirror(self._place))
        return mirror


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > _LARGEST:
            raise BadInput(f"{path} is too large for a file of the mirror")
        if not path.is_file():
            raise BadInput(f"{path} is not a file")
        return path.read_bytes()
    except FileNotFoundError:
        raise NotFound(
            f"there is no file {path}; `holdfast mirror status` lists those that were kept"
        ) from None
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror})") from None
