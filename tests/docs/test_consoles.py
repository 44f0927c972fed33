"""The console blocks of README and guides are played page by page, in order; each command has its effect."""

from __future__ import annotations

import json
import re
import shutil
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.docs.console import ROOT, Block, Console, blocks, saved_as

from holdfast.testing import FakeProvider, ToolCall

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


@pytest.mark.parametrize("page", sorted({block.page for block in BLOCKS.values()}))
def test_a_page_does_what_it_says(page: str, tmp_path: Path) -> None:
    """Block by block, line by line, as it stands, from an empty directory outside any project."""
    console = Console(tmp_path)
    for name, block in BLOCKS.items():
        if block.page == page:
            console.read(block)
            PLAYS[name](console)
    console.close()


def test_a_command_without_an_assertion_is_refused(tmp_path: Path) -> None:
    """Neither can it be run without one, nor be left out."""
    block = Block("page", "heading", 1, next(iter(BLOCKS.values())).commands)
    console = Console(tmp_path)
    console.read(block)
    with pytest.raises(AssertionError, match="must be asserted"):
        console.next("")
    with pytest.raises(AssertionError, match="nothing asserts the effect"):
        console.close()


def test_a_file_that_no_page_gives_is_refused() -> None:
    """A reader has only what the page says to save."""
    with pytest.raises(AssertionError, match=r"does not say what to save as other\.py"):
        saved_as("README.md", "other.py")


def test_a_place_inside_a_project_is_refused(tmp_path: Path) -> None:
    """There the root would be another directory than the one that the reader made."""
    (tmp_path / ".git").mkdir()
    with pytest.raises(AssertionError):
        Console(tmp_path)


# Installing


def clone(console: Console) -> None:
    """The directory is a clone, with no way to a registry."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, console.directory)
    for name in ("src", "tests"):
        shutil.copytree(
            ROOT / name, console.directory / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
        )


def play_install(console: Console) -> None:
    """The rest of the page is played with the package that is built and installed here."""
    clone(console)
    # No address is asked: whatever the build and the program import is found beside, without holdfast itself.
    others = console.place / "others"
    others.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "holdfast" not in path.name:
            (others / path.name).symlink_to(path)
    console.env |= {
        "PYTHONPATH": str(others),
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    venv = console.directory / ".venv"
    console.next("python3 -m venv", then=lambda: console.env["PATH"].startswith(f"{venv}/bin:"))
    console.next("pip install .", then=lambda: (venv / "bin" / "holdfast").exists())
    assert str(venv) in console.shell("python -c 'import holdfast; print(holdfast.__file__)'")


plays("README.md: holdfast 1")(play_install)
plays("quickstart.md: Quickstart 1")(play_install)


def play_directory(console: Console) -> None:
    """It is the root of its project."""
    console.next("mkdir /tmp/", then=lambda: not [*console.directory.iterdir()])
    assert console.directory.parent.name == "tmp"
    assert str(console.directory) in console.shell("holdfast workspace status")


plays("README.md: holdfast 2")(play_directory)
plays("quickstart.md: Quickstart 2")(play_directory)
plays("README.md: An agent's edits, rolled back 1")(play_directory)


def until(console: Console, run: str, step: str, nap: str) -> None:
    """`sleep` of a person is long enough; here it takes as long as the machine needs to come to the step."""
    console.where(nap, f"until holdfast show {run} 2>&1 | grep -q '▶ {step}'; do sleep 0.1; done")


@plays("quickstart.md: Quickstart 3")
def play_twice(console: Console) -> None:
    console.saves("flow.py")
    assert "fetching" in console.next("python flow.py", "page 2")
    assert "fetching" not in console.next("python flow.py", "page 2")


@plays("quickstart.md: Quickstart 4")
def play_killed_pages(console: Console) -> None:
    (flow,) = saved_as("quickstart.md", "flow.py")
    flow = flow.replace("pages-1", "pages-2").replace("    return f", "    time.sleep(3)\n    return f")
    console.write("flow.py", f"import time\n{flow}")
    until(console, "pages-2", "fetch#2", "sleep 5")
    assert "fetching 2" not in console.next("python flow.py", "fetching 1")
    console.next("holdfast list", "^pages-2 +interrupted")
    assert "fetching 0" not in console.next("holdfast resume pages-2", "page 2")


@plays("README.md: Two commands 1")
def play_make(console: Console) -> None:
    here, path, packages = console.directory, console.env["PATH"], console.env.pop("PYTHONPATH")
    console.directory = console.place / "another-clone"
    console.directory.mkdir()
    clone(console)
    (console.directory / ".venv").mkdir()
    (console.directory / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    for mark in (".installed", ".ready"):
        (console.directory / ".venv" / mark).touch()
    console.next("make demo", "4 steps were recorded at the kill: none ran again", "done in")
    console.env["PYTEST_FLAGS"] = "tests/kernel/test_identity.py -p no:cacheprovider"
    console.next("make test", r"passed|^\.+ +\[100%\]")
    console.directory, console.env["PATH"], console.env["PYTHONPATH"] = here, path, packages


# README


@plays("README.md: holdfast 3")
def play_flow(console: Console) -> None:
    console.saves("flow.py")
    for _ in range(2):
        console.next("python flow.py", "^sent 27 characters$")


@plays("README.md: holdfast 4")
def play_crash(console: Console) -> None:
    console.saves("crash.py")
    until(console, "crash-1", "ask#2", "sleep 3")
    assert "notes on" not in console.next("python crash.py", "asking about rock")
    console.next("holdfast list", "^crash-1 +interrupted", "^kelp-1 +completed")
    assert "asking about kelp" not in console.next("python crash.py", "asking about rock")


@plays("README.md: A command line for any program 1")
def play_command_line(console: Console) -> None:
    console.next("holdfast run --id listing", r"flow\.py")
    console.next("holdfast logs listing", r"flow\.py")
    console.next("holdfast run --id count", r"^\s*2$")
    assert "holdfast run -- sh -c 'ls | wc -l'" in console.shell("holdfast run 'ls | wc -l'", 2)
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
    console.next("holdfast audit verify", r"^\d+ streams, \d+ events: all of them hold$")


@plays("README.md: Work that outlives a session 1")
def play_board(console: Console) -> None:
    console.next("mkdir /tmp/reef", then=lambda: console.directory.name == "reef")
    for _ in range(2):
        console.next("holdfast task create", r"^[0-9a-f-]{36}$")
    console.next("holdfast task start 1", "in progress", "needed by .* Review it")
    console.next("holdfast remember", "remembered: Reports")
    console.next("echo", then=lambda: (console.directory / "report.md").exists())
    console.next("holdfast task complete 1", "completed: Draft the report")
    console.next("holdfast prime", "^Tasks that are ready: 1$", '"Review it"', "British English")
    console.next("holdfast search 'report*'", "Draft the report", "British English")


@plays("README.md: A plan is a workflow as data 1")
def play_plan(console: Console) -> None:
    console.saves("harvest.yaml")
    console.next("holdfast plan check", "harvest: 4 steps")
    console.next("holdfast run --id h1 harvest.yaml", "kelp: 3 kg from Rock 7", "Ship from Rock 7", code=5)
    console.next("holdfast approve h1 --resume", "shipped 2")


@plays("README.md: A person in the loop 1")
def play_person(console: Console) -> None:
    _, reviewed = saved_as("README.md", "flow.py")
    assert "import" not in reviewed
    above, main, below = console.text("flow.py").partition('if __name__ == "__main__":')
    console.write("flow.py", f"{above}{reviewed}\n\n{main}{below}")
    assert console.shell("python flow.py") == "sent 27 characters\n"
    console.next("holdfast run --id kelp-3", "holdfast approve kelp-3 'send-the-report#1@", code=5)
    console.next("holdfast show kelp-3", "notes on kelp", "holdfast approve kelp-3")
    console.next("holdfast approve kelp-3", "is approved")
    console.next("holdfast resume kelp-3", '"sent 13 characters"')


@plays("README.md: An agent's edits, rolled back 2")
def play_edits(console: Console) -> None:
    console.saves("release.py")
    console.next("holdfast run --id r1", then=lambda: console.text("CHANGES") == "version 1.2\n")
    assert not console.there("VERSION")
    console.next("echo mine", then=lambda: console.there("notes.txt"))
    console.next("holdfast diff r1 bumped", r"^\+version 1\.2$", r"^-1\.2$", "notes.txt")
    console.next("holdfast rewind r1", "VERSION", "notes.txt  changed by others")
    assert console.text("VERSION") == "1.2\n" and not console.there("CHANGES")
    assert console.text("notes.txt") == "mine\n"
    console.next("holdfast undo", then=lambda: console.text("CHANGES") == "version 1.2\n")
    assert not console.there("VERSION") and console.text("notes.txt") == "mine\n"


def test_the_release_of_the_readme_inside_another_project(tmp_path: Path) -> None:
    """Made inside a repository, it does the same: the step and the command use one directory."""
    console = Console(tmp_path)
    console.shell("git init -q . && mkdir inside && cd inside")
    console.write("release.py", saved_as("README.md", "release.py")[0])
    console.shell("holdfast run --id r1 release.py:release 1.2 && holdfast rewind r1 --to bumped")
    assert console.text("VERSION") == "1.2\n" and not console.there("CHANGES")


# Approvals


@plays("guide-approvals.md: Deciding 1")
def play_deciding(console: Console) -> None:
    console.saves("letter.py")
    console.next("holdfast run --id letter-1", "waits for a decision: send the letter", code=5)
    console.next("holdfast gates", "letter-1", "All there is to say about kelp", "holdfast approve letter-1")
    console.next("holdfast show letter-1", "send the letter", "All there is to say about kelp")
    console.next("holdfast approve letter-1", "is approved")
    console.next("holdfast resume letter-1", "waits for the signal address", code=5)
    console.next("holdfast signal letter-1", "has received the signal address")
    console.next("holdfast resume letter-1", "sent: All there is to say about kelp. To Rock 7.")


@plays("guide-approvals.md: Pausing and cancelling 1")
def play_pausing(console: Console) -> None:
    console.next("holdfast run --id letter-2", "waits for a decision: send the letter", code=5)
    console.next(
        "holdfast pause letter-2", "paused", then=lambda: "lunch" in console.shell("holdfast show letter-2")
    )
    console.next(
        "holdfast cancel letter-2",
        then=lambda: '"cancelled"' in console.shell("holdfast show letter-2 --json"),
    )


# Search


@plays("guide-search.md: Guide: search 1")
def play_search(console: Console) -> None:
    console.next("holdfast run --id tides-1", "tide tables for the harbour")
    console.next("holdfast remember", r"[0-9a-f]{8}")
    console.next("holdfast search tide tables", "runs +tides-1", "memory", "printed on Mondays")
    console.next('holdfast search \'"tide tables"', "runs +tides-1")
    console.next("holdfast search tide --in memory", '"family": "memory"', '"kind": "decision"')


# Plans


@plays("guide-plans.md: Check, draw, run 1")
def play_plans(console: Console) -> None:
    console.saves("harvest.yaml")
    console.next("holdfast plan check", "harvest: 4 steps")
    console.next("holdfast plan show", "weigh", "for each of list.stdout.lines", "shipped")
    console.next("holdfast plan run", "dulse: 3 kg from Rock 7", "Ship from Rock 7?", code=5)
    console.next("holdfast plan show h1", "approve Ship from")
    console.next("holdfast approve h1", "shipped 3")
    console.next("holdfast plan show h1 --follow", "ship completed")
    console.next("holdfast run harvest.yaml", "kelp: 3 kg from Rock 8", "completed")


@plays("guide-plans.md: A plan from a description 1")
def play_plan_new(console: Console) -> None:
    console.next("holdfast plan analyze", "harvest.yml → harvest.yaml", "named in the task")
    console.next("holdfast plan new", "written", then=lambda: "harvest.yaml" in console.text("twice.yaml"))
    console.next("holdfast plan check", "weigh-twice-in-harvest-yml: ")


@plays("guide-deliver.md: Rehearse it without a model 1")
def play_delivery(console: Console) -> None:
    console.saves("rehearsal.yaml")
    console.next("git init", then=lambda: console.there(".git"))
    console.next("printf", then=lambda: "rehearsal.yaml" in console.text("holdfast.toml"))
    console.next("holdfast trust", "trusted")
    console.next("holdfast deliver", "let greet\\(\\) return Hello", "holdfast approve hello", code=5)
    console.next("holdfast reject", "rejected")
    console.next("holdfast resume", "in stage plan_awaiting_approval", "\\(and nothing else\\)", code=5)
    console.next("holdfast approve hello plan", "approved")
    console.next("holdfast resume", r"\+    return 'Hello'", code=5)
    console.next("holdfast approve hello implementation", '"verified":true')
    console.next("holdfast show", "request   Let greet", "review    approved", "verified  passed")


@plays("guide-deliver.md: The record 1")
def play_record(console: Console) -> None:
    console.next("holdfast show hello --json", '"request": "Let greet')
    console.next("holdfast checkpoints", "after_verification#1")
    console.next("holdfast rewind", then=lambda: not console.there("greet.py"))
    console.next("holdfast undo", then=lambda: console.there("greet.py"))


@plays("guide-deliver.md: Stages of your own 1")
def play_own_stages(console: Console) -> None:
    console.saves("deliver.yaml")
    console.next("holdfast deliver", "Keep it\\?", code=5)


@plays("guide-agents.md: In plans 1")
def play_agents(console: Console) -> None:
    for name in ("holdfast.toml", "rehearsal.yaml", "notes.yaml"):
        console.saves(name)
    console.shell("holdfast run notes.yaml", 2)
    console.next("holdfast trust", "agent.mine", "agent.rehearsal")
    console.next("holdfast config show", "agent.small +llm: openai:gpt-5-mini +holdfast.toml")
    console.next("holdfast plan check", "notes: 2 steps")
    console.next(
        "holdfast run notes.yaml", "Wrote NOTES.md", then=lambda: "Rock 7" in console.text("NOTES.md")
    )
    console.next("holdfast show n1", "write", "session")
    console.next(
        "holdfast plan new", "rehearsal writes the plan", then=lambda: "again" in console.text("twice.yaml")
    )
    console.next("holdfast plan check", "twice: 2 steps")


@plays("guide-agents.md: In workflows 1")
def play_work(console: Console) -> None:
    console.saves("fix.py")
    console.next("holdfast run --id f1", "Fixed it", then=lambda: console.text("fix.txt") == "a leak\n")
    console.next("holdfast stats f1", "write#1")
    console.shell("holdfast run --id f2 fix.py:fix_and_ask 'a leak' < /dev/null", 5)
    assert "Fixed it" in console.shell("holdfast show f2")


@plays("guide-steps.md: Tools 1")
def play_tools(console: Console) -> None:
    console.saves("tidy.py")
    console.next("holdfast run --id t1", "the shore", then=lambda: "teh" not in console.text("notes.txt"))
    console.next("holdfast stats t1", "step time", "edit#1", "total")


@plays("guide-plans.md: The file may change 1")
def play_fork_with_plan(console: Console) -> None:
    console.next("holdfast fork h1", "run h2 was made from h1 at end")


# Files


plays("guide-files.md: Files: what agents change, and how it comes back 1")(play_directory)


@plays("guide-files.md: Commands are atomic 1")
def play_command(console: Console) -> None:
    console.saves("release.py")
    console.next("echo 'teh sea'", then=lambda: console.text("notes.txt") == "teh sea\n")
    console.next("holdfast run --id tidy", then=lambda: console.text("notes.txt") == "the sea\n")
    console.next("holdfast resume tidy", "is done")
    console.shell("holdfast run 'sort notes.txt | tee sorted.txt'", 2)
    console.shell("holdfast run -- sh -c 'sort notes.txt | tee sorted.txt'")
    assert console.text("sorted.txt") == "the sea\n"


@plays("guide-files.md: Commands are atomic 2")
def play_keep_files(console: Console) -> None:
    console.next("holdfast run --id check", "holdfast resume check", code=1)
    assert console.text("tries.txt") == "tried\n"
    console.next("touch ready.txt", then=lambda: console.there("ready.txt"))
    console.next("holdfast resume check", then=lambda: console.text("tries.txt") == "tried\ntried\n")


@plays("guide-files.md: Rewind 1")
def play_rewinding_files(console: Console) -> None:
    console.next("holdfast run --id r1", then=lambda: console.text("CHANGES") == "version 1.2\n")
    console.next("holdfast checkpoints r1", '^bumped#1 .*{"version":"1.2"}')
    console.next("holdfast diff r1 bumped", r"^\+version 1\.2$")
    console.next("holdfast rewind r1", "- CHANGES", then=lambda: console.there("CHANGES"))
    console.next("holdfast rewind r1", "generation 1", then=lambda: not console.there("CHANGES"))
    console.next("holdfast undo", then=lambda: console.text("CHANGES") == "version 1.2\n")
    console.shell("holdfast undo")
    assert not console.there("CHANGES")
    console.shell("holdfast undo && holdfast redo && holdfast undo")
    assert console.text("CHANGES") == "version 1.2\n"
    console.shell("holdfast rewind tidy --to start")
    assert console.text("notes.txt") == "teh sea\n"


@plays("guide-files.md: Rewind 2")
def play_git(console: Console) -> None:
    console.env |= {
        f"GIT_{who}_{what}": "kelp@example.com"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    both = r"^\w+ second\n\w+ first\n\Z"
    console.next("mkdir /tmp/commits", then=lambda: console.there(".git"))
    console.next("echo kelp", then=lambda: console.shell("git log --format=%s") == "first\n")
    console.next("holdfast run --id c1", then=lambda: console.text("notes.txt") == "kelp\nrock\n")
    console.next("git log", both)
    console.next("holdfast rewind c1", then=lambda: console.text("notes.txt") == "kelp\n")
    console.next("git log", r"\A\w+ first\n\Z")
    console.next("holdfast undo", then=lambda: console.text("notes.txt") == "kelp\nrock\n")
    console.next("git log", both)


@plays("guide-files.md: Rewind 3")
def play_fork_with_files(console: Console) -> None:
    console.next("cd /tmp/files", then=lambda: console.there("release.py"))
    other = console.directory.parent / "other"
    console.next("holdfast fork r1", then=lambda: (other / "VERSION").read_text() == "1.2\n")
    assert not (other / "CHANGES").exists()


@plays("guide-files.md: Rewind 4")
def play_diff_of_a_step(console: Console) -> None:
    console.next("holdfast diff r1", r"CHANGES  \+1 -0$", "1 path differs")


@plays("guide-files.md: What is kept 1")
def play_kept(console: Console) -> None:
    saved = re.findall(r"after +sh#1 +files ([0-9a-f]{12})", console.shell("holdfast show r1 --events"))
    (console.directory / "CHANGES").unlink()
    console.next("holdfast workspace status", r"^covered +\d+ files", r"\.holdfast  holdfast's own")
    console.next("holdfast workspace verify", "contents .* are whole")
    console.where("SNAPSHOT", saved[-1])
    console.next("holdfast workspace restore", then=lambda: console.text("CHANGES") == "version 1.2\n")
    console.next("holdfast du", r"^files .* contents of \d+ snapshots")
    console.next("holdfast gc", r"\d+ contents removed")


# Code that was moved


@plays("guide-resuming.md: A project that was moved or copied 1")
def play_moved(console: Console) -> None:
    moved = console.directory.parent / "moved"
    console.env["HOLDFAST_HOME"] = str(console.directory.parent / "shared")
    console.write("letter.py", saved_as("guide-approvals.md", "letter.py")[0])
    for name in ("kelp-1", "kelp-2"):
        console.shell(f"holdfast run --id {name} letter.py:letter kelp", 5)
        console.shell(f"holdfast approve {name}")
    shutil.copytree(console.directory, moved)
    shutil.rmtree(console.directory)
    console.directory = console.directory.parent
    console.where("/srv/moved", str(moved))
    console.next("holdfast resume kelp-1", "waits for the signal address", code=5)
    console.next("holdfast resume --all", "run kelp-2 waits for the signal address")


# Memory


@plays("guide-memory.md: Remember and recall 1")
def play_memory(console: Console) -> None:
    console.next("mkdir /tmp/", then=lambda: not [*console.directory.iterdir()])
    decision = console.next("holdfast remember", "remembered: Reports are written in British")
    pattern = console.next("holdfast remember", "remembered: Retry the tide service twice")
    assert "tide" not in console.next("holdfast recall english", "decision", "British")
    console.where("DECISION", decision.split()[0])
    console.next("holdfast remember", "American")
    console.where("PATTERN", pattern.split()[0])
    console.next("holdfast forget", "withdrawn: Retry")
    console.next("holdfast recall --all", "superseded by", "withdrawn: the service has a queue now")
    console.next(
        "holdfast undo", "edit [0-9a-f]+ was undone", "^memory .*Retry the tide service twice +restored"
    )
    found = console.next("holdfast recall", "American", "Retry", "from outage of May, cites docs/tides.md")
    assert "British" not in found and "withdrawn" not in found


@plays("guide-memory.md: Prime 1")
def play_prime(console: Console) -> None:
    console.next(
        "holdfast prime", "^Latest decisions: 1$", "^- Reports are written in American", "^Tasks .*: none$"
    )
    console.next("holdfast prime --limit 1000", r'"text": ?"# tides')


# Budgets


@plays("guide-budgets.md: A limit 1")
def play_budget(console: Console) -> None:
    console.saves("research.py")
    console.next("holdfast budget set team", r"^usd +0\.10 +0\.00 +0\.00 +0\.10$")
    console.next(
        "holdfast run research.py:research", r"budget team is reached: ask#[34] needs 0\.05 usd", code=7
    )
    console.next(
        "holdfast show sea", "^status +paused", "^spent +0.06 usd, 2,400 tokens, 2 steps  budget team"
    )
    console.next("holdfast budget show team", r"^usd +0\.10 +0\.06 +0\.00 +0\.04$")
    console.next("holdfast budget raise team", r"^usd +0\.20 +0\.06 +0\.00 +0\.14$")
    assert "ask#1 started" not in console.next("holdfast resume sea", r"ask#[34] completed", "^4$")
    console.next("holdfast budget list", r"^team +- +0\.12 +0\.20 +4,800")


@plays("guide-budgets.md: Parents 1")
def play_parents(console: Console) -> None:
    console.next("holdfast budget set company", "^budget +company")
    console.next("holdfast budget set team", "^part of +company")
    console.next("holdfast budget show team --json", '"parent": ?"company"')


# Learning


@plays("guide-learning.md: Choose a model 1")
def play_router(console: Console) -> None:
    console.saves("summaries.py")
    console.next("holdfast run summaries.py:summarise", "Otters eat urchins all day long")
    console.next("holdfast router list", r"^summary$", r"large +100%  2 good, 0 bad, \$0.06")


@plays("guide-learning.md: Try the next one 1")
def play_failover(console: Console) -> None:
    console.next("holdfast run summaries.py:answer", "cold water")
    console.next(
        "holdfast run summaries.py:answer", "all candidates for 'answer' failed: small: ValueError", code=7
    )
    found = json.loads(console.next("holdfast router show answer --json", '"failed": [12]'))
    assert {one["candidate"] for one in found} >= {"small"}
    console.next("holdfast resume a", "all candidates for 'answer' failed", code=7)


@plays("guide-learning.md: Skills 1")
def play_skills(console: Console) -> None:
    console.next("mkdir", then=lambda: console.there("skills/headline"))
    console.next("printf", then=lambda: "at most 6 words" in console.text("skills/headline/SKILL.md"))
    console.next("holdfast skills check", "1 skill, no faults")
    console.next("holdfast skills list", "^headline  Write headlines for notes.")
    console.next("holdfast skills show headline", "^A headline has at most 6 words.")


@plays("guide-learning.md: Skills 2")
def play_headlines(console: Console) -> None:
    console.saves("headlines.py")
    console.next("holdfast run headlines.py:headline", "Kelp grows half a metre a")
    console.next("holdfast skills stats", "^headline  headline  1 good, 0 bad")


@plays("guide-handlers.md: Found again by `resume` 1")
def play_handlers(console: Console) -> None:
    console.saves("answers.py")
    console.next("python answers.py", "^answer of small$")
    console.next("echo", then=lambda: console.there("holdfast.toml"))
    console.next("holdfast run answers.py:answer", "holdfast.toml:1 sets handlers to", code=9)
    console.next("holdfast trust", "handlers")
    console.next("holdfast run answers.py:answer", "answer of small")


# Evidence


@plays("guide-evidence.md: Write and verify 1")
def play_proof(console: Console) -> None:
    console.next("mkdir /tmp/", then=lambda: not [*console.directory.iterdir()])


@plays("guide-evidence.md: Write and verify 2")
def play_evidence(console: Console) -> None:
    console.saves("check.py")
    console.saves("ship.py")
    console.next("holdfast run ship.py:ship", "shipped")
    console.next("holdfast evidence list", "^ship-1  tests-pass#1  observed")
    console.next(
        "holdfast evidence show", "^# Evidence: `tests-pass`", "^- outcome: exit code 0", "^Ready for review"
    )
    console.next("holdfast evidence verify ship-1", "^tests-pass#1  equal  reproduced")
    console.next("echo", then=lambda: "not sorted" in console.text("check.py"))
    console.next("holdfast evidence verify ship-1", r"^ +-3 passed, 0 failed", r"^ +\+tides", code=1)
    console.next("holdfast evidence verify ship-1 --at milestone", "^tests-pass#1  equal  reproduced")
    out = console.directory.parent / "proof-of-ship-1"
    console.next("holdfast evidence export", then=lambda: (out / "tests-pass-1.md").exists())


# Going back


@plays("rewind.md: Rewind 1")
def play_rewind(console: Console) -> None:
    console.saves("report.py")
    console.next("python report.py", "sent 46 characters")
    console.next("holdfast show report-1", "draft#3", "send#1")
    console.next("holdfast checkpoints report-1", r'^drafts#1 .*{"chapters":2}')
    console.next("holdfast rewind report-1", "draft#3", "send#1", "--rerun-once")
    assert '"completed"' in console.shell("holdfast show report-1 --json")
    console.next(
        "holdfast rewind report-1", then=lambda: '"paused"' in console.shell("holdfast show report-1 --json")
    )
    console.next("holdfast resume report-1", "was rewound to drafts#1: ", "draft#3", "sent 46 characters")


@plays("rewind.md: Undo 1")
def play_undo(console: Console) -> None:
    console.next("holdfast undo", "it is completed again, in generation 0", "^put aside +draft#3")
    log = console.next("holdfast op log", "stands .*undo of", "rewind to drafts#1")
    (operation,) = re.findall(r"^(\w{6})\w+ .*stands .*undo of", log, re.MULTILINE)
    console.where("OPERATION", operation)
    console.next("holdfast undo", "it is completed again, in generation 1")


@plays("rewind.md: Fork 1")
def play_fork(console: Console) -> None:
    console.next("holdfast fork report-1", "report-2")
    console.next("holdfast resume report-2", "was forked from report-1: ", "sent 46 characters")


@plays("rewind.md: New code, old runs 1")
def play_replay(console: Console) -> None:
    console.next("holdfast replay report-1", "^report-1  matches     5 calls, to its end")
    code = console.text("report.py")
    console.write("report.py", code.replace('"kelp"', '"foam"'))
    console.shell("holdfast replay report-1", 6)
    console.write("report.py", code)
    console.next("holdfast replay --all", "^0 runs: all match")


@plays("rewind.md: Delete, numbers, the past 1")
def play_delete(console: Console) -> None:
    console.next("holdfast show '#1'", "^run +report-1  #1$", "completed")
    console.next("holdfast show report-1 --at drafts", "^at .*event", "running", "draft#2")
    console.next("holdfast show report-1 --at 3", "^at .*event 3$", "running")
    console.next("holdfast delete report-2", "^1 run, .* would be deleted")
    console.next(
        "holdfast delete report-2",
        "^1 run, .* events deleted",
        then=lambda: "report-2" not in console.shell("holdfast list"),
    )
    console.next("holdfast undo", "1 run, .* there again")
    assert "report-2" in console.shell("holdfast list")


@plays("rewind.md: Keeping the store small 1")
def play_archive(console: Console) -> None:
    for _ in range(2):
        console.next("holdfast archive", "nothing to archive")
    assert "report-1" in console.shell("holdfast archive --older-than 0s")
    assert "no runs" in console.shell("holdfast list")


# Backups


@plays("backup.md: Backups 1")
def play_backup(console: Console) -> None:
    console.shell("holdfast run --id report-1 'echo kelp'")
    path = console.next("holdfast backup create", r"backups/holdfast-[\w-]+\.db").split()[0]
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
    path = console.shell("holdfast backup create").split()[0]
    console.where("holdfast-20260131T120000Z.db", Path(path).name)
    console.next("holdfast backup restore", then=lambda: "report-1" in console.shell("holdfast list"))


@plays("guide-repair.md: Find out what is damaged 1")
def play_repair(console: Console) -> None:
    console.shell("holdfast run --id report-1 'echo kelp'")
    console.next("holdfast repair --dry-run", "nothing is damaged")
    home = Path(console.shell("holdfast doctor --json | grep -o '/[^ ]*/holdfast.db'").split()[0]).parent
    database = home / "holdfast.db"
    data = bytearray(database.read_bytes())
    data[0] ^= 1
    database.write_bytes(data)
    console.next(
        "holdfast repair", r"SQLite cannot read it", r"events came from the database", "before-repair-"
    )
    console.next("holdfast audit verify", "all of them hold")
    assert "report-1" in console.shell("holdfast list")


@plays("backup.md: When something seems wrong 1")
def play_wrong(console: Console) -> None:
    console.next("holdfast doctor", r"✓ store .*\d+ events", r"✓ integrity")
    console.next("holdfast audit verify", "all of them hold")
    console.next("holdfast repair --rebuild", r"made again from \d+ events, and match them")
    assert "report-1" in console.shell("holdfast list")


@plays("guide-mirror.md: Edited files 1")
def play_mirror(console: Console) -> None:
    console.next(
        "holdfast run --id tide-1", then=lambda: '"completed"' in console.text(".holdfast/runs/tide-1.json")
    )
    console.next("holdfast mirror status", r"^state +current$")
    console.next("echo", then=lambda: (console.directory / "edited.json").exists())
    console.next("holdfast mirror import edited.json", "^remember +kind 'decision', text 'use kelp'")
    assert not (console.directory / ".holdfast/tasks/memory.json").exists()
    console.next(
        "holdfast mirror import edited.json --apply",
        then=lambda: '"use kelp"' in console.text(".holdfast/tasks/memory.json"),
    )
    console.next("holdfast mirror rebuild", r"files? in .*made again from")


# Tasks


@plays("guide-tasks.md: Create, start, complete 1")
def play_tasks(console: Console) -> None:
    draft = console.next("holdfast task create", r"^[0-9a-f-]{36}$").split()[0]
    console.where("DRAFT", draft[:8])
    review = console.next("holdfast task create", r"^[0-9a-f-]{36}$").split()[0]
    assert "Review" not in console.next("holdfast task ready", f"^{draft} .*Draft the report")
    console.next("holdfast task start", "in progress", r"needed by +[0-9a-f-]+ +pending +Review the report")
    console.next("holdfast task note", "decision: British spelling")
    console.next("holdfast task edit", "changed: Draft the report")
    console.next("holdfast task complete", "test -s report.md` ended with exit code 1", code=2)
    console.next("echo", then=lambda: (console.directory / "report.md").exists())
    console.next("holdfast task complete", "completed: Draft the report")
    assert "Draft" not in console.next("holdfast task list", f"^{review} +pending ")
    console.next("holdfast task show", "TaskEdited .*Two pages, with a summary", "TaskCompleted .*test -s")


def where_review(console: Console) -> None:
    """REVIEW is the only task that is open."""
    (review,) = json.loads(console.shell("holdfast task list --json"))
    console.where("REVIEW", review["id"][:8])


@plays("guide-tasks.md: Sessions 1")
def play_sessions(console: Console) -> None:
    where_review(console)
    session = console.next("holdfast session start", r"^[0-9a-f-]{36}$").split()[0]
    console.where("SESSION", session[:8])
    console.next("holdfast task start", "Review the report", "in progress")
    console.next("holdfast task resume", "Review the report", "in progress")
    console.next("holdfast session list", f"^{session} .*open")
    console.next("holdfast session end", "ended")
    console.next("holdfast session show", "half of the review", "Review the report")


@plays("guide-tasks.md: Claims 1")
def play_claims(console: Console) -> None:
    where_review(console)
    console.next("holdfast task release", "released: Review")
    console.next("holdfast task claim", "claim 2: Review")
    console.next("holdfast task renew", "renewed: Review")
    console.next("holdfast task fail", "failed: Review")
    console.next("holdfast task reopen", "pending again: Review")
    console.next("holdfast task ready --claim", "Review the report", "in progress .*claim 3")


@plays("guide-tasks.md: Links 1")
def play_links(console: Console) -> None:
    where_review(console)
    publish = console.next("holdfast task create", r"^[0-9a-f-]{36}$").split()[0]
    console.where("PUBLISH", publish[:8])
    console.next("holdfast task link", "^linked: ")
    console.next("holdfast task link", "closes a cycle.*Review the report.*Publish", code=2)
    console.next("holdfast task tree", "^[0-9a-f-]+ .*Review", "^  [0-9a-f-]+ .*Publish")
    console.next("holdfast task unlink", "^unlinked: ")
    console.next("holdfast task block", "blocked: Publish")
    console.next("holdfast task unblock", "no longer blocked: Publish")
    console.next("holdfast task archive", "archived: Publish")
    console.next("holdfast task export", then=lambda: (console.directory / "tasks.jsonl").exists())
    console.next("holdfast task import", "0 tasks created, 0 extended, 3 as they were")


# Models


@plays("guide-llm.md: A run 1")
def play_model(console: Console) -> None:
    console.saves("assistant.py")
    console.next("holdfast run --id ask-1", "waits for a decision: Run remove?", code=5)
    console.next("holdfast gates", "ask-1", '"topic": "a"', "holdfast approve ask-1")
    console.next("holdfast approve ask-1", "is approved")
    console.next("holdfast resume ask-1", "removed the notes on a")
    console.next("holdfast show ask-1", r"assistant\[1\]$", "✓ model#1 ", "✓ read@1-", "✓ model#2 ")


# In a project that is there


@plays("guide-integration.md: A plain loop 1")
def play_loop(console: Console) -> None:
    """Against a provider whose answers are scripted. What it was asked shows that nothing is sent again."""
    console.saves("loop.py")
    write = ToolCall("write", {"path": "NOTES.md", "text": "kelp\n"})
    with FakeProvider([write, ToolCall("read", {"path": "no"}), "done"]) as provider:
        console.env |= {"OPENAI_API_KEY": "any", "OPENAI_BASE_URL": provider.openai_url}
        for _ in range(2):
            console.next("python loop.py", "^done$", then=lambda: console.text("NOTES.md") == "kelp\n")
        assert [request.turn for request in provider.requests] == [0, 1, 2]
        console.next(
            "holdfast show", "✓ write#1", "✗ read#1 .* there is no 'no'", "✓ ask#3", 'result +"done"'
        )
        console.next("holdfast stats", "gpt-5-mini, 300 tokens in, 60 out")
        console.next("holdfast rewind", "again +ask#2, read#1, ask#3")
        console.shell("holdfast resume notes-1")
        assert [request.turn for request in provider.requests] == [0, 1, 2, 1, 2]
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        del console.env[name]


@plays("guide-integration.md: A node of LangGraph 1")
def play_node(console: Console) -> None:
    console.saves("graph.py")
    assert "fetching page 2" in console.next("python graph.py", "kelp, page 2")
    assert "fetching" not in console.next("python graph.py", "kelp, page 2")
    console.next("holdfast show t1-research", "✓ fetch#3")


@plays("guide-integration.md: A CLI agent 1")
def play_cli_agent(console: Console) -> None:
    console.saves("my_agent.py")
    console.next("holdfast run --id greet-1", "^done: Write a greeting$")
    console.next("holdfast diff greet-1 start", r"^\+hello$")
    console.next("holdfast rewind greet-1 --to start", then=lambda: not console.there("greeting.txt"))


@plays("guide-integration.md: A CLI agent 2")
def play_cli_agent_delivers(console: Console) -> None:
    console.next("printf", then=lambda: "my_agent.py" in console.text("holdfast.toml"))
    console.next("holdfast trust", "agent.mine")
    console.next("holdfast deliver", "holdfast approve greet-2", code=5)


@plays("guide-integration.md: A CI job 1")
def play_ci_job(console: Console) -> None:
    assert "checked" in console.next("holdfast run --id check-3f2a", "^checked$")
    assert "checked\n" not in console.next("holdfast resume check-3f2a", "nothing to resume")
    console.next("holdfast list --json", '"id": "check-3f2a"')
