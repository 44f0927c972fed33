"""Methods that need no store: health, coverage, backups, trust, settings.

The functions take the store's directory as `--home` and `Holdfast(home)` do; None is the project's own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast import project, settings, trust, wiring
from holdfast.errors import BadInput, NotFound, SettingsError
from holdfast.facade.open_store import OnScan, blocking
from holdfast.ways import Way, quoted

if TYPE_CHECKING:
    from holdfast.agent_settings import AgentSettings
    from holdfast.agents.learning.skill_file import Found, SkillFault
    from holdfast.operations.disk_usage import Coverage
    from holdfast.operations.repairing.report import RepairReport
    from holdfast.plans.analyzer import Analysis
    from holdfast.store.sqlite.backup import Backup, Progress
    from holdfast.trust import Trusted
    from holdfast.views.check import Check
    from holdfast.views.learning import SkillInfo
    from holdfast.views.restored_backup import RestoredBackup
    from holdfast.views.setting import SettingInForce
    from holdfast.views.trusted import Granted, TrustRecord


class Storeless:
    """Methods of the class `Holdfast` itself: there may be no store to open."""

    @classmethod
    @blocking
    def restore_backup(
        cls,
        file: str | os.PathLike[str],
        home: str | os.PathLike[str] | None,
        *,
        on_progress: Progress | None = None,
    ) -> RestoredBackup:
        """Verify a backup and make it the store in `home` (None: the project's own); the store that is there
        is kept aside. The mirror is made again, so that it shows nothing else than the restored store. `file`
        is a path, or the name of one that `backups` gives.

        Raises `StoreHeld` while a live process executes runs of the store, `NotFound` with the nearest names,
        `StoreCorrupt`, `StoreFull`: then nothing has changed.
        """
        from holdfast.operations.backups import refuse_live, source_of
        from holdfast.store.sqlite.backup import silent
        from holdfast.store.sqlite.restore import inspect

        flags = {"home": None if home is None else os.fspath(home)}
        source = source_of(os.fspath(file), _backup_directory(flags))
        inspect(source)  # before a directory is made for a store that is not there yet
        place = wiring.find_place(flags, needs_store=False)
        restored = wiring.restore_backup(
            place,
            source,
            datetime.now(UTC),
            refuse=lambda: refuse_live(place.home),
            progress=on_progress or silent,
        )
        if wiring.mirror_directory(place) is not None:
            _drain_mirror(cls, place)
        return restored

    @classmethod
    @blocking
    def repair_store(
        cls,
        home: str | os.PathLike[str] | None,
        *,
        dry_run: bool = False,
        backup: str | os.PathLike[str] | None = None,
        on_progress: Progress | None = None,
    ) -> RepairReport:
        """Examine the store in `home` (None: the project's own), which need not open any more, and mend it
        from what the database, its write-ahead log, backups, archives and the mirror still hold. What is
        changed is kept in a directory that the report names. With `dry_run`, only examine it. `backup` is one
        more copy: a backup as `restore_backup` takes it, or a journal of a mirror.

        Raises `StoreHeld` while a live process has the store open, `StoreNewer`, `StoreFull`, `NotFound` if
        there is no store and no copy of one, and `StoreCorrupt` if nothing of the log is left: then nothing
        has changed.
        """
        from holdfast.clock import microseconds
        from holdfast.operations.backups import source_of
        from holdfast.operations.repairing.copies import is_copy
        from holdfast.store.sqlite.backup import find, silent

        flags = {"home": None if home is None else os.fspath(home)}
        try:
            place = wiring.find_place(flags, create=False, needs_store=False)
        except NotFound:
            if backup is None:
                raise
            place = None
        directory = None if place is None else wiring.backup_directory(place)
        chosen = None if backup is None else source_of(os.fspath(backup), directory)
        is_first = place is None
        if is_first and chosen is not None and not is_copy(chosen):
            raise BadInput(f"{chosen} is neither a backup nor a journal; nothing was changed")
        if place is None:  # a clone, or a copy of a project: the copy that is named makes its first store
            if dry_run:
                return _gone(project.data_home(os.environ))
            place = wiring.find_place(flags, needs_store=False)
        elif not wiring.had_store(place.home) and chosen is None and not find(wiring.backup_directory(place)):
            _refuse_without_copy(place)
        if not place.home.exists():
            if dry_run:
                return _gone(place.home)
            place = wiring.find_place(flags, needs_store=False)
        report = wiring.repair_store(
            place,
            chosen,
            microseconds(datetime.now(UTC)),
            dry_run=dry_run,
            progress=on_progress or silent,
            is_first=is_first,
        )
        return _mirrored(cls, place, report) if wiring.mirror_directory(place) else report

    @classmethod
    @blocking
    def trust(cls, directory: str | os.PathLike[str] | None = None) -> Granted:
        """Allow the settings of a project, or a store, that came from somewhere else: `directory`, or the
        project of the working directory. If its settings or its database change, it needs trust again. Raises
        `NotFound` if there is nothing that needs trust."""
        from holdfast.views.trusted import Granted

        given = _existing(directory)
        data_home = project.data_home(os.environ)
        root = project.find_root(given, environ=os.environ)
        is_store = (given / project.DATABASE).exists()
        with project.explained(data_home):
            # A directory may be both: `home = "."`.
            if not is_store or (given == root and settings.load(root=root, environ={}).sources):
                granted = _trust_project(root, data_home)
            else:
                granted = Granted(str(given))
            if is_store and not granted.store:
                wiring.trust_store(given)
                granted = Granted(granted.directory, granted.settings, str(given))
        return granted

    @classmethod
    @blocking
    def untrust(cls, directory: str | os.PathLike[str] | None = None) -> list[str]:
        """Undo `trust` for `directory`, which need not exist any more, or for the project of the working
        directory; returns what is no longer trusted. Raises `NotFound` if it was not."""
        given = Path.cwd() if directory is None else Path(directory).resolve()
        data_home = project.data_home(os.environ)
        with project.explained(data_home):
            removed = trust.untrust(data_home, given)
            if not removed and given.is_dir():
                removed = trust.untrust(data_home, project.find_root(given, environ=os.environ))
        if not removed:
            raise NotFound(
                f"{given} is not trusted; {quoted(Way('trust', arguments={'list': True}))} shows what is"
            )
        return list(removed)

    @classmethod
    @blocking
    def trusted(cls) -> list[TrustRecord]:
        """Every project and store that the user trusts, and whether each is still what was trusted."""
        from holdfast.views.trusted import TrustRecord

        data_home = project.data_home(os.environ)
        return [
            TrustRecord(one.directory, one.kind, one.at, _holds(data_home, one))
            for one in trust.listed(data_home)
        ]


def _refuse_without_copy(place: wiring.Place) -> None:
    """Raise `NotFound` if there is neither a store nor a backup, and no mirror from which the store can be
    rebuilt."""
    left = wiring.left_mirror(place)
    if left is None or not (left.is_copy or left.has_journal):
        raise NotFound(f"there is no store in {place.home}, and no backup of one; there is nothing to repair")
    if not left.is_copy:
        way = quoted(Way("repair", arguments={"from": str(left.journal)}))
        raise NotFound(
            f"there is no store in {place.home}, and the journal {left.journal} cannot be proven to be of "
            f"one that was there: it may have come with the directory. If it is yours, {way} rebuilds tasks, "
            "links, sessions and memory from it"
        )


def _gone(home: Path) -> RepairReport:
    """The report of a dry run for a store whose directory is gone, or was never there."""
    from holdfast.operations.repairing.report import MISSING, RepairReport

    return RepairReport(home, True, (MISSING,))


def _drain_mirror(cls: Any, place: wiring.Place) -> None:
    """Bring the mirror up to date; a failure is logged as a warning. `cls` is the class `Holdfast`."""
    with cls.at(place, finish=False) as hf:
        hf._drain_mirror()


def _mirrored(cls: Any, place: wiring.Place, report: RepairReport) -> RepairReport:
    """The report with the files of the mirror that are damaged. Unless nothing is to be changed, they are
    made again from the log; what is there is kept aside. `cls` is the class `Holdfast`."""
    import msgspec

    from holdfast.operations.repairing.report import Finding

    if report.dry_run and report.findings:
        return report  # the store may not open
    with cls.at(place, read_only=True) as hf:
        faults = hf.mirror_status().faults
    if not report.dry_run and (faults or report.events):
        with cls.at(place, finish=False) as hf:
            hf.mirror_rebuild()
    action = "the mirror is made again from the log"
    kept = f"{action}; the file is kept beside it"
    found = (
        Finding(
            one.path, f"the file of the mirror is {one.fault}", action if one.fault == "missing" else kept
        )
        for one in faults
    )
    return msgspec.structs.replace(report, findings=(*report.findings, *found))


def doctor(home: str | None = None) -> list[Check]:
    """`Holdfast.doctor` where the store may be missing or broken: then a check reports it."""
    from holdfast.facade.health import examine

    return list(examine(home))


def coverage(home: str | None = None, *, on_scan: OnScan | None = None) -> Coverage:
    """`Holdfast.coverage` where there may be no store. None is made: a snapshot then keeps its files in a
    temporary directory."""
    from holdfast.operations.disk_usage import coverage

    with ExitStack() as stack:
        try:
            place = wiring.find_place({"home": home}, create=False)
        except NotFound:
            from tempfile import TemporaryDirectory

            scratch = stack.enter_context(TemporaryDirectory(prefix="holdfast-"))
            place = wiring.find_place({"home": scratch})
        files = wiring.open_files(place)
        stack.callback(files.close)
        files.on_progress = on_scan
        return coverage(files)


def agent_fault(home: str | None = None) -> Callable[[str, bool], str]:
    """The fault of the agent that a plan names, by the settings of the project, which are read when it
    is first asked: `plans.check(file, agent_fault=agent_fault())`."""

    @cache
    def in_force() -> settings.Settings:
        root = project.find_root(Path.cwd(), environ=os.environ)
        resolved = settings.load(root=root, environ=os.environ, flags={"home": home})
        return wiring.doubted_settings(root, resolved)

    def fault(name: str, adjusts: bool) -> str:
        from holdfast.agents import config

        return config.agent_fault(in_force(), name, adjusts)

    return fault


def analyze(text: str, home: str | None = None, *, limit: int = 10) -> Analysis:
    """`Holdfast.analyze` where there may be no store; then what was read of the files is not kept."""
    from holdfast.facade.analyzing import analysis_of

    try:
        place = wiring.find_place({"home": home}, create=False)
    except NotFound:
        root = project.find_root(Path.cwd(), environ=os.environ)
        return analysis_of(root, text, limit, None)
    return analysis_of(place.workspace or place.root, text, limit, place.home)


def skills(home: str | None = None) -> tuple[list[SkillInfo], list[SkillFault]]:
    """The skills of the project and the faults of its SKILL.md files, where there may be no store."""
    from holdfast.facade.skills import listed

    found = _skills(home)
    return listed(found.skills, None), found.faults


def skill(name: str, home: str | None = None) -> SkillInfo:
    """`hf.skills.show` where there may be no store."""
    from holdfast.facade.skills import shown

    return shown(_skills(home), name, None)


def _skills(home: str | None) -> Found:
    from holdfast.facade.skills import found_in

    root = project.find_root(Path.cwd(), environ=os.environ)
    resolved = settings.load(root=root, environ=os.environ, flags={"home": home})
    return found_in(root, resolved.settings.skills_dirs)


def backups(
    directory: str | os.PathLike[str] | None = None,
    home: str | None = None,
    *,
    on_progress: Progress | None = None,
) -> list[Backup]:
    """`Holdfast.backups` where the store may be gone."""
    own = None if directory is not None else _backup_directory({"home": home})
    return backups_in(own, directory, on_progress)


def backups_in(
    own: Path | None, directory: str | os.PathLike[str] | None, on_progress: Progress | None
) -> list[Backup]:
    """Those in `directory`, or in the backup directory `own`."""
    from holdfast.store.sqlite.backup import examine, find

    if directory is not None and not Path(directory).is_dir():
        raise NotFound(f"there is no directory {os.fspath(directory)}; leave it out for the project's own")
    where = own if directory is None else Path(directory)
    paths = find(where) if where else []
    found: list[Backup] = []
    for path in paths:
        if on_progress is not None:
            on_progress("reading backup", len(found) + 1, len(paths))
        found.append(examine(path))
    return found


def _backup_directory(flags: dict[str, Any]) -> Path | None:
    """None if there is no project here. A store need not be there any more."""
    try:
        return wiring.backup_directory(wiring.find_place(flags, create=False, needs_store=False))
    except NotFound:
        return None


def settings_in_force(home: str | None = None) -> tuple[list[SettingInForce], list[str]]:
    """Every setting with its value and where that came from; and what of the project's files is not trusted,
    in words."""
    from holdfast.views.setting import SettingInForce

    root = project.find_root(Path.cwd(), environ=os.environ)
    resolved = settings.load(root=root, environ=os.environ, flags={"home": home})
    doubts = [*wiring.untrusted(root, resolved), *wiring.untrusted_agents(root, resolved)]
    found = []
    for setting in settings.reference():
        origin = resolved.origins[setting.key]
        if setting.key == "agent" and resolved.settings.agent:
            found += [_agent_in_force(one, origin.kind, doubts) for one in resolved.settings.agent.values()]
            continue
        found.append(
            SettingInForce(
                setting.key,
                _shown(setting.key, getattr(resolved.settings, setting.key)),
                origin.kind,
                origin.place,
                not (doubts and origin.kind in settings.PROJECT_FILES),
                setting.variable,
                setting.type,
                setting.description,
            )
        )
    return found, doubts


def _agent_in_force(agent: AgentSettings, origin: str, doubts: list[str]) -> SettingInForce:
    from holdfast.views.setting import SettingInForce

    is_trusted = not (doubts and agent.needs_trust)
    return SettingInForce(
        f"agent.{agent.name}", agent.summary, origin, agent.place, is_trusted, "", "a table", "An agent."
    )


def _shown(key: str, value: Any) -> Any:
    # People put the secret itself into a pattern.
    return f"{len(value)} patterns" if key == "redact" else value


def _existing(directory: str | os.PathLike[str] | None) -> Path:
    if directory is None:
        return Path.cwd()
    if not Path(directory).is_dir():
        raise NotFound(f"there is no directory {os.fspath(directory)}")
    return Path(directory).resolve()


def _trust_project(root: Path, data_home: Path) -> Granted:
    """Trust the settings of a project, and the store that they name, if it is there already."""
    from holdfast.views.trusted import Granted, GrantedSetting

    resolved = settings.load(root=root, environ={})
    if not resolved.sources:
        raise NotFound(
            f"there is nothing in {root} that needs trust: no settings of holdfast, and no store; "
            "`holdfast trust DIRECTORY` names another one"
        )
    said = [
        GrantedSetting(key, getattr(resolved.settings, key), resolved.origins[key].place)
        for key in resolved.moved
    ]
    said += [
        GrantedSetting(f"agent.{one.name}", one.summary, one.place)
        for one in resolved.settings.agent.values()
        if one.needs_trust
    ]
    if resolved.settings.deliver:
        place = resolved.origins["deliver"].place
        said.append(GrantedSetting("deliver", resolved.settings.deliver, place))
    store = None
    if resolved.settings.home is not None:
        home = project.expand(resolved.settings.home, environ=os.environ, cwd=root)
        if (home / project.DATABASE).exists():
            wiring.trust_store(home)
            store = home.resolve()
    trust.trust(data_home, "project", root, trust.project_content(root, resolved.digest), store)
    return Granted(str(root), tuple(said), "" if store is None else str(store))


def _holds(data_home: Path, trusted: Trusted) -> bool:
    """Whether it still is what was trusted."""
    directory = Path(trusted.directory)
    try:
        if trusted.kind == "store":
            content = trust.store_content(wiring.token_of(directory))
        else:
            content = trust.project_content(directory, settings.load(root=directory, environ={}).digest)
    except SettingsError:  # the trusted settings had no fault
        return False
    return trust.is_trusted(data_home, trusted.kind, directory, content)
