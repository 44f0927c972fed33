"""Tasks on the command line: what it prints, and what the next step is."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any


def test_a_person_is_told_what_is_ready(cli: Any) -> None:
    """A link is printed in words; a task that needs another is not offered, and is when that is completed."""
    empty = cli("task", "list").err
    assert "there is no store" in empty and "task create" in empty and "holdfast run" not in empty
    first = cli("task", "create", "Draft").out.strip()
    made = cli("task", "create", "Review", "--needs", first)
    second = made.out.strip()
    assert "it is ready when the task that it needs is completed" in made.err and "begins" not in made.err
    third = cli("task", "create", "Publish").out.strip()
    assert cli("task", "link", third, second).out == f"linked: {third} needs {second}\n"
    assert "ready now: Review" in cli("task", "complete", first).err
    run = cli("run", "--task", second, "true")
    assert f"task {second[:8]} is completed: Review" in run.err
    assert [one["id"] for one in cli("task", "list", "--json").json()] == [third]
    assert "ready now" not in cli("task", "complete", third).err
    assert cli("task", "list", "--json").json() == []
    assert "--all" in cli("task", "list").err and "task create" not in cli("task", "list").err
    assert len(cli("task", "list", "--all", "--json").json()) == 3


def test_the_log_of_operations_fits_a_terminal(cli: Any) -> None:
    """A task is named by the beginning of its id there, and by the whole id in a pipe."""
    id = cli("task", "create", "Draft").out.strip()
    assert f"created task {id}\n" in cli("op", "log").out
    _, told = cli.on_a_terminal("op", "log", columns=80, NO_COLOR="1")
    assert re.search(rf"created task {id[:8]}\s", told)


def test_the_log_of_operations_names_each_change(cli: Any) -> None:
    """What was done to the task or the memory, in a word; of an edit, which fields. `--json` has the same."""
    id = cli("task", "create", "Draft").out.strip()
    for words in (
        ("edit", id, "--name", "Outline", "--priority", "1"), ("block", id, "no paper"), ("unblock", id),
        ("fail", id, "no ink"), ("reopen", id), ("complete", id), ("archive", id),
    ):  # fmt: skip
        cli("task", *words)
    memory = cli("remember", "use kelp", "--json").json()["id"]
    cli("forget", memory)
    changes = [
        "forgotten", "remembered", "archived", "completed", "reopened", "failed", "unblocked", "blocked",
        "edited name, priority", "created",
    ]  # fmt: skip
    assert [one["change"] for one in cli("op", "log", "--json").json()] == changes
    log = cli("op", "log").out
    assert f"edited name, priority of task {id}\n" in log and f"completed task {id}\n" in log
    assert f"forgotten memory {memory}\n" in log
    cli("undo")
    assert cli("op", "log", "--json").json()[0]["change"] is None


def test_a_label_chooses_among_the_tasks_that_are_ready(cli: Any) -> None:
    """`ready` and `claim` with a label see only tasks that have it, and name it where none is ready."""
    cli("task", "create", "Docs", "--priority", "0", "--label", "docs")
    code = cli("task", "create", "Code", "--label", "code", "--label", "rust").out.strip()
    assert [one["name"] for one in cli("task", "ready", "--label", "code", "--json").json()] == ["Code"]
    assert "the label c is ready" in cli("task", "ready", "--label", "c").err
    assert cli("task", "claim", "--label", "rust", "--json").json()["id"] == code
    assert "with the label rust is ready" in cli("task", "claim", "--label", "rust", code=3).err
    assert "leave it out" in cli("task", "claim", code, "--label", "rust", code=2).err
    assert cli("task", "ready", "--claim", "--label", "code", "--json", code=3).json() is None
    assert "with the label code is ready" in cli("task", "ready", "--claim", "--label", "code", code=3).err
    assert cli("task", "ready", "--claim", "--label", "docs", "--json").json()["name"] == "Docs"


def test_the_undo_of_a_new_name_prints_the_name_that_is_back(cli: Any) -> None:
    """A person reads which task it is now."""
    task = cli("task", "create", "Dig").out.strip()
    cli("task", "edit", task, "--name", "Reap")
    told = cli("undo").out
    assert "Dig" in told and "Reap" not in told
    assert "Reap" in cli("undo", "--dry-run").out


def test_recall_takes_the_moments_that_task_show_takes(cli: Any) -> None:
    """How long ago, a date, or a date and time."""
    cli("remember", "use spaces")
    assert cli("recall", "--at", "1h", "--json").json() == []
    assert [one["text"] for one in cli("recall", "--at", "0s", "--json").json()] == ["use spaces"]
    assert [one["text"] for one in cli("recall", "--at", "today", "--json").json()] == ["use spaces"]
    assert "RUN:CHECKPOINT" in cli("recall", "--at", "soon", code=2).err


def test_a_task_with_an_open_blocker_is_completed_with_a_reason_only(cli: Any) -> None:
    """The refusal names what is open and how to go on; the reason is in `task show`."""
    first = cli("task", "create", "Dig").out.strip()
    task = cli("task", "create", "Reap", "--needs", first).out.strip()
    refused = cli("task", "complete", task, code=2).err
    assert f"{first[:8]} (Dig), which is pending" in refused and "--anyway" in refused
    assert f"holdfast task unlink {task[:8]} {first[:8]}" in refused
    cli("task", "complete", task, "--anyway", "the guests are here")
    assert "the guests are here (completed while open: " in cli("task", "show", task).out


def test_tasks_go_through_a_pipe(cli: Any) -> None:
    """`task export - | task import -` moves all tasks, whatever the encoding of the streams is; a wrong line
    of standard input is named."""
    for name in ("Draft", "Prüfung"):
        cli("task", "create", name, "--due", "2026-12-31")
    whole = cli("task", "export", "-", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert "Prüfung" in whole.out and whole.err == "wrote 3 lines to standard output\n"

    def imported(text: str) -> Any:
        env = cli.env | {"HOLDFAST_HOME": f"{cli.home}2"}
        return subprocess.run(
            cli.argv("task", "import", "-"), cwd=cli.directory, env=env, input=text, capture_output=True,
            text=True, check=False,
        )  # fmt: skip

    assert imported(whole.out).stdout == "2 tasks created, 0 extended, 0 as they were, 0 links added\n"
    refused = imported('{"name": "a"}\n[]\n')
    said = "holdfast: line 2 of <stdin> is wrong: it is no JSON object; nothing was read in\n"
    assert (refused.returncode, refused.stderr) == (2, said)
    moved = cli("task", "list", "--json", HOLDFAST_HOME=f"{cli.home}2").json()
    assert moved == cli("task", "list", "--json").json()


def test_an_import_names_what_it_did_not_take(cli: Any, tmp_path: Path) -> None:
    """A task that was changed here and in the file stays as it is here, and the answer names it with the
    fields that are different in the file. A task of which the file only lacks changes is not named."""
    task = cli("task", "create", "Dig").out.strip()
    other = cli("task", "create", "Reap").out.strip()
    cli("task", "edit", task, "--name", "Dig wide")
    cli("task", "note", task, "made here")
    written = cli("task", "export", "-").out
    file = tmp_path / "tasks.jsonl"
    file.write_text(written.replace("Dig wide", "Dig deep").replace("made here", "made there"))
    cli("task", "note", other, "here only")
    done = cli("task", "import", file)
    assert "0 extended, 2 as they were" in done.out
    assert f"task {task[:8]} Dig wide was changed here and in the file" in done.err
    assert "not taken from the file: name, notes\n" in done.err
    assert other[:8] not in done.err
    assert cli("task", "import", file, "--json").json()["not_taken"] == [
        {"task": task, "name": "Dig wide", "fields": ["name", "notes"]}
    ]


def test_a_second_completion_is_refused(cli: Any) -> None:
    """Exit code 4; it names who completed the task."""
    task = cli("task", "create", "Dig").out.strip()
    cli("task", "complete", task, "--summary", "one")
    told = cli("task", "complete", task, "--summary", "two", code=4).err
    assert "is completed already" in told and "it was completed by" in told
    assert cli("task", "show", task, "--json").json()["summary"] == "one"


def test_open_parts_of_a_completed_task_are_named(cli: Any) -> None:
    """They do not hinder."""
    whole = cli("task", "create", "Garden").out.strip()
    part = cli("task", "create", "Dig", "--parent", whole).out.strip()
    done = cli("task", "create", "Plan", "--parent", whole).out.strip()
    cli("task", "complete", done)
    told = cli("task", "complete", whole)
    assert "completed: Garden" in told.out
    assert f"a part of it is pending: {part[:8]} Dig" in told.err and "Plan" not in told.err


def test_undo_after_link_unlink_and_note(cli: Any) -> None:
    """A link is undone; a note stays, and the command for the operation before it is named."""
    first, second = (cli("task", "create", name).out.strip() for name in ("Dig", "Sow"))
    cli("task", "link", second, first)
    assert "linked task" in cli("op", "log").out
    assert "link to 'Dig' removed" in cli("undo").out
    assert cli("task", "show", second, "--json").json()["links"] == []
    cli("redo")
    cli("task", "unlink", second, first)
    cli("undo")
    assert len(cli("task", "show", second, "--json").json()["links"]) == 1
    cli("task", "note", first, "by hand")
    told = cli("undo", code=2).err
    assert "a note on task" in told and "holdfast undo" in told


def test_a_pipe_has_the_reasons_why_tasks_wait(cli: Any) -> None:
    """What a terminal shows of a task, an agent reads as well: state, number, why it is blocked, how many
    tasks it needs, who has it, for whom it is. `task tree` has the same. A line for each task."""
    first = cli("task", "create", "Dig").out.strip()
    second = cli("task", "create", "Reap", "--needs", first, "--parent", first, "--label", "farm").out.strip()
    third = cli("task", "create", "Sell", "--parent", first, "--assignee", "bob").out.strip()
    cli("task", "block", third, "no  buyer\nyet")
    cli("task", "claim", first, HOLDFAST_ACTOR="ann")
    heading, *lines = cli("task", "list").out.splitlines()
    assert heading.split() == ["ID", "STATUS", "PRIORITY", "UPDATED", "TOOK", "NUMBER", "NAME", "REMARK"]
    rows = [re.split(r"\s{2,}", line, maxsplit=7) for line in lines]
    assert [(row[0], row[1], row[5], row[6], row[7]) for row in rows] == [
        (first, "in_progress", "#1", "Dig", "ann"),
        (second, "pending", "#2", "Reap", "needs 1 open task  #farm"),
        (third, "blocked", "#3", "Sell", "no  buyer yet"),
    ]
    assert cli("task", "tree", first).out.splitlines() == [
        f"{first}  in_progress  #1  Dig  ann",
        f"  {second}  pending  #2  Reap  needs 1 open task  #farm",
        f"  {third}  blocked  #3  Sell  no  buyer yet",
    ]
    assert [one["status"] for one in cli("task", "list", "--json").json()][2] == "pending"
    cli("task", "unblock", third)
    cli("task", "archive", third)
    listed = cli("task", "list", "--archived").out.splitlines()[3]
    assert listed.split()[1] == "archived" and listed.endswith("  for bob")


def test_a_task_and_its_runs_name_each_other(cli: Any) -> None:
    """`show RUN` has the task that the run was started for, `task show` the last ten runs that had the task,
    with their status; as they were then, too. A run that is deleted is named without one."""
    task = cli("task", "create", "Dig").out.strip()
    other = cli("run", "true", "--id", "other").err
    cli("run", "--task", task, "--id", "first", "false", code=None)
    cli("task", "reopen", task)
    cli("run", "--task", task, "--id", "second", "true")
    named = {"task": task, "number": 1, "name": "Dig", "status": "completed"}
    assert cli("show", "second", "--json").json()["tasks"] == [named]
    assert cli("show", "other", "--json").json()["tasks"] == [], other
    assert re.search(rf"^task +{task}  #1  completed  Dig$", cli("show", "second").out, re.MULTILINE)
    assert not re.search("^task ", cli("show", "other").out, re.MULTILINE)
    runs = [
        {"run": "first", "number": 3, "status": "failed"},
        {"run": "second", "number": 4, "status": "completed"},
    ]
    assert cli("task", "show", task, "--json").json()["runs"] == runs
    assert re.search(
        r"^runs +first  #3  failed\n +second  #4  completed$", cli("task", "show", task).out, re.MULTILINE
    )
    events = cli("task", "show", task, "--events", "--json").json()
    failed = next(one["version"] for one in events if one["type"] == "TaskFailed")
    assert cli("task", "show", task, "--at", str(failed), "--json").json()["runs"] == runs[:1]
    cli("delete", "first", "--yes", code=None)
    gone = {"run": "first", "number": None, "status": None}
    assert cli("task", "show", task, "--json").json()["runs"][0] == gone
    assert re.search(r"^runs +first  no longer there$", cli("task", "show", task).out, re.MULTILINE)


def test_the_number_of_a_run_is_no_task(cli: Any) -> None:
    """It is named as the run that it is, with the command that shows it. So does `show` for a task."""
    task = cli("task", "create", "Dig").out.strip()
    cli("run", "true", "--id", "kelp")
    for text in ("2", "#2"):
        said = f"holdfast: {text} is no task but run kelp; `holdfast show kelp` shows it\n"
        assert cli("task", "show", text, code=3).err == said
    assert f"is no run but task {task}" in cli("show", "1", code=3).err
    assert "there is no task '7'" in cli("task", "show", "7", code=3).err


def test_the_log_of_operations_has_a_state_for_each(cli: Any) -> None:
    """What can be undone stands; what is in effect below it is followed; what was undone is undone. On a
    terminal the list has a heading."""
    task = cli("task", "create", "Dig").out.strip()
    cli("task", "edit", task, "--priority", "1")
    cli("task", "edit", task, "--name", "Reap")
    other = cli("remember", "use kelp", "--json").json()["id"]

    def states() -> list[tuple[str, str]]:
        found = cli("op", "log", "--json").json()
        assert [one["stands"] for one in found] == [one["state"] == "stands" for one in found]
        lines = cli("op", "log").out.splitlines()
        assert [one["state"] in line.split() for one, line in zip(found, lines, strict=True)] == [True] * len(
            lines
        )
        return [(one["change"] or "undo", one["state"]) for one in found]

    edits = [("edited name", "stands"), ("edited priority", "followed"), ("created", "followed")]
    assert states() == [("remembered", "stands"), *edits]
    cli("forget", other)
    assert states()[:2] == [("forgotten", "stands"), ("remembered", "followed")]
    cli("undo")
    assert states()[:2] == [("undo", "stands"), ("forgotten", "undone")]
    _, told = cli.on_a_terminal("op", "log", columns=100, NO_COLOR="1")
    assert told.split()[:5] == ["OPERATION", "WHEN", "BY", "STATE", "WHAT"]
    assert told.splitlines()[0].index("STATE") == told.splitlines()[1].index("stands")


def test_the_undo_of_an_edit_names_the_fields(cli: Any) -> None:
    """Those that are as they were; `--dry-run` names them too."""
    task = cli("task", "create", "Dig").out.strip()
    cli("task", "edit", task, "--priority", "1", "--label", "farm", "--body", "deep")
    expected = re.compile(rf"^tasks +{task[:8]}  Dig  body, priority, labels restored$", re.MULTILINE)
    assert expected.search(cli("undo", "--dry-run").out)
    assert expected.search(cli("undo").out)
    cli("task", "complete", task)
    assert re.search(rf"^tasks +{task[:8]}  Dig  pending$", cli("undo").out, re.MULTILINE)


def test_ready_and_claim_for_an_assignee(cli: Any) -> None:
    """Those for the one who is named, and those for no one; what is for another is left to them."""
    for name, who in (("Hers", "ann"), ("His", "bob"), ("Anyone", "")):
        cli("task", "create", name, "--assignee", who, "--label", "farm")

    def names(*options: str) -> list[str]:
        return [one["name"] for one in cli("task", "ready", *options, "--json").json()]

    assert names() == ["Hers", "His", "Anyone"]
    assert names("--assignee", "bob") == ["His", "Anyone"]
    assert names("--assignee", "bob", "--limit", "1", "--label", "farm") == ["His"]
    assert names("--assignee", "carl") == ["Anyone"]
    assert cli("task", "claim", "--assignee", "bob", "--json").json()["name"] == "His"
    assert cli("task", "ready", "--claim", "--assignee", "bob", "--json").json()["name"] == "Anyone"
    assert "no task for bob is ready" in cli("task", "claim", "--assignee", "bob", code=3).err
    said = cli("task", "ready", "--assignee", "bob", "--label", "farm").err
    assert "no task with the label farm for bob is ready" in said
    assert "leave it out" in cli("task", "claim", "1", "--assignee", "bob", code=2).err
    assert cli("task", "claim", "1", "--json").json()["name"] == "Hers"


def test_the_list_of_blocked_tasks(cli: Any) -> None:
    """Open tasks that cannot be worked on: blocked with a reason, or in need of an open one."""
    first = cli("task", "create", "Dig").out.strip()
    second = cli("task", "create", "Reap", "--needs", first).out.strip()
    cli("task", "block", cli("task", "create", "Sell").out.strip(), "no buyer")
    done = cli("task", "create", "Eat").out.strip()
    cli("task", "complete", done)
    cli("task", "block", done, "too late", code=None)

    def names(*options: str) -> list[str]:
        return [one["name"] for one in cli("task", "list", "--blocked", *options, "--json").json()]

    assert names() == ["Reap", "Sell"] == names("--all")
    assert names("--limit", "1") == ["Reap"]
    cli("task", "complete", first)
    assert names() == ["Sell"] and second
    assert names("--label", "x") == []


def test_the_note_is_printed_as_it_was_recorded(cli: Any) -> None:
    """Its text, not the name of the task; a secret in it is hidden."""
    task = cli("task", "create", "Dig").out.strip()
    assert cli("task", "note", task, "use kelp", "--kind", "decision").out == f"{task}  decision: use kelp\n"
    token = "ghp_" + "a1B2" * 9
    assert token not in cli("task", "note", task, f"with {token}").out


def test_an_option_that_takes_a_number_says_which(cli: Any) -> None:
    """In a sentence, with its bounds."""
    for words, said in (
        (("task", "create", "Dig", "--priority", "high"), "'high' is no whole number from 0 to 4"),
        (("task", "create", "Dig", "--priority", "7"), "'7' is no whole number from 0 to 4"),
        (("task", "list", "--limit", "-1"), "'-1' is no whole number of at least 0"),
        (("task", "claim", "--lease", "long"), "'long' is no number above 0"),
    ):
        told = cli(*words, code=2).err
        assert said in told and "range" not in told, told


def test_the_history_of_a_task_has_times(cli: Any) -> None:
    """When a lease ends and a task is due, in the list of its events; the JSON has microseconds."""
    task = cli("task", "create", "Dig", "--due", "2030-01-31T12:00+00:00").out.strip()
    cli("task", "claim", task)
    cli("task", "edit", task, "--due", "2031-01-31T12:00+00:00")
    told = cli("task", "show", task, "--events").out
    assert "due=2030-01-31T12:00:00" in told and "'due': 2031-01-31T12:00:00" in told
    assert re.search(r"until=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", told) and not re.search(r"=\d{16}", told)
    events = cli("task", "show", task, "--events", "--json").json()
    assert events[0]["data"]["due"] == 1_896_091_200_000_000


def test_lines_of_lists_wrap_on_a_narrow_terminal(cli: Any) -> None:
    """Below themselves, with an indent: the title of a task, memories, the summary of a session."""
    words = "Weigh the kelp of the outer coast twice before it is dried and sold to the bakers"
    task = cli("task", "create", words).out.strip()
    cli("remember", words, "--source", "the bakers of the outer coast and their kelp")
    cli("session", "start")
    cli("session", "end", "--summary", words)
    for columns in (40, 60):
        for command in (("task", "show", task), ("recall",), ("session", "list")):
            _, told = cli.on_a_terminal(*command, columns=columns, NO_COLOR="1")
            lines = told.splitlines()
            assert all(len(line) <= columns for line in lines), (command, told)
            assert words in " ".join(told.split()), (command, told)
            first = next(n for n, line in enumerate(lines) if "Weigh" in line)
            assert all(line.startswith("    ") for line in lines[first + 1 : first + 2]), (command, told)


def test_a_search_names_what_it_found_as_other_lists_do(cli: Any) -> None:
    """On a narrow terminal, too: the first eight characters of an id, and the number, neither cut."""
    task = cli("task", "create", "Weigh the kelp").out.strip()
    cli("run", "--id", "weigh-1", "echo", "kelp")
    memory = cli("remember", "kelp is heavy", "--json").json()["id"]
    for columns in (40, 60, 100):
        _, told = cli.on_a_terminal("search", "kelp", columns=columns, NO_COLOR="1")
        assert re.search(rf"^task +{task[:8]} #1 ", told, re.MULTILINE), told
        assert re.search(rf"^memory +{memory[:8]} ", told, re.MULTILINE), told
        assert re.search(r"^run +weigh-1 #2 ", told, re.MULTILINE), told
    numbers = {hit["family"]: hit["number"] for hit in cli("search", "kelp", "--json").json()["hits"]}
    assert (numbers["tasks"], numbers["runs"], numbers["memory"]) == (1, 2, None)
