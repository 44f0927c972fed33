"""Which settings, stores and code of a place the user trusts (decision 0012)."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import msgspec

from holdfast import project, trust
from holdfast.errors import BadInput, NotTrusted, SettingsError, StoreError
from holdfast.settings import Resolved, Settings
from holdfast.ways import Way, quoted
from holdfast.wiring.place import Place, may_have_store

_REBUILT = "rebuilt"
"""In a store's directory: a repair made it of a mirror's files."""


def untrusted(root: Path, resolved: Resolved) -> list[str]:
    """Settings of the project's files that need trust and have none, each in words."""
    doubts = [
        f"{resolved.origins[key].place} sets {key} to {getattr(resolved.settings, key)}"
        for key in resolved.moved
    ]
    for source in resolved.sources:
        fault = trust.fault(source.status, _own_users())
        if fault:
            doubts.append(f"{source.name} {fault}")
    return doubts if doubts and not _is_trusted(root, resolved) else []


def _is_trusted(root: Path, resolved: Resolved) -> bool:
    """Whether the user trusts the settings of the project as they are."""
    if _is_named(root):
        return True
    content = trust.project_content(root, resolved.digest)
    return trust.is_trusted(project.data_home(os.environ), "project", root, content)


def untrusted_agents(root: Path, resolved: Resolved) -> list[str]:
    """Agents of the project's files that need trust and have none, each in words. Only the use of such an
    agent is refused: a project that names one can be looked at."""
    doubts = [
        f"{one.place} has the agent {one.name} ({one.summary})"
        for one in resolved.settings.agent.values()
        if one.needs_trust
    ]
    return doubts if doubts and not _is_trusted(root, resolved) else []


def refuse_untrusted_delivery(place: Place) -> None:
    """Raise `NotTrusted` if the project's files name commands, a plan or policies for a delivery, and the
    user does not trust them."""
    resolved = place.resolved
    said = [key for key in ("checks", "plan", "policy") if key in resolved.settings.deliver]
    if said and not _is_trusted(place.root, resolved):
        where = resolved.origins["deliver"].place
        raise NotTrusted(
            f"{where} sets deliver.{said[0]}, and may come from another person: {_allow(place.root)}"
        )


def doubted_settings(root: Path, resolved: Resolved) -> Settings:
    """The settings, with a doubt at each agent that is not trusted."""
    settings = resolved.settings
    if not settings.agent or not untrusted_agents(root, resolved):
        return settings
    way = _allow(root)
    agents = {
        name: msgspec.structs.replace(
            one,
            doubt=f"{one.place} may come from another person, and says what to execute: {way}",
        )
        if one.needs_trust
        else one
        for name, one in settings.agent.items()
    }
    return msgspec.structs.replace(settings, agent=agents)


def _allow(root: Path) -> str:
    return (
        f"read it, then allow it with {quoted(Way('trust', arguments={'directory': str(root)}))}, or "
        f"in a container or a CI job with `export {TRUST}={shlex.quote(str(root))}`"
    )


def refuse_untrusted(root: Path, resolved: Resolved) -> None:
    doubts = untrusted(root, resolved)
    if doubts:
        raise NotTrusted(
            f"the settings in {root} are not trusted: {'; '.join(doubts)}. They may come from another "
            f"person: {_allow(root)}"
        )


TRUST = "HOLDFAST_TRUST"
"""The variable by which the user names directories in which all settings and stores are trusted."""


def _is_named(directory: Path) -> bool:
    """Whether the user's environment names the directory, or one that it lies in."""
    given = os.environ.get(TRUST, "")
    names = [name for name in given.split(os.pathsep) if name]
    for name in names:
        if not name.startswith("/"):
            # `.` in a profile would trust whatever directory the user goes to.
            raise SettingsError(f"{TRUST} has {name!r}; write the whole path of the directory")
    return any(directory.resolve().is_relative_to(Path(name).resolve()) for name in names)


def _own_users() -> frozenset[int]:
    """Whose files are as good as the user's own: root, who can change everything anyway; and for root under
    `sudo` those of the user who called it, as git has it."""
    behind = os.environ.get("SUDO_UID", "")
    if os.geteuid() == 0 and behind.isascii() and behind.isdecimal() and len(behind) <= 10:
        return frozenset({0, int(behind)})
    return frozenset({0, os.geteuid()})


def refuse_shared(home: Path) -> None:
    """Raise NotTrusted for a store that others can change, or that leads elsewhere."""
    refuse_unsafe(home)
    try:
        (home / project.DATABASE).lstat()
    except PermissionError:
        return  # opening it raises the error
    except OSError:
        pass
    # The look for an obstacle first: whether the store is the user's own is read from its database.
    obstacle = trust.way_out(home)
    if obstacle and not is_own(home):
        raise NotTrusted(f"the store in {home} comes from somewhere else, and {obstacle}")


def refuse_unsafe(home: Path) -> None:
    """Raise NotTrusted for a store that others can change, or whose database is not safe to open."""
    fault = "" if _is_named(home) else trust.store_fault(home, project.DATABASE, _own_users())
    if fault:
        where = shlex.quote(str(home))
        if may_have_store(home):
            way = f'make it yours with `chown -R "$USER" {where}` and `chmod -R go-w {where}`'
        else:
            way = f"name a directory in it, which holdfast makes for you alone: `--home {where}/holdfast`"
        raise NotTrusted(
            f"the store cannot be trusted: {fault}. If you know where it comes from, {way}; or trust all who "
            f"can write there with `export {TRUST}={where}`"
        )
    danger = _danger(home)
    if danger:
        raise NotTrusted(f"the store in {home} is not safe to open: {danger}; remove that file")


def _danger(home: Path) -> str:
    """Why opening the database would change it, or another file, because of a file beside it. The data home
    is exempt: only its owner writes there."""
    if _is_in_data_home(home):
        return ""
    from holdfast.store.sqlite.connection import has_hot_journal

    database = home / project.DATABASE
    if has_hot_journal(database):
        return f"{database}-journal is a rollback journal, which a store never has"
    return trust.companion_fault(database)


def is_own(home: Path) -> bool:
    """Whether the store is the user's own: it lies in the data home, or this user made or trusted it. One
    that was rebuilt from a mirror's files must be trusted: they may have come with the project."""
    if (home / _REBUILT).exists():
        return _is_known(home, token_of(home))
    return _is_in_data_home(home) or _is_named(home) or _is_known(home, token_of(home))


def _is_in_data_home(home: Path) -> bool:
    data_home = project.data_home(os.environ)
    return home.parent == data_home or home.parent.resolve() == data_home.resolve()


def _is_known(home: Path, token: str) -> bool:
    """Whether it is the very database that this user made or trusted here."""
    data_home = project.data_home(os.environ)
    return bool(token) and (
        trust.is_proven(data_home, home, token)
        or trust.is_trusted(data_home, "store", home, trust.store_content(token))
    )


def token_of(home: Path) -> str:
    """The token of a store that this user may have made or trusted; empty for any other."""
    if not trust.may_be_known(project.data_home(os.environ), home) or _danger(home):
        return ""
    from holdfast.store.sqlite.token import read_token

    return read_token(home / project.DATABASE)


def trust_store(home: Path) -> None:
    """Record that the user trusts the store. Its database gets a token that its maker does not know:
    another database in its place is not trusted."""
    refuse_unsafe(home)
    database = home / project.DATABASE
    if database.is_symlink():
        raise BadInput(f"{database} is a symbolic link; trust the directory of the file that it leads to")
    from holdfast.store.sqlite.token import set_token

    token = token_of(home)
    if not _is_known(home, token):
        token = set_token(database, renew=True)
    trust.trust(project.data_home(os.environ), "store", home, trust.store_content(token))


def note_rebuilt(home: Path) -> None:
    """Let a store that a repair has made of a mirror's files be one from elsewhere."""
    (home / _REBUILT).touch(mode=0o600)


def prove_own(home: Path) -> None:
    """Let a store that this user has just made be known as his; in the data home it is anyway."""
    if _is_in_data_home(home):
        return
    from holdfast.store.sqlite.token import set_token

    try:
        token = set_token(home / project.DATABASE)
    except StoreError:
        return  # it is used all the same, as one from elsewhere
    trust.prove(project.data_home(os.environ), home, token)


def refuse_foreign_code(home: Path) -> None:
    """Raise NotTrusted if the code that the store's runs name may belong to others."""
    if not is_own(home):
        raise NotTrusted(
            f"the store in {home} was not made by you here, and its runs name the code to execute; if you "
            "know where it comes from, allow that with "
            f"{quoted(Way('trust', arguments={'directory': str(home)}))}"
        )
