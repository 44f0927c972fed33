"""Every console block of README and guides is played in a fresh directory; each command has its effect."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.docs.console import ROOT, Block, Console, blocks, python_blocks

BLOCKS = {block.name: block for block in blocks()}
PLAYS: dict[str, Callable[[Console], None]] = {}


def plays(name: str) -> Callable[[Callable[[Console], None]], Callable[[Console], None]]:
    def register(play: Callable[[Console], None]) -> Callable[[Console], None]:
        assert name not in PLAYS
        PLAYS[name] = play
        return play

    return register


def test_every_block_is_played() -> None:
    """A block without a test of its effect is a mistake, and so is a test without a block."""
    assert sorted(BLOCKS) == sorted(PLAYS)


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_does_what_the_page_says(name: str, tmp_path: Path) -> None:
    """Line by line, as it stands."""
    console = Console(BLOCKS[name], tmp_path)
    PLAYS[name](console)
    console.close()


def test_a_command_without_an_assertion_is_refused(tmp_path: Path) -> None:
    """Neither can it be run without one, nor be left out."""
    block = Block("page", "heading", 1, next(iter(BLOCKS.values())).commands)
    console = Console(block, tmp_path)
    with pytest.raises(AssertionError, match="must be asserted"):
        console.next("")
    with pytest.raises(AssertionError, match="nothing asserts the effect"):
        console.close()


# Installing


def clone(console: Console) -> None:
    """The directory is a clone, with an interpreter that has what is needed and no way to a registry."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, console.directory)
    for name in ("src", "tests"):
        shutil.copytree(
            ROOT / name, console.directory / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
        )


def play_pip(console: Console) -> None:
    """The package that is built has the program, and all that it needs of ours."""
    clone(console)
    there = console.directory / "there"
    # No address is asked: the build's own tool is one of the developers', and nothing else is installed.
    console.env |= {
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_TARGET": str(there),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    console.next("pip install .", then=lambda: (there / "bin" / "holdfast").exists())
    console.env["PYTHONPATH"] = str(there)
    shown = console.shell("python -m holdfast run --id r 'echo built'; python -m holdfast doctor --json")
    assert "built" in shown
    assert str(there) in console.shell("python -c 'import holdfast; print(holdfast.__file__)'")


plays("README.md: holdfast 1")(play_pip)
plays("quickstart.md: Quickstart 1")(play_pip)


@plays("README.md: Two commands 1")
def play_make(console: Console) -> None:
    clone(console)
    (console.directory / ".venv").mkdir()
    (console.directory / ".venv" / "bin").symlink_to(console.env["PATH"].partition(":")[0])
    for mark in (".installed", ".ready"):
        (console.directory / ".venv" / mark).touch()
    console.next("make demo", "4 steps were recorded at the kill: none ran again", "done in")
    console.env["PYTEST_FLAGS"] = "tests/kernel/test_identity.py -p no:cacheprovider"
    console.next("make test", r"passed|^\.+ +\[100%\]")


# README


def play_flow(console: Console) -> None:
    flow, reviewed = python_blocks("README.md")[:2]
    console.save("flow.py", f"{flow}\n{reviewed}")


@plays("README.md: A command line for any program 1")
def play_command_line(console: Console) -> None:
    play_flow(console)
    console.next("holdfast run --id listing", r"flow\.py")
    console.next("holdfast logs listing", r"flow\.py")
    console.next("holdfast run --id kelp-2", '"sent 27 characters"')
    console.next("holdfast list", r"^kelp-2 +completed .* report", r"^listing +completed .* ls -l")
    console.next("holdfast show kelp-2", r"^status +completed", "send#1", "sent 27 characters")
    console.next("holdfast show kelp-2 --step send", "notes on kelp", "sent 27 characters")
    console.next(
        "holdfast rewind kelp-2",
        "was rewound to before:send#1",
        then=lambda: "paused" in console.shell("holdfast show kelp-2"),
    )
    console.next("holdfast resume kelp-2", "send#1", '"sent 27 characters"')
    console.next("holdfast audit verify", r"^\d streams, \d+ events: all of them hold$")


@plays("README.md: A person in the loop 1")
def play_person(console: Console) -> None:
    play_flow(console)
    console.next("holdfast run --id kelp-3", "holdfast approve kelp-3 'send-the-report#1@", code=5)
    console.next("holdfast approve kelp-3", "is approved")
    console.next("holdfast resume kelp-3", '"sent 13 characters"')


@plays("README.md: An agent's edits, taken back 1")
def play_edits(console: Console) -> None:
    console.save("release.py", python_blocks("README.md")[2])
    console.next("holdfast run --id r1", then=lambda: console.text("CHANGES") == "version 1.2\n")
    assert not console.there("VERSION")
    console.next("echo mine", then=lambda: console.there("notes.txt"))
    console.next("holdfast diff r1 bumped", r"^\+version 1\.2$", r"^-1\.2$")
    console.next("holdfast rewind r1", "VERSION", "notes.txt  changed by somebody else")
    assert console.text("VERSION") == "1.2\n" and not console.there("CHANGES")
    assert console.text("notes.txt") == "mine\n"
    console.next("holdfast undo", then=lambda: console.text("CHANGES") == "version 1.2\n")
    assert not console.there("VERSION") and console.text("notes.txt") == "mine\n"


# Approvals


@plays("guide-approvals.md: Deciding 1")
def play_deciding(console: Console) -> None:
    console.save("letter.py", python_blocks("guide-approvals.md")[0])
    console.next("holdfast run --id letter-1", "waits for a decision: send the letter", code=5)
    console.next("holdfast show letter-1", "send the letter", "All there is to say about kelp")
    console.next("holdfast approve letter-1", "is approved")
    console.next("holdfast resume letter-1", "waits for the signal address", code=5)
    console.next("holdfast signal letter-1", "has received the signal address")
    console.next("holdfast resume letter-1", "sent: All there is to say about kelp. To Rock 7.")


@plays("guide-approvals.md: Pausing and cancelling 1")
def play_pausing(console: Console) -> None:
    console.save("letter.py", python_blocks("guide-approvals.md")[0])
    console.shell("holdfast run --id letter-1 letter.py:letter kelp", 5)
    console.next(
        "holdfast pause letter-1", "paused", then=lambda: "lunch" in console.shell("holdfast show letter-1")
    )
    console.next(
        "holdfast cancel letter-1",
        then=lambda: '"cancelled"' in console.shell("holdfast show letter-1 --json"),
    )


# Files


def play_release(console: Console) -> None:
    console.save("release.py", python_blocks("guide-files.md")[0])


@plays("guide-files.md: Commands are atomic 1")
def play_command(console: Console) -> None:
    console.save("notes.txt", "teh kelp\n")
    console.next("holdfast run --id tidy", then=lambda: console.text("notes.txt") == "the kelp\n")
    console.next("holdfast resume tidy", "is done")
    console.shell("holdfast rewind tidy --to start")
    assert console.text("notes.txt") == "teh kelp\n"


@plays("guide-files.md: Commands are atomic 2")
def play_keep_files(console: Console) -> None:
    console.save("notes.txt", "kelp\n")
    console.save("tidy.sh", "echo more >> notes.txt; grep mended notes.txt\n")
    console.shell("holdfast run --id tidy sh tidy.sh", 1)
    console.save("notes.txt", "kelp\nmore\nmended\n")
    console.next(
        "holdfast resume tidy", then=lambda: console.text("notes.txt") == "kelp\nmore\nmended\nmore\n"
    )


@plays("guide-files.md: Rewind 1")
def play_rewinding_files(console: Console) -> None:
    play_release(console)
    console.next("holdfast run --id r1", then=lambda: console.text("CHANGES") == "version 1.2\n")
    console.next("holdfast checkpoints r1", '^bumped#1 .*{"version":"1.2"}')
    console.next("holdfast diff r1 bumped", r"^\+version 1\.2$")
    console.next("holdfast rewind r1", "- CHANGES", then=lambda: console.there("CHANGES"))
    console.next("holdfast rewind r1", then=lambda: not console.there("CHANGES"))
    console.next("holdfast undo", then=lambda: console.text("CHANGES") == "version 1.2\n")


@plays("guide-files.md: Rewind 2")
def play_git(console: Console) -> None:
    console.env |= {
        f"GIT_{who}_{what}": "kelp@example.com"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    console.save("notes.txt", "kelp\n")
    console.shell("git init -q . && git add notes.txt && git commit -qm first")
    console.save("edit.sh", "echo more >> notes.txt; git commit -qam second\n")
    console.shell("holdfast run --id r1 sh edit.sh")
    subjects = "git log --format=%s"
    console.next("holdfast rewind r1", then=lambda: console.shell(subjects) == "first\n")
    assert console.text("notes.txt") == "kelp\n"
    console.next("holdfast undo", then=lambda: console.shell(subjects) == "second\nfirst\n")
    assert console.text("notes.txt") == "kelp\nmore\n"


@plays("guide-files.md: Rewind 3")
def play_fork_with_files(console: Console) -> None:
    play_release(console)
    console.shell("holdfast run --id r1 release.py:release 1.2")
    other = console.directory.parent / "other"
    console.next("holdfast fork r1", then=lambda: (other / "VERSION").read_text() == "1.2\n")
    assert not (other / "CHANGES").exists()


@plays("guide-files.md: Rewind 4")
def play_diff_of_a_step(console: Console) -> None:
    play_release(console)
    console.shell("holdfast run --id r1 release.py:release 1.2")
    console.next("holdfast diff r1", r"CHANGES  \+1 -0$", "1 path differs")


@plays("guide-files.md: What is kept 1")
def play_kept(console: Console) -> None:
    play_release(console)
    console.shell("holdfast run --id r1 release.py:release 1.2")
    saved = re.findall(r"files ([0-9a-f]{12})", console.shell("holdfast show r1 --events"))
    (console.directory / "CHANGES").unlink()
    console.next("holdfast workspace status", r"^covered +\d+ files", r"\.holdfast  holdfast's own")
    console.next("holdfast workspace verify", "contents .* are whole")
    console.where("SNAPSHOT", saved[-1])
    console.next("holdfast workspace restore", then=lambda: console.text("CHANGES") == "version 1.2\n")
    console.next("holdfast du", r"^files .* contents of \d snapshots")
    console.next("holdfast gc", "0 contents removed")


# Code that was moved


@plays("guide-resuming.md: A project that was moved or copied 1")
def play_moved(console: Console) -> None:
    moved = console.directory.parent / "moved"
    console.env["HOLDFAST_HOME"] = str(console.directory.parent / "shared")
    console.save("letter.py", python_blocks("guide-approvals.md")[0])
    for name in ("kelp-1", "kelp-2"):
        console.shell(f"holdfast run --id {name} letter.py:letter kelp", 5)
        console.shell(f"holdfast approve {name}")
    shutil.copytree(console.directory, moved)
    shutil.rmtree(console.directory)
    console.directory = console.directory.parent
    console.where("/srv/moved", str(moved))
    console.next("holdfast resume kelp-1", "waits for the signal address", code=5)
    console.next("holdfast resume --all", "run kelp-2 waits for the signal address")


# Going back


def play_report(console: Console) -> None:
    console.save("report.py", python_blocks("rewind.md")[0])
    console.shell("python report.py")


@plays("rewind.md: Rewind 1")
def play_rewind(console: Console) -> None:
    play_report(console)
    console.next("holdfast show report-1", "draft#3", "send#1")
    console.next("holdfast checkpoints report-1", r'^drafts#1 .*{"chapters":2}')
    console.next("holdfast rewind report-1", "draft#3", "send#1", "--rerun-once")
    assert '"completed"' in console.shell("holdfast show report-1 --json")
    console.next(
        "holdfast rewind report-1", then=lambda: '"paused"' in console.shell("holdfast show report-1 --json")
    )
    console.next("holdfast resume report-1", "draft#3", "sent 46 characters")


@plays("rewind.md: Undo 1")
def play_undo(console: Console) -> None:
    play_report(console)
    console.shell("holdfast run --id other 'echo other'; holdfast rewind other --to start")
    console.shell("holdfast rewind report-1 --to drafts --rerun-once")
    console.next("holdfast undo", "it is completed again")
    log = console.next("holdfast op log", "stands .*undo of", "rewind to drafts#1")
    (operation,) = re.findall(r"^(\w{6})\w+ .*stands .*other: rewind to start", log, re.MULTILINE)
    console.where("OPERATION", operation)
    console.next("holdfast undo", "it is completed again")
    assert '"completed"' in console.shell("holdfast show other --json")


@plays("rewind.md: Fork 1")
def play_fork(console: Console) -> None:
    play_report(console)
    console.next("holdfast fork report-1", "report-2")
    console.next("holdfast resume report-2", "sent 46 characters")


@plays("rewind.md: New code, old runs 1")
def play_replay(console: Console) -> None:
    play_report(console)
    console.next("holdfast replay report-1", "^report-1  matches     5 calls, to its end")
    console.save("report.py", python_blocks("rewind.md")[0].replace('"kelp"', '"foam"'))
    console.shell("holdfast replay report-1", 6)
    console.save("report.py", python_blocks("rewind.md")[0])
    console.next("holdfast replay --all", "^0 runs: all match")


@plays("rewind.md: Keeping the store small 1")
def play_archive(console: Console) -> None:
    play_report(console)
    for _ in range(2):
        console.next("holdfast archive", "nothing to archive")
    assert "report-1" in console.shell("holdfast archive --older-than 0s")
    assert "no runs" in console.shell("holdfast list")


# Backups


@plays("backup.md: Backups 1")
def play_backup(console: Console) -> None:
    play_report(console)
    path = console.next("holdfast backup create", r"backups/holdfast-\w+\.db").split()[0]
    console.next("holdfast backup create", "without files")
    console.next("holdfast backup list", Path(path).name)
    console.shell("holdfast run --id later 'echo later'")
    console.where("FILE", path)
    console.next(
        "holdfast backup restore", "restored", then=lambda: "later" not in console.shell("holdfast list")
    )
    assert "report-1" in console.shell("holdfast list")


@plays("backup.md: Restoring 1")
def play_restore(console: Console) -> None:
    play_report(console)
    path = console.shell("holdfast backup create").split()[0]
    console.where("holdfast-20260131T120000Z.db", Path(path).name)
    console.next("holdfast backup restore", then=lambda: "report-1" in console.shell("holdfast list"))


@plays("backup.md: When something seems wrong 1")
def play_wrong(console: Console) -> None:
    play_report(console)
    console.next("holdfast doctor", r"✓ store .*\d+ events", r"✓ integrity")
    console.next("holdfast audit verify", "all of them hold")
    console.next("holdfast repair --rebuild", r"made again from \d+ events, and match them")
    assert "report-1" in console.shell("holdfast list")
