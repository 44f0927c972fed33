"""`holdfast logs`: what the commands and steps of a run printed, and what they print."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import access
from holdfast.cli.moments import stamp
from holdfast.cli.terminal import clean, out, say
from holdfast.errors import RunNotFound, StepNotFound
from holdfast.kernel.identity import matches
from holdfast.kernel.state import ENDED

if TYPE_CHECKING:
    from holdfast.cli.access import Opened
    from holdfast.engine.reading import Reading
    from holdfast.engine.records import LogLine, RunInfo

_LOOK_EVERY_S = 0.05


@click.command("logs")
@click.argument("run")
@click.option("-f", "--follow", is_flag=True, help="Go on with what is printed, until the run ends or stops.")
@click.option("--step", metavar="STEP", help="Only this step: its whole name, or just `build`.")
@click.option(
    "--since-version",
    type=click.IntRange(0),
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
    with access.open_to_read() as opened:
        info = opened.run(run)
        if step is not None and not (follow and _goes_on(info)) and not _can_print(opened, info.id, step):
            say(
                f"{step} of run {info.id} is neither a command nor a step, and only those print; "
                f"`holdfast show {info.id} --step {shlex.quote(step)}` shows what it got and gave"
            )
            if not as_json:
                return
        attempts = _Attempts()
        if follow:
            for version, line in _follow(opened.reading, info.id, since_version):
                if step is None or matches(line.step, step):
                    _print_line(version, line, attempts, as_json)
            return
        lines = list(opened.reading.logs(info.id, step, since_version))
        if as_json:
            out.json([_fields(version, line) for version, line in lines])
            return
        attempts = _Attempts(several=len({(line.step, line.attempt) for _, line in lines}) > 1)
        for version, line in lines:
            _print_line(version, line, attempts, as_json)
        if not lines:
            since = f" after version {since_version}" if since_version else ""
            what = f"{step} of run {info.id}" if step is not None else f"run {info.id}"
            say(f"{what} printed nothing{since}{_switched_off(opened)}")


def _switched_off(opened: Opened) -> str:
    on = opened.place.resolved.settings.capture_output
    return "" if on else "; what steps print is not kept: the setting `capture_output` is off"


def _can_print(opened: Opened, run_id: str, step: str) -> bool:
    """Whether a step of this name is a command, or code. Raises NotFound with the nearest names."""
    known = opened.reading.steps(run_id)
    found = [one for one in known if matches(one.key, step)]
    if not found:
        from difflib import get_close_matches

        from holdfast.cli.points import missing

        nearest = get_close_matches(step, [one.key for one in known], n=3, cutoff=0.4)
        raise missing(opened, StepNotFound(run_id, step, nearest), "step")
    return any(one.kind in ("command", "step") for one in found)


def _follow(reading: Reading, run_id: str, after: int) -> Iterator[tuple[int, LogLine]]:
    """Output as it comes, until nobody adds to it any more; then a word on why."""
    while True:
        info = reading.run(run_id)  # before its output: what it printed at its end is still to be read
        if info is None:
            raise RunNotFound(run_id)
        for version, line in reading.logs(run_id, after=after):
            yield version, line
            after = version
        if not _goes_on(info):
            say(_end(info))
            return
        time.sleep(_LOOK_EVERY_S)


def _goes_on(info: RunInfo) -> bool:
    """Whether the run may print more without anybody resuming it."""
    return info.status not in (*ENDED, "needs_attention") and not info.interrupted


def _end(info: RunInfo) -> str:
    if info.interrupted:
        return f"run {info.id} is interrupted; `holdfast resume {info.id}` goes on"
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
        self._at_left = True

    def mark(self, line: LogLine) -> None:
        this = line.step, line.attempt
        if this not in self._seen:
            if self._several or self._seen or line.attempt > 1:
                mark = f"--- {clean(line.step)}, attempt {line.attempt}, {stamp(line.at)}"
                say([("" if self._at_left or not out.is_terminal else "\n"), (mark, "dim")])
            self._seen.add(this)
        self._at_left = line.text.endswith("\n")


def _print_line(version: int, line: LogLine, attempts: _Attempts, as_json: bool) -> None:
    if not as_json:
        attempts.mark(line)
        out.printed(line.text)
        return
    import msgspec

    out.json_text(msgspec.json.encode(_fields(version, line)).decode() + "\n")


def _fields(version: int, line: LogLine) -> dict[str, Any]:
    """The stable fields of a piece of output in JSON."""
    return {
        "version": version,
        "step": line.step,
        "attempt": line.attempt,
        "source": line.source,
        "text": line.text,
        "at": line.at.isoformat(),
    }
