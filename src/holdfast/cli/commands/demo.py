"""`holdfast demo`: a real run, really killed, resumed by another process, and the proof.

Nothing is acted: the processes are real, the kill is SIGKILL, and the proof is counted in a file that
the steps' bodies write themselves, outside of holdfast.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from holdfast import settings, wiring
from holdfast.cli import access
from holdfast.cli.commands.showing import look, timeline
from holdfast.cli.drawing.moments import duration
from holdfast.cli.drawing.steps import tree
from holdfast.cli.drawing.terminal import Line, Piece, complain, fit, out, wrap

RUN = "demo"
AGENT = "agent"
SCRIPT = "demo_workflow.py"
MIDDLE = "write_report"
_PATIENCE_S = 20.0
_ACT_COLUMNS = 14  # before the command of an act

BODIES = {
    # what a body writes: (the step it belongs to, how often it has to run in all, why)
    "collect kelp": ("research[1]/collect#1", 1, ""),
    "collect rock": ("research[2]/collect#1", 1, ""),
    "collect tide": ("research[3]/collect#1", 1, ""),
    "ask_model": ("ask_model#1", 3, "failed twice, then answered"),
    MIDDLE: ("write_report#1", 2, "cut off, so it ran again"),
    "publish": ("publish#1", 1, ""),
}


@click.command("demo")
@click.option("--keep", is_flag=True, help="Keep the directory with the script, the store and the side file.")
def demo_command(keep: bool) -> int:
    """Kill a run in the middle with SIGKILL, resume it, and prove that nothing was done twice; then undo
    what an agent did to files."""
    import tempfile

    directory = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    try:
        holds = Demo(directory).play()
    finally:
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)
    if keep:
        out.line(["kept: ", (f"holdfast --home {directory / 'home'} show {RUN}", "cyan")])
    else:
        out.line([("holdfast demo --keep", "cyan"), "  keeps the script and the store"])
    if not holds:
        complain("the proof does not hold; that is a fault of holdfast, please report it")
    return 0 if holds else 1


class Demo:
    """One performance in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._side = directory / "side.txt"
        self._project = directory / "project"
        shutil.copyfile(Path(__file__).with_name(SCRIPT), directory / SCRIPT)
        self._place = wiring.Place(
            directory, directory / "home", settings.load(root=directory, environ={}, flags={})
        )
        self._began = time.monotonic()

    def play(self) -> bool:
        """All acts; whether the proof holds."""
        killed = self._kill_in_the_middle()
        if not killed:
            return False
        before = self._counts()
        recorded = self._show_interrupted()
        if not self._resume():
            return False
        proven = self._prove(before, recorded)
        taken_back = self._take_back_an_edit()
        out.line([("\ndone", "bold"), f" in {duration(time.monotonic() - self._began)}"])
        return proven and taken_back

    # The acts

    def _kill_in_the_middle(self) -> bool:
        self._act(1, "start", f"holdfast run --id {RUN} {SCRIPT}:story side.txt")
        child = self._holdfast("run", "--id", RUN, f"{SCRIPT}:story", str(self._side))
        try:
            reached = self._wait_for_middle(child)
        finally:
            child.send_signal(signal.SIGKILL)
        _, complaints = child.communicate()
        if not reached or child.returncode != -signal.SIGKILL:
            complain(f"the run did not get to its middle: {complaints.decode(errors='replace').strip()}")
            return False
        self._print(f"process {child.pid} runs: research in parallel, a flaky model, a slow report")
        self._act(2, "kill", f"kill -9 {child.pid}")
        self._print(f"in the middle of {MIDDLE}; no handler, no clean-up, no goodbye")
        return True

    def _wait_for_middle(self, child: subprocess.Popen[bytes]) -> bool:
        """Wait for the slow body's own sign that it has begun: time alone would prove nothing."""
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline and child.poll() is None:
            if self._counts()[MIDDLE] and self._is_in_the_log(BODIES[MIDDLE][0]):
                return True
            time.sleep(0.01)
        return False

    def _is_in_the_log(self, step: str) -> bool:
        """A step that takes longer than a few milliseconds is in the log while it runs."""
        with access.open_to_read(self._place) as hf:
            return any(one.key == step for one in hf.steps(RUN))

    def _show_interrupted(self) -> set[str]:
        """The state of the store now; the steps that are recorded as completed."""
        self._act(3, "look", f"holdfast show {RUN}")
        with access.open_to_read(self._place) as hf:
            detail = hf.get(RUN)
            steps = detail.steps
        status: Piece = (detail.shown_status, "yellow")
        out.line(["    status ", status])
        for line in tree(steps, look(stopped=True)):
            out.line(["  ", *line])
        return {step.key for step in steps if step.status == "completed"}

    def _resume(self) -> bool:
        self._act(4, "resume", f"holdfast resume {RUN}")
        child = self._holdfast("resume", RUN)
        result, complaints = child.communicate(timeout=_PATIENCE_S)
        text = complaints.decode(errors="replace")
        if child.returncode != 0:
            complain(f"resume ended with code {child.returncode}: {text.strip()}")
            return False
        self._print(f"process {child.pid} says: {text.splitlines()[0]}")
        self._print(f"result: {result.decode().strip()}")
        return True

    def _prove(self, before: Counter[str], recorded: set[str]) -> bool:
        self._act(5, "proof", "how often each body ran, counted in side.txt", command=False)
        total = self._counts()
        rows = list(_rows(before, total, recorded))
        twice = [
            body for body, (step, _, _) in BODIES.items() if step in recorded and total[body] > before[body]
        ]
        wrong = [body for body, (_, times, _) in BODIES.items() if total[body] != times]
        for line in rows:
            out.line(line)
        with access.open_to_read(self._place) as hf:
            status = hf.get(RUN).status
            events = hf.events(RUN)
        audit = self._audit()
        verdicts = [
            (not twice, f"{len(recorded)} steps were recorded at the kill: none ran again"),
            (not wrong, "every body ran as often as it had to, no more and no less"),
            (status == "completed", f"the run is {status}"),
            (
                audit["ok"],
                f"audit verify: {audit['events']} events in {audit['streams']} streams, "
                f"{len(audit['faults'])} faults",
            ),
        ]
        out.line()
        held = self._judge(verdicts)
        self._act(6, "timeline", f"holdfast show {RUN} --events")
        for line in list(timeline(events))[1:]:
            out.line(line)
        return held and bool(recorded)

    def _take_back_an_edit(self) -> bool:
        """An agent's bad edit goes in one command, and the person's own edit stays."""
        self._project.mkdir()
        files = {name: self._project / name for name in ("report.md", "sources.md", "diary.md")}
        for name, path in files.items():
            path.write_text(f"# {name}, as it was\n")
        self._act(7, "edit", f"holdfast run --id {AGENT} ../{SCRIPT}:revise")
        if not self._done("run", "--id", AGENT, f"../{SCRIPT}:revise"):
            return False
        files["diary.md"].write_text("# written by you, after the agent\n")
        self._print("the agent has rewritten report.md and deleted sources.md; you have edited diary.md")
        self._act(8, "rewind", f"holdfast rewind {AGENT} --to before-the-agent")
        printed = self._done("rewind", AGENT, "--to", "before-the-agent")
        if not printed:
            return False
        for line in printed.splitlines():
            # Its commands are left out: the store that they name is gone when the demo has ended.
            if line.startswith(("files", "  ", "kept")) and "holdfast " not in line:
                out.line(f"    {fit(line, max(min(out.width, 100) - 4, 20))}")
        back = all(
            files[name].exists() and files[name].read_text() == f"# {name}, as it was\n"
            for name in ("report.md", "sources.md")
        )
        mine = files["diary.md"].read_text() == "# written by you, after the agent\n"
        gone = not (self._project / "scratch.tmp").exists()
        out.line()
        return self._judge(
            [(back and gone, "what the agent did is undone"), (mine, "what you wrote is still there")]
        )

    # Its tools

    @staticmethod
    def _judge(verdicts: list[tuple[bool, str]]) -> bool:
        """Print each, with a mark; returns whether all hold."""
        for holds, words in verdicts:
            first, *more = wrap(words, max(min(out.width, 100) - 6, 20))
            out.line(["    ", ("✓", "green") if holds else ("✗", "red"), f" {first}"])
            for line in more:
                out.line(f"      {line}")
        return all(holds for holds, _ in verdicts)

    def _audit(self) -> dict[str, Any]:
        """The findings of `holdfast audit verify`. It exits with another code than 0 if there are faults."""
        child = self._holdfast("audit", "verify", "--json")
        printed, complaints = child.communicate(timeout=_PATIENCE_S)
        if not printed:
            complain(f"audit verify failed: {complaints.decode(errors='replace').strip()}")
            return {"ok": False, "streams": 0, "events": 0, "faults": []}
        found: dict[str, Any] = json.loads(printed)
        return found

    def _done(self, *words: str) -> str:
        """Its output; empty, with a message, if it failed."""
        child = self._holdfast(*words, directory=self._project)
        printed, complaints = child.communicate(timeout=_PATIENCE_S)
        if child.returncode != 0:
            complain(f"{' '.join(words)} ended with code {child.returncode}: {complaints.decode().strip()}")
            return ""
        return printed.decode()

    def _holdfast(self, *words: str, directory: Path | None = None) -> subprocess.Popen[bytes]:
        # Without the person's own settings: the demo must not depend on them, nor touch their store.
        env = {name: text for name, text in os.environ.items() if not name.startswith("HOLDFAST_")}
        return subprocess.Popen(
            [sys.executable, "-m", "holdfast", "--home", str(self._place.home), *words],
            cwd=directory or self._directory,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def _counts(self) -> Counter[str]:
        return Counter(self._side.read_text().splitlines()) if self._side.exists() else Counter()

    @staticmethod
    def _act(number: int, name: str, what: str, *, command: bool = True) -> None:
        title: Piece = (f"$ {what}", "cyan") if command else what
        begin = "\n" if number > 1 else ""
        if _ACT_COLUMNS + len(what) <= out.width:
            out.line([f"{begin}{number}. ", (name.ljust(9), "bold"), title])
        else:  # a narrow terminal: the command has a line of its own
            out.line([f"{begin}{number}. ", (name, "bold")])
            out.line(["    ", title])

    @staticmethod
    def _print(text: str) -> None:
        for line in wrap(text, max(min(out.width, 100) - 4, 20)):
            out.line(f"    {line}")


def _rows(before: Counter[str], total: Counter[str], recorded: set[str]) -> Iterator[Line]:
    """The table of the proof."""
    yield [(f"    {'body':<14}{'before':>8}{'after':>8}   at the kill", "dim")]
    for body, (step, _, why) in BODIES.items():
        again = total[body] - before[body]
        state = "recorded" if step in recorded else "running" if before[body] else "not begun"
        style = "green" if step in recorded else "yellow" if before[body] else ""
        bad = step in recorded and again > 0
        yield [
            f"    {body:<14}{before[body]:>8}",
            (f"{again:>8}", "red" if bad else ""),
            "   ",
            (f"{state:<10}", style),
            (fit(why, max(out.width - 47, 0)), "dim"),
        ]
