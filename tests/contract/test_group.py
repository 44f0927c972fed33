"""GroupCommit by itself, with a commit function that the test holds in its hand."""

import queue
import sys
import threading
from pathlib import Path

import pytest

from holdfast.errors import StoreInDoubt
from holdfast.store.sqlite import group
from holdfast.store.sqlite.group import GroupCommit

PATIENCE_S = 20


class Item:
    """The least that can be submitted."""

    def __init__(self, name="", seal=None):
        self.name = name
        self.seal = seal
        self.error = None
        self.wake = None
        self.next = None

    def __repr__(self):
        return self.name


class Disk:
    """A commit function that notes its batches, and that a test can keep waiting."""

    def __init__(self, *, held=False):
        self.batches = []
        self.begun = queue.Queue()
        self.free = threading.Event()
        if not held:
            self.free.set()

    def __call__(self, batch):
        self.batches.append(list(batch))
        self.begun.put(batch)
        assert self.free.wait(PATIENCE_S)
        for item in batch:
            if item.name.startswith("bad"):
                item.error = ValueError(item.name)


def submit(commit, item):
    """Submit in a thread; its outcome is in `thread.outcome` when it has ended."""

    def run():
        try:
            commit.submit(item)
            thread.outcome = "done"
        except BaseException as error:
            thread.outcome = error

    thread = threading.Thread(target=run, daemon=True)
    thread.item = item
    thread.start()
    return thread


def join(*threads):
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "a submitter hangs"
    return [thread.outcome for thread in threads]


def queued(commit, *counts):
    """Wait until so many submissions are queued. Submitters block, so there is nothing to be told by:
    this looks again and again."""
    tick = threading.Event()
    for _ in range(PATIENCE_S * 1000):
        with commit._lock:
            if len(commit._queue) in counts:
                return
        tick.wait(0.001)
    raise AssertionError(f"never {counts} in the queue")


def followed(commit, disk, *items):
    """A leader that is committing, and followers that wait behind it in this order."""
    threads = [submit(commit, Item("first"))]
    disk.begun.get(timeout=PATIENCE_S)
    for count, item in enumerate(items, 1):
        threads.append(submit(commit, item))
        queued(commit, count)
    return threads


def names(disk):
    return [[item.name for item in batch] for batch in disk.batches]


def test_one_alone_commits_in_its_own_thread():
    """No thread is started for a submitter that waits."""
    threads = []
    commit = GroupCommit(lambda batch: threads.append(threading.current_thread()))
    commit.submit(Item("a"))
    commit.submit(Item("b"))
    assert threads == [threading.current_thread()] * 2
    commit.close()


def test_those_who_come_during_a_commit_share_the_next_one_in_order():
    """One batch for all who waited, in the order of arrival."""
    disk = Disk(held=True)
    commit = GroupCommit(disk)
    threads = followed(commit, disk, *map(Item, "abcd"))
    disk.free.set()
    assert join(*threads) == ["done"] * 5
    assert names(disk) == [["first"], ["a", "b", "c", "d"]]


def test_the_lead_is_handed_over_before_the_others_are_told():
    """More than a batch: each batch has its limit, and nobody is left behind."""
    disk = Disk(held=True)
    commit = GroupCommit(disk)
    commit.BATCH = 2
    threads = followed(commit, disk, *map(Item, "abcde"))
    disk.free.set()
    assert join(*threads) == ["done"] * 6
    assert names(disk) == [["first"], ["a", "b"], ["c", "d"], ["e"]]


def test_a_refused_submission_raises_its_own_error_and_no_other():
    """The error of an item is raised where it was submitted."""
    disk = Disk(held=True)
    commit = GroupCommit(disk)
    threads = followed(commit, disk, *map(Item, ["a", "bad b", "c"]))
    disk.free.set()
    outcomes = join(*threads)
    assert [str(outcome) for outcome in outcomes] == ["done", "done", "bad b", "done"]
    with pytest.raises(ValueError, match="bad alone"):
        commit.submit(Item("bad alone"))


def test_submissions_that_nobody_waits_for_are_told_of_later():
    """They are committed by a thread of the group, together with those that wait, in order."""
    disk = Disk(held=True)
    commit = GroupCommit(disk)
    told = queue.Queue()
    commit.submit_soon(Item("soon 1"), told.put)
    disk.begun.get(timeout=PATIENCE_S)
    commit.submit_soon(Item("bad soon"), told.put)
    thread = submit(commit, Item("a"))
    queued(commit, 2)
    commit.submit_soon(Item("soon 2"), told.put)
    disk.free.set()
    assert join(thread) == ["done"]
    items = [told.get(timeout=PATIENCE_S) for _ in range(3)]
    assert [(item.name, str(item.error)) for item in items] == [
        ("soon 1", "None"), ("bad soon", "bad soon"), ("soon 2", "None"),
    ]  # fmt: skip
    assert names(disk) == [["soon 1"], ["bad soon", "a", "soon 2"]]
    commit.close()


def test_a_callback_that_raises_does_not_keep_the_others_waiting():
    """Neither those of its batch nor those that come later."""
    disk = Disk(held=True)
    commit = GroupCommit(disk)
    told = queue.Queue()

    def fail(item):
        raise RuntimeError("the loop is closed")

    commit.submit_soon(Item("soon"), told.put)
    disk.begun.get(timeout=PATIENCE_S)
    commit.submit_soon(Item("fails"), fail)
    commit.submit_soon(Item("next"), told.put)
    thread = submit(commit, Item("waits"))
    queued(commit, 3)
    disk.free.set()
    assert join(thread) == ["done"]
    commit.submit_soon(Item("later"), told.put)
    assert [told.get(timeout=PATIENCE_S).name for _ in range(3)] == ["soon", "next", "later"]
    commit.close()


def test_seals_run_as_items_take_their_place():
    """In the order of the queue, and before the batch is seen; what a seal raises is raised at once and
    nothing is queued."""
    order = []
    disk = Disk(held=True)
    commit = GroupCommit(disk)
    threads = followed(commit, disk, *[Item(name, lambda item: order.append(item.name)) for name in "abc"])
    assert order == ["a", "b", "c"]

    def refuse(item):
        raise LookupError("no")

    for use in (lambda item: commit.submit(item), lambda item: commit.submit_soon(item, print)):
        with pytest.raises(LookupError):
            use(Item("refused", refuse))
    disk.free.set()
    join(*threads)
    assert names(disk) == [["first"], ["a", "b", "c"]]


def test_close_commits_what_is_queued():
    """Nothing that was submitted is dropped; a group that has no thread closes at once."""
    GroupCommit(Disk()).close()
    disk = Disk()
    commit = GroupCommit(disk)
    told = []
    for n in range(600):
        commit.submit_soon(Item(str(n)), told.append)
    commit.close()
    assert [item.name for item in told] == [str(n) for n in range(600)]


def test_many_submitters_of_both_kinds():
    """Every item is committed exactly once, and every submitter is told."""
    disk = Disk()
    commit = GroupCommit(disk)
    told = threading.Semaphore(0)

    def work(name):
        for n in range(50):
            commit.submit(Item(f"{name}.{n}"))
            commit.submit_soon(Item(f"{name}.{n}.soon"), lambda _: told.release())

    workers = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE_S)
        assert not worker.is_alive()
    for _ in range(8 * 50):
        assert told.acquire(timeout=PATIENCE_S)
    committed = [name for batch in names(disk) for name in batch]
    assert len(committed) == len(set(committed)) == 800
    commit.close()


# Ctrl-C. A signal can arrive between any two lines of the main thread: each is tried.


class Interrupt:
    """Raises KeyboardInterrupt at the n-th place of group.py where Python may run a signal handler in
    this thread: at a line, or when a call has returned. Not between the body of a `with` and its
    `__exit__`: there Python looks for no signals."""

    def __init__(self, place):
        self.place = place
        self.raised = False
        self._lines = {}

    def _hit(self):
        if self.raised:
            return
        self.place -= 1
        if self.place < 0:
            self.raised = True
            raise KeyboardInterrupt

    def _trace(self, frame, event, _):
        if frame.f_code.co_filename != group.__file__:
            return None
        if event == "line":
            before, now = self._lines.get(frame, 0), frame.f_lineno
            self._lines[frame] = now
            if now > before or not SOURCE[now - 1].lstrip().startswith("with "):
                self._hit()
        return self._trace

    def _profile(self, frame, event, function):
        if event == "c_return" and frame.f_code.co_filename == group.__file__:
            self._hit()

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)
        sys.settrace(self._before)


SOURCE = Path(group.__file__).read_text().splitlines()


def usable(commit):
    """A submission of each kind gets through."""
    told = queue.Queue()
    commit.submit_soon(Item("soon after"), told.put)
    assert join(submit(commit, Item("after"))) == ["done"]
    told.get(timeout=PATIENCE_S)
    commit.close()


def honest(threads, disk):
    """Nobody was told that it is done who was not committed; who was interrupted may not know."""
    outcomes = join(*threads)
    committed = {name for batch in names(disk) for name in batch}
    for thread, outcome in zip(threads, outcomes, strict=True):
        if outcome == "done":
            assert thread.item.name in committed
        else:
            assert isinstance(outcome, StoreInDoubt)


@pytest.mark.parametrize("place", range(60))
def test_an_interrupted_leader_leaves_the_group_usable(place):
    """Wherever Ctrl-C falls in a submitter that commits, with one follower and one callback behind it:
    it is raised there, they are served, and the group continues."""
    commit = GroupCommit(disk := Disk())
    told = queue.Queue()
    followers = []

    def with_company(batch):
        if batch[0].name == "leader":
            followers.append(submit(commit, Item("follower")))
            queued(commit, 1)
            soon = threading.Thread(target=commit.submit_soon, args=(Item("soon"), told.put))
            soon.start()
            soon.join(PATIENCE_S)
        disk(batch)

    commit._commit = with_company
    try:
        with Interrupt(place) as interrupt:
            commit.submit(Item("leader"))
        assert not interrupt.raised
    except KeyboardInterrupt:
        assert interrupt.raised
    if followers:
        assert join(*followers) == ["done"]
        honest(followers, disk)
        assert told.get(timeout=PATIENCE_S).name == "soon"
    usable(commit)


@pytest.mark.parametrize("place", range(60))
def test_an_interrupted_follower_leaves_the_group_usable(place):
    """The same for one that waits, or that has just been handed the lead, with another behind it."""
    disk = Disk(held=True)
    commit = GroupCommit(disk)
    threads = [submit(commit, Item("first"))]
    disk.begun.get(timeout=PATIENCE_S)

    def go_on():
        # As soon as the follower is in the queue, or has left before it was.
        entered.wait(PATIENCE_S)
        threads.append(submit(commit, Item("last")))
        queued(commit, 1, 2)
        disk.free.set()

    entered = threading.Event()
    other = threading.Thread(target=go_on, daemon=True)
    other.start()
    follower = Item("follower", lambda item: entered.set())
    try:
        with Interrupt(place) as interrupt:
            commit.submit(follower)
        assert not interrupt.raised
    except KeyboardInterrupt:
        assert interrupt.raised
    entered.set()
    other.join(PATIENCE_S)
    honest(threads, disk)
    usable(commit)


def test_an_interrupt_during_the_commit_reaches_the_leader_and_the_others_are_told():
    """Those of its batch are woken (the commit function says what became of them), and the lead continues."""
    disk = Disk(held=True)
    commit = GroupCommit(disk)

    def interrupted(batch):
        disk(batch)
        if "first" in map(str, batch):
            raise KeyboardInterrupt

    commit._commit = interrupted
    threads = followed(commit, disk, *map(Item, "ab"))
    disk.free.set()
    outcomes = join(*threads)
    assert isinstance(outcomes[0], KeyboardInterrupt)
    assert outcomes[1:] == ["done", "done"]
    usable(commit)


def test_a_helper_that_cannot_be_started_leaves_the_queue_usable(monkeypatch):
    """No thread is left: whoever submits is told, and the next one who waits commits as before."""
    commit = GroupCommit(disk := Disk())
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", _no_thread)
        with pytest.raises(RuntimeError, match="can't start"):
            commit.submit_soon(Item("first"), lambda _: None)
    commit.submit(second := Item("second"))
    assert disk.batches == [[second]]


def test_a_helper_that_cannot_be_started_during_a_commit_fails_only_its_submission(monkeypatch):
    """The commit that is under way is acknowledged, and those after it are."""
    commit = GroupCommit(disk := Disk(held=True))
    first = submit(commit, Item("first"))
    disk.begun.get(timeout=PATIENCE_S)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", _no_thread)
        with pytest.raises(RuntimeError, match="can't start"):
            commit.submit_soon(Item("soon"), lambda _: None)
        disk.free.set()
        assert join(first) == ["done"]
        commit.submit(Item("second"))
    assert names(disk) == [["first"], ["second"]]
    usable(commit)


def test_what_is_queued_for_the_helper_when_it_closes_is_committed():
    """A submitter leads at that moment; the helper stays until its own turn is over."""
    commit = GroupCommit(disk := Disk(held=True))
    done = queue.Queue()
    first = submit(commit, Item("first"))
    disk.begun.get(timeout=PATIENCE_S)
    commit.submit_soon(Item("soon"), done.put)
    closing = threading.Thread(target=commit.close, daemon=True)
    closing.start()
    closing.join(0.05)
    disk.free.set()
    assert join(first) == ["done"]
    assert done.get(timeout=PATIENCE_S).name == "soon"
    closing.join(PATIENCE_S)
    assert not closing.is_alive()


def test_a_helper_whose_item_another_commits_ends_with_close():
    """A submitter that waits commits what is queued for the helper, too; the helper is not left waiting."""
    commit = GroupCommit(disk := Disk())
    done = queue.Queue()
    commit.submit_soon(Item("first"), done.put)
    done.get(timeout=PATIENCE_S)
    disk.begun.get(timeout=PATIENCE_S)
    disk.free.clear()
    leader = submit(commit, Item("leader"))
    disk.begun.get(timeout=PATIENCE_S)
    heir = submit(commit, Item("heir"))
    queued(commit, 1)
    commit.submit_soon(Item("soon"), done.put)
    closing = threading.Thread(target=commit.close, daemon=True)
    closing.start()
    closing.join(0.05)
    disk.free.set()
    assert join(leader, heir) == ["done", "done"]
    assert done.get(timeout=PATIENCE_S).name == "soon"
    closing.join(PATIENCE_S)
    assert not closing.is_alive()


def _no_thread(self):
    raise RuntimeError("can't start new thread")
