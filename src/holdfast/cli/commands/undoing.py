"""`holdfast undo` and `redo`: reverse an operation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import access, options
from holdfast.cli.drawing import effects
from holdfast.cli.drawing.terminal import Line, out
from holdfast.ways import Way

if TYPE_CHECKING:
    from holdfast import Undo


_options = options.together(
    options.no_files,
    options.partial,
    click.option("--rerun-once", is_flag=True, help="Let `once` steps that were done since run again."),
    options.previewed,
    options.json_object,
)


@click.command("undo")
@click.argument("operation", required=False)
@_options
def undo_command(operation: str | None, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Undo OPERATION, also an undo; without it, your own last one.

    The run is again what it was: its steps, decisions and signals, its status, its result and its files.
    What others changed in these since stays, and is named. What the run did since is put aside,
    and another undo brings that back. What you did to a task or a memory (complete, link, forget, ...) is
    undone the same way, unless someone else has changed it since. A note and a claim are no operations: after
    one of them, undo without OPERATION is refused, and names it. `holdfast op log` lists operations.
    """
    with access.open_for(dry_run) as hf:
        done = hf.undo(operation, dry_run=dry_run, **_arguments(given))
    _show(done, given["rerun_once"], as_json)


@click.command("redo")
@_options
def redo_command(dry_run: bool, as_json: bool, **given: Any) -> None:
    """Undo your last undo that still stands: what it reversed is done again.

    `holdfast undo OPERATION` does the same for any other undo.
    """
    with access.open_for(dry_run) as hf:
        done = hf.redo(dry_run=dry_run, **_arguments(given))
    _show(done, given["rerun_once"], as_json)


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    """The options as `hf.undo` takes them."""
    return {"files": not given["no_files"]} | {
        name: value for name, value in given.items() if name != "no_files"
    }


def _show(done: Undo, rerun_once: bool, as_json: bool) -> None:
    if as_json:
        out.json(done.to_json())
    else:
        effects.show(_describe(done, rerun_once))


def _describe_deletion(done: Undo) -> Iterator[Line]:
    verb = "was undone" if done.operation else "would be undone"
    again = "there again" if done.status == "restored" else "deleted again"
    yield [f"{done.kind} {done.undoes} {verb}: ", (done.summary, "bold"), f" {again}"]
    yield from effects.deleted(done.items)
    if done.operation:
        yield from effects.ways(Way("undo", "", {"operation": done.operation}, "undoes this in turn"))
    else:
        yield from effects.plan(done.plan)


def _describe(done: Undo, rerun_once: bool) -> Iterator[Line]:
    if done.items:
        yield from _describe_deletion(done)
        return
    verb = "was undone" if done.operation else "would be undone"
    if done.run_id:
        yield [
            f"{done.kind} {done.undoes} of run ",
            (done.run_id, "bold"),
            f" {verb}: it is {done.status.replace('_', ' ')}" + (" again" if done.kind != "restore" else ""),
            (f", in generation {done.generation}", "dim"),
        ]
    else:
        yield [f"{done.kind} {done.undoes} {verb}"]
    yield from effects.names("put aside", done.left)
    if done.operation or rerun_once:
        yield from effects.names("once", done.once, "done since, and run again", "yellow")
    else:
        yield from effects.names("once", done.once, "done since; only with --rerun-once", "yellow")
    yield from effects.files(done.files)
    yield from effects.parts("tasks", done.tasks)
    yield from effects.parts("memory", done.memory)
    yield from effects.git(done.git)
    if done.operation:
        yield from effects.ways(Way("undo", "", {"operation": done.operation}, "undoes this in turn"))
    else:
        yield from effects.plan(done.plan)
