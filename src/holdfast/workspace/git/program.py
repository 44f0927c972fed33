"""The git program: called so that it does what it is asked and nothing else.

A repository's own configuration starts no programs (hooks, a file monitor, transports), the caller's
environment points it to no other repository, and it never prompts.
"""

from __future__ import annotations

import os
import subprocess

from holdfast.errors import GitFailed

_SETTINGS = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "protocol.allow=never")
"""No monitor, no hooks, and no fetching of objects that a partial clone has left at its remote."""
_KEPT = ("GIT_CEILING_DIRECTORIES", "GIT_CONFIG_", "GIT_DISCOVERY_ACROSS_FILESYSTEM", "GIT_EXEC_PATH")
"""Where to look, and configuration, which is how a container says `safe.directory`."""
_DROPPED = "GIT_CONFIG_PARAMETERS"
"""Variables of a `git -c` that started this process."""

NOT_INSTALLED = "git is not installed"


def argv(top: bytes, *arguments: str) -> list[bytes | str]:
    """The command line for a repository: the one that the directory `top` is in."""
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    return ["git", *settings, "-C", top, *arguments]


def environment() -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or (name.startswith(_KEPT) and name != _DROPPED)
    }
    return {**kept, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


def run(top: bytes, *arguments: str, stdin: bytes = b"", index: str | None = None) -> bytes:
    """The output of git; `index` is a file to use in place of the repository's index. Raises GitFailed."""
    return complete(top, *arguments, stdin=stdin, index=index).stdout


def complete(
    top: bytes, *arguments: str, stdin: bytes = b"", index: str | None = None
) -> subprocess.CompletedProcess[bytes]:
    """As `run`, with the warnings that git printed."""
    environ = environment()
    if index is not None:
        environ["GIT_INDEX_FILE"] = index
    try:
        done = subprocess.run(
            argv(top, *arguments), input=stdin, capture_output=True, env=environ, check=False
        )
    except FileNotFoundError as exc:
        raise GitFailed(arguments[0], NOT_INSTALLED) from exc
    except OSError as exc:
        raise GitFailed(arguments[0], f"git cannot be started ({exc.strerror})") from exc
    if done.returncode:
        raise GitFailed(arguments[0], _reason(done.stderr, done.returncode), done.stdout)
    return done


def _reason(stderr: bytes, code: int) -> str:
    """Git's own word for it, without what it says around it."""
    lines = stderr.decode(errors="replace").splitlines()
    for line in lines:
        kind, _, text = line.partition(": ")
        if kind in ("fatal", "error"):
            return text
    return lines[0] if lines else f"exit code {code}"
