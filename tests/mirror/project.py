"""A store with a mirror, and events of the tracker written straight to the log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from holdfast import Holdfast, Run, plans, step, workflow
from holdfast.kernel import links, memory, session, task
from holdfast.kernel.author import Author
from holdfast.kernel.events import Event
from holdfast.mirror import sealed_json
from holdfast.mirror.draining import Drained, Mirror
from holdfast.project_type import project_type
from holdfast.store.port import Decision, Recorded, new_event
from holdfast.testing import FakeClock

KINDS = {task.PREFIX: "task", session.PREFIX: "session", "@links": "links", "@memory": "memory"}


@step
def ask(number: int) -> int:
    return number


CHECKLIST = """---
name: package
---
# A new package

- [x] Choose a name
- [ ] Weigh kelp: `true`
- [ ] Ship it?
  - [ ] Weigh wrack: `true`
"""


@workflow
def survey(most: int = 2) -> int:
    return sum(ask(number) for number in range(most))


@workflow
def fails() -> None:
    raise ValueError("no kelp here")


class Project:
    """Writes events, and drains when it is asked to."""

    def __init__(self, directory: Path, *, session_id: str = "s1") -> None:
        self.home, self.mirror = directory / "store", directory / "mirror"
        self.clock = FakeClock()
        self.named = True
        self.author = Author("me", session_id)
        self._checklist = directory / "package.md"
        self._known: set[str] = set()

    def opened(self, *, drains: bool = True) -> Holdfast:
        """With the mirror, or without: then closing it does not drain."""
        given = {
            "HOLDFAST_MIRROR_DIR": str(self.mirror),
            "HOLDFAST_MIRROR": str(drains).lower(),
            "HOLDFAST_ACTOR": self.author.by,
        }
        os.environ |= given
        try:
            return Holdfast(self.home, durability="process", clock=self.clock)
        finally:
            for name in given:
                del os.environ[name]

    def drain(self, directory: Path | None = None) -> Drained:
        with self.opened(drains=False) as hf:
            return self.mirror_of(hf, directory).drain()

    def rebuild(self, directory: Path | None = None) -> Drained:
        with self.opened(drains=False) as hf:
            return self.mirror_of(hf, directory).rebuild()

    def mirror_of(self, hf: Holdfast, directory: Path | None = None) -> Mirror:
        return Mirror(
            hf._store,
            hf._reader,
            self.home,
            directory or self.mirror,
            self.clock,
            named=self.named,
            project_type=lambda: project_type(hf._place.root),
        )

    # Events

    def write(self, hf: Holdfast, stream: str, *events: Event) -> None:
        kind = next(kind for prefix, kind in KINDS.items() if stream.startswith(prefix))
        self.clock.advance(timedelta(seconds=1))
        now = self.clock.now_us()

        def decide(_: Sequence[Recorded]) -> Decision:
            return Decision(kind, [new_event(event, now) for event in events])

        hf._store.command(stream, decide)

    def begin(self, hf: Holdfast) -> None:
        self.write(hf, session.stream_of(self.author.session), session.SessionStarted("me", self.author))

    def create(self, hf: Holdfast, id: str, name: str, body: str = "") -> None:
        self.write(hf, task.stream_of(id), task.TaskCreated(name, body, author=self.author))

    def claim(self, hf: Holdfast, id: str, number: int = 1) -> None:
        claimed = task.TaskClaimed(number, "me", self.author.session, author=self.author)
        self.write(hf, task.stream_of(id), claimed)

    def note(self, hf: Holdfast, id: str, kind: str, text: str) -> None:
        self.write(hf, task.stream_of(id), task.TaskNoted(kind, text, self.author))

    def complete(self, hf: Holdfast, id: str, summary: str = "") -> None:
        self.write(hf, task.stream_of(id), task.TaskCompleted(1, summary, author=self.author))

    def fail(self, hf: Holdfast, id: str, why: str) -> None:
        self.write(hf, task.stream_of(id), task.TaskFailed(1, why, author=self.author))

    def link(self, hf: Holdfast, id: str, on: str) -> None:
        self.write(hf, links.STREAM, links.LinkAdded(id, on, author=self.author))

    def remember(
        self, hf: Holdfast, id: str, text: str, kind: Any = "decision", supersedes: str = ""
    ) -> None:
        found = memory.Remembered(id, kind, text, supersedes=supersedes, author=self.author)
        self.write(hf, memory.STREAM, found)

    def work(self, hf: Holdfast) -> None:
        """A session of the seed: a task that is done, one that is not, decisions, a run."""
        self.begin(hf)
        self.create(hf, "t1", "Setup project")
        self.claim(hf, "t1")
        self.complete(hf, "t1", "it builds")
        self.create(hf, "t2", "Implement feature X")
        self.claim(hf, "t2")
        self.note(hf, "t2", "file", "src/main.rs")
        self.note(hf, "t2", "decision", "Use async pattern")
        self.remember(hf, "m1", "one store per project")
        self.remember(hf, "m2", "tests before code", "pattern")
        hf.with_id("r1").run(survey)

    def check_off(self, hf: Holdfast, run_id: str) -> Run[dict[str, Any]]:
        """A run of the checklist, which waits for a person."""
        self._checklist.write_text(CHECKLIST)
        plan = plans.read(self._checklist)
        run = hf.with_id(run_id).start(plans.run_plan, plan, {})
        assert run.rested.wait(30)
        return run

    # Files

    def json(self, name: str) -> dict[str, Any]:
        found = sealed_json.read((self.mirror / name).read_bytes())
        assert found is not None
        return found


def look(directory: Path) -> dict[str, Any]:
    """Every file of a mirror but previous revisions; of the card, without times of files, which no two drains
    have the same."""
    found: dict[str, Any] = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file() and "previous" not in path.parts:
            data: Any = path.read_bytes()
            if path.name == "mirror.json" and sealed_json.state_of(data) == "own":
                card = sealed_json.read(data) or {}
                lines = {name: mark["size"] for name, mark in card["lines"].items()}
                data = {**card, "lines": lines, "sha256": "", "written_at": ""}
            found[str(path.relative_to(directory))] = data
    return found
