"""Verification: commands that must succeed, each a recorded step whose result is kept."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from holdfast.agents.deliver.step_changes import windows_of
from holdfast.engine.execution.call import Call
from holdfast.engine.execution.scope import Scope, current
from holdfast.engine.primitives.command import command
from holdfast.engine.primitives.snapshot import changes
from holdfast.engine.primitives.step import step
from holdfast.errors import BadInput, ProgramNotFound, StepTimeout
from holdfast.plans.test_command import test_command
from holdfast.shell_syntax import shell_syntax

_CHECK = "check"
"""The name of the step of each command."""
TAIL_CHARS = 4000
"""So much of the end of a command's output goes to the developer and into the record."""


class CheckResult(msgspec.Struct, frozen=True):
    """One command: how it ended, and the end of what it printed. It passed if it ended with 0; `exit_code` is
    None if its time was over."""

    command: str
    exit_code: int | None
    duration_s: float
    output: str

    @property
    def passed(self) -> bool:
        return self.exit_code == 0

    @property
    def sentence(self) -> str:
        """How it ended, in words."""
        how = "took too long" if self.exit_code is None else f"ended with {self.exit_code}"
        return f"{self.command}: {how}"


def check_lines(lines: Sequence[str]) -> None:
    """Raise `BadInput` unless each command line can be split into words: no shell reads them."""
    for line in lines:
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise BadInput(f"the check {line!r} cannot be split into words: {str(error).lower()}") from None
        if not words:
            raise BadInput("a check is empty; write a command, such as `pytest -q`")
        sign = shell_syntax(line)
        if sign is not None:
            raise BadInput(
                f"no shell reads the check {line!r}, and {sign!r} needs one: {shlex.join(['sh', '-c', line])}"
            )


def check_programs(lines: Sequence[str], root: Path | None) -> None:
    """Raise `ProgramNotFound` for a program that is not there: nothing would be verified. A path in the
    workspace, whose root is given, may be made by the work."""
    for line in lines:
        program = shlex.split(line)[0]
        in_workspace = "/" in program and root is not None and Path(program).resolve().is_relative_to(root)
        if not in_workspace and shutil.which(program) is None:
            raise ProgramNotFound(program, f", which the check {line!r} names; --check names another")


@step(name="find_checks")
def find_checks() -> list[str]:
    """The command that tests the project, recognised by its files; empty if there is none."""
    call = current.get()
    assert isinstance(call, Call)
    words = test_command(call.execution.engine.files.of_run(call.execution.state).root)
    return [shlex.join(words)] if words else []


async def run_checks(lines: Sequence[str], timeout_s: float) -> list[CheckResult]:
    """Run each command, also after one that failed: the developer gets every failure at once."""
    return [await _run(line, timeout_s) for line in lines]


async def changed_by_checks() -> set[str]:
    """The files that the commands of this run have changed or added."""
    found: set[str] = set()
    for before, after in windows_of(f"{_CHECK}#"):
        found |= {one.path for one in await changes.aio(before, after)}
    return found


async def _run(line: str, timeout_s: float) -> CheckResult:
    try:
        done = await command.aio(
            shlex.split(line), name=_CHECK, cwd=_directory(), check=False, timeout=timeout_s
        )
    except StepTimeout:
        return CheckResult(line, None, timeout_s, "")
    printed = "\n".join(text.rstrip("\n") for text in (done.stdout, done.stderr) if text)
    return CheckResult(line, done.exit_code, done.duration_s, printed[-TAIL_CHARS:])


def _directory() -> str | None:
    """Where the run was started, if that is in the workspace; else the workspace's root."""
    scope = current.get()
    assert type(scope) is Scope
    run = scope.execution
    root = run.engine.files.of_run(run.state).root
    return None if Path(run.state.code.cwd or ".").resolve().is_relative_to(root) else str(root)
