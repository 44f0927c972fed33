"""A pager for long texts: `$PAGER`, else `less`, else `more`; where there is none, the text is printed."""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
from collections.abc import Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from holdfast.cli.drawing.terminal import err

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOOK_EVERY_S = 0.1


def page(lines: Iterable[str], until: int) -> None:
    """Show the lines, until the person leaves the pager or something is to be read from the descriptor
    `until`. The lines must be inert."""
    text = "".join(f"{line}\n" for line in lines)
    command = _command()
    if not command:
        err.offer(text)
        return
    with _in_the_foreground() as terminal:
        try:
            pager = subprocess.Popen(command, stdin=subprocess.PIPE, process_group=0)
        except OSError:
            err.offer(text)
            return
        _give(terminal, pager.pid)
        end = signal.SIGTERM
        try:
            if _feed(pager, text, until) == "stopped":
                end = signal.SIGKILL  # a SIGTERM would wait until it continues
        finally:
            if pager.poll() is None:
                os.killpg(pager.pid, end)
            pager.wait()


def _command() -> list[str]:
    """The words of the pager; none if there is none."""
    from shutil import which

    try:
        named = shlex.split(os.environ.get("PAGER", ""))
    except ValueError:
        named = []
    for words in (named, ["less"], ["more"]):
        if words and which(words[0]):
            return words
    return []


def _feed(pager: subprocess.Popen[bytes], text: str, until: int) -> Literal["ended", "stopped", "called"]:
    """Write as much as it reads, and wait for its end. Ctrl-Z stops it, and no shell continues it."""
    assert pager.stdin is not None
    left = memoryview(text.encode("utf-8", "replace"))
    os.set_blocking(pager.stdin.fileno(), False)
    while pager.returncode is None:
        if _has_stopped(pager):
            return "stopped"
        wants = [pager.stdin] if left else []
        stop, ready, _ = select.select([until], wants, [], _LOOK_EVERY_S)
        if stop:
            return "called"
        if ready:
            try:
                left = left[os.write(pager.stdin.fileno(), left) :]
            except BrokenPipeError:
                left = left[:0]
            if not left:
                pager.stdin.close()
    return "ended"


def _has_stopped(pager: subprocess.Popen[bytes]) -> bool:
    """Whether it was stopped. Its end is noted too: `Popen.poll` sees no stop, and macOS has no `waitid`."""
    pid, status = os.waitpid(pager.pid, os.WNOHANG | os.WUNTRACED)
    if pid and os.WIFSTOPPED(status):
        return True
    if pid:
        pager.returncode = os.waitstatus_to_exitcode(status)
    return False


@contextmanager
def _in_the_foreground() -> Iterator[int]:
    """The terminal, which the pager gets for itself, so that Ctrl-C in it is not a signal to the run. At the
    end it is ours again, and in the mode that it was in."""
    import termios

    terminal = os.open("/dev/tty", os.O_RDWR)
    mode = termios.tcgetattr(terminal)
    # A process in the background that takes the terminal back is stopped, unless it ignores this.
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        yield terminal
    finally:
        _give(terminal, os.getpgrp())
        termios.tcsetattr(terminal, termios.TCSADRAIN, mode)
        signal.signal(signal.SIGTTOU, before)
        os.close(terminal)


def _give(terminal: int, group: int) -> None:
    try:
        os.tcsetpgrp(terminal, group)
        if group != os.getpgrp():
            os.killpg(group, signal.SIGCONT)  # it may have asked for the terminal before it had it
    except OSError:
        pass  # it has ended
