"""A workspace: a directory whose files can be saved and put back."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from holdfast.errors import BadWorkspace, WorkspaceError
from holdfast.workspace import index, snapshot, storage
from holdfast.workspace.contents import Contents, Swept
from holdfast.workspace.coverage import Coverage
from holdfast.workspace.index import Index
from holdfast.workspace.refs import Ref
from holdfast.workspace.scan import Progress, Scan
from holdfast.workspace.snapshot import Snapshot, Tree

LARGEST_IGNORED = 10 * 1024 * 1024


class Workspace:
    """The files beneath `root`; everything that is kept of them lies in `directory`.

    Several processes may use the same workspace and the same directory at once. Raises BadWorkspace for a
    root that no tool should put files back into.
    """

    def __init__(
        self, root: Path, directory: Path, *, largest_ignored: int = LARGEST_IGNORED, home: Path | None = None
    ) -> None:
        self.root = _checked(root, directory, home)
        self._directory = directory
        self._largest_ignored = largest_ignored
        self.contents = Contents(directory)
        mark = sha256(os.fsencode(self.root)).hexdigest()[:16]
        self._index_path = directory / f"index-{mark}"
        self._index: Index | None = None
        self._mutex = threading.RLock()

    def close(self) -> None:
        self.contents.close()

    def snapshot(self, progress: Progress | None = None) -> Snapshot:
        """Save all covered files → the snapshot, which lasts from then on.

        Hold `contents.hold()` around this and whatever refers to the snapshot: nothing holds on to it before.
        """
        with self._mutex, self.contents.hold():
            return self._snapshot(progress)

    def _snapshot(self, progress: Progress | None) -> Snapshot:
        root = os.fsencode(self.root)
        generation = self.contents.generation
        old = self._index or index.load(self._index_path)
        known = self.contents.here if old is not None and old.generation != generation else None
        try:
            rules = Coverage(root, self._directory, self._largest_ignored)
            try:
                with self.contents.writing() as batch:
                    scan = Scan(root, rules, batch, old, known, progress)
                    seen = scan.run()
                    if seen.fresh or old is None:
                        ref = snapshot.write(batch.put, seen.root[0], seen.records)
                    else:
                        ref = Ref(old.snapshot)
                git_state = scan.git_state(seen.records)
            finally:
                rules.close()
        except OSError as exc:
            raise WorkspaceError(f"the workspace {self.root} cannot be read ({exc.strerror or exc})") from exc
        if seen.fresh or old is None:
            self._index = index.make(seen.root, generation, rules.digest, git_state, ref, seen.records)
            with storage.errors_of(self._directory):
                index.save(self._index_path, self._index)
        else:
            self._index = old
        return snapshot.describe(ref, seen.records, seen.unsettled)

    def tree(self, snapshot_id: str) -> Tree:
        """The files of a snapshot. Raises SnapshotNotFound."""
        return Tree(self.contents, snapshot_id)

    def gc(self, keep: Iterable[str]) -> Swept:
        """Remove every content that none of these snapshots needs.

        Raises ContentsDamaged, and removes nothing, if a listing of one of them cannot be read: what it needs
        is not known then.
        """
        needed: set[Ref] = set()
        for snapshot_id in keep:
            self.tree(snapshot_id).refs(needed)
        return self.contents.gc(needed)


def _checked(root: Path, directory: Path, home: Path | None) -> Path:
    """The root without symlinks. Raises BadWorkspace."""
    try:
        real = root.resolve(strict=True)
    except OSError as exc:
        raise BadWorkspace(f"the workspace {root} is not there ({exc.strerror})") from exc
    if not real.is_dir():
        raise BadWorkspace(f"the workspace {root} is not a directory")
    homes = {home.resolve()} if home is not None else {Path.home().resolve()}
    if real == Path(real.anchor) or real in homes:
        raise BadWorkspace(f"{real} is too much for a workspace; name a directory of a project")
    inside = directory.resolve()
    if inside == real or inside in real.parents:
        raise BadWorkspace(f"the workspace {real} lies in the store's directory {inside}; choose another")
    return real
