"""Operations and decisions that are bound to what a person has seen, at the command line."""

from __future__ import annotations

CHANGE = "echo run > a; echo run > b"


def test_a_preview_that_is_carried_out(cli):
    """`--dry-run` names a plan; `--plan` does that, or nothing if a file was changed since."""
    a = cli.directory / "a"
    a.write_text("mine\n")
    cli("run", "--id", "r", "--", "sh", "-c", CHANGE)
    preview = cli("rewind", "r", "--to", "start", "--dry-run")
    plan = cli("rewind", "r", "--to", "start", "--dry-run", "--json").json()["plan"]
    assert f"plan       {plan[:12]}" in preview.out
    a.write_text("edited\n")
    refused = cli("rewind", "r", "--to", "start", "--plan", plan[:12], code=2)
    assert "is not plan" in refused.err and a.read_text() == "edited\n"
    a.write_text("run\n")
    done = cli("rewind", "r", "--to", "start", "--plan", plan[:12], "--json").json()
    assert (done["plan"], a.read_text()) == (plan, "mine\n")
    back = cli("undo", "--dry-run", "--json").json()["plan"]
    a.write_text("edited\n")
    assert "is not plan" in cli("undo", "--plan", back, code=2).err


def test_files_that_are_kept(cli):
    """They are named with the reason; a pattern that matches none is an error."""
    (cli.directory / "b").write_text("mine\n")
    cli("run", "--id", "r", "--", "sh", "-c", CHANGE)
    assert "matches 'c'" in cli("rewind", "r", "--to", "start", "--keep", "c", code=2).err
    assert "kept       b  kept as you asked" in cli("rewind", "r", "--to", "start", "--keep", "b").out
    assert (cli.directory / "b").read_text() == "run\n" and not (cli.directory / "a").exists()


def test_an_approval_of_these_files(cli):
    """Refused with the names of the files that changed since the snapshot."""
    cli.script(
        """
        @workflow
        def main():
            checkpoint("draft")
            return approval("ship").outcome
        """
    )
    draft = cli.directory / "draft"
    draft.write_text("kelp\n")
    cli("run", "--id", "r", "flow.py:main", code=5)
    events = cli("show", "r", "--events", "--json").json()["events"]
    snapshot = next(one["data"]["snapshot"] for one in events if one["type"] == "CheckpointTaken")
    draft.write_text("dulse\n")
    assert "draft changed since" in cli("approve", "r", "--snapshot", snapshot[:12], code=2).err
    draft.write_text("kelp\n")
    assert "is approved" in cli("approve", "r", "--snapshot", snapshot[:12]).out
