"""Takes the pictures of the command line in `docs/captures`: `python docs/captures.py [NAME]...`

Every command is a real one in a real terminal, on a store and in a project that are made for it. Only
what would differ from one time and machine to the next is replaced afterwards: where the project lies,
process ids, the name of the machine, the date. Durations and ids of operations are as they came.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from rich.text import Text
from screen import Left, Program, draw

HERE = Path(__file__).resolve().parent
FLOW = HERE / "captures" / "flow.py"
COLUMNS = 120
DAY = datetime(2026, 1, 31, 12, 0, 0)
"""When all of it takes place."""
REPORT = ("run", "--id", "report-1", "flow.py:report", '["kelp", "rock", "tide"]')


PLAN = """\
name: harvest
input: {place: null}
steps:
  - id: list
    run: ["printf", "kelp\\nwrack\\ndulse\\n"]
  - id: weigh
    foreach: list.stdout.lines
    effect: idempotent
    run: ["echo", "${item}: 3 kg from ${input.place}"]
  - id: weather
    run: ["echo", "calm"]
    effect: idempotent
  - id: ok
    needs: [weather]
    approve: "Ship from ${input.place}?"
    show: weigh
  - id: ship
    needs: [ok]
    run: ["echo", "shipped", "${len(weigh)}"]
    milestone: shipped
"""


REHEARSAL = """\
plan:
  rounds:
    - answer: "1. In greet.py, let greet() return Hello."
  on_rejection:
    answer: "1. In greet.py, let greet() return Hello (${reason})."
implement:
  - do:
      - write: {path: greet.py, text: "def greet():\\n    return 'Hello!'\\n"}
    answer: greet() says hello.
review:
  - answer: "Small and right.\\nVERDICT: APPROVED"
"""
AGENT = """\
[agent.rehearsal]
backend = "script"
file = "rehearsal.yaml"
"""


class Desk:
    """A person's home directory with the project ~/kelp in it, and a terminal."""

    def __init__(self, directory: Path, columns: int = COLUMNS) -> None:
        self._began = datetime.now()
        self._columns = columns
        self._home = directory / "ann"
        self.project = self._home / "kelp"
        self.project.mkdir(parents=True)
        self.project.joinpath("flow.py").write_bytes(FLOW.read_bytes())
        self.store = self._home / ".local/share/holdfast/kelp-3f9a"
        self._env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(HERE.parent / "src"),
            "PYTHONPYCACHEPREFIX": str(directory / "pycache"),
            "HOME": str(self._home),
            "HOLDFAST_HOME": str(self.store),
            "LOGNAME": "ann",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "TERM": "xterm-256color",
        }
        self._lines: list[Text] = []

    def quietly(self, *words: str, env: dict[str, str] | None = None) -> str:
        """Run without a terminal and a picture, whatever becomes of it; its output."""
        argv = [sys.executable, "-m", "holdfast", *words]
        return subprocess.run(
            argv,
            cwd=self.project,
            env=self._env | (env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        ).stdout

    def start(self, *words: str, around: tuple[str, ...] = ()) -> Program:
        """Begin a command at the terminal; `around` is what executes it."""
        argv = [*around, sys.executable, "-m", "holdfast", *words]
        return Program(argv, self.project, self._env, self._columns)

    def type(self, *words: str, around: tuple[str, ...] = ()) -> Left:
        """A command at the terminal, to its end."""
        left = self.start(*words, around=around).end()
        self.keep(words, left)
        return left

    def keep(self, words: tuple[str, ...], left: Left) -> None:
        """Put a command and what it left on the screen into the picture."""
        if self._lines:
            self._lines.append(Text())
        command = " ".join(_typed(self._settled(word)) for word in ("holdfast", *words))
        self._lines.append(Text.assemble(("~/kelp $ ", "green"), (command, "bold")))
        self._lines += Text.from_ansi(self._settled("\n".join(left.lines))).split("\n")
        if left.code > 0:
            self._lines.append(Text(f"(exit code {left.code})", "dim italic"))

    def picture(self, title: str) -> str:
        return draw(self._lines, title, self._columns)

    def _settled(self, text: str) -> str:
        """The text with what changes from time to time replaced."""
        text = text.replace(str(self._home), "~")
        text = re.sub(r"\bprocess \d+", "process 4711", text).replace(
            f" on {socket.gethostname()}", " on reef"
        )
        return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", self._moved, text)

    def _moved(self, found: re.Match[str]) -> str:
        return f"{DAY + (datetime.fromisoformat(found[0]) - self._began.replace(microsecond=0))}"


def _typed(word: str) -> str:
    """As a person types it: a shell makes the home directory of a tilde only outside of quotes."""
    return f"~/{shlex.quote(word[2:])}" if word.startswith("~/") else shlex.quote(word)


def killed(desk: Desk) -> None:
    """The picture of the README: killed in the middle, resumed, asked."""
    program = desk.start(*REPORT)
    lines = program.expect("holds on")
    program.kill()
    program.end()
    desk.keep(REPORT, Left([*lines, "Killed"], 0))  # as a shell says it
    desk.type("list")
    resumed = desk.start("resume", "report-1")
    resumed.expect("(l)?")
    resumed.type("a\n")
    desk.keep(("resume", "report-1"), resumed.end())


def run(desk: Desk) -> None:
    program = desk.start(*REPORT)
    program.expect("(l)?")
    program.type("a\n")
    desk.keep(REPORT, program.end())


def watch(desk: Desk) -> None:
    """Somebody else's run, in its middle."""
    other = desk.start(*REPORT)
    other.expect("research#1")
    watching = desk.start("watch", "report-1")
    lines = watching.expect("known of rock")
    desk.keep(("watch", "report-1"), Left(lines, 0))
    for program in (other, watching):
        program.kill()
        program.end()


def showing_a_gate(desk: Desk) -> None:
    desk.quietly(*REPORT)
    desk.type("show", "report-1")


def showing_a_failure(desk: Desk) -> None:
    desk.type("run", "--id", "import-1", "flow.py:imports", "4")
    desk.type("show", "import-1")


def showing_many_steps(desk: Desk) -> None:
    desk.quietly("run", "--id", "crawl-1", "flow.py:crawl", "3000", env={"PACE": "0"})
    desk.type("show", "crawl-1")


def approving(desk: Desk) -> None:
    desk.quietly(*REPORT)
    desk.type("list")
    gate = _gate(desk, "report-1")
    desk.type("approve", "report-1", gate, "--comment", "short and good")
    desk.type("resume", "report-1")
    desk.type("show", "report-1")


def listing(desk: Desk) -> None:
    _many(desk)
    desk.type("list")
    desk.type("list", "--resumable")


def rewinding(desk: Desk) -> None:
    desk.quietly(*REPORT)
    desk.quietly("approve", "report-1")
    desk.quietly("resume", "report-1")
    desk.type("checkpoints", "report-1")
    desk.type("rewind", "report-1", "--to", "notes", "--dry-run")
    desk.type("rewind", "report-1", "--to", "notes")
    desk.type("rewind", "report-1", "--to", "notes", "--rerun-once")
    desk.type("undo")
    desk.type("op", "log")


def files(desk: Desk) -> None:
    """An agent's edit, and a person's, in one project."""
    for name in ("report.md", "sources.md", "diary.md"):
        (desk.project / name).write_text(f"# {name}\n\nas it was\n")
    desk.quietly("run", "--id", "edit-1", "flow.py:edit")
    (desk.project / "diary.md").write_text("# diary.md\n\nwritten by ann, after the agent\n")
    desk.type("diff", "edit-1", "drafted", "edit")
    desk.type("rewind", "edit-1", "--to", "drafted", "--dry-run")
    desk.type("rewind", "edit-1", "--to", "drafted")
    desk.type("undo")
    desk.type("workspace", "status")
    desk.type("du")


def stats(desk: Desk) -> None:
    _many(desk)
    desk.type("stats")


def plan(desk: Desk) -> None:
    """A plan with a fault; the graph, before and while a person is asked."""
    (desk.project / "harvest.yaml").write_text(PLAN.replace("list.stdout", "lst.stdout"))
    desk.type("plan", "check", "harvest.yaml")
    (desk.project / "harvest.yaml").write_text(PLAN)
    desk.type("plan", "show", "harvest.yaml")
    desk.quietly("run", "--id", "h1", "harvest.yaml", "--input", "place=Rock 7")
    desk.type("plan", "show", "h1")
    desk.type("approve", "h1", "--resume")


def deliver(desk: Desk) -> None:
    """A goal from a plan to verified files, with both questions; the first plan is rejected."""
    (desk.project / "rehearsal.yaml").write_text(REHEARSAL)
    (desk.project / "holdfast.toml").write_text(AGENT)
    desk.quietly("trust")
    words = ("deliver", "Let greet() in greet.py say hello", "--id", "hello", "--check", "python check.py")
    (desk.project / "check.py").write_text(
        "import greet\n\nassert greet.greet() == 'Hello!'\nprint('greets')\n"
    )
    program = desk.start(*words)
    program.expect("(l)?")
    program.type("r\n")
    program.expect("why")
    program.type("with an exclamation mark\n")
    program.expect("(with an exclamation mark)")
    program.expect("(l)?")
    program.type("a\n")
    program.expect("+    return")
    program.expect("(l)?")
    program.type("a\n")
    desk.keep(words, program.end())
    desk.type("show", "hello")


def tasks(desk: Desk) -> None:
    """A board: what is ready, what is claimed, what a new session reads."""
    desk.quietly("task", "create", "Draft the report", "--check", "test -s flow.py", "--priority", "1")
    desk.quietly("task", "create", "Review it", "--needs", "1", "--label", "docs")
    desk.quietly("task", "create", "Weigh the kelp", "--parent", "1")
    desk.quietly("remember", "Reports are in British English", "--kind", "decision")
    desk.type("task", "start", "1")
    desk.type("task", "list")
    desk.type("task", "complete", "1", "--summary", "two pages")
    desk.type("prime")
    desk.type("search", "report*")


def doctor(desk: Desk) -> None:
    _many(desk)
    desk.quietly("backup", "create")
    desk.type("doctor")


def helping(desk: Desk) -> None:
    desk.type("--help")


def errors(desk: Desk) -> None:
    """What is answered to what cannot be done."""
    desk.quietly("run", "--id", "crawl-1", "flow.py:crawl", "3000", env={"PACE": "0"})
    desk.quietly("run", "--id", "offer-1", "flow.py:offer")
    desk.quietly(*REPORT)
    desk.type("approve", "offer-1")
    desk.type("approve", "report-1", "send-the-report@3d10c7")
    desk.quietly("approve", "report-1")
    desk.type("reject", "report-1", "send-the-report")
    desk.quietly("resume", "report-1")
    desk.type("approve", "report-1")
    desk.type("signal", "offer-1", "paid", "42")
    desk.type("cancel", "report-1")
    desk.type("fork", "report-1", "--at", "drafts")
    desk.type("backup", "create", str(desk.store / "holdfast.db"))
    stick = desk.project.parent / "stick"
    stick.mkdir()
    desk.type("backup", "create", str(stick), around=_full(stick))
    copy = str(desk.project.parent / "kelp.db")
    desk.quietly("backup", "create", copy)
    other = desk.start("run", "--id", "crawl-2", "flow.py:crawl", "60")
    other.expect("fetch#3")
    desk.type("backup", "restore", copy)
    other.kill()
    other.end()


def _full(directory: Path) -> tuple[str, ...]:
    """What executes a command while a disk without room is mounted there."""
    script = 'mount -t tmpfs -o size=4k stick "$0" && exec "$@"'
    return ("unshare", "--map-root-user", "--mount", "sh", "-c", script, str(directory))


def _gate(desk: Desk, run_id: str) -> str:
    """The open gate of a run as `show` names it."""
    found = re.search(r"holdfast approve \S+ (\S+)", desk.quietly("show", run_id))
    assert found, run_id
    return found[1].strip("'")


def _many(desk: Desk) -> None:
    """A store with runs that ended, wait, are paused, or were cut off."""
    desk.quietly("run", "--id", "tests-1", "true")
    desk.quietly("run", "--id", "crawl-1", "flow.py:crawl", "12")
    desk.quietly("run", "--id", "import-1", "flow.py:imports", "4")
    desk.quietly("run", "--id", "crawl-2", "flow.py:crawl", "200", env={"PACE": "0"})
    program = desk.start(*REPORT)
    program.expect("draft#1")
    program.kill()
    program.end()
    desk.quietly("run", "--id", "report-2", "flow.py:report", '["tide"]')
    desk.quietly("run", "--id", "report-3", "flow.py:report", '["foam"]')
    desk.quietly("cancel", "report-3", "--reason", "not needed")
    desk.quietly("run", "--id", "invoice-1", "flow.py:invoice", "42")
    desk.quietly("run", "--id", "invoice-2", "flow.py:invoice", "43")
    desk.quietly("pause", "invoice-2", "--reason", "wrong price")


SCENES: dict[str, tuple[Callable[[Desk], None], int]] = {
    "killed": (killed, 84),
    "run": (run, COLUMNS),
    "list": (listing, COLUMNS),
    "show-gate": (showing_a_gate, COLUMNS),
    "show-failed": (showing_a_failure, COLUMNS),
    "show-3000": (showing_many_steps, COLUMNS),
    "watch": (watch, COLUMNS),
    "approve": (approving, COLUMNS),
    "rewind": (rewinding, COLUMNS),
    "files": (files, COLUMNS),
    "stats": (stats, COLUMNS),
    "plan": (plan, COLUMNS),
    "deliver": (deliver, COLUMNS),
    "tasks": (tasks, COLUMNS),
    "doctor": (doctor, COLUMNS),
    "help": (helping, COLUMNS),
    "errors": (errors, COLUMNS),
}


def main(names: list[str]) -> None:
    for name in names or SCENES:
        play, columns = SCENES[name]
        with tempfile.TemporaryDirectory() as directory:
            desk = Desk(Path(directory), columns)
            play(desk)
            (HERE / "captures" / f"{name}.svg").write_text(desk.picture(name))


if __name__ == "__main__":
    main(sys.argv[1:])
