"""Finds the place: project, home, settings and workspace, the same for the CLI and `Holdfast()`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from holdfast import project
from holdfast.errors import NotFound, SettingsError, StoreError
from holdfast.settings import Resolved, load
from holdfast.wiring.place import Place, StoreProject, had_store, may_have_store
from holdfast.wiring.place_repair import advice_on_mirror, refuse_lost
from holdfast.wiring.place_trust import refuse_shared, refuse_untrusted

_MAKE_ONE = project.FIRST


_ELSEWHERE = "change to the directory of the project that has the run, or name its store with --home"


_ANOTHER_HOME = "name the store that has the run with --home"


def find_place(
    flags: Mapping[str, Any] | None = None,
    *,
    create: bool = True,
    needs_store: bool = True,
    project_files: bool = True,
    names_run: bool = False,
) -> Place:
    """As the CLI and `Holdfast()` both resolve it, so that both see the same store.

    With `create=False` nothing is written; raises `NotFound` if there is no store yet, and without
    `needs_store` only if nothing says where it would be. With `project_files` the project's root is the
    workspace, unless a setting says otherwise. With `names_run`, which says that a
    run is looked for, `NotFound` does not advise to make a store. Raises `StoreLost` if the project had a
    store and only its mirror is left, unless `needs_store` is False; `NotTrusted` for settings and stores
    that are not the user's own (decision 0012).
    """
    environ = os.environ
    cwd = Path.cwd()
    root = project.find_root(cwd, environ=environ)
    resolved = load(root=root, environ=environ, flags=flags or {})
    refuse_untrusted(root, resolved)
    chosen = resolved.settings.home
    owned = _store_project(resolved, root, cwd)
    if chosen is not None:
        home = project.expand(chosen, environ=environ, cwd=cwd)
    else:
        if create and needs_store:  # before the pointer of a copy is made to name this directory
            _refuse_lost_project(root, resolved, owned)
        home = project.open_project(
            root,
            project.data_home(environ),
            mint=lambda: os.urandom(4).hex(),
            create=create,
            advice=partial(_advice, root, owned, _ELSEWHERE if names_run else _MAKE_ONE),
        ).home
    refuse_shared(home)
    if not create and needs_store and not had_store(home):
        refuse_lost(Place(root, home, resolved, None, owned))
        advice = _MAKE_ONE if not names_run else _ELSEWHERE if chosen is None else _ANOTHER_HOME
        raise NotFound(f"there is no store in {chosen or home} yet{_advice(root, owned, advice)}")
    if chosen is not None and (create or needs_store):
        home = project.explicit_home(chosen, environ=environ, cwd=cwd)
    _check_text(home)
    workspace = _workspace(resolved, root if project_files else None, cwd)
    return Place(root, home, resolved, workspace, owned)


def _advice(root: Path, owner: StoreProject, usual: str) -> str:
    """The end of a sentence that says that there is no store: the mirror of another one is there, or the
    usual advice."""
    found = advice_on_mirror(root, owner)
    return f", but {found}" if found else f"; {usual}"


def _refuse_lost_project(root: Path, resolved: Resolved, owned: StoreProject) -> None:
    """Raise `StoreLost` if a new store would take the place of one that is gone."""
    try:
        home = project.open_project(root, project.data_home(os.environ), mint=str, create=False).home
    except NotFound:
        return  # there was none
    refuse_lost(Place(root, home, resolved, None, owned))


def _check_text(home: Path) -> None:
    """SQLite's files have names in UTF-8."""
    try:
        str(home).encode()
    except UnicodeEncodeError:
        raise SettingsError(
            f"the store's directory {str(home)!r} has bytes that are not UTF-8 in its name; "
            "name another with --home or HOLDFAST_HOME"
        ) from None


def _workspace(resolved: Resolved, root: Path | None, cwd: Path) -> Path | None:
    """The workspace that the settings name, else `root`."""
    if not resolved.settings.save_files:
        return None
    chosen = resolved.settings.workspace
    if chosen is not None:
        return project.expand(chosen, environ=os.environ, cwd=cwd)
    return root


def _store_project(resolved: Resolved, root: Path, cwd: Path) -> StoreProject:
    """The project that the store belongs to, and its mirror: that of the project, unless a setting turns it
    off or names another directory."""
    settings = resolved.settings
    owner = None if settings.home is not None else root
    if not settings.mirror:
        return StoreProject(owner, no_mirror="the setting `mirror` turns it off; set it to true to have one")
    if settings.mirror_dir is not None:
        return StoreProject(owner, project.expand(settings.mirror_dir, environ=os.environ, cwd=cwd), True)
    if owner is None:
        return StoreProject(
            no_mirror="a store with a home of its own has no project; name a directory for it with "
            "HOLDFAST_MIRROR_DIR"
        )
    return StoreProject(owner, owner / project.POINTER_DIRECTORY)


def warn_of_other_store(place: Place) -> None:
    """A script that is started in another directory than before gets another store, in which the ids it uses
    are those of other runs. Log a warning when such a store is about to be made."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if place.resolved.settings.home is not None or may_have_store(place.home) or not file:
        return
    own = project.find_root(Path(file).resolve().parent, environ=os.environ)
    if own == place.root.resolve():
        return
    try:
        other = project.open_project(own, project.data_home(os.environ), mint=str, create=False)
    except (NotFound, StoreError):
        return
    if may_have_store(other.home):
        import logging  # 4 ms that `holdfast list` need not pay

        logging.getLogger("holdfast").warning(
            "a new store is made for the project %s, where this process was started; the script lies in "
            "%s, which has one, with other runs: name one for both with Holdfast(home) or HOLDFAST_HOME",
            place.root, own,
        )  # fmt: skip
