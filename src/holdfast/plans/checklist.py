"""A Markdown checklist as a plan: `- [ ] text`, one item after another.

An item with a command in backticks runs it; one that ends with a question mark asks a person; any other is
work for an agent, that which `agent` names or the role `developer` has. Items that are ticked are done and
left out. A line that is almost an item is a fault, never left out. Keys of the plan stand in front matter:

    ---
    name: release
    commit: true
    agent: claude
    ---
    - [ ] Run the tests: `pytest -q`
    - [ ] Shall it be released?
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any, NamedTuple

from holdfast.plans import document
from holdfast.plans.document import Entry, Items, Mapping, Node, Scalar, Unreadable
from holdfast.plans.model import Checklist

_ITEM = re.compile(r"(\s*)[-*+] \[([ xX])\]\s+(.*\S)\s*")
_ALMOST = re.compile(r"(\s*)(?:[-*+–—•‣]|\d+[.)])?\s*\[\s*\](?![(\[:])")
"""An open box, also one that `_ITEM` does not read: `-[ ] text`, `- [] text`, `- [ ]text`, `1. [ ] text`.
What follows must not make a link of it."""
_CODE = re.compile(r"(`+)(.+?)\1")
_FENCE = re.compile(r"\s*(```|~~~)")
_COMMIT = 'git add -A && { git diff --cached --quiet || git commit -q -m "$1"; }'


class _Item(NamedTuple):
    """An open item and its place."""

    text: str
    line: int
    column: int


def as_document(text: str, stem: str) -> tuple[Mapping | None, Checklist, list[Unreadable]]:
    """The plan as a document, each value at its line; the lines of its items; and the faults of lines. The
    document is None if there are only faults. Raises `Unreadable` where there is neither."""
    lines = text.splitlines()
    front, begin = _front_matter(lines)
    commit = front.pop("commit", None)
    if commit is not None and not isinstance(commit.node.value, bool):
        raise Unreadable("`commit` is true or false", commit.line, commit.column)
    agent = front.pop("agent", None)
    if agent is not None and not (isinstance(agent.node.value, str) and agent.node.value):
        raise Unreadable("`agent` is the name of an agent", agent.line, agent.column)
    items, faults = _items(lines, begin)
    steps: list[Node] = []
    ids: dict[str, int] = {}
    for item in items:
        at = (item.line, item.column)
        id = _id(item.text, ids)
        ids[id] = item.line
        step = _step(id, item.text, at, steps)
        if agent is not None and "agent" in step.value:
            step.value["by"] = agent
        steps.append(step)
        if commit is not None and commit.node.value and "approve" not in step.value:
            words = ["sh", "-c", _COMMIT, "commit", _plain(item.text).replace("${", "$${")]
            commit_id = _id(f"commit {id}", ids)
            ids[commit_id] = item.line
            steps.append(_node({"id": commit_id, "needs": [id], "run": words}, at))
    if not steps and not faults:
        raise Unreadable("there is no open item `- [ ] ...` in the checklist")
    entries = {"name": _entry(stem, (1, 1)), **front, "steps": Entry(Items(steps, 1, 1), 1, 1)}
    root = Mapping(entries, 1, 1) if steps else None
    return root, Checklist("\n".join([*lines, ""]), ids), faults


def _items(lines: list[str], begin: int) -> tuple[list[_Item], list[Unreadable]]:
    """The open items outside code blocks, and the lines that look like items and would be left out."""
    items: list[_Item] = []
    faults: list[Unreadable] = []
    code_begins = hidden = 0
    for number, line in enumerate(lines[begin:], begin + 1):
        if _FENCE.match(line):
            code_begins, hidden = (0, 0) if code_begins else (number, 0)
        found = _ITEM.fullmatch(line)
        if code_begins:
            hidden += found is not None and found[2] == " "
        elif found is None:
            almost = _ALMOST.match(line)
            if almost is not None:
                faults.append(Unreadable(_NO_ITEM, number, len(almost[1]) + 1))
        elif found[2] == " ":
            items.append(_Item(found[3], number, len(found[1]) + 1))
            faults += _second_command(items[-1])
    if hidden:
        faults.append(Unreadable("the code block that begins here is not closed; items follow", code_begins))
    return items, faults


_NO_ITEM = "this line has a box and is no item; write it as `- [ ] text`"


def _second_command(item: _Item) -> list[Unreadable]:
    """The fault of an item with several commands: only the first would run."""
    commands = list(dict.fromkeys(code[2].strip() for code in _CODE.finditer(item.text)))
    if len(commands) < 2:
        return []
    text = (
        f"an item runs one command, and this has {len(commands)}: give `{commands[1]}` an item of its own, "
        "or write it without backticks"
    )
    return [Unreadable(text, item.line, item.column)]


def _front_matter(lines: list[str]) -> tuple[dict[str, Entry], int]:
    """The keys between the first two lines of dashes, and the line behind them."""
    if not lines or lines[0].strip() != "---":
        return {}, 0
    end = next((n for n, line in enumerate(lines[1:], 1) if line.strip() == "---"), None)
    if end is None:
        raise Unreadable("the front matter is not closed with `---`")
    node, twice = document.parse("\n".join(["", *lines[1:end]]))
    if twice:
        raise twice[0]
    if not isinstance(node, Mapping):
        raise Unreadable("the front matter has keys of the plan: `name: release`", 2)
    return dict(node.value), end + 1


def _step(id: str, text: str, at: tuple[int, int], before: list[Node]) -> Mapping:
    code = _CODE.search(text)
    step: dict[str, Any] = {"id": id, "description": _plain(text)}
    if code is not None:
        step["run"] = code[2].strip()
    else:
        step["approve" if text.rstrip("*_ ").endswith("?") else "agent"] = text
    if before:
        last = before[-1]
        assert isinstance(last, Mapping)
        step["needs"] = [last.value["id"].node.value]
    made = _node(step, at)
    assert isinstance(made, Mapping)
    return made


def _id(text: str, taken: Container[str]) -> str:
    """Made of the item's words, so that it stays when others are added."""
    words = re.findall(r"[a-z0-9]+", _plain(text).lower()) or ["item"]
    base = "-".join(words)[:60].strip("-")
    base = base if base[0].isalpha() else f"item-{base}"
    id, n = base, 1
    while id in taken:
        n += 1
        id = f"{base}-{n}"
    return id


def _plain(text: str) -> str:
    """The words of an item, without its command if there are others."""
    without = _CODE.sub("", text).strip(" :.*_")
    return without or text.replace("`", "").strip()


def _node(value: Any, at: tuple[int, int]) -> Any:
    if isinstance(value, dict):
        return Mapping({key: _entry(one, at) for key, one in value.items()}, *at)
    if isinstance(value, list):
        return Items([_node(one, at) for one in value], *at)
    return Scalar(value, *at)


def _entry(value: Any, at: tuple[int, int]) -> Entry:
    return Entry(_node(value, at), *at)
