"""`branch`: a named scope, so that the steps of a part of a workflow have keys of that part.

    with branch("review", key=pull_request):
        notes = read(pull_request)  # review[1234]/read#1

Tasks and branches of `parallel` that are created inside are scopes below it. Plans and agents use it: the
keys of a node's steps then depend on the node's name, and not on the order in which nodes begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.engine.execution.scope import Scope, current, require_thread
from holdfast.kernel.identity import check_step_key, check_step_name


@contextmanager
def branch(name: str, key: object = "") -> Iterator[None]:
    """Give the calls inside the keys `name[key]/...`. Serves `with` in both colours: it does no I/O.

    Without a key, branches of one name are numbered by the scope around them, together with its tasks and
    branches of `parallel` of that name: `name[1]/...`, `name[2]/...`. With a key, one scope opens a branch
    once: a second one with the same name and key raises `BadInput`, because its calls would continue the
    count of the first. A number that is taken as a key is not given to a branch without one.

    A task that is created inside belongs to the branch, however long it lives. What is called outside every
    run, or in the body of a step, is not recorded, and the branch does nothing.

    A branch that ends without an error and has not made a call that the history has there diverges, as a
    branch of `parallel` does.
    """
    check_step_name(name)
    chosen = check_step_key(key) if key != "" else ""
    scope = current.get()
    if type(scope) is not Scope:
        yield
        return
    require_thread(scope, "branch()")
    if scope.execution.control is not None:
        raise scope.execution.control
    inner = scope.keyed_child(name, chosen) if chosen else scope.child(name)
    token = current.set(inner)
    try:
        yield
    finally:
        current.reset(token)
    scope.execution.check_all_visited(inner.counters)
