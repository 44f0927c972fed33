"""A command that is hard to kill: `python -I -S limb.py SIDE RUN LIMBS`, LIMBS of `plain`, `deep`, `deaf`.

The command says `began RUN shell#1`, and every process of its family says `beat RUN OWNER` many times a
second for as long as it lives. `plain` only lasts; `deep` has children that left by a double fork and
`setsid`, one that does nothing but fork, and one that is stopped; `deaf` is that, and no process of it hears
SIGTERM or SIGHUP. It ends when the file SIDE.go is there.
"""

import os
import signal
import sys
import time

SIDE, RUN, LIMBS = sys.argv[1:4]
OWNER = os.environ["CRASH_OWNER"]
_fd = os.open(SIDE, os.O_WRONLY | os.O_APPEND)


def say(*words: str) -> None:
    os.write(_fd, f"{time.monotonic_ns()} {os.getpid()} {' '.join(words)}\n".encode())


def beat() -> None:
    while not os.path.exists(SIDE + ".go"):
        say("beat", RUN, OWNER)
        time.sleep(0.01)


def leave() -> None:
    """A grandchild in a session of its own, whose parent is gone."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            beat()
        os._exit(0)


def sprout() -> None:
    """A child that does nothing but have children, each short-lived."""
    if os.fork() == 0:
        while not os.path.exists(SIDE + ".go"):
            pid = os.fork()
            if pid == 0:
                say("beat", RUN, OWNER)
                time.sleep(0.03)
                os._exit(0)
            time.sleep(0.01)
            os.waitpid(-1, os.WNOHANG)
        os._exit(0)


def freeze() -> None:
    """A child that is stopped."""
    if os.fork() == 0:
        say("beat", RUN, OWNER)
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)


def main() -> None:
    if LIMBS == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    say("began", RUN, "shell#1")
    if LIMBS != "plain":
        leave()
        leave()
        sprout()
        freeze()
    say("grown", RUN, OWNER)
    beat()
    say("ended", RUN, "shell#1", "-")


main()
