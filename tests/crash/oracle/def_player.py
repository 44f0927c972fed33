"""Executes a program as the code of a `def` workflow. Everything here is "the user's code".

Every entry of the trace carries the branch that observed it, so that programs whose threads block each other
can be compared branch by branch.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from tests.crash.oracle import async_player, witness
from tests.crash.oracle.async_player import Shared, gate_name, value_text
from tests.crash.oracle.learning import CHOICES
from tests.crash.oracle.programs import Node, Program
from tests.crash.oracle.steps import ITEM_STEPS, Planned, arguments, simple, step_of
from tests.crash.oracle.witness import brief, described

from holdfast import (
    StepTimeout,
    approval,
    checkpoint,
    emit,
    milestone,
    now,
    parallel,
    patched,
    sleep,
    uuid,
    wait_for,
    workflow,
)
from holdfast import random as recorded_random

FAILURES = (Planned, ExceptionGroup, StepTimeout)

Act = Callable[[Node, Shared], Any]
_program: Program | None = None
_path: ContextVar[str] = ContextVar("oracle_branch", default="")


def see(*entry: Any) -> None:
    witness.see(*entry, f"@{_path.get()}")


def set_program(program: Program) -> None:
    """Choose what the workflows of this process execute."""
    global _program
    _program = program


@workflow
def played_def() -> str:
    assert _program is not None
    return _play(_program.top)


@workflow
def part_def(name: str) -> str:
    """A child run: it executes the body of that node."""
    assert _program is not None
    return _play(Node("seq", f"{name}-child", _program.node(name).body, {"caught": True}))


def _play(top: Node) -> str:
    _path.set("")
    see("start", top.name)
    result = brief(act(top, Shared()))
    see("end", result)
    return result


def act(node: Node, shared: Shared) -> Any:
    """Execute one node and observe how it ends."""
    if node.kind in LEAVES:
        return LEAVES[node.kind](node, shared)
    see("into", node.name)
    try:
        result = BLOCKS[node.kind](node, shared)
    except FAILURES as error:
        see("raised", node.name, described(error))
        if not node["caught"]:
            raise
        result = described(error)
    see("out", node.name, brief(result))
    return result


def _shown(shared: Shared, item: str) -> tuple[Any, ...]:
    """What a branch observes of the shared list: nothing, if the order of the threads is not promised."""
    found = shared.add(item)
    return () if _program is not None and _program.is_blocking else found


# Leaves


def call(node: Node, shared: Shared, value: str = "") -> str:
    see("call", node.name)
    try:
        got = step_of(node, is_async=False)(*arguments(node, value))
    except Planned as error:
        see("failed", node.name, described(error), *_shown(shared, f"{node.name}!"))
        raise
    see("got", node.name, got, *_shown(shared, got))
    return str(got)


def _doze(node: Node, shared: Shared) -> str:
    """Time that the workflow's own code takes."""
    time.sleep(node["ms"] / 2000)
    return node.name


def _pause(node: Node, shared: Shared) -> str:
    sleep(node["ms"] / 1000)
    see("slept", node.name, *_shown(shared, node.name))
    return node.name


def _value(node: Node, shared: Shared) -> str:
    make = (now, recorded_random, uuid)[int(node.name[1:]) % 3]
    value = value_text(make())
    see("value", node.name, value)
    if node["ms"] > 3:
        call(simple(f"{node.name}-use"), shared, value)
    return node.name


def _chosen(node: Node, shared: Shared) -> str:
    """A step whose argument a router or a chooser of skills has chosen."""
    with CHOICES[node.kind](node) as choice:
        see("value", node.name, choice)
        call(simple(f"{node.name}-use"), shared, choice)
    return node.name


def _patched(node: Node, shared: Shared) -> str:
    new = patched(f"p-{node.name}")
    see("patched", node.name, new)
    return call(simple(f"{node.name}-{'new' if new else 'old'}"), shared)


def _inserted(node: Node, shared: Shared) -> str:
    if patched(f"p-{node.name}"):
        call(simple(node.name), shared)
    return node.name


def _checkpoint(node: Node, shared: Shared) -> str:
    (milestone if int(node.name[1:]) % 2 else checkpoint)(node.name)
    see("checkpoint", node.name, *_shown(shared, node.name))
    return node.name


def _emit(node: Node, shared: Shared) -> str:
    emit("progress", node.name)
    return node.name


def _approval(node: Node, shared: Shared) -> str:
    limit = 0.01 if node["lapses"] else None
    outcome = approval(gate_name(node), show=node.name, timeout=limit).outcome
    see("gate", node.name, outcome, *_shown(shared, node.name))
    return outcome


def _signal(node: Node, shared: Shared) -> str:
    limit = 0.01 if node["lapses"] else None
    try:
        value = wait_for(gate_name(node), timeout=limit)
    except StepTimeout:
        value = "unanswered"
    see("gate", node.name, value, *_shown(shared, node.name))
    return str(value)


LEAVES: dict[str, Act] = {
    "step": call,
    "doze": _doze,
    "pause": _pause,
    "value": _value,
    "route": _chosen,
    "skills": _chosen,
    "patched": _patched,
    "inserted": _inserted,
    "checkpoint": _checkpoint,
    "emit": _emit,
    "approval": _approval,
    "signal": _signal,
}


# Blocks


def _parallel(node: Node, work: Callable[[Any], Any], items: list[Any]) -> list[Any]:
    """`parallel` with a function, whose branches know which they are. Named as the block says."""
    outer = _path.get()

    def branch(numbered: tuple[int, Any]) -> Any:
        number, item = numbered
        _path.set(f"{outer}/{node.name}[{number}]")
        see("enters", node.name, number)
        try:
            return work(item)
        finally:
            see("leaves", node.name, number)

    branch.__name__ = node["helper"] or "branch"
    return parallel(branch, list(enumerate(items)), limit=node["limit"] or 8)


def _seq(node: Node, shared: Shared) -> Any:
    return [act(one, shared) for one in node.body]


def _each(node: Node, shared: Shared) -> Any:
    """`parallel` with a step."""
    for one in node.body:
        see("call", one.name)
    items = [list(arguments(one)[:3]) for one in node.body]
    found = parallel(ITEM_STEPS[node.body[0]["effect"]], items, limit=node["limit"] or 8)
    for one in found:
        see("got", one, one, *_shown(shared, one))
    return found


def _branches(node: Node, shared: Shared) -> Any:
    return _parallel(node, lambda one: act(one, shared), list(node.body))


def _pool(node: Node, shared: Shared) -> Any:
    """Workers that share a queue that was filled before."""
    items: queue.Queue[Node] = queue.Queue()
    for one in node.body:
        items.put(one)
    found: list[Any] = []

    def work(number: int) -> None:
        while True:
            try:
                one = items.get_nowait()
            except queue.Empty:
                return
            see("takes", node.name, number, one.name)
            found.append((number, _settled(one, shared)))

    _parallel(node, work, [1, 2])
    return found


def _settled(node: Node, shared: Shared) -> Any:
    try:
        return act(node, shared)
    except FAILURES as error:
        return described(error)


def _lock(node: Node, shared: Shared) -> Any:
    lock = threading.Lock()

    def one_by_one(one: Node) -> Any:
        call(simple(f"{one.name}-before"), shared)
        with lock:
            see("has", node.name, one.name)
            return _settled(one, shared)

    return _parallel(node, one_by_one, list(node.body))


def _tally(node: Node, shared: Shared) -> Any:
    """A dict that branches change around their steps."""

    def count(one: Node) -> None:
        before = sum(shared.counts.values())
        act(one, shared)
        shared.counts[one.name] = before + len(shared.items)
        see("tally", node.name, *_tallied(shared))

    _parallel(node, count, list(node.body))
    return sorted(shared.counts)


def _tallied(shared: Shared) -> tuple[Any, ...]:
    return () if _program is not None and _program.is_blocking else (str(shared.counts),)


def _helper(node: Node, shared: Shared) -> Any:
    def inner(body: tuple[Node, ...]) -> Any:
        if not body:
            return []
        first = act(body[0], shared)
        return [first, *inner(body[1:])]

    return inner(node.body)


def _child(node: Node, shared: Shared) -> Any:
    see("call", node.name)
    found = part_def(node.name)
    see("child", node.name, found, *_shown(shared, node.name))
    return found


def _other_child(node: Node, shared: Shared) -> Any:
    see("call", node.name)
    found = async_player.part_async.sync(node.name)
    see("child", node.name, found, *_shown(shared, node.name))
    return found


BLOCKS: dict[str, Act] = {
    "seq": _seq,
    "each": _each,
    "parallel": _branches,
    "pool": _pool,
    "lock": _lock,
    "tally": _tally,
    "helper": _helper,
    "child": _child,
    "other_child": _other_child,
}
