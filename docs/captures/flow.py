"""The workflows in the pictures of the command line."""

import os
import time

from holdfast import Retry, approval, checkpoint, command, emit, parallel, step, wait_for, workflow

PACE = float(os.environ.get("PACE", "1"))
_asked: set[str] = set()


@step(retry=Retry(attempts=3, initial=0.2, jitter=0))
def research(topic: str) -> str:
    """A model that is overloaded now and then."""
    time.sleep(0.3 * PACE)
    if topic == "rock" and topic not in _asked:
        _asked.add(topic)
        raise ConnectionError("the model is overloaded")
    return f"what is known of {topic}"


@step
def draft(notes: list[str]) -> str:
    text = "Kelp holds on to rock, whatever the tide does.\n" + "\n".join(f"- {note}" for note in notes)
    for word in text.split(" "):
        emit("draft", f"{word} ")
        time.sleep(0.08 * PACE)
    return text


@step(effect="once")
def send(text: str) -> str:
    return f"sent {len(text)} characters"


@workflow
def report(topics: list[str]) -> str:
    notes = parallel(research, topics)
    checkpoint("notes", topics=len(topics))
    text = draft(notes)
    if approval("send the report", show=text).outcome != "approved":
        return "dropped"
    return send(text)


@step
def fetch(page: int) -> int:
    time.sleep(0.05 * PACE)
    return page


@workflow
def crawl(pages: int) -> int:
    for page in range(pages):
        fetch(page)
        emit("page", page + 1)
    return pages


@step(retry=Retry(attempts=2, initial=0.1, jitter=0))
def read_file(number: int) -> int:
    if number == 3:
        raise ValueError("line 17 has 4 columns, not 5")
    return 100 * number


@workflow
def imports(files: int) -> int:
    return sum(read_file(number) for number in range(1, files + 1))


def decide(title: str) -> str:
    return approval(title, show=f"the {title} as it is").outcome


@workflow
def offer() -> list[str]:
    return parallel(decide, ["price", "terms"])


@workflow
def invoice(amount: int) -> str:
    paid = wait_for("paid")
    return f"{paid} of {amount}"


@workflow
def edit() -> int:
    """An agent at work on files."""
    checkpoint("drafted")
    script = "printf '# report.md\\n\\nrewritten by an agent\\n' > report.md; rm sources.md; echo > scratch"
    return command(["sh", "-c", script], name="edit").exit_code
