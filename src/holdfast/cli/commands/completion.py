"""`holdfast completion`: the script for a shell, and what it completes.

The shell calls the program with `_HOLDFAST_COMPLETE` set, and click finds the parameter that is being
typed. What a parameter is called says what it takes: a `run` is a run's id in every command. Whatever
goes wrong after Tab was pressed is not reported: then there is nothing to offer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

from holdfast.cli.drawing import moments
from holdfast.cli.drawing.terminal import clean, out
from holdfast.errors import BadInput

if TYPE_CHECKING:
    from holdfast.handle import Holdfast
    from holdfast.views.records import RunInfo

    _Type = click.ParamType[str]
else:
    _Type = click.ParamType

VARIABLE = "_HOLDFAST_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
_MOST = 100


@click.command("completion")
@click.argument("shell", shell_complete=lambda _, __, word: [one for one in SHELLS if one.startswith(word)])
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print the script that lets SHELL complete commands, options, run ids and step names.

    \b
    holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast
    holdfast completion zsh  > ~/.zfunc/_holdfast    (a directory of your $fpath)
    holdfast completion fish > ~/.config/fish/completions/holdfast.fish
    """
    kind = get_completion_class(shell) if shell in SHELLS else None
    if kind is None:
        raise BadInput(f"nothing is known of the shell {shell!r}; there are {', '.join(SHELLS)}")
    # Not as `BashComplete` does it, which starts a shell to ask for its version.
    out.text(ShellComplete.source(kind(ctx.find_root().command, {}, "holdfast", VARIABLE)))


def teach(command: click.Command) -> None:
    """Let the parameters of a command know what they take."""
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    for one in (command, *inner):
        for param in one.params:
            kind = _TAKES.get(param.name or "")
            if kind is not None:
                param.type = kind


class _FromStore(_Type):
    """Completions are read from the store that the command line names."""

    name = "text"

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        from holdfast.cli import access

        try:
            with ctx.scope(cleanup=False), access.open_to_read() as hf:
                return list(self.offer(hf, ctx, incomplete))
        except Exception:
            return []

    def offer(self, hf: Holdfast, ctx: click.Context, incomplete: str) -> Iterator[CompletionItem]:
        raise NotImplementedError


class _RunId(_FromStore):
    def offer(self, hf: Holdfast, ctx: click.Context, incomplete: str) -> Iterator[CompletionItem]:
        """The newest first; for `resume`, those that it would continue."""
        resumable = ctx.command.name == "resume"
        newest = hf.page(resumable=resumable, parent="", limit=_MOST).runs
        found = [run for run in newest if run.id.startswith(incomplete)]
        if incomplete and not found:
            found = [hf.get(run_id) for run_id in hf.ids(incomplete, _MOST)]
        yield from map(_run, found)


class _StepName(_FromStore):
    def offer(self, hf: Holdfast, ctx: click.Context, incomplete: str) -> Iterator[CompletionItem]:
        """Names, or whole keys where one is being typed; for `settle`, of steps in doubt."""
        # An option that still lacks its value keeps click from telling the arguments apart.
        run = ctx.params.get("run") or ctx.args[0]
        steps = hf.steps(hf.find(run))
        if ctx.command.name == "settle":
            steps = [step for step in steps if step.status == "in_doubt"] or steps
        whole = any(mark in incomplete for mark in "#@/[")
        known = dict.fromkeys(step.key if whole else step.name for step in steps)
        yield from _items(name for name in known if name.startswith(incomplete))


class _OpenGate(_FromStore):
    def offer(self, hf: Holdfast, ctx: click.Context, incomplete: str) -> Iterator[CompletionItem]:
        """Approvals as `approve` and `reject` take them, or the signals that are waited for."""
        detail = hf.get(hf.find(ctx.params.get("run") or ctx.args[0]))
        signals = ctx.command.name == "signal"
        for gate in detail.gates:
            if gate.is_open and (gate.kind == "signal") is signals:
                place = gate.title if signals else gate.place
                if place.startswith(incomplete):
                    yield CompletionItem(place, help=clean(gate.title))


class _OperationId(_FromStore):
    def offer(
        self,
        hf: Holdfast,
        ctx: click.Context,  # noqa: ARG002
        incomplete: str,
    ) -> Iterator[CompletionItem]:
        """Those that still stand, the newest first."""
        for one in hf.operations(limit=_MOST):
            if one.stands and one.id.startswith(incomplete):
                what = f"{one.kind} of {one.run_id}, {moments.ago(one.at)}"
                yield CompletionItem(one.id, help=clean(what))


_RUN_ID = _RunId()
_TAKES: dict[str, click.ParamType[Any]] = {
    "run": _RUN_ID,
    "parent": _RUN_ID,
    "step": _StepName(),
    "gate": _OpenGate(),
    "name": _OpenGate(),
    "operation": _OperationId(),
    "words": click.Path(),
    "home": click.Path(file_okay=False),
}


def _run(run: RunInfo) -> CompletionItem:
    status = "interrupted" if run.interrupted else run.status.replace("_", " ")
    return CompletionItem(run.id, help=f"{status} {moments.ago(run.updated_at)}: {clean(run.workflow)}")


def _items(values: Iterable[str]) -> Iterator[CompletionItem]:
    return (CompletionItem(value) for value in values)
