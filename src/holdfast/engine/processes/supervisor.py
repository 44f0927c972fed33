"""The supervisor: a small program that runs one command and lets nothing of it outlive its lock.

That holds however the command ends: by itself, on the owner's word, or because the owner died
(`kill -9` included). The owner's side is `process.py`; it runs this as `python -I -S supervisor.py
CONTROL_FD LOCK_FD OWNER_PID SIZE` in a session of its own, out of reach of a terminal's Ctrl-C.

    owner → supervisor   the instructions, SIZE bytes (see `read_instructions`), then lines:
                         `terminate SECONDS`  SIGTERM to the tree, SIGKILL to what is left after that
                         `kill`               SIGKILL to the tree
    supervisor → owner   `started PID` or `failed KIND ERRNO`, then `ended CODE REASON`
    end of file          the owner is gone: the tree is killed at once

The lock file arrives open and locked; the command does not inherit it. It is unlocked only after
the stamp `{"ended_at": ns, "code": n, "reason": word}` in it is fsynced; until then it names this
process, `{"supervisor": pid}`, to which SIGTERM means `terminate`.

On Linux this process is a subreaper: double-forked and setsid children stay its descendants, and
`waitpid` reports when the last is gone. One that it may not signal (setuid) is waited for, with the
lock held. On macOS, without subreapers, a child that leaves the command's process group escapes.

The end of the command is the end of its step: background children that it leaves get DRAIN_S to
end by themselves, then SIGTERM (on which git's background `gc` removes its lock files), and
SIGKILL after LEFTOVER_GRACE_S.

Only modules that load fast: `json` and `enum` (through `signal`) would cost 15 ms per command.
"""

import fcntl
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
else:
    try:
        import _signal as signal
    except ImportError:
        import signal

DRAIN_S = 0.2
LEFTOVER_GRACE_S = 0.5
SIGNALLED_GRACE_S = 2.0
POLL_S = 0.1  # where no pidfd reports the owner's death, or no subreaper of the group's
KILL_POLL_S, KILL_POLL_MAX_S = 0.002, 0.25
LINUX = sys.platform == "linux"
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

# Stages only ever go up: a tree that is being killed is never given more time.
RUNNING, DRAINING, TERMINATING, KILLING = range(4)

Instructions = tuple[bytes, list[bytes], dict[bytes, bytes]]  # cwd, argv, env


def read_instructions(control: int, size: int) -> Instructions | None:
    """Read `size` bytes: cwd, argc, argv and `NAME=value`s, separated by NULs.

    None when the owner died before it had said everything.
    """
    with open(control, "rb", closefd=False) as file:
        data = file.read(size)
    if len(data) < size:
        return None
    cwd, argc, *rest = data.split(b"\0")
    env = {name: value for name, _, value in (pair.partition(b"=") for pair in rest[int(argc) :])}
    return cwd, rest[: int(argc)], env


def execute(instructions: Instructions) -> str:
    """Replace this process by the program; returns only if that fails, with `KIND ERRNO`."""
    cwd, argv, env = instructions
    try:
        os.chdir(cwd)
    except OSError as error:
        return f"cwd {error.errno}"
    candidates = [argv[0]]
    if b"/" not in argv[0]:
        path = env.get(b"PATH", os.fsencode(os.defpath))
        candidates = [(place or b".") + b"/" + argv[0] for place in path.split(b":")]
    failure = "program 2"
    for candidate in candidates:
        try:
            os.execve(candidate, argv, env)
        except (FileNotFoundError, NotADirectoryError) as error:
            if os.path.isfile(candidate):  # noqa: PTH113 - pathlib is slow to load
                return f"interpreter {error.errno}"
        except PermissionError as error:
            # A directory of that name on the PATH is not a program we may not execute.
            if b"/" in argv[0] or os.path.isfile(candidate):  # noqa: PTH113
                failure = f"exec {error.errno}"
        except OSError as error:
            return f"exec {error.errno}"
    return failure


def start(instructions: Instructions, prctl: "Callable[..., int] | None") -> tuple[int, str]:
    """Fork and exec the command in a process group of its own: its pid, and `KIND ERRNO` if exec failed."""
    parent = os.getpid()
    reader, writer = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        return 0, f"fork {error.errno}"
    if pid == 0:
        try:
            if prctl is not None:
                prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                if os.getppid() != parent:  # it died before the line above could report it
                    os._exit(127)
            os.setpgid(0, 0)
            signal.set_wakeup_fd(-1)
            # Python ignores these two; a command expects `yes | head` to end.
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            os.write(writer, execute(instructions).encode())
        finally:
            os._exit(127)
    os.close(writer)
    failure = os.read(reader, 64).decode()
    os.close(reader)
    if failure:
        os.waitpid(pid, 0)
    return pid, failure


def descendants(root: int) -> dict[int, int]:
    """pid → process group of all descendants of `root` that are not zombies."""
    children: dict[int, list[tuple[int, int]]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb", 0) as file:  # noqa: PTH123
                stat = file.read()
        except OSError:
            continue  # it ended meanwhile
        state, parent, group = stat.rpartition(b")")[2].split()[:3]
        if state not in (b"Z", b"X"):
            children.setdefault(int(parent), []).append((int(name), int(group)))
    found: dict[int, int] = {}
    todo = [root]
    while todo:
        for pid, group_id in children.get(todo.pop(), ()):
            if pid not in found:
                found[pid] = group_id
                todo.append(pid)
    return found


def send(pid: int, number: int) -> bool:
    """Signal a process, or with a negative pid a group; False if that reached nothing."""
    try:
        os.kill(pid, number)
    except OSError:  # gone, or setuid and not ours to signal
        return False
    return True


class Tree:
    """The command and all its descendants."""

    def __init__(self, child: int, subreaper: bool) -> None:
        self.child = child
        self.code: int | None = None
        self.subreaper = subreaper

    def reap(self) -> bool:
        """Collect what has ended; True while anything of the tree is alive."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return not self.subreaper and send(-self.child, 0)
            if pid == 0:
                return True
            if pid == self.child:
                self.code = os.waitstatus_to_exitcode(status)

    def terminate(self) -> None:
        """SIGTERM to each process; SIGCONT so that a stopped one receives it."""
        for pid in descendants(os.getpid()) if self.subreaper else (-self.child,):
            send(pid, signal.SIGTERM)
            send(pid, signal.SIGCONT)

    def kill(self) -> None:
        """Stop all, then SIGKILL all: a parent that is stopped cannot replace a child that was killed.

        Signals go to process groups, atomically against fork; what forked between two looks at
        /proc is found by the next look, or in the caller's next round.
        """
        seen: set[int] = set()
        # First of all the command's own group (its id is taken until the command is reaped): under
        # a thousand busy processes it takes seconds to read /proc.
        targets = {-self.child} if self.code is None else self._targets()
        for _ in range(20):  # not for ever: what has been caught must also be killed and reaped
            for target in targets - seen:
                send(target, signal.SIGSTOP)
            seen |= targets
            targets = self._targets()
            if targets <= seen:
                break
        for target in seen:
            send(target, signal.SIGKILL)

    def _targets(self) -> set[int]:
        if not self.subreaper:
            return {-self.child}
        # Never 0, 1 (kill(-1) is everybody) or our own group, should a process have got into one.
        spared = (0, 1, os.getpgrp())
        return {pid if group in spared else -group for pid, group in descendants(os.getpid()).items()}


def note(lock: int, text: str, durably: bool = False) -> None:
    """Replace what the lock file says."""
    try:
        os.ftruncate(lock, 0)
        os.pwrite(lock, text.encode(), 0)
        if durably:
            os.fsync(lock)
    except OSError:
        pass  # full or broken disk: no note is better than a lock that is never dropped


def release(lock: int, code: int | None, reason: str) -> None:
    """Stamp the lock file durably, and only then unlock it."""
    result = "null" if code is None else code
    note(lock, f'{{"ended_at": {time.time_ns()}, "code": {result}, "reason": "{reason}"}}', durably=True)
    fcntl.flock(lock, fcntl.LOCK_UN)


class Owner:
    """The other end: reports when it is gone, receives orders, takes reports.

    A forked child of the owner may hold a copy of the control socket, so end of file alone could
    come too late: a pidfd, or else a look at the parent's pid, reports the death of the process itself.
    """

    def __init__(self, control: int, pid: int) -> None:
        self.control = control
        self.pid = pid
        self.pending = b""
        try:
            self.pidfd = os.pidfd_open(pid)
        except (AttributeError, OSError):
            self.pidfd = -1

    def is_gone(self) -> bool:
        return os.getppid() != self.pid

    def orders(self) -> list[bytes] | None:
        """The complete lines that have arrived; None at end of file."""
        try:
            chunk = os.read(self.control, 4096)
        except OSError:
            chunk = b""
        *lines, self.pending = (self.pending + chunk).split(b"\n")
        return lines if chunk else None

    def report(self, report: str) -> None:
        try:
            os.write(self.control, report.encode() + b"\n")
        except OSError:
            pass  # it died; the stamp informs the next owner


class Watch:
    """The event loop from the command's start to the death of its tree."""

    def __init__(self, tree: Tree, owner: Owner, wake: int) -> None:
        self.tree = tree
        self.owner = owner
        self.wake = wake
        self.stage = RUNNING
        self.reason = "exited"
        self.deadline: float | None = None
        self.pause = KILL_POLL_S
        self.poll = select.poll()
        for fd in (owner.control, owner.pidfd, wake):
            if fd >= 0:
                self.poll.register(fd, select.POLLIN)

    def run(self) -> None:
        while self.tree.reap():
            if self.tree.code is not None and self.stage == RUNNING:
                self._advance(DRAINING, "exited", DRAIN_S)
            if self.deadline is not None and time.monotonic() >= self.deadline:
                graceful = self.stage == DRAINING
                self._advance(TERMINATING if graceful else KILLING, self.reason, LEFTOVER_GRACE_S)
            if self.stage == KILLING:
                self.tree.kill()
            self._wait()

    def _advance(self, stage: int, reason: str, grace: float = 0.0) -> None:
        """Enter a later stage; the reason is that of the first one which cut the command short."""
        if stage <= self.stage:
            return
        if self.tree.code is None and self.reason == "exited":
            self.reason = reason
        self.stage = stage
        self.deadline = time.monotonic() + grace if stage < KILLING else None
        if stage == TERMINATING:
            self.tree.terminate()

    def _wait(self) -> None:
        limits = []
        if self.stage == KILLING:
            limits.append(self.pause)
            # Unkillable for long means blocked in the kernel: looking more often does not help.
            self.pause = min(self.pause * 1.5, KILL_POLL_MAX_S)
        if self.deadline is not None:
            limits.append(max(0.0, self.deadline - time.monotonic()))
        if self.owner.pidfd < 0 or not self.tree.subreaper:
            limits.append(POLL_S)
        for fd, _ in self.poll.poll(min(limits) * 1000 + 1 if limits else None):
            if fd == self.owner.control:
                self._obey(self.owner.orders())
            elif fd == self.wake and set(os.read(self.wake, 4096)) - {signal.SIGCHLD}:
                self._advance(TERMINATING, "signalled", SIGNALLED_GRACE_S)
        if self.owner.is_gone():
            self._obey(None)

    def _obey(self, orders: list[bytes] | None) -> None:
        if orders is None:
            self.poll = select.poll()
            self.poll.register(self.wake, select.POLLIN)  # the others would be readable for ever
            self._advance(KILLING, "owner_gone")
        for order in orders or ():
            verb, _, grace = order.partition(b" ")
            if verb == b"terminate":
                self._advance(TERMINATING, "terminated", float(grace))
            elif verb == b"kill":
                self._advance(KILLING, "killed")


def catch_signals() -> int:
    """Have signals make a descriptor readable, so that none falls between a check and a wait."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number == signal.SIGCHLD or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    return reader


def let_go() -> None:
    """Leave the streams to the tree alone, so that their end is its end; hold no directory."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.chdir("/")


def main() -> None:
    control, lock, owner_pid, size = map(int, sys.argv[1:5])
    for fd in (control, lock):
        os.set_inheritable(fd, False)
    wake = catch_signals()
    note(lock, f'{{"supervisor": {os.getpid()}}}')
    owner = Owner(control, owner_pid)
    prctl = None
    if LINUX:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
    subreaper = prctl is not None and prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    instructions = read_instructions(control, size)
    # The lock is held by now. An owner that is alive here and dies later leaves a held lock,
    # which the next owner of its runs finds; for one that is dead already nothing may be started.
    if instructions is None or owner.is_gone():
        release(lock, None, "not_started")
        return
    pid, failure = start(instructions, prctl)
    let_go()
    if failure:
        release(lock, None, "not_started")
        owner.report(f"failed {failure}")
        return
    owner.report(f"started {pid}")
    watch = Watch(tree := Tree(pid, subreaper), owner, wake)
    try:
        watch.run()
    finally:  # also after a fault of our own: the lock promises that the tree is dead
        while tree.reap():
            tree.kill()
            time.sleep(KILL_POLL_S)
    release(lock, tree.code, watch.reason)
    owner.report(f"ended {tree.code} {watch.reason}")


if __name__ == "__main__":
    try:
        main()
    finally:
        os._exit(0)
