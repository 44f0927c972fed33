"""Commands under the supervisor, with real processes: ends, kills, locks, output, errors."""

import contextlib
import ctypes
import hashlib
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import errors
from holdfast.engine.processes import process as process_module
from holdfast.engine.processes import tree_lock
from holdfast.engine.processes.process import TAIL_BYTES, Process
from holdfast.engine.processes.tree_lock import Stamp, read_stamp, stop_tree, tree_is_dead, wait_until_dead
from holdfast.redaction import Redactor

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper and /proc")

# Background and setsid children and a double fork, all of which ignore SIGTERM.
STUBBORN = r"""
trap "" TERM
sleep 600 &
(setsid sleep 600 &)
"$PYTHON" -c '
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(1, b"up\n")
        time.sleep(600)
    os._exit(0)
os.wait()
'
wait
"""
OWNER = r"""
import os, sys
from holdfast.engine.processes.process import Process
def on_output(stream, text):
    os.write(1, text.encode())
lock, script = sys.argv[1:3]
argv = ["sh", "-c", script]
process = Process.start(argv, cwd="/", env=dict(os.environ), lock_path=lock, on_output=on_output)
if len(sys.argv) > 3:
    if os.fork() == 0:
        os.write(1, b"forked %d\n" % os.getpid())
        sys.stdin.read()
        os._exit(0)
process.wait()
"""


def eventually(condition: Callable[[], Any], timeout: float = 10.0) -> bool:
    """Poll for what no pipe or event announces."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        threading.Event().wait(0.005)
    return True


class Mark:
    """A variable in the environment by which a test finds all processes of its tree."""

    def __init__(self) -> None:
        self.value = f"HOLDFAST_TEST={uuid.uuid4()}"
        name, _, value = self.value.partition("=")
        self.env = {**os.environ, name: value, "PYTHON": sys.executable}

    def pids(self) -> set[int]:
        found = set()
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and self.value.encode() in (entry / "environ").read_bytes():
                    found.add(int(entry.name))
        return found - {os.getpid()}


class Lines:
    """Collects output; waits for a text to arrive."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, str]] = []
        self._changed = threading.Condition()

    def __call__(self, stream: str, text: str) -> None:
        with self._changed:
            self.texts.append((stream, text))
            self._changed.notify_all()

    def has(self, wanted: str) -> bool:
        return wanted in "".join(text for _, text in self.texts)

    def wait_for(self, wanted: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.has(wanted), 10), self.texts


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "command.lock"


@pytest.fixture
def start(lock: Path) -> Iterator[Callable[..., Process]]:
    """Start a command with usual arguments; all are dead after the test."""
    started: list[Process] = []

    def run(*argv: str, **options: Any) -> Process:
        options = {"cwd": "/", "env": dict(os.environ), "lock_path": lock, **options}
        process = Process.start(argv, **options)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        with contextlib.suppress(ZeroDivisionError):
            process.wait(10)


def supervisor_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@contextlib.contextmanager
def owner(mark: Mark, lock: Path, *more: str, script: str = STUBBORN) -> Iterator["subprocess.Popen[str]"]:
    """A process that runs the script as a command, echoes its output, and is dead after the block."""
    arguments = [sys.executable, "-c", OWNER, str(lock), script, *more]
    with subprocess.Popen(
        arguments, env=mark.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            yield child
        finally:
            child.kill()


@linux_only
def test_owner_killed_takes_the_tree_with_it(lock: Path) -> None:
    """kill -9 of the owner: within a second the whole tree is dead, the lock free and the end stamped."""
    mark = Mark()
    with owner(mark, lock) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"
        assert len(mark.pids()) >= 6  # owner, supervisor, sh, two sleeps, the double-forked python
        assert not tree_is_dead(lock)
        assert read_stamp(lock) is None
        killed_ns, killed = time.time_ns(), time.monotonic()
        child.kill()
        assert wait_until_dead(lock, 1.0)
        child.wait()
        assert eventually(lambda: not mark.pids(), 1.0 - (time.monotonic() - killed)), mark.pids()
    stamp = read_stamp(lock)
    assert stamp is not None
    assert (stamp.code, stamp.reason) == (-signal.SIGKILL, "owner_gone")
    assert killed_ns <= stamp.ended_at_ns <= time.time_ns()


@linux_only
def test_owner_that_forked_is_noticed_too(lock: Path) -> None:
    """A forked child of the owner has copies of its descriptors; the tree still dies with the owner."""
    mark = Mark()
    with owner(mark, lock, "fork") as child:
        assert child.stdout is not None
        said = {child.stdout.readline().split()[0], child.stdout.readline().split()[0]}
        assert said == {"up", "forked"}
        child.kill()
        assert wait_until_dead(lock, 1.0)
        stamp = read_stamp(lock)
        assert stamp is not None
        assert stamp.reason == "owner_gone"
        assert child.stdin is not None
        child.stdin.close()  # which ends the forked child
    assert eventually(lambda: not mark.pids())


@linux_only
def test_terminate_kills_what_ignores_sigterm(start: Callable[..., Process], lock: Path) -> None:
    """terminate gives the tree its grace, then kills what ignored SIGTERM; nothing is left."""
    mark, lines = Mark(), Lines()
    process = start("sh", "-c", STUBBORN, env=mark.env, on_output=lines)
    lines.wait_for("up")
    began = time.monotonic()
    process.terminate(grace_s=0.3)
    end = process.wait(5)
    assert 0.3 <= time.monotonic() - began < 1.5
    assert (end.code, end.reason) == (-signal.SIGKILL, "terminated")
    assert mark.pids() == set()
    assert tree_is_dead(lock)


def test_terminate_lets_a_command_finish_in_its_grace(start: Callable[..., Process]) -> None:
    """A command that handles SIGTERM ends with its own code and its last words, before the grace is over."""
    lines = Lines()
    script = 'trap "echo bye; exit 7" TERM; echo up; while :; do sleep 0.01; done'
    process = start("sh", "-c", script, on_output=lines)
    lines.wait_for("up")
    process.terminate(grace_s=30)
    end = process.wait(5)
    assert (end.code, end.reason, end.stdout.text) == (7, "terminated", "up\nbye\n")


def test_terminate_reaches_a_stopped_command(start: Callable[..., Process]) -> None:
    """A command that is stopped (SIGSTOP) is woken to hear SIGTERM."""
    process = start("sleep", "600")
    os.kill(process.pid, signal.SIGSTOP)
    process.terminate(grace_s=30)
    assert process.wait(5).code == -signal.SIGTERM


def test_kill_from_another_thread_ends_a_wait(start: Callable[..., Process]) -> None:
    """One thread waits, another kills: the wait returns with the signal."""
    process = start("sleep", "600")
    with pytest.raises(TimeoutError):
        process.wait(0.01)
    threading.Timer(0.05, process.kill).start()
    end = process.wait(5)
    assert (end.code, end.reason) == (-signal.SIGKILL, "killed")


@linux_only
def test_fork_happy_tree_dies_within_a_second(start: Callable[..., Process], lock: Path) -> None:
    """A tree that forks all the time, each child in its own session, has no time to outrun the kill."""
    mark, lines = Mark(), Lines()
    script = """
import os, time
end = time.monotonic() + 20
os.write(1, b"up\\n")
live = 0
while time.monotonic() < end:
    if live == 30:
        os.wait()
        live -= 1
    elif os.fork() == 0:
        os.setsid()
        for _ in range(3):
            if os.fork():
                os._exit(0)
        sum(range(100_000))
        os._exit(0)
    else:
        live += 1
"""
    process = start(sys.executable, "-c", script, env=mark.env, on_output=lines)
    lines.wait_for("up")
    assert eventually(lambda: len(mark.pids()) > 10)
    began = time.monotonic()
    process.kill()
    process.wait(5)
    assert time.monotonic() - began < 1.0
    assert mark.pids() == set()


@linux_only
def test_background_children_end_with_the_command(start: Callable[..., Process]) -> None:
    """A command that ends and leaves children behind: they are ended too, and the code is the command's."""
    mark = Mark()
    process = start(
        "sh", "-c", 'sleep 600 & (setsid sh -c "trap \\"\\" TERM; sleep 600" &); exit 5', env=mark.env
    )
    end = process.wait(5)
    assert (end.code, end.reason) == (5, "exited")
    assert mark.pids() == set()


def test_background_children_may_finish_shortly_after(start: Callable[..., Process]) -> None:
    """Children that end within the drain are not cut off: their output is complete."""
    end = start("sh", "-c", "(sleep 0.05; echo late) & echo early").wait(5)
    assert end.stdout.text == "early\nlate\n"


@linux_only
def test_supervisor_killed_takes_the_command_with_it(start: Callable[..., Process], lock: Path) -> None:
    """kill -9 of the supervisor: the command and its group die, the wait returns, and there is no stamp."""
    mark = Mark()
    process = start("sh", "-c", "sleep 600 & wait", env=mark.env)
    os.kill(supervisor_of(process.pid), signal.SIGKILL)
    end = process.wait(5)
    assert (end.code, end.reason) == (-signal.SIGKILL, "supervisor_lost")
    assert eventually(lambda: not mark.pids())
    assert tree_is_dead(lock)
    assert read_stamp(lock) is None


@linux_only
def test_supervisor_killed_needs_no_owner_to_end_the_command(lock: Path) -> None:
    """The kernel ends the command with its supervisor, even while the owner is stopped."""
    mark = Mark()
    with owner(mark, lock, script="echo $$; exec sleep 600") as child:
        assert child.stdout is not None
        command = int(child.stdout.readline())
        child.send_signal(signal.SIGSTOP)
        os.kill(supervisor_of(command), signal.SIGKILL)
        assert eventually(lambda: command not in mark.pids())
        assert child.pid in mark.pids()


@linux_only
def test_stop_tree_goes_past_the_owner(start: Callable[..., Process], lock: Path) -> None:
    """Who holds no pipe to the supervisor can stop the tree by its lock file; a free lock stops nothing."""
    assert not stop_tree(lock)
    process = start("sleep", "600")
    assert stop_tree(lock)
    end = process.wait(5)
    assert (end.code, end.reason) == (-signal.SIGTERM, "signalled")
    assert not stop_tree(lock)


def test_lock_is_held_while_the_tree_lives(start: Callable[..., Process], lock: Path) -> None:
    """The lock is held from the start to the end, not inherited by the command, and stamped when free."""
    assert tree_is_dead(lock)
    process = start("sh", "-c", 'ls -l /proc/self/fd 2>/dev/null | grep -c "$0"; cat', str(lock), stdin=None)
    end = process.wait(5)
    assert end.stdout.text.strip() in {"", "0"}
    held = start("sleep", "600")
    assert not tree_is_dead(lock)
    assert not wait_until_dead(lock, 0.05)
    assert read_stamp(lock) is None
    held.kill()
    held.wait(5)
    assert tree_is_dead(lock)
    stamp = read_stamp(lock)
    assert stamp == Stamp(stamp.ended_at_ns if stamp else 0, -signal.SIGKILL, "killed")
    assert lock.stat().st_mode & 0o777 == 0o600


def test_second_command_under_a_held_lock_is_refused(
    start: Callable[..., Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two trees never live under one lock."""
    monkeypatch.setattr(tree_lock, "_LOCK_PATIENCE_S", 0.05)
    start("sleep", "600")
    with pytest.raises(errors.HoldfastError, match="still runs"):
        start("true")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"supervisor": 1}'])
def test_stamp_that_is_not_there(lock: Path, text: str) -> None:
    """A missing, torn or foreign lock file has no stamp, and no tree."""
    if text:
        lock.write_text(text)
    assert read_stamp(lock) is None
    assert tree_is_dead(lock)


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("kill -TERM $$", -15), ("kill -9 $$", -9)],
)
def test_exit_codes(start: Callable[..., Process], lock: Path, script: str, code: int) -> None:
    """The exit code is the command's, negative for a signal, in the result and in the stamp."""
    end = start("sh", "-c", script).wait(5)
    stamp = read_stamp(lock)
    assert (end.code, end.reason, end.duration_s < 5) == (code, "exited", True)
    assert stamp is not None
    assert (stamp.code, stamp.reason) == (code, "exited")


def test_streams_are_kept_apart(start: Callable[..., Process]) -> None:
    """stdout and stderr arrive live under their names, and whole in the result."""
    lines = Lines()
    end = start("sh", "-c", "echo out; echo err >&2", on_output=lines).wait(5)
    assert sorted(lines.texts) == [("stderr", "err\n"), ("stdout", "out\n")]
    assert (end.stdout.text, end.stderr.text) == ("out\n", "err\n")
    assert end.stdout.sha256 == hashlib.sha256(b"out\n").hexdigest()
    assert end.stdout.size == 4


def test_output_arrives_while_the_command_runs(start: Callable[..., Process]) -> None:
    """A line is passed on when it is written, not when the command ends."""
    lines = Lines()
    process = start("sh", "-c", "echo now; sleep 600", on_output=lines)
    lines.wait_for("now\n")
    with pytest.raises(TimeoutError):
        process.wait(0)


def test_stdin_is_fed(start: Callable[..., Process]) -> None:
    """Input larger than a pipe arrives whole; without input there is end of file at once."""
    data = os.urandom(3_000_000)
    end = start("sh", "-c", "sha256sum 2>/dev/null || shasum -a 256", stdin=data).wait(10)
    assert end.stdout.text.split()[0] == hashlib.sha256(data).hexdigest()
    assert start("cat", stdin=b"").wait(5).stdout.text == ""
    assert start("cat").wait(5).stdout.text == ""


def test_command_that_does_not_read_its_stdin(start: Callable[..., Process]) -> None:
    """A command may end without reading its input."""
    assert start("true", stdin=b"x" * 1_000_000).wait(5).code == 0


def test_big_output_in_bounded_memory(start: Callable[..., Process]) -> None:
    """50 MB pass through: the tail is kept, size and digest tell of all of it, memory stays small."""
    line = b"0123456789 the quick brown fox jumps over the lazy dog\n"
    count = 50_000_000 // len(line)
    seen = 0

    def on_output(stream: str, text: str) -> None:
        nonlocal seen
        seen += len(text)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    script = f"import sys\nfor _ in range({count // 1000}): sys.stdout.buffer.write({line!r} * 1000)"
    end = start(sys.executable, "-c", script, on_output=on_output).wait(60)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    total = line * (count // 1000 * 1000)
    assert (end.stdout.size, seen) == (len(total), len(total))
    assert end.stdout.sha256 == hashlib.sha256(total).hexdigest()
    assert end.stdout.size > TAIL_BYTES
    assert end.stdout.text == total[-TAIL_BYTES:].decode()
    assert grown * (1 if sys.platform == "darwin" else 1024) < 30_000_000


def test_secret_split_across_writes_is_redacted(start: Callable[..., Process]) -> None:
    """A secret that the command writes in two pieces reaches neither the listener nor the result."""
    lines = Lines()
    script = 'echo up; printf "pw known-"; read _; printf "value\\n"; printf "ghp_16C7e42F292c6912" >&2; exit'
    process = start(
        "sh", "-c", script, stdin=b"\n", on_output=lines, redactor=Redactor(values=["known-value"])
    )
    end = process.wait(5)
    assert end.stdout.text == "up\npw [redacted]\n"
    assert end.stderr.text == "[redacted:github-token]"
    assert not lines.has("known-") and not lines.has("ghp_")


def test_error_in_on_output_ends_the_command(start: Callable[..., Process], lock: Path) -> None:
    """Output that cannot be taken ends the command, and the wait raises the listener's error."""

    def on_output(stream: str, text: str) -> None:
        raise ZeroDivisionError(text)

    process = start("sh", "-c", "echo one; sleep 600", on_output=on_output)
    with pytest.raises(ZeroDivisionError, match="one"):
        process.wait(5)
    assert tree_is_dead(lock)


def test_program_not_found(start: Callable[..., Process], lock: Path, tmp_path: Path) -> None:
    """A program that is not on the PATH of the given environment, or not at its path, is named."""
    (tmp_path / "dir").mkdir()
    with pytest.raises(errors.ProgramNotFound, match="'no-such-program'"):
        start("no-such-program")
    with pytest.raises(errors.ProgramNotFound, match="'sh'"):
        start("sh", env={"PATH": str(tmp_path)})
    with pytest.raises(errors.ProgramNotFound, match="'dir'"):
        start("dir", env={"PATH": str(tmp_path)})
    with pytest.raises(errors.ProgramNotFound, match=r"'\./gone' .*" + str(tmp_path)):
        start("./gone", cwd=tmp_path)
    assert tree_is_dead(lock)
    stamp = read_stamp(lock)
    assert stamp is not None
    assert (stamp.code, stamp.reason) == (None, "not_started")


def test_path_and_cwd_are_those_given(start: Callable[..., Process], tmp_path: Path) -> None:
    """The program is found on the given PATH and runs in the given directory with exactly the given env."""
    program = tmp_path / "hello"
    program.write_text("#!/bin/sh\npwd; echo $A\n")
    program.chmod(0o755)
    end = start("hello", cwd=tmp_path, env={"PATH": f"/nowhere:{tmp_path}", "A": "ä\udcff"}).wait(5)
    assert end.stdout.text == f"{tmp_path.resolve()}\nä\ufffd\n"
    assert start("./hello", cwd=tmp_path, env={}).wait(5).code == 0
    assert (
        start("env", env={"PATH": os.environ["PATH"]}).wait(5).stdout.text == f"PATH={os.environ['PATH']}\n"
    )


def test_what_cannot_be_started_is_said(start: Callable[..., Process], tmp_path: Path) -> None:
    """A wrong directory, mode, format or interpreter each gives one sentence that says so."""
    plain, foreign, orphan = tmp_path / "plain", tmp_path / "foreign", tmp_path / "orphan"
    plain.write_text("text")
    foreign.write_text("no program")
    orphan.write_text("#!/no/such/interpreter\n")
    foreign.chmod(0o755)
    orphan.chmod(0o755)
    for argv, cwd, words in [
        (["true"], tmp_path / "gone", "gone of 'true' cannot be used: no such file"),
        (["true"], plain, "not a directory"),
        ([str(plain)], tmp_path, "chmod"),
        ([str(foreign)], tmp_path, "#!/bin/sh"),
        ([str(orphan)], tmp_path, "interpreter"),
        (["true", "x" * 10_000_000], tmp_path, "too long"),
        (["true", "a\0b"], tmp_path, "NUL"),
        (["true", "\ud800"], tmp_path, "not valid text"),
        ([""], tmp_path, "starts with a program"),
    ]:
        with pytest.raises(errors.BadInput, match=words):
            start(*argv, cwd=cwd)
    with pytest.raises(errors.BadInput, match="'A=B'"):
        start("true", env={"A=B": "c"})
    with pytest.raises(errors.BadInput, match="'ls -l'"):
        Process.start("ls -l", cwd="/", env={}, lock_path=tmp_path / "l")


@linux_only
def test_command_starts_with_clean_signals_and_descriptors(start: Callable[..., Process]) -> None:
    """The command gets its three streams and nothing else, SIGPIPE as usual, and no blocked signals."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
    try:
        script = "import os; print(os.listdir('/proc/self/fd')); print(open('/proc/self/status').read())"
        end = start(sys.executable, "-I", "-S", "-c", script).wait(5)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGUSR1})
    assert end.stdout.text.startswith("['0', '1', '2', '3']")  # 3 is the listing's own
    assert "SigBlk:\t0000000000000000" in end.stdout.text
    assert start("sh", "-c", "yes | head -1").wait(5).stdout.text == "y\n"
    ignored = int(start("grep", "SigIgn", "/proc/self/status").wait(5).stdout.text.split()[1], 16)
    threads_own = 1 << 31 | 1 << 32  # 32 and 33 belong to the C library: no program can reset them
    # What these tests were started with, by `nohup` for instance, is the user's own wish.
    wished = {one for one in signal.valid_signals() if signal.getsignal(one) is signal.SIG_IGN}
    wished -= {signal.SIGPIPE, signal.SIGXFSZ}  # Python's own
    assert ignored & ~threads_own == sum(1 << one - 1 for one in wished)


@linux_only
def test_command_is_out_of_reach_of_the_terminal(start: Callable[..., Process]) -> None:
    """The command is in another session than the owner, so Ctrl-C in the owner's terminal passes it by."""
    process = start("sleep", "600")
    assert os.getsid(process.pid) != os.getsid(0)
    assert os.getpgid(process.pid) == process.pid


@linux_only
def test_supervisor_holds_nothing_of_the_command(start: Callable[..., Process], tmp_path: Path) -> None:
    """The supervisor keeps neither the command's streams nor the owner's directory open."""
    supervisor = supervisor_of(start("sleep", "600", cwd=tmp_path).pid)
    places = [f"fd/{number}" for number in (0, 1, 2)] + ["cwd"]
    held = [os.readlink(f"/proc/{supervisor}/{place}") for place in places]
    assert held == ["/dev/null"] * 3 + ["/"]


def test_supervisor_that_fails_leaves_no_old_stamp(
    start: Callable[..., Process], lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor that dies at its start is reported, and the stamp of an earlier command does not count."""
    start("true").wait(5)
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit")
    monkeypatch.setattr(process_module, "_SUPERVISOR", broken)
    with pytest.raises(errors.HoldfastError, match="died at its start"):
        start("true")
    assert tree_is_dead(lock)
    assert read_stamp(lock) is None


def test_nothing_starts_for_an_owner_that_is_dead(lock: Path, tmp_path: Path) -> None:
    """A supervisor whose owner died before the command's start does not start it, and stamps that."""
    touched = tmp_path / "touched"
    message = process_module._instructions(["touch", str(touched)], "/", dict(os.environ))
    ours, theirs = socket.socketpair()
    fd = os.open(lock, os.O_RDWR | os.O_CREAT)
    not_the_parent = "1"
    numbers = [str(theirs.fileno()), str(fd), not_the_parent, str(len(message))]
    with ours, theirs:
        arguments = [sys.executable, "-I", "-S", str(process_module._SUPERVISOR), *numbers]
        supervisor = subprocess.Popen(arguments, pass_fds=(theirs.fileno(), fd))
        ours.sendall(message)
        assert supervisor.wait(10) == 0
    os.close(fd)
    stamp = read_stamp(lock)
    assert stamp is not None
    assert (stamp.code, stamp.reason, touched.exists()) == (None, "not_started", False)


def test_two_at_once(start: Callable[..., Process], tmp_path: Path) -> None:
    """Processes are independent: one can be killed while another runs to its end."""
    first = start("sleep", "600", lock_path=tmp_path / "a")
    second = start("sh", "-c", "read line; echo $line", lock_path=tmp_path / "b", stdin=b"hello\n")
    assert second.wait(5).stdout.text == "hello\n"
    assert (tree_is_dead(tmp_path / "a"), tree_is_dead(tmp_path / "b")) == (False, True)
    first.kill()
    assert first.wait(5).code == -signal.SIGKILL


@linux_only
def test_nothing_leaks(start: Callable[..., Process], tmp_path: Path) -> None:
    """After commands of all fates, waited for or not, there are no more descriptors, threads or zombies."""

    def census() -> tuple[int, int, list[str]]:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        return len(os.listdir("/proc/self/fd")), threading.active_count(), children

    start("true").wait(5)
    before = census()
    for _ in range(3):
        start("true", stdin=b"x").wait(5)
        start("sh", "-c", "kill -9 $$", lock_path=tmp_path / "a")
        start("sleep", "600", lock_path=tmp_path / "b").kill()
        with pytest.raises(errors.ProgramNotFound):
            start("no-such-program")
        assert wait_until_dead(tmp_path / "a", 5)
        assert wait_until_dead(tmp_path / "b", 5)
    assert eventually(lambda: census() == before), (before, census())


@contextlib.contextmanager
def adopting(group: Callable[[], int]) -> Iterator[None]:
    """Adopt and reap orphans of a process group, as a good init does and a container's may not."""
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else lambda *_: 0
    prctl(36, 1, 0, 0, 0)
    ended = threading.Event()

    def reap() -> None:
        while not ended.wait(0.005):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-group(), os.WNOHANG)

    thread = threading.Thread(target=reap)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        prctl(36, 0, 0, 0, 0)


def test_without_a_subreaper_the_group_dies(
    start: Callable[..., Process], lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a subreaper (macOS) the command's process group is the tree, and its end is waited for."""
    fallback = tmp_path / "fallback.py"
    source = process_module._SUPERVISOR.read_text()
    fallback.write_text(source.replace('sys.platform == "linux"', "False"))
    monkeypatch.setattr(process_module, "_SUPERVISOR", fallback)
    lines = Lines()
    process = start("sh", "-c", 'trap "" TERM; (trap "" TERM; echo up; sleep 600) & wait', on_output=lines)
    lines.wait_for("up")
    with adopting(lambda: process.pid):
        process.terminate(grace_s=0.1)
        assert process.wait(5).code == -signal.SIGKILL
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)
        process = start("sh", "-c", "sleep 600 & exit 4")
        assert process.wait(5).code == 4
    stamp = read_stamp(lock)
    assert stamp is not None
    assert (stamp.code, stamp.reason) == (4, "exited")
