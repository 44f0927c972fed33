"""Delete: runs leave every view, `undo` brings them back, `gc` makes it final."""

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast import Holdfast, RunDeleted, RunHeld, RunNotFound, approval, step, workflow, workspace_path
from holdfast.errors import BadInput, LinkCycle, NotFound, Refused, TaskDeleted, TaskHeld
from holdfast.store.sqlite.commit import Committer


@step
def work(n: int) -> str:
    print("output of a step")
    return "x" * n


@workflow
def inner(n: int) -> str:
    return work(n)


@workflow
def outer() -> str:
    return work(2) + inner(50_000)


@step(effect="workspace")
def write(text: str) -> None:
    (workspace_path() / "file").write_text(text)


@workflow
def edits(text: str) -> None:
    write(text)


@workflow
def asks() -> str:
    approval("send")
    return "sent"


def seen(hf: Holdfast) -> object:
    """What every view shows of runs and of operations on them."""
    runs = [hf.get(run.id).to_json() for run in hf.runs()]
    logs = {run["id"]: (hf.events(run["id"]), hf.logs(run["id"]), hf.steps(run["id"])) for run in runs}
    return runs, logs, hf.stats().to_json()["workflows"], hf.du().snapshots


def feed(hf: Holdfast) -> list[tuple[str, int, str]]:
    return [(one.stream, one.version, one.type) for one in hf.feed(limit=1000).events]


@pytest.fixture
def files(tmp_path: Path) -> Holdfast:
    root = tmp_path / "project"
    root.mkdir()
    with Holdfast(tmp_path / "home", workspace=root, durability="process") as hf:
        yield hf


def test_a_deleted_run_is_gone_from_every_view_and_undo_brings_it_back(files):
    """With its child run, output, files and operations; the log verifies; until `gc`, which frees what only
    it named."""
    hf = files
    hf.with_id("keep").run(edits, "kept")
    hf.with_id("r").run(outer)
    hf.with_id("f").run(edits, "secret" * 50_000)
    rewound = hf.rewind("f", "start").operation
    before, events, ops = seen(hf), feed(hf), hf.operations()
    preview = hf.delete("r", "f", dry_run=True)
    assert (seen(hf), hf.operations(), preview.operation) == (before, ops, "")
    done = hf.delete("r", "f", by="ann")
    assert done.items == preview.items
    assert [(one.title, one.parent) for one in done.items] == [("outer", ""), ("inner", "r"), ("edits", "")]
    assert [run.id for run in hf.runs()] == ["keep"]
    assert {run for run, *_ in feed(hf)} <= {"keep", "@store", f"@op/{done.operation}"}
    assert (hf.stats().to_json()["runs"]["total"], hf.ids("r")) == (1, [])
    assert [(one.kind, one.by, one.stands) for one in hf.operations()] == [("delete", "ann", True)]
    for use in (hf.get, hf.find, hf.resume, hf.steps, lambda run: hf.with_id(run).run(outer)):
        with pytest.raises(RunDeleted, match=f"undo {done.operation}"):
            use("r")
    with pytest.raises(RunDeleted):
        hf.find(f"#{done.items[0].number}")
    assert (hf.verify().faults, hf.verify_files().damaged) == ((), ())
    back = hf.undo(by="ann")
    assert (back.status, back.items) == ("restored", done.items)
    assert seen(hf) == before
    assert [one for one in feed(hf) if one in events] == events
    assert [one.id for one in hf.operations()][-1:] == [rewound]
    again = hf.redo(by="ann")
    assert (again.status, [run.id for run in hf.runs()]) == ("deleted", ["keep"])
    hf.undo(again.operation)
    assert seen(hf) == before
    last = hf.delete("r", "f", by="ann").operation
    assert hf.gc(dry_run=True).final == 1
    assert hf.undo(last, dry_run=True).status == "restored"
    gone = hf.gc()
    assert (gone.final, gone.removed > 0, hf.gc(dry_run=True).unneeded) == (1, True, 0)
    with pytest.raises(Refused, match="gc"):
        hf.undo(last)
    with pytest.raises(RunDeleted, match="final"):
        hf.with_id("r").run(outer)
    assert not any(one.stands for one in hf.operations())
    assert (hf.verify().faults, hf.verify_files().damaged) == ((), ())
    hf.repair()
    assert [run.id for run in hf.runs()] == ["keep"]
    assert hf.with_id("new").run(inner, 1) == "x"
    hf.close()
    data = b"".join(path.read_bytes() for path in hf.home.rglob("*") if path.is_file())
    assert b"secretsecret" not in data


def test_search_finds_what_is_there(hf):
    """Neither a deleted run nor a deleted task, with the index filled before; both again when that is undone,
    and so says an index that is made anew."""
    hf.with_id("r").run(echoes, "narwhal")
    task = hf.tasks.create("feed the narwhal")
    before = hf.search("narwhal").to_json()
    assert {one["id"] for one in before["hits"]} >= {"r", task.id}
    hf.delete("r", task.id, by="ann")
    assert hf.search("narwhal").to_json()["hits"] == []
    hf.undo(by="ann")
    assert hf.search("narwhal").to_json() == before


@workflow
def echoes(text: str) -> str:
    return text


def test_what_cannot_be_deleted(hf):
    """A run that a process executes, which is named; a child without its parent; nothing; no such run. Of
    several, none is deleted then."""
    entered, leave = threading.Event(), threading.Event()

    @step
    def waits() -> None:
        entered.set()
        assert leave.wait(60)

    hf.with_id("r").run(outer)
    child = hf.page(parent="r").runs[0].id
    _body.append(waits)
    run = hf.with_id("live").start(busy)
    try:
        assert entered.wait(60)
        with pytest.raises(RunHeld, match="pause live"):
            hf.delete("r", "live")
        with pytest.raises(RunHeld):
            hf.delete("live", dry_run=True)
    finally:
        leave.set()
        run.result()
    with pytest.raises(Refused, match="delete r"):
        hf.delete(child)
    with pytest.raises(RunNotFound):
        hf.delete("r", "nothing")
    with pytest.raises(BadInput):
        hf.delete()
    assert len(hf.runs()) == 3
    assert len(hf.delete("r", child, "live").items) == 3


_body: list = []


@workflow
def busy() -> None:
    _body.pop()()


def test_a_run_that_waits_can_be_deleted_and_goes_on_after_undo(open_hf):
    """Nobody executes it: its gate is gone with it, and open again with it. Who waits for its result hears of
    that."""
    hf, other = open_hf(), open_hf()
    run = hf.with_id("w").start(asks)
    run.rested.wait(60)
    other.delete("w", by="ann")
    assert (other.gates(), other.runs()) == ([], [])
    with pytest.raises(RunDeleted, match="undo"):
        run.result(60)
    with pytest.raises(RunDeleted):
        other.approve("w", "send")
    other.undo(by="ann")
    other.approve("w", "send")
    assert other.resume("w").result() == "sent"


def test_a_task_goes_with_its_links_and_comes_back_with_them(hf):
    """What needed it is ready; one that is claimed is refused, and who has it is named; a run takes its task
    along only if that is asked for."""
    first, second = hf.tasks.create("first"), hf.tasks.create("second", body="a secret text")
    hf.tasks.link(second.id, first.id)
    seen = [hf.tasks.show(one.id).to_json() for one in (first, second)]
    assert [one["number"] for one in seen] == [first.number, second.number]
    assert (hf.tasks.find(f"#{second.number}"), hf.tasks.find(str(first.number))) == (second.id, first.id)
    with pytest.raises(RunNotFound, match=f"task {first.id}"):
        hf.find(f"#{first.number}")
    done = hf.delete(first.id, by="ann")
    assert [(one.kind, one.title, one.number) for one in done.items] == [("task", "first", first.number)]
    assert [task.id for task in hf.tasks.ready()] == [second.id]
    assert hf.tasks.show(second.id).links == ()
    for use in (hf.tasks.get, hf.tasks.find, hf.tasks.claim, lambda one: hf.tasks.note(one, "x"), hf.delete):
        with pytest.raises(TaskDeleted, match=f"undo {done.operation}"):
            use(first.id)
    hf.undo(by="ann")
    assert [hf.tasks.show(one.id).to_json() for one in (first, second)] == seen
    claim = hf.tasks.claim(first.id)
    with pytest.raises(TaskHeld, match="claimed by"):
        hf.delete(second.id, first.id)
    claim.complete("done")
    assert len(hf.delete(first.id, second.id, by="ann").items) == 2
    hf.undo(by="ann")
    assert len(hf.tasks.list()) == 2
    assert len(hf.search("secret").hits) == 1
    hf.delete(second.id)
    assert hf.search("secret").hits == []
    assert hf.gc().final == 1
    assert not any(b"secret" in path.read_bytes() for path in hf.home.glob("search.db*"))
    assert hf.verify().faults == ()
    with pytest.raises(TaskDeleted, match="final"):
        hf.tasks.get(second.id)


def test_a_task_that_would_close_a_cycle_does_not_come_back(hf, tmp_path):
    """What was linked while it was deleted counts: the cycle is named, and without it the undo is done."""
    a, b, c = (hf.tasks.create(name).id for name in "abc")
    hf.tasks.link(a, b)
    hf.tasks.link(b, c)
    hf.tasks.export(tmp_path / "tasks")
    deleted = hf.delete(b).operation
    hf.tasks.link(c, a)
    with pytest.raises(LinkCycle, match=r"\(b\)"):
        hf.undo(deleted)
    with pytest.raises(
        TaskDeleted, match=f"^line 3 of {tmp_path}/tasks is wrong: .* `holdfast undo {deleted}"
    ):
        hf.tasks.import_(tmp_path / "tasks")
    hf.tasks.unlink(c, a)
    hf.undo(deleted)
    assert [task.name for task in hf.tasks.ready()] == ["c"]


def test_a_run_takes_its_task_along_if_that_is_asked_for(hf):
    """Without it, the task stays."""
    task = hf.tasks.create("work")
    run = hf.with_task(task.id).start(echoes, "done")
    run.result()
    assert [one.kind for one in hf.delete(run.id, dry_run=True).items] == ["run"]
    assert [one.kind for one in hf.delete(run.id, with_task=True, by="ann").items] == ["run", "task"]
    assert (hf.runs(), hf.tasks.list(archived=True)) == ([], [])
    hf.undo(by="ann")
    assert (hf.get(run.id).status, hf.tasks.get(task.id).status) == ("completed", "completed")


def test_a_task_as_it_was(hf):
    """At every version, and at a time: what `show` gave then, with its links and notes."""
    other = hf.tasks.create("other")
    task = hf.tasks.create("work")
    shown = {}

    def look() -> None:
        found = hf.tasks.show(task.id)
        shown[found.task.version] = (found.to_json(), found.task.updated_at)

    look()
    hf.tasks.note(task.id, "a decision", "decision")
    look()
    claim = hf.tasks.claim(task.id)
    look()
    claim.release()
    look()
    hf.tasks.edit(task.id, name="renamed", priority=0)
    look()
    hf.tasks.claim(task.id).complete("all done")
    look()
    for version, (what, at) in shown.items():
        assert hf.tasks.show(task.id, at=version).to_json() == what
        if sum(one == at for _, one in shown.values()) == 1:
            assert hf.tasks.get(task.id, at=at).to_json().items() <= what.items()
    hf.tasks.link(task.id, other.id, "related")
    now = datetime.now(UTC)
    assert hf.tasks.show(task.id, at=now).to_json() == hf.tasks.show(task.id).to_json()
    assert hf.tasks.show(task.id, at=1).links == ()
    with pytest.raises(NotFound, match="versions are 1 to"):
        hf.tasks.show(task.id, at=99)
    with pytest.raises(BadInput):
        hf.tasks.show(task.id, at="soon")


class Killed(BaseException):
    """The process dies here."""


@pytest.mark.parametrize("where", ["before", "after"])
def test_killed_at_a_commit_it_is_done_or_not_done(home, open_hf, monkeypatch, where):
    """At each commit of a delete, an undo and a gc: the store verifies, and is as before or as after; what
    was cut off can be done again."""
    with Holdfast(home, durability="process") as hf:
        hf.with_id("r").run(outer)
        hf.with_id("s").run(outer)
    real, left = Committer.write, []

    def dies(self, batch):
        if left and left[0] == 0 and where == "before":
            raise Killed
        real(self, batch)
        if left:
            left[0] -= 1
            if left[0] == 0 and where == "after":
                raise Killed

    monkeypatch.setattr(Committer, "write", dies)

    def attempt(do, commits: int) -> bool:
        left[:] = [commits]
        hf = Holdfast(home, durability="process")
        try:
            do(hf)
        except Killed:
            return False
        finally:
            left.clear()
            hf.close()
        return True

    def look() -> tuple[list[str], int]:
        with Holdfast(home, durability="process") as hf:
            assert list(hf.verify().faults) == []
            return sorted(run.id for run in hf.runs()), len(hf._store.deletions())

    both, one = (["r", "s"], 0), (["s"], 1)
    child = [run.id for run in open_hf().page(parent="r").runs] + [
        run.id for run in open_hf().page(parent="s").runs
    ]
    stages = (
        (lambda hf: hf.delete("r", by="ann"), [both, one]),
        (lambda hf: hf.undo(by="ann"), [one, both]),
        (lambda hf: hf.delete("r", by="ann"), [both, one]),
        (lambda hf: hf.gc(), [one, (["s"], 0)]),
    )
    for do, (was, now) in stages:
        found, commits = [], 0 if where == "before" else 1
        while (_top(look(), child)) != now:
            done = attempt(do, commits)
            commits += 1
            found.append(_top(look(), child))
            assert found[-1] in (was, now) and (found[-1] == now or not done)
        assert found


def _top(seen: tuple[list[str], int], children: list[str]) -> tuple[list[str], int]:
    return [one for one in seen[0] if one not in children], seen[1]
