"""The target of `holdfast run`: a function in a module or a file, a plan, or a command."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.errors import BadInput, ProgramNotFound
from holdfast.facade.loading import WorkflowPlace, find_workflow
from holdfast.shell_syntax import shell_syntax
from holdfast.spelling import did_you_mean

PLAN_SUFFIXES = (".yaml", ".yml", ".md")


class Function(NamedTuple):
    """A workflow by its place, not yet loaded."""

    place: WorkflowPlace


class PlanFile(NamedTuple):
    """A plan by its file, not yet read."""

    path: str


class Command(NamedTuple):
    """A program and its arguments. `line` is what was typed, and what the run is called."""

    argv: tuple[str, ...]
    line: str


def parse(
    words: Sequence[str], after_dashes: Sequence[str], options: Sequence[str] = ()
) -> tuple[Function | Command | PlanFile, list[str]]:
    """The target and the arguments for it. What comes after `--` without a target before it is a
    command, word for word. `options` are those of the command line, for a command to copy."""
    if not words:
        if not after_dashes:
            raise BadInput("nothing to run; `holdfast run --help` shows how")
        return Command(tuple(after_dashes), shlex.join(after_dashes)), []
    target, rest = words[0], [*words[1:], *after_dashes]
    if is_plan_file(target):
        if rest:
            raise BadInput(f"a plan takes its input by name: --input {shlex.quote(f'NAME={rest[0]}')}")
        return PlanFile(target), []
    place = find_workflow(target)
    if place is not None:
        return Function(place), rest
    return _command(target, rest, options), []


def _command(target: str, rest: list[str], options: Sequence[str]) -> Command:
    if rest and re.search(r"\s", target):
        raise BadInput(
            f"{target!r} is a whole command line; put the other words into it, or write `-- CMD ARGS`"
        )
    if rest:
        argv = (target, *rest)
        return Command(argv, shlex.join(argv))
    try:
        argv = tuple(shlex.split(target))
    except ValueError as error:
        raise BadInput(f"{target!r} cannot be split into words: {str(error).lower()}") from None
    if not argv:
        raise BadInput("nothing to run; `holdfast run --help` shows how")
    sign = shell_syntax(target)
    if sign is not None:
        line = shlex.join(["holdfast", "run", *options, "--", "sh", "-c", target.strip()])
        raise BadInput(
            f"no shell reads a command line here, and {sign!r} needs one: `{line}`; to pass these characters "
            "to the program as they are, put them into single quotes inside the command line"
        )
    return Command(argv, target.strip())


def is_plan_file(word: str) -> bool:
    """Whether the word is the file of a plan, or would be if it were there."""
    if not word.endswith(PLAN_SUFFIXES):
        return False
    return Path(word).is_file() or not re.search(r"\s", word)


def check_program(command: Command) -> None:
    """Raises ProgramNotFound, with a hint where the words look like a goal and not like a program."""
    from shutil import which

    program = command.argv[0]
    if which(program) is not None:
        return
    path = Path(program)
    if "/" in program and path.is_file() and path.suffix != ".py":
        raise BadInput(f"{program} is not executable; `chmod +x` it, or run it with its interpreter")
    if path.suffix == ".py" and path.is_file():
        raise BadInput(_file_without_name(path, program))
    raise ProgramNotFound(program, _hint(command))


def _file_without_name(path: Path, shown: str) -> str:
    from holdfast.facade.workflow_names import listed

    there = listed(path, shown)
    if there:
        return f"{shown} is a file; name the workflow in it: {there}"
    return f"{shown} has no @workflow; `holdfast run -- python {shlex.quote(shown)}` runs it as a program"


def _hint(command: Command) -> str:
    words = command.argv
    prose = all(re.fullmatch(r"[\w'’.,;:!?()\"-]+", word) and not word.startswith("-") for word in words)
    if len(words) > 1 and prose:
        goal = shlex.quote(" ".join(words))
        return (
            f"; it reads like a goal: did you mean `holdfast deliver {goal}`? "
            "`holdfast run -- PROGRAM ARGS` runs a program, `holdfast run FILE.py:NAME` a workflow"
        )
    otherwise = "check its name, or write its path"
    return f"; {did_you_mean(words[0], _programs(), otherwise, cutoff=0.75, written=repr)}"


def _programs() -> list[str]:
    found: set[str] = set()
    for directory in os.get_exec_path():
        try:
            found.update(path.name for path in Path(directory).iterdir())
        except OSError:
            continue
    return sorted(found)


def load(function: Function) -> Any:
    """The workflow, in a process that is for its code alone. Raises `CodeNotFound`, with the workflows that
    there are."""
    import gc

    gc.enable()
    return function.place.load(own_process=True)


def arguments(function: Any, words: Sequence[str], named: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and named arguments for the function. Raises BadInput for one that does not fit."""
    from holdfast.cli.parameters import Parameters

    takes = Parameters(function)
    keywords: dict[str, Any] = {}
    for pair in named:
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise BadInput(f"--arg {pair!r} must be NAME=VALUE")
        if name in keywords:
            raise BadInput(f"--arg {name} was given twice")
        keywords[name] = takes.value_as(name, text)
    return takes.positional(words), keywords
