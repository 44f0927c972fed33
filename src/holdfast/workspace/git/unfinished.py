"""The files in which git keeps a merge, rebase, cherry-pick, revert or bisect that is in progress.

They are kept as one content and compared file by file: after a crash in the middle of a replacement each
file is either the old or the new one, so the replacement can be repeated.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from holdfast import typed_values
from holdfast.durable_file import sync_directory
from holdfast.errors import ContentsDamaged, GitError, GitFailed
from holdfast.workspace.contents.batch import Batch
from holdfast.workspace.contents.content_store import Contents
from holdfast.workspace.contents.refs import Ref

_NAMES = (
    "AUTO_MERGE", "BISECT_ANCESTORS_OK", "BISECT_EXPECTED_REV", "BISECT_FIRST_PARENT", "BISECT_HEAD",
    "BISECT_LOG", "BISECT_NAMES", "BISECT_RUN", "BISECT_START", "BISECT_TERMS", "CHERRY_PICK_HEAD",
    "MERGE_AUTOSTASH", "MERGE_HEAD", "MERGE_MODE", "MERGE_MSG", "MERGE_RR", "REVERT_HEAD", "SQUASH_MSG",
    "rebase-apply", "rebase-merge", "sequencer",
)  # fmt: skip
_TEMPORARY = "holdfast-progress"
_MOST_BYTES = 64 * 1024 * 1024
Files = dict[str, bytes]
"""Path in git's directory → content."""


class GitProgress:
    """The operation in progress in the worktree whose own directory of git is `directory`."""

    def __init__(self, directory: bytes, contents: Contents) -> None:
        self._directory = directory
        self._contents = contents

    def save(self, batch: Batch) -> str:
        """Keep the files as they are → their content; "" if there are none, or more than can be kept."""
        files = self.read()
        if not files or sum(map(len, files.values())) > _MOST_BYTES:
            return ""
        return batch.keep(msgspec.json.encode(files, order="sorted")).hex()

    def read(self) -> Files:
        """Raises GitFailed."""
        try:
            return {path: data for name in _NAMES for path, data in self._beneath(name)}
        except OSError as exc:
            raise GitFailed("status", f"what is in progress cannot be read ({exc.strerror})") from exc

    def _beneath(self, name: str) -> Iterator[tuple[str, bytes]]:
        path = self._path(name)
        if os.path.isdir(path):
            for inner in sorted(os.listdir(path)):
                yield from self._beneath(f"{name}/{os.fsdecode(inner)}")
        elif os.path.isfile(path):
            with open(path, "rb") as file:
                yield name, file.read()

    def kept(self, progress: str) -> Files:
        """The kept files. Raises ContentsDamaged."""
        if not progress:
            return {}
        try:
            return typed_values.decode(self._contents.read(Ref(bytes.fromhex(progress))), Files)
        except msgspec.MsgspecError as exc:
            raise ContentsDamaged([progress]) from exc

    def changed_ns(self) -> int:
        """When one of the files was last written; 0 if there are none."""
        return max((os.lstat(self._path(path)).st_ctime_ns for path in self.read()), default=0)

    def put(self, to: Mapping[str, bytes]) -> None:
        """Make the files those of `to`: first what comes, then what goes."""
        try:
            now = self.read()
            for path, data in to.items():
                if now.get(path) != data:
                    self._write(path, data)
            for path in now.keys() - to.keys():
                os.unlink(self._path(path))
            self.prune()
            sync_directory(Path(os.fsdecode(self._directory)))
        except OSError as exc:
            raise GitError(f"what is in progress in git cannot be written ({exc.strerror})") from exc

    def _write(self, path: str, data: bytes) -> None:
        target, temporary = self._path(path), self._path(_TEMPORARY)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, target)

    def prune(self) -> None:
        """Remove directories without a file: git takes one for something in progress."""
        for name in _NAMES:
            self._prune(self._path(name))

    def _prune(self, path: bytes) -> None:
        if not os.path.isdir(path):
            return
        for inner in os.listdir(path):
            self._prune(os.path.join(path, inner))
        if not os.listdir(path):
            os.rmdir(path)

    def _path(self, name: str) -> bytes:
        return os.path.join(self._directory, os.fsencode(name))


def is_on_the_way(left: Mapping[str, bytes], to: Mapping[str, bytes], now: Mapping[str, bytes]) -> bool:
    """Whether each file is as the run left it, or as it was before."""
    paths = left.keys() | to.keys() | now.keys()
    return all(now.get(path) in (left.get(path), to.get(path)) for path in paths)
