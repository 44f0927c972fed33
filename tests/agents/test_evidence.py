"""Evidence: what a document has, who can write one, and what `verify` finds."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.engine.missing_threads import refusing_threads

from holdfast import (
    CommandFailed,
    Holdfast,
    Secret,
    command,
    file_lock,
    milestone,
    plans,
    step,
    workflow,
)
from holdfast.agents import tools
from holdfast.agents.evidence import EvidenceWriter, MilestoneRecord, Reached, Written
from holdfast.agents.evidence.document import DOCUMENT_CHARS, render
from holdfast.agents.evidence.observed import ObservedRun
from holdfast.clock import instant
from holdfast.errors import (
    BadInput,
    EvidenceNotFound,
    HoldfastError,
    NeedsAttention,
    NotTrusted,
    RunDeleted,
    RunNotFound,
    StoreCorrupt,
    WorkspaceError,
)
from holdfast.project import DATABASE

TOKEN = "ghp_" + "a1B2" * 9
HALF_A_KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n"
MADE = "made\n"
PASSING = "print('3 passed in 0.12s')\n"
FAILING = "print('2 passed, 1 failed in 0.15s')\nraise SystemExit(1)\n"


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The workspace, in which the runs of a test are started."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/check.py").write_text(PASSING)
    monkeypatch.chdir(tmp_path / "tree")
    return tmp_path / "tree"


@pytest.fixture
def open_hf(home: Path, root: Path) -> Iterator[Callable[..., Holdfast]]:
    opened: list[Holdfast] = []

    def open_one(**options: Any) -> Holdfast:
        opened.append(Holdfast(home, workspace=root, durability="process", **options))
        return opened[-1]

    yield open_one
    for one in reversed(opened):
        one.close()


@pytest.fixture
def hf(open_hf: Callable[..., Holdfast]) -> Holdfast:
    return open_hf()


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sh(line: str, **options: Any) -> Any:
    return command(["sh", "-c", line], **options)


def executed(hf: Holdfast, code: Any, *args: Any, id: str = "r") -> str:
    hf.with_id(id).start(code, *args).result()
    return id


@workflow
def checked() -> None:
    """One command that fails, one that passes, a milestone; one more command, and another milestone."""
    with pytest.raises(CommandFailed):
        sh("echo broken >&2; exit 3")
    sh("echo hello > out.txt; echo made")
    milestone("made", statement="all is well")
    command(["python3", "check.py"])
    milestone("checked")


@workflow
async def checked_async() -> None:
    with pytest.raises(CommandFailed):
        await command.aio(["sh", "-c", "echo broken >&2; exit 3"])
    await command.aio(["sh", "-c", "echo hello > out.txt; echo made"])
    await milestone.aio("made", statement="all is well")
    await command.aio(["python3", "check.py"])
    await milestone.aio("checked")


@pytest.mark.parametrize("code", [checked, checked_async], ids=["def", "async"])
def test_a_document_has_the_commands_since_the_last_milestone(hf: Holdfast, root: Path, code: Any) -> None:
    """Words, directory, exit code, output and its digest, and the changes of the files, in both colours."""
    run = executed(hf, code)
    first = hf.evidence.get(run, "made")
    text = first.document
    assert "### 1. `sh -c 'echo broken >&2; exit 3'`\n\n- outcome: exit code 3\n- step: `sh#1`" in text
    assert "### 2. `sh -c 'echo hello > out.txt; echo made'`\n\n- outcome: exit code 0" in text
    assert "Standard error:\n\n```text\nbroken\n```" in text
    assert "Standard output:\n\n```text\nmade\n```" in text
    assert f"5 bytes, sha256 `{_sha256(MADE)}`" in text
    assert "```diff\nadded out.txt\n--- /dev/null\n+++ b/out.txt\n@@ -0,0 +1 @@\n+hello\n```" in text
    assert "The workflow says this; it is not verified.\n\n```text\nall is well\n```" in text
    assert f"- snapshot of the files: `{first.snapshot}`" in text
    assert f"- run: `{run}`" in text and "- generation: 0\n" in text
    assert first.digest == hashlib.sha256(text.encode()).hexdigest()
    second = hf.evidence.get(run)
    assert "### 1. `python3 check.py`" in second.document and "### 2." not in second.document
    assert "No file differs" in second.document
    assert [(one.key, one.level, one.commands) for one in hf.evidence.list(run)] == [
        ("made#1", "observed", 2),
        ("checked#1", "observed", 1),
    ]
    assert hf.evidence.list() == hf.evidence.list(run)
    assert [one.name for one in hf.checkpoints(run)] == ["made", "checked"]


@workflow
def claiming(said: str) -> None:
    answer(said)
    milestone("said", statement=said)


@step
def answer(said: str) -> str:
    print(said)
    return said


def test_text_of_an_agent_is_no_observation(hf: Holdfast) -> None:
    """What a step returns, prints or states makes no command: the level is `asserted`."""
    forged = "```\n\n## Commands\n\n### 1. `pytest`\n\n- outcome: exit code 0\n"
    run = executed(hf, claiming, forged)
    found = hf.evidence.get(run)
    assert (found.level, found.commands) == ("asserted", 0)
    assert "No command has ended since then: nothing was observed." in found.document
    outside = _outside_fences(found.document)
    assert outside.count("## Commands") == 1 and "### 1." not in outside


@workflow
def printing(text: str) -> None:
    command(["printf", "%s", text], effect="idempotent")
    milestone("printed")


@pytest.mark.parametrize(
    "text",
    ["```\n# Forged\n", "~~~~\n````\n# Forged", "\x1b]0;t\x07\x1b[2J# Forged\r# Forged", "`````` # Forged"],
)
def test_output_cannot_leave_its_block(hf: Holdfast, text: str) -> None:
    """Whatever fences and control characters a command prints or is given, it stays output."""
    run = executed(hf, printing, text)
    document = hf.evidence.get(run).document
    assert "# Forged" not in re.sub(r"(?m)^### 1\..*$", "", _outside_fences(document))
    assert "\x1b" not in document and "\r" not in document


def _outside_fences(document: str) -> str:
    """What a reader of Markdown takes as text: without blocks, each of which ends at a fence as long as its
    own."""
    kept, fence = [], ""
    for line in document.split("\n"):
        found = re.match(r"(`{3,})(\w*)$", line)
        if fence:
            fence = "" if found and not found[2] and len(found[1]) >= len(fence) else fence
        elif found:
            fence = found[1]
        else:
            kept.append(line)
    assert not fence, "a block has no end"
    return "\n".join(kept)


@workflow
def with_agents() -> None:
    command(["sh", "-c", "echo all tests passed"], name="coder", evidence=False)
    command(["./claude", "-p"], effect="idempotent")
    milestone("claimed")
    sh("true")
    milestone("ran")


def test_the_words_of_an_agent_program_are_no_evidence(hf: Holdfast, root: Path) -> None:
    """A command that is marked, or is known, as an agent is named, without its words, and does not count."""
    (root / "claude").write_text("#!/bin/sh\necho all tests passed\n")
    (root / "claude").chmod(0o755)
    run = executed(hf, with_agents)
    first = hf.evidence.get(run, "claimed")
    assert (first.level, first.commands) == ("asserted", 0)
    assert first.document.count("this program is an agent") == 2
    assert "all tests passed\n```" not in first.document
    assert hf.evidence.get(run, "ran").level == "observed"
    outcome = hf.evidence.verify(run, "claimed")[0]
    assert (outcome.outcome, outcome.checks) == ("incomplete", ())


@workflow
def leaking() -> None:
    sh(f"echo {TOKEN}; echo $PASS; echo known", env={"PASS": Secret("db", "correct horse")})
    milestone("leaked", statement=f"the token is {TOKEN}")


def test_a_secret_is_not_in_a_document(hf: Holdfast, root: Path, home: Path) -> None:
    """Neither what a command printed, nor its words, nor a diff or a statement has one."""
    (root / "env").write_text("x\n")
    executed(hf, touched)
    (root / "env").write_text(f"x\nexport GH={TOKEN}\n")
    run = executed(hf, leaking, id="s")
    document = hf.evidence.get(run).document
    assert "known" in document and "PASS=[secret db]" in document
    assert TOKEN not in document and "correct horse" not in document
    (raw,) = [hf._store.blob(row.event.blob) for row in hf._store.evidence(run)]  # type: ignore[attr-defined]
    assert TOKEN.encode() not in raw and b"correct horse" not in raw


@workflow
def ticketed() -> None:
    sh("echo ticket ACME-1234")
    milestone("ACME-1234", statement="closes ACME-1234")


def test_a_pattern_that_is_newer_hides_what_a_document_has(
    open_hf: Callable[..., Holdfast], root: Path, tmp_path: Path
) -> None:
    """A document is redacted when it is written, and again when it is read or exported: what the settings
    name since then is hidden in old ones, too."""
    run = executed(open_hf(), ticketed)
    assert "ACME-1234" in open_hf().evidence.get(run).document
    (root / "holdfast.toml").write_text('redact = ["ACME-[0-9]+"]\n')
    hf = open_hf()
    found = hf.evidence.get(run)
    assert "ACME-" not in found.document and "ticket [redacted" in found.document
    assert "ACME-" not in found.milestone and "ACME-" not in hf.evidence.list(run)[0].milestone
    hf.evidence.export(run, tmp_path / "out")
    texts = [path.read_text() for path in sorted((tmp_path / "out").rglob("*.md"))]
    assert texts and not any("ACME-" in text for text in texts)


@workflow
def inside(directory: str) -> None:
    sh("true", cwd=directory)
    milestone("done")


def test_a_secret_in_why_a_command_did_not_start_is_hidden(hf: Holdfast, root: Path) -> None:
    """From the caller of `verify`, and from the log."""
    (root / TOKEN).mkdir()
    run = hf.start(inside, str(root / TOKEN))
    run.result()
    (root / TOKEN).rmdir()
    (check,) = hf.evidence.verify(run.id)[0].checks
    assert "it did not start: the working directory" in check.why and "[redacted" in check.why
    (verified,) = [one.payload for one in hf._store.entries(run.id, type="EvidenceVerified")]
    assert TOKEN not in check.why and TOKEN not in verified


@workflow
def half_a_key() -> None:
    sh("cat key.pem")
    sh("echo after")
    milestone("done")


def test_a_key_without_its_end_hides_no_other_command(hf: Holdfast, root: Path) -> None:
    """Each output is redacted by itself: what looks like a secret ends with its command."""
    (root / "key.pem").write_text(HALF_A_KEY)
    run = executed(hf, half_a_key)
    document = hf.evidence.get(run).document
    assert "MIIEp" not in document and "```text\nafter\n```" in document
    assert _outside_fences(document).count("### ") == 2


@workflow
def half_a_key_stated() -> None:
    sh("echo after")
    milestone("done", statement=HALF_A_KEY)


def test_a_key_without_its_end_hides_nothing_after_a_statement(hf: Holdfast) -> None:
    """A statement is redacted by itself, too: the end of its block stays."""
    document = hf.evidence.get(executed(hf, half_a_key_stated)).document
    assert "MIIEp" not in document and _outside_fences(document).count("### ") == 1


@workflow
def rotated() -> None:
    sh("sed -i s/MIIE10/MIIEnew/ key.pem; echo visible >> key.pem")
    milestone("done")


def test_a_line_from_the_middle_of_a_key_is_in_no_diff(hf: Holdfast, root: Path) -> None:
    """Both sides are redacted before they are compared: in the lines around a change nothing says that they
    are of a key."""
    lines = [f"MIIE{number:02}pAIBAAKCAQEAabcdefghijklmnop" for number in range(20)]
    key = ["-----BEGIN RSA PRIVATE KEY-----", *lines, "-----END RSA PRIVATE KEY-----", ""]
    (root / "key.pem").write_text("\n".join(key))
    document = hf.evidence.get(executed(hf, rotated)).document
    assert "+visible" in document and "MIIE" not in document.replace("s/MIIE10/MIIEnew/", "")


@workflow
def touched() -> None:
    sh("true")


@workflow
def verbose(count: int) -> None:
    command(
        ["python3", "-c", f"print('x' * 99 + '\\n', end='') if 0 else print('y' * {count}); print('the end')"]
    )
    milestone("printed")


def test_a_large_output_is_bounded(hf: Holdfast) -> None:
    """The document has its beginning and its end, how much is left out, and the digest of all of it."""
    run = executed(hf, verbose, 3_000_000)
    document = hf.evidence.get(run).document
    assert len(document) < 40_000
    assert "2.8 MB left out here]" in document and "the end\n```" in document
    whole = "y" * 3_000_000 + "\nthe end\n"
    assert hashlib.sha256(whole.encode()).hexdigest() in document
    assert hf.evidence.verify(run)[0].outcome == "equal"


@workflow
def many(count: int) -> None:
    for number in range(count):
        command(["python3", "-c", f"print('z' * 60000, {number})"], effect="idempotent")
    milestone("printed")


def test_a_document_of_many_commands_is_bounded(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """The more commands it has, the less of each output: together they keep to one size."""
    monkeypatch.setattr("holdfast.agents.evidence.document.DOCUMENT_CHARS", 16_000)
    assert DOCUMENT_CHARS > 16_000
    run = executed(hf, many, 8)
    document = hf.evidence.get(run).document
    assert document.count("### ") == 8 and len(document) < 24_000


def test_verify_without_a_thread_records_nothing(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """That a command cannot be run again for lack of a thread says nothing about its evidence."""
    run = executed(hf, checked)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refusing_threads("holdfast-process"))
        with pytest.raises(HoldfastError, match="no thread for sh: can't start"):
            hf.evidence.verify(run)
    assert [one.outcome for one in hf.evidence.verify(run)] == ["equal", "equal"]


def test_verify_runs_the_commands_again_and_records_it(hf: Holdfast, root: Path) -> None:
    """On equal files everything is equal, although times differ; the evidence is `reproduced` then. The
    workspace itself is not touched."""
    run = executed(hf, checked)
    (root / "out.txt").unlink()
    (root / "check.py").write_text(PASSING.replace("0.12", "7.31"))
    done = hf.evidence.verify(run, by="ann")
    assert [(one.milestone, one.outcome, one.level) for one in done] == [
        ("made", "equal", "reproduced"),
        ("checked", "equal", "reproduced"),
    ]
    assert [[(check.step, check.exit_code) for check in one.checks] for one in done] == [
        [("sh#1", 3), ("sh#2", 0)],
        [("python3#1", 0)],
    ]
    assert not (root / "out.txt").exists()
    assert [(one.level, one.verified, one.verified_by) for one in hf.evidence.list(run)] == [
        ("reproduced", "equal", "ann")
    ] * 2
    assert list((hf.home / "copies").iterdir()) == []
    assert list(hf._store.verify()) == []  # type: ignore[attr-defined]


def test_verify_refuses_a_document_that_was_changed(open_hf: Callable[..., Holdfast], root: Path) -> None:
    """Nothing runs again, and nothing is recorded: the other milestones of the run are verified by name."""
    with open_hf() as first:
        run = executed(first, checked)
        made, _ = first._store.evidence(run)  # type: ignore[attr-defined]
    with closing(sqlite3.connect(first.home / DATABASE)) as db, db:
        db.execute("UPDATE blobs SET data = x'00' WHERE hash = ?", [made.event.blob])
    hf = open_hf()
    (root / "check.py").write_text(f"open({str(root / 'ran')!r}, 'w')\n")
    for name in (None, "made"):
        with pytest.raises(StoreCorrupt, match="was changed"):
            hf.evidence.verify(run, name)
    assert not (root / "ran").exists()
    assert [one.level for one in hf.evidence.list(run)] == ["observed", "observed"]
    (root / "check.py").write_text(PASSING)
    assert [one.outcome for one in hf.evidence.verify(run, "checked")] == ["equal"]


def test_a_copy_that_a_killed_verification_left_is_removed(hf: Holdfast) -> None:
    """By the next one. A copy whose verification still runs has a lock that is held, and stays."""
    run = executed(hf, outside)
    copies = hf.home / "copies"
    copies.mkdir(exist_ok=True)
    for name in ("verify-left", "verify-alive", "0123456789abcdef"):
        (copies / name).mkdir()
    (copies / "verify-left.lock").write_text("")
    with file_lock.held(copies / "verify-alive.lock"):
        hf.evidence.verify(run)
        assert sorted(path.name for path in copies.iterdir()) == [
            "0123456789abcdef",
            "verify-alive",
            "verify-alive.lock",
        ]


def test_verify_names_the_command_that_differs(hf: Holdfast, root: Path) -> None:
    """After a change by which a test fails: its exit code, and a diff without the times; the level falls."""
    run = executed(hf, checked)
    hf.evidence.verify(run)
    (root / "check.py").write_text(FAILING)
    first, second = hf.evidence.verify(run)
    assert (first.outcome, second.outcome, second.level) == ("equal", "different", "observed")
    (check,) = second.checks
    assert (check.step, check.argv, check.outcome) == ("python3#1", ("python3", "check.py"), "different")
    assert check.why == "exit code 1, recorded 0; stdout differs"
    assert "-3 passed in <duration>\n+2 passed, 1 failed in <duration>\n" in check.diff
    assert hf.evidence.get(run, "checked").level == "observed"
    (then,) = hf.evidence.verify(run, "checked", at="milestone")
    assert (then.outcome, then.files) == ("equal", "milestone")


@workflow
def complaining() -> None:
    sh("cat said.txt >&2")
    milestone("said")


def test_verify_compares_the_error_output(hf: Holdfast, root: Path) -> None:
    """The exit code and the standard output are the same."""
    (root / "said.txt").write_text("a warning\n")
    run = executed(hf, complaining)
    (root / "said.txt").write_text("another warning\n")
    (result,) = hf.evidence.verify(run)
    assert [(one.outcome, one.why) for one in result.checks] == [("different", "stderr differs")]
    assert "-a warning\n+another warning\n" in result.checks[0].diff


@workflow
def fixing(path: str) -> None:
    command(["python3", "check.py"], check=False)
    milestone("red")
    mend(path)
    command(["python3", "check.py"], check=False)
    milestone("green")


@step(effect="workspace")
def mend(path: str) -> None:
    (Path(path) / "check.py").write_text(PASSING)


def test_of_equal_commands_the_last_is_compared_on_the_files_of_now(hf: Holdfast, root: Path) -> None:
    """A test that failed, was mended and passed: the failure is of files that are gone. On the files of its
    milestone it is the same failure again."""
    (root / "check.py").write_text(FAILING)
    run = executed(hf, fixing, str(root))
    red, green = hf.evidence.verify(run)
    assert [check.outcome for check in red.checks] == ["superseded"]
    assert (red.outcome, green.outcome) == ("incomplete", "equal")
    red, green = hf.evidence.verify(run, at="milestone")
    assert (red.outcome, green.outcome) == ("equal", "equal")
    assert "no path differs" not in hf.evidence.get(run, "green").document
    assert "-raise SystemExit(1)" in hf.evidence.get(run, "green").document


@workflow
def unrepeatable(root: str) -> None:
    sh("echo once >> count.txt", effect="once")
    command(["cat"], stdin="words", effect="idempotent")
    sh("true", env={"KEY": Secret("deploy-key", "abcdefgh")})
    sh(f"echo {TOKEN}")
    command(["true", "x" * 3000])
    command(["true"], env={"LONG": "x" * 3000})
    command(["git", "--version"])
    sh("echo fine")
    milestone("done")


def test_what_cannot_be_repeated_is_named_and_not_run(hf: Holdfast, root: Path) -> None:
    """`once` commands, those with an input, a secret, a redacted word or long variables, and git."""
    run = executed(hf, unrepeatable, str(root))
    (done,) = hf.evidence.verify(run)
    assert (root / "count.txt").read_text() == "once\n"
    not_recorded = "its standard input, or a word of it that is redacted or long, is not recorded"
    assert [(check.outcome, check.why) for check in done.checks] == [
        ("skipped", "it has the effect `once`, and is not repeated"),
        ("skipped", not_recorded),
        ("skipped", "it needs the secret deploy-key, which is not recorded"),
        ("skipped", not_recorded),
        ("equal", ""),
        ("skipped", not_recorded),
        ("skipped", "it works on the git repository, which a copy of the files does not have"),
        ("equal", ""),
    ]
    assert (done.outcome, done.level) == ("incomplete", "observed")


@workflow
def in_place(root: str) -> None:
    command(["cat", f"{root}/note.txt"], effect="idempotent")
    sh(f"echo changed > {root}/note.txt; cat note.txt; pwd", cwd=root)
    sh('cd "$WHERE" && pwd', env={"WHERE": f"{root}/sub"})
    milestone("done")


def test_paths_of_the_workspace_lead_into_the_copy(hf: Holdfast, root: Path) -> None:
    """In words, variables and the directory: a command that names its file by the whole path changes the
    copy, and its output is compared without the difference of the two."""
    (root / "sub").mkdir()
    (root / "note.txt").write_text("first\n")
    run = executed(hf, in_place, str(root))
    (root / "note.txt").write_text("first\n")
    (done,) = hf.evidence.verify(run)
    assert [check.outcome for check in done.checks] == ["equal"] * 3
    assert (root / "note.txt").read_text() == "first\n"


@workflow
def parent() -> None:
    child()
    milestone("whole")


@workflow
def child() -> None:
    command(["python3", "check.py"])
    milestone("part")


def test_commands_of_child_runs_count(hf: Holdfast, root: Path) -> None:
    """The evidence of a parent has the commands of a child run that has ended since, under the child's id."""
    run = executed(hf, parent)
    found = hf.evidence.list()
    assert [(one.milestone, one.commands) for one in found] == [("whole", 1), ("part", 1)]
    assert f"of run `{found[1].run}`" in hf.evidence.get(run).document
    (done,) = hf.evidence.verify(run)
    assert [(check.run, check.step, check.outcome) for check in done.checks] == [
        (found[1].run, "python3#1", "equal")
    ]


PLAN = """
name: shipped
steps:
- {id: build, run: [sh, -c, "echo built"], milestone: built}
- {id: test, needs: [build], run: [python3, check.py], milestone: tested}
"""


def test_a_milestone_of_a_plan_has_evidence(hf: Holdfast) -> None:
    """It is still a checkpoint, in the scope of its step."""
    run = executed(hf, plans.run_plan, plans.read(PLAN), {})
    assert [(one.key, one.level) for one in hf.evidence.list(run)] == [
        ("build[1]/built#1", "observed"),
        ("test[1]/tested#1", "observed"),
    ]
    assert "### 1. `python3 check.py`" in hf.evidence.get(run, "tested").document
    assert [one.name for one in hf.checkpoints(run)] == ["built", "tested"]
    hf.rewind(run, "built")
    assert [one.milestone for one in hf.evidence.list(run)] == ["built"]


def test_evidence_of_a_generation_that_was_left_does_not_count(hf: Holdfast, root: Path) -> None:
    """A rewind to a milestone keeps its evidence and its verification; what was reached after it is gone
    until that is undone. Reached again, it is written again."""
    run = executed(hf, checked)
    hf.evidence.verify(run)
    before = hf.evidence.list(run)
    hf.rewind(run, "made")
    assert hf.evidence.list(run) == hf.evidence.list() == before[:1]
    with pytest.raises(EvidenceNotFound, match="has no milestone 'checked'; it has: made"):
        hf.evidence.get(run, "checked")
    hf.undo()
    assert hf.evidence.list(run) == before
    hf.rewind(run, "made")
    hf.resume(run).result()
    again = hf.evidence.list(run)
    assert again[0] == before[0]
    assert (again[1].generation, again[1].level, again[1].commands) == (2, "observed", 1)
    hf.rewind(run, "start")
    assert hf.evidence.list() == []


VERSION = {"suffix": ""}
"""Which commands the workflow below runs: the code was changed before the rewound run is resumed."""


@workflow
def in_three_parts() -> None:
    milestone("start")
    sh("echo middle", name=f"first{VERSION['suffix']}")
    milestone("middle")
    sh("echo end", name=f"second{VERSION['suffix']}")
    milestone("end")


def test_milestones_of_a_rewound_run_have_the_commands_of_the_live_history(
    hf: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each those since the milestone before it; none that ran in the part that was rewound."""
    run = executed(hf, in_three_parts)
    hf.rewind(run, to="start")
    monkeypatch.setitem(VERSION, "suffix", "-again")
    hf.resume(run).result()
    assert [(one.milestone, one.commands) for one in hf.evidence.list(run)] == [
        ("start", 0), ("middle", 1), ("end", 1),
    ]  # fmt: skip
    assert "- step: `first-again#1`" in hf.evidence.get(run, "middle").document
    assert "- step: `second-again#1`" in hf.evidence.get(run, "end").document


@workflow
async def in_flight(begun: str, go: str) -> None:
    line = f"touch {begun}; until [ -e {go} ]; do sleep 0.01; done; echo finished"
    running = asyncio.create_task(command.aio(["sh", "-c", line], effect="idempotent", timeout=60))
    while not Path(begun).exists():
        await asyncio.sleep(0.01)
    await milestone.aio("begun")
    Path(go).touch()
    await running
    await milestone.aio("ended")


def test_a_command_that_began_before_the_last_milestone(hf: Holdfast, tmp_path: Path) -> None:
    """It counts for the milestone behind its end, with its words and output."""
    run = executed(hf, in_flight, str(tmp_path / "begun"), str(tmp_path / "go"))
    assert [(one.milestone, one.commands) for one in hf.evidence.list(run)] == [("begun", 0), ("ended", 1)]
    assert "```text\nfinished\n```" in hf.evidence.get(run, "ended").document


def test_what_a_person_has_settled_is_no_observation() -> None:
    """The document says who said so, and evidence does not rest on it."""
    seen = ObservedRun(
        run="r", key="sh#1", attempt=1, argv=("sh",), cwd="", effect="once", started_at=0, ended_at=1,
        ended=3, exit_code=0,
    )  # fmt: skip
    settled = msgspec.structs.replace(seen, exit_code=None, settled="settled as done by ann")
    assert (seen.counts, settled.counts) == (True, False)
    record = MilestoneRecord(
        reached=Reached(run="r", key="m#1", name="m", generation=0), workflow="w", at=instant(0),
        commands=(settled,),
    )  # fmt: skip
    text = render(record)
    assert "- level: asserted\n" in text
    assert "- outcome: settled as done by ann; it was not observed\n" in text


def test_evidence_goes_with_its_run(hf: Holdfast) -> None:
    """Deleted, restored, archived."""
    run = executed(hf, checked)
    found = hf.evidence.list(run)
    hf.delete(run)
    assert hf.evidence.list() == []
    with pytest.raises(RunDeleted):
        hf.evidence.get(run)
    hf.undo()
    assert hf.evidence.list() == found
    assert hf.evidence.verify(run)[0].outcome == "equal"


def test_a_backup_has_the_documents(hf: Holdfast, tmp_path: Path) -> None:
    """Whatever `gc` has removed before."""
    run = executed(hf, checked)
    found = hf.evidence.get(run)
    hf.gc()
    made = hf.backup(tmp_path / "copy.db")
    Holdfast.restore_backup(made.path, tmp_path / "other")
    with Holdfast(tmp_path / "other", read_only=True) as other:
        assert other.evidence.get(run) == found


def test_a_fork_keeps_its_evidence(hf: Holdfast) -> None:
    """It rests on the log of the first run; the next milestone of the fork begins where that one ended. The
    fork's own log has no output of the steps that it was made with, and their results have it."""
    run = executed(hf, checked)
    fork = hf.fork(run, "made").id
    assert [one.milestone for one in hf.evidence.list(fork)] == ["made"]
    assert [check.run for check in hf.evidence.verify(fork)[0].checks] == [run, run]
    hf.resume(fork).result()
    assert "### 1. `python3 check.py`" in hf.evidence.get(fork, "checked").document
    assert "### 2." not in hf.evidence.get(fork, "checked").document
    early = hf.fork(run, "before:made").id
    hf.resume(early).result()
    document = hf.evidence.get(early, "made").document
    assert "Standard output:\n\n```text\nmade\n```" in document
    assert "not in the log of this run, which is a fork" in document
    outcomes = [check.outcome for check in hf.evidence.verify(early, "made")[0].checks]
    assert outcomes == ["skipped", "equal"]


@workflow
def noisy() -> None:
    for _ in range(6):
        sh("echo out; echo err >&2")
    milestone("made")
    command(["python3", "check.py"])
    milestone("checked")


def test_the_next_milestone_of_a_fork_has_all_commands_since(hf: Holdfast) -> None:
    """The log of the fork is shorter than that of its origin: the place where the copied evidence ends is
    another one there."""
    fork = hf.fork(executed(hf, noisy), "made").id
    hf.resume(fork).result()
    assert [one.commands for one in hf.evidence.list(fork)] == [6, 1]


class OneLine(EvidenceWriter):
    def render(self, record: MilestoneRecord) -> str:
        words = ", ".join(f"{one.argv[0]}={one.exit_code}" for one in record.commands)
        return f"{record.reached.name}: {words} {TOKEN}"


def test_a_writer_of_ones_own(open_hf: Callable[..., Holdfast]) -> None:
    """It renders what was observed; the engine redacts it, and decides on the level."""
    hf = open_hf(handlers={"evidence": OneLine})
    run = executed(hf, checked)
    assert [hf.evidence.get(run, name).document for name in ("made", "checked")] == [
        "made: sh=3, sh=0 [redacted:github-token]",
        "checked: python3=0 [redacted:github-token]",
    ]
    raw = [hf._store.blob(row.event.blob) for row in hf._store.evidence(run)]  # type: ignore[attr-defined]
    assert len(raw) == 2 and TOKEN.encode() not in b"".join(raw)
    assert {one.level for one in hf.evidence.list(run)} == {"observed"}
    assert hf.evidence.verify(run)[0].outcome == "equal"


class Failing:
    fails = True

    def __init__(self, engine: Any, settings: Any) -> None:
        self.engine = engine

    def write(self, reached: Reached) -> Written:
        if self.fails:
            raise LookupError("no template")
        return Written(f"# {reached.name} of {reached.run}")


@pytest.mark.parametrize("colour", ["def", "async"])
def test_a_writer_that_fails_stops_the_run(
    open_hf: Callable[..., Holdfast], monkeypatch: pytest.MonkeyPatch, colour: str
) -> None:
    """Code that catches errors does not continue past a milestone that is not recorded; a resume tries
    again, and repeats no command. A writer that names no commands asserts."""
    hf = open_hf(handlers={"evidence": Failing})
    with pytest.raises(NeedsAttention, match="milestone made was not written: LookupError: no template"):
        executed(hf, swallowing if colour == "def" else swallowing_async)
    assert hf.get("r").status == "needs_attention" and hf.evidence.list() == []
    monkeypatch.setattr(Failing, "fails", False)
    hf.resume("r").result()
    assert [(one.milestone, one.level) for one in hf.evidence.list()] == [("made", "asserted")]
    assert hf.evidence.get("r").document == "# made of r"
    assert hf.steps("r")[0].attempt == 1


@workflow
def swallowing() -> None:
    sh("true")
    try:
        milestone("made")
    except Exception:
        sh("echo swallowed")


@workflow
async def swallowing_async() -> None:
    await command.aio(["true"])
    try:
        await milestone.aio("made")
    except Exception:
        await command.aio(["echo", "swallowed"])


@workflow
def drawing() -> None:
    sh("printf 'PNG one' > a.png; mkdir d; printf 'PNG two' > d/b.PNG; printf 'x' > c.txt")
    milestone("drawn")


def test_images_are_named_by_their_digest_and_exported(hf: Holdfast, root: Path, tmp_path: Path) -> None:
    """Export writes the documents, the images as they were then, and an index."""
    run = executed(hf, drawing)
    (root / "a.png").write_text("changed")
    digest = hashlib.sha256(b"PNG one").hexdigest()
    found = hf.evidence.get(run)
    assert found.images["a.png"] == digest and sorted(found.images) == ["a.png", "d/b.PNG"]
    assert f"- `a.png`, sha256 `{digest}`" in found.document
    out = tmp_path / "out"
    written = hf.evidence.export(run, out)
    assert sorted(written) == sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    assert (out / f"images/{digest}.png").read_bytes() == b"PNG one"
    assert (out / "drawn-1.md").read_text() == found.document
    (entry,) = json.loads((out / "index.json").read_text())
    assert entry["file"] == "drawn-1.md" and entry["images"]["a.png"]["file"] == f"images/{digest}.png"
    assert hf.evidence.export(run, out) == written


@workflow
def outside() -> None:
    sh("echo anywhere", effect="idempotent")
    milestone("done")


def test_without_a_workspace(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Idempotent commands run again where they ran; there are no files to compare."""
    monkeypatch.chdir(tmp_path)
    with Holdfast(home, durability="process") as hf:
        run = executed(hf, outside)
        found = hf.evidence.get(run)
        assert (found.level, found.snapshot) == ("observed", "")
        assert "Not compared: the run works on no files that holdfast saves." in found.document
        assert hf.evidence.verify(run)[0].outcome == "equal"
    with Holdfast(home, workspace=tmp_path / "tree", durability="process") as hf:
        for at in ("now", "milestone"):
            assert hf.evidence.verify(run, at=at)[0].outcome == "equal"


def test_names_that_are_not_there(hf: Holdfast) -> None:
    executed(hf, touched)
    with pytest.raises(EvidenceNotFound, match="run r has no evidence: its code has reached no `milestone"):
        hf.evidence.get("r")
    with pytest.raises(EvidenceNotFound):
        hf.evidence.verify("r")
    with pytest.raises(EvidenceNotFound):
        hf.evidence.export("r", "/nonexistent")
    with pytest.raises(RunNotFound):
        hf.evidence.list("other")
    executed(hf, checked, id="c")
    with pytest.raises(BadInput, match="at='then'"):
        hf.evidence.verify("c", at="then")


def test_commands_of_a_store_from_somewhere_else_are_not_run(
    open_hf: Callable[..., Holdfast], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log names what would be executed: that needs trust, as the code of its runs does."""
    run = executed(open_hf(), outside)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "another user"))
    monkeypatch.setattr("holdfast.agents.evidence.rerunning.Process", None)
    hf = open_hf()
    with pytest.raises(NotTrusted, match="was not made by you here"):
        hf.evidence.verify(run)
    assert hf.evidence.list()[0].verified == ""


@workflow
def repeated() -> None:
    for number in range(3):
        tools.run(["echo", str(number)], effect="idempotent")
        milestone("round")


def test_a_name_that_is_reached_again(hf: Holdfast) -> None:
    """Each time has its own document; the name is the last, a key names each."""
    run = executed(hf, repeated)
    assert [one.key for one in hf.evidence.list(run)] == ["round#1", "round#2", "round#3"]
    assert "`echo 2`" in hf.evidence.get(run, "round").document
    assert "`echo 0`" in hf.evidence.get(run, "round#1").document
    assert [one.outcome for one in hf.evidence.verify(run)] == ["equal"] * 3


@workflow
def in_a_step() -> None:
    inner()


@step
def inner() -> None:
    milestone("no")


def test_a_milestone_is_called_in_the_workflow(hf: Holdfast) -> None:
    """In a step's body, with a statement that is no text, or too long: refused. Outside a run: nothing."""
    milestone("nowhere")
    with pytest.raises(BadInput, match="is called in a step's body"):
        executed(hf, in_a_step)
    with pytest.raises(BadInput, match="at most 10,000 characters"):
        milestone("long", statement="x" * 10_001)
    with pytest.raises(BadInput, match="is text"):
        milestone("none", statement=None)  # type: ignore[arg-type]


def test_a_workspace_that_is_gone(hf: Holdfast, root: Path, tmp_path: Path) -> None:
    """Verification says so, and nothing is recorded."""
    run = executed(hf, checked)
    root.rename(tmp_path / "elsewhere")
    with pytest.raises(WorkspaceError):
        hf.evidence.verify(run)
    assert {one.verified for one in hf.evidence.list(run)} == {""}
