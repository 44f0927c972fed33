"""A command as its owner sees it: started under a supervisor, its output read live and redacted.

    process = Process.start(["make"], cwd=..., env=..., lock_path=..., on_output=..., redactor=...)
    end = process.wait()

The command's whole process tree is dead when `wait` returns, and dies within a second of this
process if this one dies first (see `supervisor`). The lock file is locked from before the start
until then: `tree_is_dead` and `wait_until_dead` ask, `read_stamp` reads how it ended.
"""

from __future__ import annotations

import errno
import hashlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

from holdfast import errors
from holdfast.engine.processes.tree_lock import take_lock
from holdfast.file_lock import StrPath
from holdfast.redaction import Redactor, StreamRedactor

TAIL_BYTES = 64 * 1024
QUIET_S = 0.25
_CHUNK = 64 * 1024
_BEGIN_S = 2.0
_PIPE_MAX = 1024 * 1024  # the most that a pipe can still hold when its writers are dead
_SUPERVISOR = Path(__file__).with_name("supervisor.py")

OnOutput = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Output:
    """One stream of a command, redacted: its last 64 KB as text, and size and SHA-256 of all of it."""

    text: str
    size: int
    sha256: str


NO_OUTPUT = Output("", 0, hashlib.sha256().hexdigest())


@dataclass(frozen=True, slots=True)
class Exit:
    """How a command ended.

    `code` is negative for a signal. `reason` is `exited` (by itself), `terminated` or `killed` (by
    this owner), `signalled` (someone stopped the supervisor), or `supervisor_lost` (someone killed
    the supervisor: the command died with it, children that left its process group may live).
    """

    code: int
    reason: str
    duration_s: float
    stdout: Output
    stderr: Output


class SupervisorLost(errors.HoldfastError):
    """Someone killed the supervisor before it could say whether the command runs: it may have begun."""


class NoThread(errors.HoldfastError):
    """No thread could be started for the output of a command. Its tree was killed, and is dead."""


class Process:
    """A running command. Its methods may be called from any thread."""

    def __init__(self, pid: int, link: _Link, pump: _Pump) -> None:
        self.pid = pid
        self._link = link
        self._pump = pump

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: StrPath,
        env: Mapping[str, str],
        lock_path: StrPath,
        stdin: bytes | None = None,
        on_output: OnOutput | None = None,
        on_quiet: Callable[[], None] | None = None,
        on_start: Callable[[Process], None] | None = None,
        redactor: Redactor | None = None,
    ) -> Process:
        """Start `argv` (no shell) with exactly `env`; returns once the program runs.

        `on_output(stream, text)` gets redacted text from one thread, whole lines where there are
        any; while it blocks, the command's output waits. `on_quiet()` is called by the same thread
        when no more of it has come for QUIET_S. If one raises, the command is killed and `wait`
        raises that error. `on_start` gets the process before an interrupt could lose it; if this
        raises, the whole tree is dead.

        Raises ProgramNotFound, BadInput (working directory, not executable, arguments that no
        program can take), NoThread, and HoldfastError when the lock is held by a tree that still lives.
        """
        message = _instructions(argv, cwd, env)
        link = _spawn(lock_path, len(message), with_stdin=stdin is not None)
        with ExitStack() as undo:
            undo.callback(link.close)
            pid = link.begin(message, argv[0], cwd)
            pump = _Pump(pid, link, stdin or b"", redactor or Redactor(), on_output, on_quiet)
            undo.callback(pump.give_up)
            pump.begin()
            process = cls(pid, link, pump)
            if on_start is not None:
                on_start(process)
            undo.pop_all()  # the pump closes and reaps from here on
        return process

    def wait(self, timeout: float | None = None) -> Exit:
        """Wait for the tree's death; TimeoutError if that takes longer (the command continues)."""
        if not self._pump.done.wait(timeout):
            raise TimeoutError(f"process {self.pid} still runs after {timeout:g} s")
        if self._pump.error is not None:
            raise self._pump.error
        assert self._pump.exit is not None
        return self._pump.exit

    def join(self) -> None:
        """Wait for the tree's death, however it comes."""
        self._pump.done.wait()

    @property
    def ended(self) -> bool:
        """Whether the tree is dead and its last output was passed on."""
        return self._pump.done.is_set()

    def terminate(self, grace_s: float = 2.0) -> None:
        """SIGTERM to the whole tree, SIGKILL to what is left after the grace; does not wait."""
        self._link.order(f"terminate {grace_s:f}")

    def kill(self) -> None:
        """SIGKILL to the whole tree; does not wait."""
        self._link.order("kill")


class _Link:
    """The supervisor as a child process: orders, reports, and the command's standard streams."""

    def __init__(self, control: socket.socket, supervisor: subprocess.Popen[bytes]) -> None:
        self.control = control
        self.supervisor = supervisor
        self._guard = threading.Lock()
        self._pending = b""

    def begin(self, message: bytes, program: str, cwd: StrPath) -> int:
        """Send the instructions; the command's pid, or the error that says why it did not start."""
        try:
            self.control.sendall(message)
        except ConnectionError:
            pass  # it may have said why
        while (words := self.report()) == []:
            pass
        if words is None:
            raise SupervisorLost(f"the supervisor of {program!r} died at its start; run it again")
        if words[0] == "failed":
            _refuse(words[1], int(words[2]), program, cwd)
        return int(words[1])

    def report(self) -> list[str] | None:
        """The next report as words, empty if it is not complete yet; None if the supervisor is gone."""
        if b"\n" not in self._pending:
            try:
                chunk = self.control.recv(4096)
            except ConnectionError:
                return None
            if not chunk:
                return None
            self._pending += chunk
        line, newline, rest = self._pending.partition(b"\n")
        if not newline:
            return []
        self._pending = rest
        return line.decode().split()

    def order(self, line: str) -> None:
        """Send an order; a tree that is dead needs none."""
        with self._guard:
            try:
                self.control.sendall(line.encode() + b"\n")
            except OSError:
                pass

    def close(self) -> None:
        """Hang up, which ends a tree that still lives; close the streams and reap the supervisor."""
        with self._guard:
            self.control.close()
        with self.supervisor:
            pass


class _Stream:
    """One output pipe: decoded, redacted, passed on, and remembered within bounds."""

    def __init__(self, name: str, pipe: IO[bytes] | None, redactor: Redactor, pass_on: OnOutput) -> None:
        assert pipe is not None
        os.set_blocking(pipe.fileno(), False)
        self.pipe = pipe
        self._name = name
        self._redactor = StreamRedactor(redactor)
        self._pass_on = pass_on
        self._digest = hashlib.sha256()
        self._size = 0
        self._tail = bytearray()

    def read(self) -> int | None:
        """Take one chunk: how many bytes it had, 0 at the end, None if nothing is there now."""
        chunk: bytes | None = self.pipe.read(_CHUNK)
        if chunk is None:
            return None
        self._take(self._redactor.feed(chunk))
        return len(chunk)

    def drain(self) -> Output:
        """Take what dead writers have left in the pipe, even if an escaped one holds it open."""
        left = _PIPE_MAX
        while left > 0 and (count := self.read()):
            left -= count
        self._take(self._redactor.flush())
        tail = self._tail[-TAIL_BYTES:].decode(errors="ignore")  # the cut may have split a character
        return Output(tail, self._size, self._digest.hexdigest())

    def _take(self, text: str) -> None:
        if not text:
            return
        data = text.encode()
        self._digest.update(data)
        self._size += len(data)
        self._tail += data
        if len(self._tail) > 2 * TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]
        self._pass_on(self._name, text)


class _Pump:
    """The thread that serves a command's streams from start to end, then closes and reaps everything."""

    def __init__(
        self,
        pid: int,
        link: _Link,
        stdin: bytes,
        redactor: Redactor,
        on_output: OnOutput | None,
        on_quiet: Callable[[], None] | None,
    ) -> None:
        self.exit: Exit | None = None
        self.error: BaseException | None = None
        self.done = threading.Event()
        self._pid = pid
        self._link = link
        self._stdin = memoryview(stdin)
        self._streams = (
            _Stream("stdout", link.supervisor.stdout, redactor, self._pass_on),
            _Stream("stderr", link.supervisor.stderr, redactor, self._pass_on),
        )
        self._on_output = on_output
        self._on_quiet = on_quiet
        self._has_output = False
        """Output was passed on since the last call of `on_quiet`."""
        self._started = time.monotonic()
        # A daemon: an interpreter that ends must not wait for a command, which then ends too.
        self.thread = threading.Thread(target=self._run, name=f"holdfast-process-{pid}", daemon=True)

    def begin(self) -> None:
        """Start the thread. If the system has none, kill the tree, wait here for its death, and raise
        NoThread."""
        try:
            self.thread.start()
        except RuntimeError as error:  # no thread is left, or the interpreter ends
            refused = NoThread(str(error))
            self._give_up(refused)
            self._run()
            raise refused from None

    def give_up(self) -> None:
        """Kill the tree; wait for its end if the thread has begun, as after an interrupt it may have."""
        self._link.order("kill")
        self.done.wait(_BEGIN_S)

    def _run(self) -> None:
        try:
            code, reason = self._serve()
            duration = time.monotonic() - self._started
            stdout, stderr = (stream.drain() for stream in self._streams)
            self.exit = Exit(code, reason, duration, stdout, stderr)
        except BaseException as error:
            self.error = self.error or error
        finally:
            self._link.close()
            self.done.set()

    def _serve(self) -> tuple[int, str]:
        """Move data until the tree is dead; its exit code and the reason."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._link.control, selectors.EVENT_READ)
            for stream in self._streams:
                selector.register(stream.pipe, selectors.EVENT_READ, stream)
            stdin = self._link.supervisor.stdin
            if stdin is not None:
                os.set_blocking(stdin.fileno(), False)
                selector.register(stdin, selectors.EVENT_WRITE)
            while True:
                ready = selector.select(QUIET_S if self._has_output and self._on_quiet is not None else None)
                if not ready:
                    self._be_quiet()
                for key, _ in ready:
                    if isinstance(key.data, _Stream):
                        if key.data.read() == 0:
                            selector.unregister(key.fd)
                    elif stdin is not None and key.fileobj is stdin:
                        if not self._write(stdin):
                            selector.unregister(stdin)
                            stdin.close()
                    elif (end := self._end()) is not None:
                        return end

    def _write(self, stdin: IO[bytes]) -> bool:
        """Write a part of the input; False when all is written, or no process reads it."""
        try:
            self._stdin = self._stdin[stdin.write(self._stdin[:_CHUNK]) or 0 :]
        except BrokenPipeError:
            return False
        return len(self._stdin) > 0

    def _end(self) -> tuple[int, str] | None:
        words = self._link.report()
        if words is None:
            # The kernel has killed the command with its supervisor; this reaches its group.
            try:
                os.killpg(self._pid, signal.SIGKILL)
            except OSError:
                pass
            return -signal.SIGKILL, "supervisor_lost"
        return (int(words[1]), words[2]) if words[:1] == ["ended"] else None

    def _pass_on(self, stream: str, text: str) -> None:
        if self._on_output is None or self.error is not None:
            return
        self._has_output = True
        try:
            self._on_output(stream, text)
        except BaseException as error:
            self._give_up(error)

    def _be_quiet(self) -> None:
        self._has_output = False
        if self._on_quiet is None or self.error is not None:
            return
        try:
            self._on_quiet()
        except BaseException as error:
            self._give_up(error)

    def _give_up(self, error: BaseException) -> None:
        """Output that cannot be recorded is a step that cannot be recorded: end it now."""
        self.error = error
        self._link.order("kill")


def _spawn(lock_path: StrPath, size: int, *, with_stdin: bool) -> _Link:
    """Start the supervisor; it inherits the lock, so that there is no moment without a holder."""
    lock = take_lock(lock_path)
    ours, theirs = socket.socketpair()
    given = (theirs.fileno(), lock)
    numbers = map(str, (*given, os.getpid(), size))
    try:
        supervisor = subprocess.Popen(
            # -I and -S: neither the environment nor site-packages can slow or change it.
            [sys.executable, "-I", "-S", str(_SUPERVISOR), *numbers],
            bufsize=0,
            stdin=subprocess.PIPE if with_stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=given,
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        raise errors.HoldfastError(f"no supervisor could be started: {error}") from error
    finally:
        theirs.close()
        os.close(lock)
    return _Link(ours, supervisor)


def _instructions(argv: Sequence[str], cwd: StrPath, env: Mapping[str, str]) -> bytes:
    """The message of `supervisor.read_instructions`; BadInput for what no program can be given."""
    if isinstance(argv, str) or not argv or not argv[0]:
        raise errors.BadInput(f"a command is a list that starts with a program, not {argv!r}")
    for name in env:
        if not name or "=" in name:
            raise errors.BadInput(f"an environment variable cannot be named {name!r}; rename it")
    pairs = [f"{name}={value}" for name, value in env.items()]
    try:
        parts = [os.fsencode(part) for part in (os.fspath(cwd), str(len(argv)), *argv, *pairs)]
    except UnicodeEncodeError as error:
        raise errors.BadInput(f"an argument or variable of {argv[0]!r} is not valid text: {error}") from error
    if any(b"\0" in part for part in parts):
        raise errors.BadInput(
            f"an argument or variable of {argv[0]!r} has a NUL in it; no program takes that"
        )
    return b"\0".join(parts)


def _refuse(kind: str, number: int, program: str, cwd: StrPath) -> NoReturn:
    """Raise the error that says why the command did not start, and what to do."""
    why = os.strerror(number).lower()
    if kind == "cwd":
        raise errors.BadInput(f"the working directory {os.fspath(cwd)} of {program!r} cannot be used: {why}")
    if kind == "program":
        raise errors.ProgramNotFound(program, f" or in {os.fspath(cwd)}" if "/" in program else "")
    if kind == "interpreter":
        raise errors.BadInput(f"the interpreter in the first line of {program!r} does not exist; install it")
    advice = {
        errno.EACCES: "it is not executable; `chmod +x` it",
        errno.ENOEXEC: "it is not a program; a script needs a first line like `#!/bin/sh`",
        errno.E2BIG: "its arguments and environment are too long; pass the data by stdin or a file",
    }
    if number in advice:
        raise errors.BadInput(f"{program!r} cannot be started: {advice[number]}")
    raise errors.HoldfastError(f"{program!r} cannot be started: {why}")
