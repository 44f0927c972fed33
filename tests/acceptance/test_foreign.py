"""Repositories and stores from somewhere else: looking at one executes nothing of it, and writes nothing
outside the store (decision 0012)."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from tests.acceptance.test_files import KILLER

from holdfast.cli import app

PROGRAM = str(Path(sys.executable).parent / "holdfast")
NOT_TRUSTED = 9
NOBODY = 65534

CHANGES = {
    *("run", "resume", "approve", "reject", "signal", "pause", "cancel", "settle", "rewind", "undo", "redo"),
    "delete",
    *(
        "fork",
        "repair",
        "mirror rebuild",
        "mirror import",
        "workspace restore",
        "gc",
        "backup create",
        "backup restore",
        "archive",
        "trust",
        "untrust",
        "evidence verify",
        "evidence export",
    ),
    "demo",
    "deliver",
    "plan run",
    "budget set",
    "budget raise",
    *(
        f"task {name}"
        for name in (
            *("create", "edit", "note", "block", "unblock", "link", "unlink", "archive", "export", "import"),
            *("start", "resume", "claim", "renew", "release", "complete", "fail", "reopen"),
        )
    ),
    *("session start", "session end"),
    *("remember", "forget"),
}
"""The commands that change something. All others only look: a new command does, until it is put here."""
VALUES = {
    "kind": "draft",
    "name": "tables",
    "run": "r",
    "plan": "plan.yaml",
    "text": "add login",
    "a": "cp",
    "b": "disk",
    "shell": "bash",
    "task": "beef",
    "session": "beef",
    "query": "evil",
    "milestone": "cp",
}
"""What the arguments of commands are given."""
OPTIONS = {"replay": ["--all"], "workspace status": ["--all"], "trust": ["--list"]}

EDITS = """
from pathlib import Path
from holdfast import Holdfast, checkpoint, step, workflow

@step(effect="workspace")
def write(text):
    Path("authorized_keys").write_text(text)

@workflow
def edits():
    write("ssh-rsa attacker")
    checkpoint("cp")
    write("something else")

if __name__ == "__main__":
    with Holdfast() as hf:
        hf.with_id("r").run(edits)
"""
EVIL = """
import os
from pathlib import Path
from holdfast import Holdfast, Retry, step, workflow

Path(os.environ["CANARY"]).write_text("executed")

@step
def fails():
    raise ValueError("no")

@workflow
def evil():
    fails()

if __name__ == "__main__":
    with Holdfast() as hf:
        try:
            hf.with_id("evil").run(evil)
        except ValueError:
            pass
"""


class World(NamedTuple):
    """A user's home with what must not change, and a repository that somebody else prepared."""

    home: Path
    repo: Path
    canary: Path
    env: dict[str, str]

    @property
    def data(self) -> Path:
        return self.home / ".local" / "share" / "holdfast"

    def __call__(self, *words: object, code: int | None = 0, cwd: Path | None = None, **env: str) -> str:
        done = subprocess.run(
            [PROGRAM, *map(str, words)],
            cwd=cwd or self.repo,
            env=self.env | env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert code is None or done.returncode == code, (words, done)
        return done.stdout + done.stderr

    def untouched(self) -> dict[str, str]:
        """All that is not the store's: nothing of it may change."""
        found = {}
        for top in (self.home, self.repo):
            for path in sorted(top.rglob("*")):
                if not path.is_relative_to(self.data) and not path.is_relative_to(self.repo / ".hf"):
                    found[str(path)] = _state(path)
        return found


def _state(path: Path) -> str:
    if path.is_symlink():
        return f"-> {os.readlink(path)}"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "directory"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> World:
    """What the attacker has made, once: the paths in a store are absolute, so every test has it here."""
    directory = tmp_path_factory.mktemp("foreign")
    home, repo, canary = directory / "user", directory / "repo", directory / "user" / "executed"
    repo.mkdir()
    hidden = ("HOLDFAST_", "XDG_", "GIT_")
    env = {name: text for name, text in os.environ.items() if not name.startswith(hidden)}
    env |= {
        "HOME": str(home),
        "TMPDIR": str(directory / "tmp"),
        "CANARY": str(canary),
    }
    _attack(directory, home / ".ssh", repo, env)
    shutil.copytree(repo, directory / "pristine", symlinks=True)
    return World(home, repo, canary, env)


@pytest.fixture
def world(prepared: World) -> World:
    for path in (prepared.home, prepared.repo, prepared.repo.with_name("copy"), Path(prepared.env["TMPDIR"])):
        shutil.rmtree(path, ignore_errors=True)
    for name in ("trace", "codes", "codes.err"):
        (prepared.repo.parent / name).unlink(missing_ok=True)
    shutil.copytree(prepared.repo.with_name("pristine"), prepared.repo, symlinks=True)
    Path(prepared.env["TMPDIR"]).mkdir()
    (prepared.home / ".ssh").mkdir(parents=True)
    (prepared.home / ".ssh" / "authorized_keys").write_text("ssh-rsa mine")
    return prepared


def _attack(directory: Path, ssh: Path, repo: Path, env: dict[str, str]) -> None:
    """The attacker makes, on a machine with the same paths, a store with a rewind that is cut off before its
    files are moved, and with a run whose code lies in the repository; and modules that Python would find."""
    elsewhere = env | {"HOME": str(directory / "attacker"), "HOLDFAST_HOME": str(repo / ".hf")}
    ssh.mkdir(parents=True)
    (ssh / "flow.py").write_text(EDITS)
    (directory / "killer.py").write_text(KILLER)
    (repo / "evil.py").write_text(EVIL)
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    subprocess.run([sys.executable, "evil.py"], cwd=repo, env=elsewhere, check=True)
    subprocess.run([sys.executable, "flow.py"], cwd=ssh, env=elsewhere, check=True)
    killer = [sys.executable, str(directory / "killer.py"), "before the files", "rewind", "r", "--to", "cp"]
    done = subprocess.run(killer, cwd=ssh, env=elsewhere, check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done
    for name in ("sitecustomize", "usercustomize", "click", "msgspec", "apsw", "pathspec", "holdfast"):
        (repo / f"{name}.py").write_text(EVIL.splitlines()[1] + "\nopen(os.environ['CANARY'], 'w')\n")
    monitor = repo / "monitor.sh"
    monitor.write_text('#!/bin/sh\ntouch "$CANARY"\n')
    monitor.chmod(0o755)
    for key in ("core.fsmonitor", "core.pager", "diff.external", "core.sshCommand"):
        subprocess.run(["git", "-C", str(repo), "config", key, str(monitor)], check=True)


def leaves(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield context.command_path.removeprefix("holdfast "), command
        return
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from leaves(inner, click.Context(inner, parent=context, info_name=name))


COMMANDS = dict(leaves(app.program, click.Context(app.program, info_name="holdfast")))


def looking() -> Iterator[list[str]]:
    """Each command that only looks, as somebody would type it, also with --json."""
    for name, command in COMMANDS.items():
        if name in CHANGES and name not in OPTIONS:
            continue
        words = name.split()
        if name not in CHANGES:
            arguments = [one for one in command.params if isinstance(one, click.Argument)]
            needed = [one for one in arguments if one.required or one.name in VALUES]
            given = [] if "--all" in OPTIONS.get(name, ()) else needed
            words += [VALUES[str(one.name)] for one in given]
        words += OPTIONS.get(name, [])
        yield words
        if any("--json" in one.opts for one in command.params):
            yield [*words, "--json"]


def test_changes_are_commands() -> None:
    """A command that is renamed or removed does not stay in the list."""
    assert set(COMMANDS) >= CHANGES | set(OPTIONS)


WRITING = re.compile(r"^\d+ +(?P<call>\w+)\((?P<arguments>.*)\) += (?P<result>-?\d+)", re.MULTILINE)
TRACED = (
    "open,openat,openat2,creat,mkdir,mkdirat,unlink,unlinkat,rename,renameat,renameat2,link,linkat,symlink,"
    "symlinkat,chmod,fchmodat,chown,lchown,fchownat,truncate,mknod,mknodat,rmdir,utimensat,setxattr,execve"
)


def look(world: World, *flags: str) -> dict[str, int]:
    """Execute every command that only looks, under a tracer where there is one; what each ended with. Nothing
    outside the store was written, nothing of the repository executed."""
    before = world.untouched()
    lines = [*looking()]
    log = world.repo.parent / "trace"
    codes = world.repo.parent / "codes"
    script = """while read -r line; do
        eval "$PROGRAM $line" </dev/null >/dev/null 2>>"$CODES.err"
        echo $? >>"$CODES"
    done"""
    given = "".join(" ".join([*flags, *words]) + "\n" for words in lines)
    tracer = []
    if shutil.which("strace"):
        tracer = [
            "strace",
            "--seccomp-bpf",
            "-f",
            "-qq",
            "-y",
            "-s",
            "4096",
            "-e",
            f"trace={TRACED}",
            "-o",
            str(log),
        ]
    subprocess.run(
        [*tracer, "/bin/sh", "-c", script],
        cwd=world.repo,
        env=world.env | {"PROGRAM": PROGRAM, "CODES": str(codes), "TERM": "dumb"},
        input=given,
        text=True,
        check=True,
        timeout=100,
    )
    found = {" ".join(words): int(code) for words, code in zip(lines, codes.read_text().split(), strict=True)}
    assert "Traceback" not in Path(f"{codes}.err").read_text()
    assert world.untouched() == before
    assert not world.canary.exists()
    if tracer:
        allowed = [
            world.data,
            world.repo / ".hf",
            Path(world.env["TMPDIR"]),
            Path(world.env["PYTHONPYCACHEPREFIX"]),
            Path("/dev"),
            codes.parent / "codes",
        ]
        assert [one for one in written(log.read_text(), world.repo) if not _is_in(one, allowed)] == []
    assert 70 not in found.values(), found
    return found


def _is_in(path: str, allowed: Sequence[Path]) -> bool:
    return any(path == str(one) or path.startswith((f"{one}/", f"{one}.")) for one in allowed)


def written(trace: str, cwd: Path) -> Iterator[str]:
    """The paths that were written, and the programs of the repository that were started."""
    for match in WRITING.finditer(trace):
        call, arguments = match["call"], match["arguments"]
        if int(match["result"]) < 0:
            continue
        paths = re.findall(r'"((?:[^"\\]|\\.)*)"', arguments)
        if call == "execve":
            if paths[0].startswith(str(cwd)):
                yield paths[0]
            continue
        if call.startswith("open") and not re.search(r"O_(WRONLY|RDWR|CREAT|TRUNC)", arguments):
            continue
        directory = re.search(r"^(?:AT_FDCWD|\d+)<([^>]*)>", arguments)
        for path in paths[: 2 if call.startswith(("rename", "link")) else 1]:
            yield os.path.normpath(os.path.join(directory[1] if directory else cwd, path))


def tell(path: Path, kind: str, **settings: str) -> None:
    """Write settings into a file of the project."""
    if kind == ".env":
        text = "".join(f"HOLDFAST_{key.upper()}={value}\n" for key, value in settings.items())
    else:
        table = "[tool.holdfast]\n" if kind == "pyproject.toml" else ""
        text = table + "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
    (path / kind).write_text(text)


# The four variants


@pytest.mark.parametrize("kind", ["holdfast.toml", "pyproject.toml", ".env"])
@pytest.mark.parametrize("key", ["home", "workspace", "backup_dir"])
def test_settings_of_a_clone_move_nothing(world: World, kind: str, key: str) -> None:
    """The store, the workspace and the backups are where the user's own settings say, or nothing is done."""
    tell(world.repo, kind, **{key: {"home": ".hf", "workspace": "~/.ssh", "backup_dir": "~/.ssh"}[key]})
    before = world.untouched()
    told = world("du", code=NOT_TRUSTED)
    assert f"sets {key} to" in told and f"`holdfast trust {world.repo}`" in " ".join(told.split())
    for words in (["list"], ["run", "true"], ["workspace", "status"]):
        world(*words, code=NOT_TRUSTED)
    script = [sys.executable, "-P", "-c", "from holdfast import Holdfast; Holdfast()"]
    done = subprocess.run(script, cwd=world.repo, env=world.env, capture_output=True, text=True, check=False)
    assert "holdfast.errors.NotTrusted: the settings in" in done.stderr
    assert world.untouched() == before and not world.canary.exists()


def test_a_clone_with_settings_is_looked_at(world: World) -> None:
    """Variant 1: a settings file that points to a prepared store."""
    tell(world.repo, "holdfast.toml", home=".hf", workspace="~/.ssh")
    codes = look(world)
    assert {codes[name] for name in ("list", "show r", "du", "replay --all", "doctor", "logs r")} == {
        NOT_TRUSTED
    }
    assert codes["config show"] == codes["trust --list"] == 0


def test_a_prepared_store_is_looked_at(world: World) -> None:
    """Variant 2: the user names a store that somebody else made. Its runs can be read; its code is not run,
    its operations are not finished."""
    codes = look(world, "--home", ".hf")
    assert {codes[name] for name in ("list", "show r", "du", "checkpoints r", "op log r")} == {0}
    assert codes["replay --all"] == codes["diff r cp disk"] == NOT_TRUSTED


def test_a_symlinked_pointer_is_refused(world: World) -> None:
    """Variant 3: `.holdfast` is a link to where the project's pointer would be written."""
    (world.repo / ".holdfast").symlink_to(world.home / ".ssh")
    codes = look(world)
    assert {codes[name] for name in ("list", "show r", "du")} == {NOT_TRUSTED}
    before = world.untouched()
    assert "is a symbolic link" in world("run", "true", code=NOT_TRUSTED)
    assert world.untouched() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("what", ["settings", "store"])
def test_what_is_of_another_user_is_refused(world: World, what: str) -> None:
    """Variant 4: the settings file, or the store, belongs to another user."""
    tell(world.repo, "holdfast.toml", durability="process")
    if what == "settings":
        os.chown(world.repo / "holdfast.toml", NOBODY, NOBODY)
        codes = look(world)
    else:
        os.chown(world.repo / ".hf", NOBODY, NOBODY)
        codes = look(world, "--home", ".hf")
    assert {codes[name] for name in ("list", "show r", "du", "replay --all")} == {NOT_TRUSTED}


@pytest.mark.parametrize("what", ["holdfast.toml", ".hf", ".hf/holdfast.db"])
def test_what_others_can_write_is_refused(world: World, what: str) -> None:
    """Settings and stores that every user can write are nobody's word."""
    tell(world.repo, "holdfast.toml", durability="process")
    world("--home", ".hf", "list")
    (world.repo / what).chmod(0o777)
    assert "can be written by every user" in world("--home", ".hf", "list", code=NOT_TRUSTED)


# What changes something


def test_an_operation_of_a_foreign_store_is_not_finished(world: World) -> None:
    """Also a command that changes the store moves no files in a directory that only the store names."""
    keys = world.home / ".ssh" / "authorized_keys"
    told = world("--home", ".hf", "gc")
    assert "is not this project's workspace" in told and keys.read_text() == "ssh-rsa mine"
    for words in (["resume", "r"], ["rewind", "r", "--to", "cp"], ["undo"], ["fork", "r", "--at", "cp"]):
        world("--home", ".hf", *words, code=None)
        assert keys.read_text() == "ssh-rsa mine", words


def test_an_operation_is_finished_only_in_its_own_directory(cli) -> None:
    """A directory that took the place of the one which a rewind was planned for is left alone."""
    (cli.directory / "flow.py").write_text(EDITS)
    cli("run", "--id", "r", "flow.py:edits")
    (cli.directory.parent / "killer.py").write_text(KILLER)
    killer = [
        cli.python,
        str(cli.directory.parent / "killer.py"),
        "before the files",
        "rewind",
        "r",
        "--to",
        "cp",
    ]
    done = subprocess.run(killer, cwd=cli.directory, env=cli.env, check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done
    moved = cli.directory.with_name("moved")
    cli.directory.rename(moved)
    shutil.copytree(moved, cli.directory)
    (cli.directory / "authorized_keys").write_text("mine")
    assert "another directory than it was" in cli("gc").err
    assert (cli.directory / "authorized_keys").read_text() == "mine"
    assert "was cut off" in cli("doctor").out
    shutil.rmtree(cli.directory)
    moved.rename(cli.directory)
    assert "is finished now" in cli("gc").err
    assert (cli.directory / "authorized_keys").read_text() == "ssh-rsa attacker"


@pytest.mark.parametrize("name", ["write.lock", "owners", "holdfast.db", "workspace", "made-by"])
def test_links_lead_out_of_no_foreign_store(world: World, name: str) -> None:
    """What holdfast writes to a store stays in it."""
    path = world.repo / ".hf" / name
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(world.home / ".ssh" / "authorized_keys")
    before = world.untouched()
    assert "is a symbolic link" in world("--home", ".hf", "list", code=NOT_TRUSTED)
    assert world.untouched() == before


def replaced_by_a_pull(world: World, home: Path) -> None:
    """Put the attacker's database in the place of the one that is there, into the same inode: as `git pull`
    does with a file that is ignored, on a filesystem that uses inodes again."""
    with (home / "holdfast.db").open("r+b") as file:
        file.truncate()
        file.write((world.repo.with_name("pristine") / ".hf" / "holdfast.db").read_bytes())
    for suffix in ("-wal", "-shm"):
        (home / f"holdfast.db{suffix}").unlink(missing_ok=True)


def test_another_database_in_the_place_of_ones_own_is_foreign(world: World) -> None:
    """The user makes a store where the project's settings say; then the repository brings another one."""
    shutil.rmtree(world.repo / ".hf")
    tell(world.repo, "holdfast.toml", home=".hf")
    world("trust")
    world("run", "--id", "mine", "true")
    world("replay", "--all")
    (world.repo / ".hf" / "workspace" / "link").symlink_to(world.home)
    world("list")  # of his own store the user has links as he likes
    (world.repo / ".hf" / "workspace" / "link").unlink()
    replaced_by_a_pull(world, world.repo / ".hf")
    assert "was not made by you" in world("replay", "--all", code=NOT_TRUSTED)
    assert not world.canary.exists()


def test_a_log_that_was_put_beside_ones_own_database_is_refused(world: World) -> None:
    """SQLite takes a write-ahead log as part of the database: one that a checkout made is not read."""
    home = world.home / "store"
    world("--home", home, "run", "--id", "mine", "true")
    log = home / "holdfast.db-wal"
    log.write_bytes((world.repo.with_name("pristine") / ".hf" / "holdfast.db").read_bytes())
    log.chmod(0o644)
    before = (home / "holdfast.db").read_bytes()
    assert "SQLite did not make it" in world("--home", home, "list", code=NOT_TRUSTED)
    assert (home / "holdfast.db").read_bytes() == before
    log.unlink()
    world("--home", home, "replay", "--all")


@pytest.mark.parametrize("command", ["list", "backup restore"])
def test_a_rollback_journal_is_not_played(world: World, command: str) -> None:
    """A journal may name a super-journal, which some versions of SQLite remove: any file of the user."""
    home, keys = world.repo / ".hf", world.home / ".ssh" / "authorized_keys"
    for suffix in ("-wal", "-shm"):
        (home / f"holdfast.db{suffix}").unlink(missing_ok=True)
    name = os.fsencode(keys)
    journal = home / "holdfast.db-journal"
    magic = bytes.fromhex("d9d505f920a163d7")
    head = magic + b"\0" * 8 + b"\0\0\0\1" + b"\0\0\2\0" + b"\0\0\x08\0"
    tail = [(513).to_bytes(4), name, len(name).to_bytes(4), sum(name).to_bytes(4), magic]
    journal.write_bytes(head.ljust(512, b"\0") + b"".join(tail))
    journal.chmod(0o600)
    before = journal.read_bytes()
    if command == "list":
        assert "is a rollback journal" in world("--home", ".hf", "list", code=NOT_TRUSTED)
    else:
        assert "rollback journal" in world("backup", "restore", home / "holdfast.db", code=8)
    assert keys.read_text() == "ssh-rsa mine" and journal.read_bytes() == before


def test_a_directory_that_cannot_be_listed_hides_no_link(tmp_path: Path, monkeypatch: Any) -> None:
    """A link in a directory of mode 0300 is not seen, but can be written through."""
    from holdfast import trust

    (tmp_path / "workspace" / "large").mkdir(parents=True)
    assert trust.way_out(tmp_path) == "" == trust.way_out(tmp_path / "not there")
    listing = os.scandir

    def refusing(path: Any) -> Any:
        if str(path).endswith("large"):
            raise PermissionError(13, "Permission denied", str(path))
        return listing(path)

    monkeypatch.setattr(os, "scandir", refusing)
    assert "cannot be looked through (Permission denied)" in trust.way_out(tmp_path)


def test_a_restored_backup_is_the_users_own(world: World) -> None:
    """Wherever the user restores it, and its store was his or is new. A backup does not hold the token."""
    project = world.home / "project"
    project.mkdir()
    (project / "mine.py").write_text("from holdfast import workflow\n@workflow\ndef mine(): return 1\n")
    world("--home", world.home / "a", "run", "--id", "m", "mine.py:mine", cwd=project)
    for flags in ((), ("--without-files",)):
        made = world("--home", world.home / "a", "backup", "create", *flags, cwd=project).split()[0]
        from holdfast.store.sqlite.token import read_token

        token = read_token(world.home / "a" / "holdfast.db")
        assert token and token.encode() not in Path(made).read_bytes()
        home = world.home / f"b{len(flags)}"
        for _ in range(2):
            world("--home", home, "backup", "restore", made, cwd=project)
            world("--home", home, "replay", "m", cwd=project)
    world("--home", world.repo / ".hf", "backup", "restore", made, cwd=project)
    world("--home", world.repo / ".hf", "replay", "m", code=NOT_TRUSTED, cwd=project)


# The user's own word


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_root_behind_sudo_has_the_files_of_who_called_it(world: World) -> None:
    """As git has it; without sudo, files of another user are refused."""
    tell(world.repo, "holdfast.toml", recover_limit=4)  # type: ignore[arg-type]
    os.chown(world.repo / "holdfast.toml", NOBODY, NOBODY)
    assert f"export HOLDFAST_TRUST={world.repo}" in " ".join(world("list", code=NOT_TRUSTED).split())
    assert "no runs yet" in world("list", SUDO_UID=str(NOBODY))
    world("list", code=NOT_TRUSTED, SUDO_UID="1" + str(NOBODY))


def test_the_environment_names_what_is_trusted(world: World) -> None:
    """In a container or a CI job one variable allows the settings and the stores in a directory; that of a
    file of the project does not."""
    tell(world.repo, ".env", home=".hf", trust=str(world.repo))
    (world.repo / ".env").chmod(0o666)
    (world.repo / ".hf").chmod(0o777)
    world("list", code=NOT_TRUSTED)
    assert "evil" in world("list", HOLDFAST_TRUST=f"/nowhere:{world.repo.parent}")
    world("list", code=NOT_TRUSTED, HOLDFAST_TRUST=f"{world.repo}x")
    assert "write the whole path" in world("list", code=2, HOLDFAST_TRUST=".")


def test_a_mount_that_all_can_write_holds_a_store_in_a_directory_of_its_own(world: World) -> None:
    """The sentence names a directory that can be used at once."""
    mount = world.home / "mount"
    mount.mkdir()
    mount.chmod(0o777)
    told = " ".join(world("run", "true", code=NOT_TRUSTED, HOLDFAST_HOME=str(mount)).split())
    assert f"`--home {mount}/holdfast`" in told
    world("--home", mount / "holdfast", "run", "true")
    assert (mount / "holdfast").stat().st_mode & 0o777 == 0o700


def test_a_number_without_a_name_has_a_group_of_its_own(monkeypatch: Any) -> None:
    """`docker run --user 4242:4242` with umask 002."""
    from holdfast import trust

    assert trust._is_only_member(4242, 4242)
    assert not trust._is_only_member(4242, 0)
    monkeypatch.setattr(trust, "_members", lambda gid: ["somebody"])
    assert not trust._is_only_member(4242, 4242)


# Trust


def test_what_is_gone_or_broken_can_be_untrusted(world: World) -> None:
    """One project with broken settings, and one that was deleted, stand in the way of no other."""
    gone, broken = world.home / "gone", world.home / "broken"
    for directory in (gone, broken, world.repo):
        directory.mkdir(exist_ok=True)
        tell(directory, "holdfast.toml", home=".hf")
    shutil.copytree(world.repo / ".hf", gone / ".hf")
    for directory in (gone, broken, world.repo):
        world("trust", directory)
    shutil.rmtree(gone)
    (broken / "holdfast.toml").write_text("= broken")
    listed = json.loads(world("trust", "--list", "--json"))
    assert {one["directory"]: one["holds"] for one in listed if one["kind"] == "project"} == {
        str(gone): False,
        str(broken): False,
        str(world.repo): True,
    }
    assert json.loads(world("untrust", gone, "--json"))["removed"] == [str(gone), str(gone / ".hf")]
    assert json.loads(world("untrust", broken, "--json"))["removed"] == [str(broken)]
    world("untrust", gone, code=3)
    assert len(json.loads(world("trust", "--list", "--json"))) == 2


def test_a_directory_may_be_project_and_store(world: World) -> None:
    """`home = "."`: the settings are trusted, and so is the store."""
    (world.repo / ".hf").rename(world.repo / "hf")
    for path in (world.repo / "hf").iterdir():
        path.rename(world.repo / path.name)
    tell(world.repo, "holdfast.toml", home=".")
    world("list", code=NOT_TRUSTED)
    assert json.loads(world("trust", "--json"))["store"] == str(world.repo)
    assert "evil" in world("list")
    world("replay", "--all")
    assert [one["kind"] for one in json.loads(world("trust", "--list", "--json"))] == ["project", "store"]
    assert json.loads(world("untrust", "--json"))["removed"] == [str(world.repo)]
    world("list", code=NOT_TRUSTED)


def test_trust_is_for_a_directory_and_its_settings(world: World) -> None:
    """What is trusted is used; other settings, or the same ones elsewhere, are asked for again."""
    tell(world.repo, "holdfast.toml", home=".hf")
    told = world("trust")
    assert str(world.repo) in told and "home" in told
    assert "evil" in world("list") and not world.canary.exists()
    world("replay", "--all")
    assert world.canary.exists(), "the code of a store that is trusted may run"
    (listed,) = [
        one for one in json.loads(world("trust", "--list", "--json")) if one["directory"] == str(world.repo)
    ]
    assert listed["holds"]
    with (world.repo / "holdfast.toml").open("a") as file:
        file.write("# more\n")
    world("list", code=NOT_TRUSTED)
    assert "changed since" in world("trust", "--list")
    copy = world.repo.with_name("copy")
    shutil.copytree(world.repo, copy)
    world("trust")
    world("list")
    world("list", code=NOT_TRUSTED, cwd=copy)
    assert json.loads(world("untrust", "--json"))["removed"] == [str(world.repo), str(world.repo / ".hf")]
    world("list", code=NOT_TRUSTED)
    world("untrust", code=3)


def test_a_store_is_trusted_by_itself(world: World) -> None:
    """A store without a project: its code may run once it is trusted; not that of another database there."""
    assert "trust" in world("--home", ".hf", "replay", "--all", code=NOT_TRUSTED)
    assert json.loads(world("trust", ".hf", "--json"))["store"] == str(world.repo / ".hf")
    world("--home", ".hf", "replay", "--all")
    replaced_by_a_pull(world, world.repo / ".hf")
    world("--home", ".hf", "replay", "--all", code=NOT_TRUSTED)
    world("trust", world.repo / "nowhere", code=3)


def test_unrelated_lines_keep_trust(world: World) -> None:
    """Of files that are for others too, only what they say of holdfast counts."""
    tell(world.repo, "pyproject.toml", home=".hf")
    tell(world.repo, ".env", durability="process")
    world("trust")
    for name, more in (("pyproject.toml", "[project]\nname = 'x'\n"), (".env", "OTHER=1\n")):
        with (world.repo / name).open("a") as file:
            file.write(more)
    world("list")
    with (world.repo / ".env").open("a") as file:
        file.write("HOLDFAST_WORKSPACE=/\n")
    world("list", code=NOT_TRUSTED)


@pytest.mark.parametrize("where", ["default", "environment", "flag"])
def test_your_own_store_asks_nothing(world: World, where: str) -> None:
    """Who made a store executes, replays, rewinds and finishes in it without a question."""
    project = world.home / "project"
    project.mkdir()
    (project / "mine.py").write_text("from holdfast import workflow\n@workflow\ndef mine(): return 1\n")
    env = {"HOLDFAST_HOME": str(world.home / "store")} if where == "environment" else {}
    flags = ["--home", world.home / "store"] if where == "flag" else []
    world(*flags, "run", "--id", "m", "mine.py:mine", cwd=project, **env)
    for words in (["replay", "m"], ["list"], ["du"], ["doctor"], ["trust", "--list"]):
        told: Any = world(*flags, *words, cwd=project, **env)
        assert "not trusted" not in told


def test_a_group_of_ones_own_may_write(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each user has a group of his own, files are made writable for it: that is no other's."""
    from holdfast import trust

    tell(world.repo, "holdfast.toml", durability="process")
    path = world.repo / "holdfast.toml"
    path.chmod(0o664)
    users = {os.geteuid(), 0}
    monkeypatch.setattr(trust, "_is_private_group", lambda gid, users: gid == path.stat().st_gid)
    assert trust.fault(path.stat(), users) == ""
    monkeypatch.setattr(trust, "_is_private_group", lambda gid, users: False)
    assert "can be written by the group" in trust.fault(path.stat(), users)
