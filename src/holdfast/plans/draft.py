"""A first plan for a task, made from its analysis: what to look at, the work, a test, and decisions of a
person.

It is text with comments, for a person to edit. As it is, it is a sound plan that can run: where the work is
to be done, it waits until another process has done it.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence

from holdfast.plans.analyzer import Analysis, Candidate

_READ = 4
_LONGEST_NAME = 60


def name_of(text: str) -> str:
    """A name for the plan of a task, which is also good for a file."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    name = ""
    for word in words:
        if len(name) + len(word) > _LONGEST_NAME:
            break
        name = f"{name}-{word}" if name else word
    return name or "plan"


def draft(analysis: Analysis, file: str) -> str:
    """The text of a plan file; `file` is the name that the comments give it."""
    task = " ".join("".join(char if char.isprintable() else " " for char in analysis.text).split())
    read = list(_readings(analysis.files[:_READ]))
    searches = list(_searches(analysis.patterns))
    looks = [id for id, _ in (*searches, *read)]
    lines = [
        f"# {task}",
        "#",
        "# Made from the words of the task and the files of the project; no model was asked. Edit it, then:",
        f"#   holdfast plan check {file}",
        f"#   holdfast run {file}",
        "",
        f"name: {_quoted(name_of(task))}",
        f"description: {_quoted(task)}",
        "",
        "steps:",
    ]
    if looks:
        lines.append("  # What is there. These steps change nothing; remove those that do not matter.")
        lines.append("  # Later steps can use their results, such as ${NAME.text} of a file that was read.")
    for _, step in (*searches, *read):
        lines += step
    lines += _work(task, looks)
    lines += _test(analysis.test)
    lines += _end(task, tested=bool(analysis.test) and _is_there(analysis.test))
    return "\n".join(lines) + "\n"


def _searches(patterns: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    for number, pattern in enumerate(patterns[:_READ], 1):
        id = "search" if len(patterns) == 1 else f"search_{number}"
        yield (
            id,
            [
                f"  - id: {id}",
                "    tool: search",
                f"    with: {{pattern: {_quoted(pattern)}, limit: 50}}",
            ],
        )


def _readings(files: Sequence[Candidate]) -> Iterator[tuple[str, list[str]]]:
    taken: set[str] = set()
    for one in files:
        if not one.path.isprintable():
            continue
        id = base = "read_" + (
            re.sub(r"\W+", "_", one.path.rpartition("/")[2].partition(".")[0]).strip("_") or "file"
        )
        number = 2
        while id in taken:
            id, number = f"{base}_{number}", number + 1
        taken.add(id)
        lines = ", ".join(f"{what.name} (line {what.line})" for what in one.definitions[:3])
        why = "; ".join(one.why[:2]) + (f"; see {lines}" if lines else "")
        yield (
            id,
            [
                f"  - id: {id}",
                f"    # {why}",
                "    tool: read",
                f"    with: {{path: {_quoted(one.path)}}}",
            ],
        )


def _work(task: str, looks: Sequence[str]) -> list[str]:
    needs = [f"    needs: [{', '.join(looks)}]"] if looks else []
    return [
        "",
        "  # The work. As it is, the run waits until it is done and approved. Replace `approve` by one of:",
        '  #   run: ["PROGRAM", "ARGUMENT"]      a command',
        '  #   python: "MODULE:FUNCTION"         a function of yours; its result is the step\'s',
        "  #   tool: edit                        with: {path: ..., old: ..., new: ...}",
        "  #   plan: OTHER.yaml                  another plan",
        "  - id: work",
        *needs,
        f"    approve: {_quoted('Done? ' + task)}",
        *([f"    show: {looks[0]}"] if looks else []),
    ]


def _test(command: Sequence[str]) -> list[str]:
    words = ", ".join(_quoted(word) for word in command)
    step = ["  - id: test", "    needs: [work]", f"    run: [{words}]", "    timeout: 30m"]
    if not command:
        return [
            "",
            "  # No command was recognised that tests this project. Name it, and remove the `#`:",
            "  # - id: test",
            "  #   needs: [work]",
            '  #   run: ["PROGRAM", "ARGUMENT"]',
        ]
    if not _is_there(command):
        commented = [f"  # {line[2:]}" for line in step]
        return ["", f"  # The project has tests, but {command[0]} is not on the PATH here:", *commented]
    return ["", "  # How the project is tested. If it fails, `holdfast resume` tries it again.", *step]


def _end(task: str, *, tested: bool) -> list[str]:
    return [
        "",
        "  # A person looks at the result. Rejected, the run fails; the error says how to ask again.",
        "  - id: accept",
        f"    needs: [{'test' if tested else 'work'}]",
        f"    approve: {_quoted('Accept? ' + task)}",
        *(["    show: test"] if tested else []),
        "    milestone: accepted",
    ]


def _is_there(command: Sequence[str]) -> bool:
    return bool(command) and ("/" in command[0] or shutil.which(command[0]) is not None)


def _quoted(text: str) -> str:
    """A YAML string of one line that no template reads."""
    return json.dumps(text.replace("${", "$${"), ensure_ascii=False)
