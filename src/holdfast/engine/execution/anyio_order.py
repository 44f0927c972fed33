"""anyio's cancel scopes in one order.

A scope keeps the scopes inside it in a set, and cancels their tasks in the order of that set: the order of
memory addresses. Scopes whose host is a task of a run hash by that task, which hashes by its number. Other
scopes hash as before. A scope is in such a set only while it has a host.
"""

from __future__ import annotations

import sys
from typing import Any

_done = False


def order_cancel_scopes(branch_task: type) -> None:
    """Once anyio is loaded."""
    global _done
    if _done:
        return
    backend = sys.modules.get("anyio._backends._asyncio")
    if backend is None:
        return
    _done = True

    def hash_by_host(scope: Any) -> int:
        host = scope._host_task
        return hash(host) if isinstance(host, branch_task) else object.__hash__(scope)

    backend.CancelScope.__hash__ = hash_by_host
