"""Gives anyio's cancel scopes one order in every process.

A scope keeps the scopes inside it in a set, and cancels their tasks in the order of that set: the order of
memory addresses. Scopes whose host is a task of a run hash by that task, which hashes by its number. Other
scopes hash as before. A scope is in such a set only while it has a host.

The hash of a scope must not change while it is in a set. anyio loads this class when it is first used, which
may be inside a task of a run. So the hash is replaced when such a task is hashed: a scope that is entered
puts its host into a set before it is put into one itself.
"""

from __future__ import annotations

import sys
from typing import Any

_done = False


def order_cancel_scopes(numbered_task: type) -> None:
    """Replace the hash of anyio's cancel scopes, once anyio is loaded. Called whenever a task of a run is
    hashed."""
    global _done
    if _done:
        return
    backend = sys.modules.get("anyio._backends._asyncio")
    scopes = getattr(backend, "CancelScope", None)  # another thread may be loading it
    if scopes is None:
        return

    def hash_by_host(scope: Any) -> int:
        host = scope._host_task
        return hash(host) if isinstance(host, numbered_task) else object.__hash__(scope)

    scopes.__hash__ = hash_by_host
    _done = True  # not before: another thread may enter a scope now
