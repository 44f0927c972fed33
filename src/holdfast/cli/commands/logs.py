"""`holdfast logs`: what the commands and steps of a run printed, and what they print."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from holdfast.cli import access, options
from holdfast.cli.drawing.moments import stamp
from holdfast.cli.drawing.terminal import clean, out, say
from holdfast.views.following import may_print

if TYPE_CHECKING:
    from holdfast.handle import Holdfast
    from holdfast.views.records import LogLine, RunInfo


@click.command("logs")
@click.argument("run")
@click.option("-f", "--follow", is_flag=True, help="Keep printing until the run ends or stops.")
@click.option("--step", metavar="STEP", help="Only this step: its whole name, or just `build`.")
@click.option(
    "--since-version",
    type=options.WholeNumber(0),
    default=0,
    metavar="N",
    help="Only what came after this version of the run (`version` in --json).",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON list of pieces of output; with -f one on each line."
)
def logs_command(run: str, follow: bool, step: str | None, since_version: int, as_json: bool) -> None:
    """Print what the commands and Python steps of a run printed and logged, redacted.

    Of a step: what it wrote to `sys.stdout` and `sys.stderr`, and its log records. The setting
    `capture_output` turns that off.

    Where the output of another attempt or command begins, a line on standard error names it.

    A terminal obeys nothing in it but colours: other control sequences, and characters that would not be
    seen, show as signs. A pipe gets it as it is.
    """
    with access.open_to_read() as hf:
        info = access.detail(hf, run)
        if step is not None and not (follow and may_print(info)) and not _can_print(hf, info.id, step):
            say(
                f"{step} of run {info.id} is neither a command nor a step, and only those print; "
                f"`holdfast show {info.id} --step {shlex.quote(step)}` shows its arguments and its result"
            )
            if not as_json:
                return
        attempts = _Attempts()
        if follow:
            for line in hf.follow_logs(info.id, step, since_version):
                _print_line(line, attempts, as_json)
            say(_end(hf.get(info.id)))
            return
        lines = hf.logs(info.id, step, since_version)
        if as_json:
            out.json([line.to_json() for line in lines])
            return
        attempts = _Attempts(several=len({(line.step, line.attempt) for line in lines}) > 1)
        for line in lines:
            _print_line(line, attempts, as_json)
        out.end_line()
        if not lines:
            since = f" after version {since_version}" if since_version else ""
            what = f"{step} of run {info.id}" if step is not None else f"run {info.id}"
            say(f"{what} printed nothing{since}{_switched_off(hf)}")


def _switched_off(hf: Holdfast) -> str:
    on = hf.settings.capture_output
    return "" if on else "; what steps print is not kept: the setting `capture_output` is off"


def _can_print(hf: Holdfast, run_id: str, step: str) -> bool:
    """Whether a step of this name is a command, or code. Raises NotFound with the nearest names."""
    return any(one.kind in ("command", "step") for one in hf.steps(run_id, step))


def _end(info: RunInfo) -> str:
    if info.interrupted:
        return f"run {info.id} is interrupted; `holdfast resume {info.id}` continues"
    if info.status == "completed":
        return f"run {info.id} is completed"
    status = {"needs_attention": "needs attention"}.get(info.status, f"is {info.status}")
    return f"run {info.id} {status}; `holdfast show {info.id}` says why"


class _Attempts:
    """Where the output of an attempt begins: a line on standard error, so that standard output is what was
    printed and nothing else. A single attempt has none, nor the first one that is followed, unless there are
    `several`."""

    def __init__(self, *, several: bool = False) -> None:
        self._several = several
        self._seen: set[tuple[str, int]] = set()

    def mark(self, line: LogLine) -> None:
        this = line.step, line.attempt
        if this not in self._seen:
            if self._several or self._seen or line.attempt > 1:
                mark = f"--- {clean(line.step)}, attempt {line.attempt}, {stamp(line.at)}"
                say([(mark, "dim")])
            self._seen.add(this)


def _print_line(line: LogLine, attempts: _Attempts, as_json: bool) -> None:
    if not as_json:
        attempts.mark(line)
        out.printed(line.text)
        return
    import msgspec

    out.json_text(msgspec.json.encode(line.to_json()).decode() + "\n")
