"""`holdfast undo`: take an operation back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import access, effects
from holdfast.cli.terminal import Line, out

if TYPE_CHECKING:
    from holdfast.operations.undoing import Undo
    from holdfast.store.port import Store


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print a JSON object."),
        click.option("--dry-run", is_flag=True, help="Only show what would be done."),
        click.option("--rerun-once", is_flag=True, help="Let `once` steps that were done since run again."),
        click.option("--partial", is_flag=True, help="Go on without files whose saved content is damaged."),
        click.option("--no-files", is_flag=True, help="Leave the files as they are."),
    ):
        command = option(command)
    return command


@click.command("undo")
@click.argument("operation", required=False)
@_options
def undo_command(
    operation: str | None, no_files: bool, partial: bool, rerun_once: bool, dry_run: bool, as_json: bool
) -> None:
    """Take back OPERATION, also an undo; without it, your own last one.

    The run is again what it was: its steps, decisions and signals, its status, its result and its files.
    What somebody else changed in these since stays, and is named. What the run did since is put aside,
    and another undo brings that back. `holdfast op log` lists operations.
    """
    _undo(lambda _: operation, no_files, partial, rerun_once, dry_run, as_json)


@click.command("redo")
@_options
def redo_command(no_files: bool, partial: bool, rerun_once: bool, dry_run: bool, as_json: bool) -> None:
    """Take back your last undo that still stands: what it took back is done again.

    `holdfast undo OPERATION` does the same for any other undo.
    """
    from holdfast.engine.outside.steering import user
    from holdfast.operations.operation_log import last_undo_of

    _undo(lambda store: last_undo_of(store, user()).id, no_files, partial, rerun_once, dry_run, as_json)


def _undo(
    choose: Callable[[Store], str | None],
    no_files: bool,
    partial: bool,
    rerun_once: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    from holdfast.engine.outside.steering import user
    from holdfast.operations.undoing import undo

    with access.open_to_execute() as (opened, engine):
        done = undo(
            engine, choose(opened.store), by=user(), files=not no_files, partial=partial,
            rerun_once=rerun_once, dry_run=dry_run,
        )  # fmt: skip
    if as_json:
        out.json(_fields(done))
    else:
        effects.show(_describe(done, rerun_once))


def _fields(done: Undo) -> dict[str, Any]:
    return {
        "run": done.run_id,
        "undoes": done.undoes,
        "kind": done.kind,
        "generation": done.generation,
        "status": done.status,
        "left": done.left,
        "once": done.once,
        "operation": done.operation or None,
        "files": effects.files_fields(done.files),
        "git": effects.git_fields(done.git),
    }


def _describe(done: Undo, rerun_once: bool) -> Iterator[Line]:
    verb = "was taken back" if done.operation else "would be taken back"
    yield [
        f"{done.kind} {done.undoes} of run ",
        (done.run_id, "bold"),
        f" {verb}: it is {done.status.replace('_', ' ')}" + (" again" if done.kind != "restore" else ""),
        (f", in generation {done.generation}", "dim"),
    ]
    yield from effects.names("put aside", done.left)
    if done.operation or rerun_once:
        yield from effects.names("once", done.once, "done since, and run again", "yellow")
    else:
        yield from effects.names("once", done.once, "done since; only with --rerun-once", "yellow")
    yield from effects.files(done.files)
    yield from effects.git(done.git)
    if done.operation:
        yield from effects.ways((f"holdfast undo {done.operation}", "takes this back in turn"))
