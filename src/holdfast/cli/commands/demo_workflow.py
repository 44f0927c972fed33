"""The workflow of `holdfast demo`: copy it, change it, run it.

    holdfast run demo_workflow.py:story /tmp/side.txt

Every body writes a line into the side file, outside of holdfast: so one can count afterwards how
often each body really ran, whatever holdfast says about it.
"""

import os
import time
from pathlib import Path

from holdfast import Retry, checkpoint, parallel, step, workflow, workspace_path


def note(side: str, what: str) -> int:
    """Append a line, safely from many threads; how many times `what` was written before."""
    before = Path(side).read_text().splitlines().count(what) if Path(side).exists() else 0
    fd = os.open(side, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, f"{what}\n".encode())
    os.close(fd)
    return before


@step
def collect(topic: str, side: str) -> str:
    note(side, f"collect {topic}")
    time.sleep(0.1)
    return f"notes on {topic}"


@step(retry=Retry(attempts=4, initial=0.05, jitter=0))
def ask_model(prompt: str, side: str) -> str:
    """A model that is overloaded twice before it answers."""
    if note(side, "ask_model") < 2:
        raise ConnectionError("the model is overloaded")
    return f"a summary of {prompt}"


@step
def write_report(text: str, side: str) -> int:
    """The slow one: `holdfast demo` kills the process in here, the first time."""
    if note(side, "write_report") == 0:
        time.sleep(30)
    time.sleep(0.2)
    return len(text)


@step
def publish(size: int, side: str) -> str:
    note(side, "publish")
    return f"published {size} characters"


def research(topic_and_side: tuple[str, str]) -> str:
    topic, side = topic_and_side
    return collect(topic, side)


@workflow
def story(side: str) -> str:
    """Three topics at once, a flaky model, a slow report, then publish."""
    notes = parallel(research, [(topic, side) for topic in ("kelp", "rock", "tide")])
    summary = ask_model(", ".join(notes), side)
    size = write_report(summary, side)
    return publish(size, side)


@step(effect="workspace")
def rewrite_all() -> str:
    """An agent that means well: it rewrites a file that it should not, and throws another away."""
    files = workspace_path()
    (files / "report.md").write_text("# TODO: rewrite everything\n")
    (files / "sources.md").unlink()
    (files / "scratch.tmp").write_text("thinking\n")
    return "much better now"


@workflow
def revise() -> str:
    """A checkpoint, then the agent."""
    checkpoint("before-the-agent")
    return rewrite_all()
