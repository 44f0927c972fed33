"""A Markdown checklist as a plan: `- [ ] text`, one item after another.

An item with a command in backticks runs it; one that ends with a question mark asks a person; any other is
work for an agent, that which `agent` names or the role `developer` has. Items that are ticked are done and
left out. Keys of the plan stand in front matter:

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
from typing import Any

from holdfast.plans import document
from holdfast.plans.document import Entry, Items, Mapping, Node, Scalar, Unreadable
from holdfast.plans.model import Checklist

_ITEM = re.compile(r"(\s*)[-*+] \[([ xX])\]\s+(.*\S)\s*")
_CODE = re.compile(r"(`+)(.+?)\1")
_FENCE = re.compile(r"\s*(```|~~~)")
_COMMIT = 'git add -A && { git diff --cached --quiet || git commit -q -m "$1"; }'


def as_document(text: str, stem: str) -> tuple[Mapping, Checklist]:
    """The plan as a document, each value at its line, and the lines of its items. Raises `Unreadable`."""
    lines = text.splitlines()
    front, begin = _front_matter(lines)
    commit = front.pop("commit", None)
    if commit is not None and not isinstance(commit.node.value, bool):
        raise Unreadable("`commit` is true or false", commit.line, commit.column)
    agent = front.pop("agent", None)
    if agent is not None and not (isinstance(agent.node.value, str) and agent.node.value):
        raise Unreadable("`agent` is the name of an agent", agent.line, agent.column)
    steps: list[Node] = []
    ids: dict[str, int] = {}
    is_code = False
    for number, line in enumerate(lines[begin:], begin + 1):
        if _FENCE.match(line):
            is_code = not is_code
        found = None if is_code else _ITEM.fullmatch(line)
        if found is None or found[2] != " ":
            continue
        at = (number, len(found[1]) + 1)
        id = _id(found[3], ids)
        ids[id] = number
        step = _step(id, found[3], at, steps)
        if agent is not None and "agent" in step.value:
            step.value["by"] = agent
        steps.append(step)
        if commit is not None and commit.node.value and "approve" not in step.value:
            words = ["sh", "-c", _COMMIT, "commit", _plain(found[3]).replace("${", "$${")]
            commit_id = _id(f"commit {id}", ids)
            ids[commit_id] = number
            steps.append(_node({"id": commit_id, "needs": [id], "run": words}, at))
    if not steps:
        raise Unreadable("there is no open item `- [ ] ...` in the checklist")
    entries = {"name": _entry(stem, (1, 1)), **front, "steps": Entry(Items(steps, 1, 1), 1, 1)}
    return Mapping(entries, 1, 1), Checklist("\n".join([*lines, ""]), ids)


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
