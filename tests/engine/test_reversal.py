"""Rewind and undo of what a run did to tasks and to the memory, and of what a person did."""

import subprocess
import sys
from contextvars import Context

import pytest

from holdfast import Holdfast, checkpoint, step, wiring
from holdfast.errors import PlanChanged, Refused
from holdfast.kernel.task import stream_of
from holdfast.wiring import tracker_author


def status(hf: Holdfast, task: str) -> str:
    found = hf.tasks.get(task)
    return "archived" if found.archived else found.status


def statuses(hf: Holdfast) -> dict[str, str]:
    return {one.text: one.status for one in hf.memory.list(every=True)}


def faults(hf: Holdfast) -> list[object]:
    return list(hf._store.verify())


@pytest.fixture
def task(hf, act) -> str:
    """A task that the run `r` completes, and remembers two things, after the checkpoint `half`."""
    made = hf.tasks.create("grow kelp")

    @step
    def finish() -> None:
        hf.tasks.complete(made.id, summary="done")
        hf.memory.remember("in a step")

    def plot() -> None:
        hf.memory.remember("early")
        checkpoint("half")
        finish()
        hf.memory.remember("late", kind="decision")

    hf.with_id("r").run(act(plot))
    assert status(hf, made.id) == "completed"
    return made.id


ALL = {"early": "current", "in a step": "current", "late": "current"}
BACK = {"early": "current", "in a step": "withdrawn", "late": "withdrawn"}


def test_a_rewind_covers_tasks_and_memory_and_undo_brings_both_back(hf, task):
    """A preview shows them; the rewind does it in its own commit; undo, and undo of the undo, again and
    again."""
    seen = hf.rewind("r", "half", dry_run=True)
    assert (status(hf, task), statuses(hf)) == ("completed", ALL)
    assert [(one.name, one.change) for one in seen.memory.changes] == [
        ("in a step", "withdrawn"), ("late", "withdrawn"),
    ]  # fmt: skip
    assert [(one.name, one.change) for one in seen.tasks.changes] == [("grow kelp", "pending")]
    done = hf.rewind("r", "half", plan=seen.plan)
    assert (done.plan, done.memory, done.tasks) == (seen.plan, seen.memory, seen.tasks)
    (late,) = hf.memory.recall("late", every=True)
    assert (late.reason, late.operation) == ("run r was rewound to half#1", done.operation)
    for _ in range(2):
        assert (status(hf, task), statuses(hf)) == ("pending", BACK)
        hf.undo()
        assert (status(hf, task), statuses(hf)) == ("completed", ALL)
        hf.undo()
    hf.undo(done.operation)
    assert (status(hf, task), statuses(hf), faults(hf)) == ("completed", ALL, [])


def test_what_was_done_after_the_rewind_goes_with_its_generation(hf, task):
    """The run continues after the rewind and does it all again: undo puts that aside, and brings back what
    there was before."""
    first = {one.text: one.id for one in hf.memory.list()}
    hf.rewind("r", "half")
    hf.resume("r").result()
    assert status(hf, task) == "completed"
    assert sorted(one.status for one in hf.memory.list(every=True)) == ["current"] * 3 + ["withdrawn"] * 2
    undone = hf.undo()
    assert [(one.name, one.change) for one in undone.tasks.changes] == [("grow kelp", "completed")]
    assert {one.text: one.id for one in hf.memory.list()} == first
    hf.undo()
    assert status(hf, task) == "completed" and {one.text for one in hf.memory.list()} == set(ALL)
    assert {one.text: one.id for one in hf.memory.list()} != first
    assert faults(hf) == []


def test_what_another_has_changed_since_is_kept_and_named(hf, task):
    """A task that a person edited, and a memory that a person withdrew and restored, stay as they are."""
    hf.tasks.edit(task, priority=0)
    hf.memory.withdraw(hf.memory.recall("late")[0].id, "no")
    done = hf.rewind("r", "half")
    who = f"changed by {wiring.actor(hf._place)} since"
    assert [(one.name, one.why) for one in done.tasks.kept] == [("grow kelp", who)]
    assert status(hf, task) == "completed"
    assert [one.name for one in done.memory.changes] == ["in a step"]
    hf.undo(done.operation)
    assert statuses(hf) == {**ALL, "late": "withdrawn"}, "what a person withdrew is not restored"


def test_a_rewind_keeps_what_others_did_in_between(hf, act):
    """A person edits the task while the run has it: the run's own events no longer count, the edit does. A
    task that the run created is archived."""
    made = hf.tasks.create("grow kelp")
    found = []

    def plot() -> None:
        checkpoint("half")
        hf.tasks.claim(made.id)
        edit.run(hf.tasks.edit, made.id, name="grow more kelp")
        hf.tasks.complete(made.id)
        found.append(hf.tasks.create("found on the way").id)

    edit = Context()  # outside the run
    hf.with_id("r").run(act(plot))
    done = hf.rewind("r", "half")
    assert {one.change for one in done.tasks.changes} == {"pending", "archived"}
    row = hf.tasks.get(made.id)
    assert (row.name, row.status, row.claim) == ("grow more kelp", "pending", None)
    assert status(hf, found[0]) == "archived"
    hf.undo()
    assert (status(hf, made.id), status(hf, found[0])) == ("completed", "pending")


def test_the_end_of_a_run_is_rewound_with_the_task_that_it_moved(hf, act):
    """Also to the last thing that it recorded: the run has the task again, and ends with it once more."""
    made = hf.tasks.create("grow kelp")
    run = hf.with_task(made.id).start(act(lambda: checkpoint("last")))
    run.result()
    assert status(hf, made.id) == "completed"
    hf.rewind(run.id, "last")
    assert (status(hf, made.id), hf.tasks.get(made.id).claim.run) == ("in_progress", run.id)
    hf.undo()
    assert status(hf, made.id) == "completed"
    hf.undo()
    hf.resume(run.id).result()
    assert (status(hf, made.id), faults(hf)) == ("completed", [])


def test_a_plan_covers_tasks_and_memory(hf, task):
    """What was remembered since the preview makes it another plan."""
    seen = hf.rewind("r", "half", dry_run=True)
    hf.memory.withdraw(hf.memory.recall("late")[0].id)
    with pytest.raises(PlanChanged):
        hf.rewind("r", "half", plan=seen.plan)
    assert status(hf, task) == "completed"


def test_a_change_in_the_last_moment_makes_the_rewind_look_again(hf, task, monkeypatch):
    """Between the plan and the transaction another withdraws a memory and edits the task: both are kept, and
    nothing is written twice."""
    store = hf._store
    command_all = store.command_all
    meanwhile = [
        lambda: hf.memory.withdraw(hf.memory.recall("late")[0].id),
        lambda: hf.tasks.edit(task, priority=0),
    ]

    def late(sources, decide, **options):
        if meanwhile and any(source.stream == "r" for source in sources):
            meanwhile.pop()()
        return command_all(sources, decide, **options)

    monkeypatch.setattr(store, "command_all", late)
    done = hf.rewind("r", "half")
    assert ([one.name for one in done.memory.changes], len(done.tasks.kept)) == (["in a step"], 1)
    assert len(hf.tasks.events(task)) == 3
    assert faults(hf) == []


def test_what_a_child_run_did_goes_with_the_step_of_its_parent(hf, act):
    """Memories of a child run whose step is rewound are withdrawn with it."""
    inner = act(lambda: hf.memory.remember("of the child") and None, "child")

    def plot() -> None:
        checkpoint("half")
        inner()

    hf.with_id("r").run(act(plot))
    hf.rewind("r", "half")
    assert statuses(hf) == {"of the child": "withdrawn"}
    hf.undo()
    assert statuses(hf) == {"of the child": "current"}


def test_what_a_person_does_to_the_memory_is_an_operation(hf):
    """`op log` lists it as an edit; `undo` and `redo` take no id; one that no longer stands is refused."""
    made = hf.memory.remember("kelp")
    hf.memory.withdraw(made.id, "wrong")
    forget, remember = hf.operations()
    assert [(one.kind, one.run_id, one.to, one.stands) for one in (forget, remember)] == [
        ("edit", "", f"memory {made.id}", True),
        ("edit", "", f"memory {made.id}", False),
    ]
    with pytest.raises(Refused, match=r"withdrawn by operation .* since"):
        hf.undo(remember.id)
    assert hf.undo(dry_run=True).memory.changes[0].change == "restored"
    undone = hf.undo()
    assert (undone.undoes, undone.to_json()["run"], statuses(hf)) == (forget.id, None, {"kelp": "current"})
    assert hf.redo().memory.changes[0].change == "withdrawn"
    assert statuses(hf) == {"kelp": "withdrawn"}
    hf.undo()
    hf.memory.withdraw(made.id, "again")
    with pytest.raises(Refused, match=r"withdrawn by operation .* since: again"):
        hf.undo(forget.id)
    hf.undo()
    hf.undo(remember.id)
    assert (statuses(hf), faults(hf)) == ({"kelp": "withdrawn"}, [])


def test_what_a_person_does_to_a_task_is_an_operation(hf):
    """Create, edit, complete: each is undone in turn, and done again; a claim is none."""
    made = hf.tasks.create("grow kelp")
    hf.tasks.edit(made.id, name="grow more kelp")
    hf.tasks.claim(made.id)
    hf.tasks.complete(made.id)
    log = hf.operations()
    assert [(one.kind, one.to) for one in log] == [("edit", f"task {made.id}")] * 3
    assert [one.stands for one in log] == [True, False, False], "what came after it comes first"
    with pytest.raises(Refused, match=r"changed by .* since"):
        hf.undo(log[1].id)
    seen = hf.undo(dry_run=True)
    assert [(one.name, one.change) for one in seen.tasks.changes] == [("grow more kelp", "pending")]
    hf.undo(plan=seen.plan)
    assert status(hf, made.id) == "pending"
    assert [one.stands for one in hf.operations()] == [True, False, True, False], "the edit comes next"
    hf.redo()
    assert status(hf, made.id) == "completed"
    assert [one.stands for one in hf.operations()] == [True, False, True, False, False]
    other = hf.tasks.create("eat kelp")
    hf.undo()
    assert status(hf, other.id) == "archived"
    hf.undo()
    assert (status(hf, other.id), faults(hf)) == ("pending", [])


@pytest.fixture
def worker(hf, monkeypatch):
    """Calls a function as another actor."""

    def call(function, *args, **kwargs):
        with monkeypatch.context() as patch:
            patch.setattr(tracker_author, "actor", lambda _: "worker")
            return function(*args, **kwargs)

    return call


@pytest.mark.parametrize("change", ["edit", "block", "unblock"])
def test_an_undo_leaves_a_claim_that_is_held(hf, worker, change):
    """A worker claims; another changes what the task says, and undoes that: the claim holds, also when it was
    renewed in between. So does the undo of the undo."""
    made = hf.tasks.create("grow kelp").id
    claim = worker(hf.tasks.claim, made)
    if change == "unblock":
        hf.tasks.block(made, "no boat")
    act = {
        "edit": lambda: hf.tasks.edit(made, name="grow more kelp"),
        "block": lambda: hf.tasks.block(made, "a storm"),
        "unblock": lambda: hf.tasks.unblock(made),
    }
    before = hf.tasks.get(made)
    act[change]()
    after = hf.tasks.get(made)

    def row() -> tuple[object, ...]:
        now = hf.tasks.get(made)
        assert now.claim is not None
        return now.name, now.blocked, now.status, now.claim.number, now.claim.actor

    def said(task) -> tuple[object, ...]:
        return task.name, task.blocked, "in_progress", 1, "worker"

    hf.undo()
    assert row() == said(before)
    hf.undo()
    assert row() == said(after)
    worker(claim.renew, 7200)
    assert hf.operations()[0].stands
    until = hf.tasks.get(made).claim.until
    hf.undo()
    assert (row(), hf.tasks.get(made).claim.until) == (said(before), until)
    worker(claim.complete, "done")
    assert (status(hf, made), faults(hf)) == ("completed", [])


def test_an_undo_brings_back_no_claim_that_has_ended(hf, worker):
    """Released, or ended by the completion that is undone: the task is pending. A claim that was made since
    stays, beneath the undo of an edit."""
    made = hf.tasks.create("grow kelp").id
    worker(hf.tasks.claim, made)
    hf.tasks.edit(made, name="grow more kelp")
    edit = hf.operations()[0].id
    hf.tasks.release(made, 1)
    hf.undo(edit)
    assert (hf.tasks.get(made).name, status(hf, made), hf.tasks.get(made).claim) == (
        "grow kelp", "pending", None,
    )  # fmt: skip
    hf.redo()
    worker(hf.tasks.claim, made)
    hf.undo(edit)
    now = hf.tasks.get(made)
    assert (now.name, now.status, now.claim.number) == ("grow kelp", "in_progress", 2)
    hf.tasks.complete(made, 2)
    hf.undo()
    assert (status(hf, made), hf.tasks.get(made).claim, faults(hf)) == ("pending", None, [])


def test_an_undo_that_would_move_a_claimed_task_is_refused(hf, worker):
    """The creation, and a reopening: it names the claim. Once that has ended, they are undone."""
    made = hf.tasks.create("grow kelp").id
    (create,) = hf.operations()
    worker(hf.tasks.claim, made)
    with pytest.raises(
        Refused, match=r"changed by worker since: claimed; `holdfast task release .* --number 1`"
    ):
        hf.undo(create.id)
    hf.tasks.complete(made, 1)
    hf.tasks.reopen(made)
    reopen = hf.operations()[0].id
    worker(hf.tasks.claim, made)
    with pytest.raises(Refused, match=r"since: claimed; .* --number 2` ends that claim"):
        hf.undo(reopen)
    hf.tasks.release(made, 2)
    hf.undo(reopen)
    assert status(hf, made) == "completed"
    other = hf.tasks.create("eat kelp").id
    hf.tasks.start(other)
    hf.tasks.release(other)
    hf.undo(hf.operations()[0].id)
    assert (status(hf, other), faults(hf)) == ("archived", [])


def test_a_rewind_leaves_a_claim_that_another_holds(hf, act, worker):
    """The run only edited the task."""
    made = hf.tasks.create("grow kelp").id
    worker(hf.tasks.claim, made)

    def plot() -> None:
        checkpoint("half")
        hf.tasks.edit(made, name="grow more kelp")

    hf.with_id("r").run(act(plot))
    for expected in ("grow kelp", "grow more kelp", "grow kelp"):
        _ = hf.rewind("r", "half") if hf.get("r").generation == 0 else hf.undo()
        now = hf.tasks.get(made)
        assert (now.name, now.status, now.claim and now.claim.number) == (expected, "in_progress", 1)
    assert faults(hf) == []


def test_what_a_person_does_to_a_link_is_an_operation(hf, worker):
    """Link and unlink: undone, done again, listed; one that another has changed since is refused."""
    first, second = hf.tasks.create("first").id, hf.tasks.create("second").id
    hf.tasks.link(first, second)
    (linked, *_) = hf.operations()
    assert (linked.kind, linked.to, linked.change, linked.stands) == ("edit", f"task {first}", "linked", True)
    seen = hf.undo(dry_run=True)
    assert [one.change for one in seen.tasks.changes] == ["blocks link to 'second' removed"]
    hf.undo(plan=seen.plan)
    assert (links(hf, first), hf.operations()[1].stands) == ([], False)
    hf.redo()
    assert links(hf, first) == ["needs second"]
    hf.tasks.unlink(first, second)
    unlinked = hf.operations()[0]
    assert unlinked.change == "unlinked"
    with pytest.raises(
        Refused, match=r"link to 'second' was changed by you since; `holdfast undo .*` undoes"
    ):
        hf.undo(linked.id)
    hf.undo()
    assert links(hf, first) == ["needs second"]
    hf.tasks.unlink(first, second)
    worker(hf.tasks.link, first, second)
    with pytest.raises(Refused, match="link to 'second' was changed by worker since"):
        hf.undo()
    assert (links(hf, first), faults(hf)) == (["needs second"], [])


def test_an_undo_without_an_id_reaches_past_no_later_change(hf, worker):
    """A note, a claim, its renewal and its release are no operations: the refusal names the change, and the
    command for the operation before it, which works. What others do, and what runs do, does not count."""
    made, other = hf.tasks.create("grow kelp").id, hf.tasks.create("eat kelp").id
    hf.tasks.edit(other, priority=0)
    edit = hf.operations()[0].id
    later = [
        (lambda: hf.tasks.note(made, "in the sea"), "a note on task .*grow kelp.*, which stays"),
        (lambda: hf.tasks.start(made), "a claim on task .*`holdfast task release "),
        (lambda: hf.tasks.renew(made), "a claim on task .*`holdfast task release "),
        (lambda: hf.tasks.release(made), "the release of a claim on task .*`holdfast task claim "),
        (lambda: hf.tasks.note(other, "with salt"), "a note on task .*eat kelp.*, which stays"),
    ]
    for act, named in later:
        act()
        for dry_run in (True, False):
            with pytest.raises(
                Refused, match=f"{named}.*operation before it is {edit} .*`holdfast undo {edit}`"
            ):
                hf.undo(dry_run=dry_run)
    assert hf.tasks.get(other).priority == 0
    hf.undo(edit)
    assert hf.tasks.get(other).priority == 2
    hf.undo()
    assert hf.tasks.get(other).priority == 0, "an operation came last: the undo"
    worker(hf.tasks.note, other, "no")
    hf.undo()
    assert (hf.tasks.get(other).priority, faults(hf)) == (2, [])


def test_an_undo_after_a_run_that_had_the_task(hf, act):
    """The claim of a run is the run's. Its end is the last change of the task, and it is named."""
    task = hf.tasks.create("grow kelp").id
    edit = hf.tasks.edit(task, name="grow much kelp")
    other = hf.tasks.create("eat kelp").id
    hf.with_task(task).run(act(lambda: 1))
    assert hf.tasks.get(task).status == "completed" and edit.name == "grow much kelp"
    hf.undo()
    assert hf.tasks.get(other).archived


def test_an_undo_after_a_claim_whose_process_has_ended(hf):
    """There is nothing to release."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    task = hf.tasks.create("grow kelp").id
    hf.tasks.claim(task, holder=child.pid)
    with pytest.raises(Refused, match=r"a claim on task .*, which `holdfast task release .* ends"):
        hf.undo()
    child.communicate(b"\n")
    again = hf.tasks.claim(task)
    assert again is not None and again.number == 2
    again.release()
    with pytest.raises(Refused, match="the release of a claim on task"):
        hf.undo()


def test_an_operation_stands_again_when_what_came_after_it_is_undone(hf):
    """`op log` and `undo` have one rule."""
    task = hf.tasks.create("grow kelp").id
    hf.tasks.edit(task, name="grow much kelp")
    first = hf.operations()[0].id
    hf.tasks.edit(task, body="in the sea")
    states = {one.id: one.state for one in hf.operations()}
    assert states[first] == "followed"
    hf.undo()
    assert {one.id: one.state for one in hf.operations()}[first] == "stands"
    hf.undo(first)
    assert (hf.tasks.get(task).name, hf.tasks.get(task).body) == ("grow kelp", "")


def test_an_undo_without_an_id_reaches_past_no_import(hf, tmp_path):
    """An import is no operation either."""
    hf.tasks.create("grow kelp")
    (tmp_path / "in.jsonl").write_text('{"name": "read"}\n')
    hf.tasks.import_(tmp_path / "in.jsonl")
    with pytest.raises(Refused, match=r"your last change was an import on task .*read"):
        hf.undo()


def test_a_refused_undo_names_what_changed_and_what_to_undo_first(hf):
    """Not only that you changed it since."""
    made = hf.tasks.create("grow kelp").id
    hf.tasks.edit(made, name="grow more kelp")
    hf.tasks.complete(made)
    complete, edit, _ = hf.operations()
    named = f"changed by you since: completed; `holdfast undo {complete.id}` undoes what came after it"
    with pytest.raises(Refused, match=named):
        hf.undo(edit.id)


def links(hf: Holdfast, task: str) -> list[str]:
    return sorted(
        f"{one.relation} {one.name}" for one in hf.tasks.show(task).links if one.relation == "needs"
    )


def test_links_go_with_the_rewind_and_come_back(hf, act):
    """Links that the rewound part added are removed, those that it removed are added; undo, and undo of that,
    again. One that another changed since stays."""
    first, second, third, fourth = (
        hf.tasks.create(name).id for name in ("first", "second", "third", "fourth")
    )
    hf.tasks.link(first, third)

    def plot() -> None:
        checkpoint("half")
        hf.tasks.link(first, second)
        hf.tasks.unlink(first, third)
        hf.tasks.link(second, fourth)

    hf.with_id("r").run(act(plot))
    hf.tasks.unlink(second, fourth)
    hf.tasks.link(second, fourth)
    assert links(hf, first) == ["needs second"]
    seen = hf.rewind("r", "half", dry_run=True)
    assert [one.change for one in seen.tasks.changes] == [
        "blocks link to 'second' removed", "blocks link to 'third' added",
    ]  # fmt: skip
    assert hf.rewind("r", "half", plan=seen.plan).tasks == seen.tasks
    assert links(hf, first) == ["needs third"]
    for expected in ("needs second", "needs third", "needs second"):
        hf.undo()
        assert (links(hf, first), links(hf, second)) == ([expected], ["needs fourth"])
    assert faults(hf) == []


def test_a_link_that_would_close_a_cycle_is_not_added_again(hf, act):
    """It is kept out and named."""
    first, second = hf.tasks.create("first").id, hf.tasks.create("second").id
    hf.tasks.link(first, second)

    def plot() -> None:
        checkpoint("half")
        hf.tasks.unlink(first, second)

    hf.with_id("r").run(act(plot))
    hf.tasks.link(second, first)
    done = hf.rewind("r", "half")
    assert [one.why for one in done.tasks.kept] == ["its blocks link to 'second' would close a cycle by now"]
    assert (links(hf, first), links(hf, second)) == ([], ["needs first"])
    assert faults(hf) == []


def test_the_log_reads_each_task_once(hf, task, monkeypatch):
    """However many edits of a task there are, listing the operations reads its history once."""
    for priority in (0, 1, 3, 4):
        hf.tasks.edit(task, priority=priority)
    read, load = [], hf._store.load

    def counted(stream, *args, **kwargs):
        read.append(stream)
        return load(stream, *args, **kwargs)

    monkeypatch.setattr(hf._store, "load", counted)
    assert [one.stands for one in hf.operations()][:4] == [True, False, False, False]
    assert read.count(stream_of(task)) == 1
