"""The steering side of `Holdfast`: from any process, whichever executes the run."""

from __future__ import annotations

from typing import Any, Final, Literal

from holdfast.errors import BadInput
from holdfast.facade.open_store import OpenStore, blocking

UNSET: Final[Any] = object()
PATIENCE_S = 10.0


class Steering(OpenStore):
    """Decisions, signals, pause and cancel. `by` is who does it; without it, the user."""

    @blocking
    def approve(
        self,
        run_id: str,
        gate: str | None = None,
        digest: str | None = None,
        by: str | None = None,
        comment: str | None = None,
        *,
        snapshot: str | None = None,
    ) -> str:
        """Approve what a run shows; returns the gate's identity. `gate` is needed if several are open;
        `digest`, or its first characters, is that of what you have seen; `snapshot` that of the files: if the
        workspace differs from it now, `GateError` names the paths. Raises `GateError`."""
        if snapshot is None:
            return self._decide(run_id, "approved", gate, digest, by, comment)
        from holdfast.operations.seen_files import unchanged

        with unchanged(self._to_write(), self._known(run_id), snapshot):
            return self._decide(run_id, "approved", gate, digest, by, comment)

    @blocking
    def reject(
        self,
        run_id: str,
        gate: str | None = None,
        digest: str | None = None,
        by: str | None = None,
        comment: str | None = None,
    ) -> str:
        """Reject what a run shows; as `approve` otherwise."""
        return self._decide(run_id, "rejected", gate, digest, by, comment)

    def _decide(
        self,
        run_id: str,
        outcome: Literal["approved", "rejected"],
        gate: str | None,
        digest: str | None,
        by: str | None,
        comment: str | None,
    ) -> str:
        from holdfast.engine.outside.steering import decide_gate

        engine, known = self._to_write(), self._known(run_id)
        return decide_gate(engine, known, outcome, gate or "", digest or "", self._by(by), comment or "")

    @blocking
    def signal(self, run_id: str, name: str, value: Any = None, *, by: str | None = None) -> bool:
        """Give a run the value that its `wait_for(name)` waits for; returns whether one did. Otherwise it
        is kept for the next one."""
        from holdfast.engine.outside.steering import send_signal

        return send_signal(self._to_write(), self._known(run_id), name, value, self._by(by))

    @blocking
    def pause(
        self, run_id: str, reason: str = "", *, by: str | None = None, patience: float = PATIENCE_S
    ) -> str:
        """Stop a run at its next step boundary, until it is resumed; returns its status, which is `paused`
        unless its owner took longer than `patience` seconds to get there."""
        from holdfast.engine.outside.steering import pause

        return pause(self._to_write(), self._known(run_id), reason, self._by(by), patience)

    @blocking
    def cancel(
        self, run_id: str, reason: str = "", *, by: str | None = None, patience: float = PATIENCE_S
    ) -> str:
        """End a run, the commands and async steps that run in it, and its child runs; returns its status,
        which is `cancelled` unless its owner took longer than `patience` seconds to end it. What it had
        reserved in budgets is charged."""
        from holdfast.engine.outside.steering import cancel

        engine, known = self._to_write(), self._known(run_id)
        status = cancel(engine, known, reason, self._by(by), patience)
        if self._store.budgets():
            end = getattr(engine.handler("governor"), "end", None)  # one of a program's own may have none
            if end is not None:
                end(known)
        return status

    @blocking
    def settle(
        self,
        run_id: str,
        step: str,
        *,
        done: Any = UNSET,
        retry: bool = False,
        fail: str | None = None,
        by: str | None = None,
    ) -> str:
        """Settle a step in doubt: `done=VALUE`, `retry=True` or `fail="why"`; returns the step's key. For a
        command, VALUE is a `CommandResult` or a dict with its `exit_code`; raises `BadInput` for another."""
        if (done is not UNSET) + retry + (fail is not None) != 1:
            raise BadInput("settle takes exactly one of done=VALUE, retry=True, fail='why'")
        from holdfast.engine.outside.settling import settle
        from holdfast.engine.primitives.command_settlement import settled_result

        outcome: Literal["done", "retry", "fail"] = (
            "retry" if retry else "fail" if fail is not None else "done"
        )
        value = None if done is UNSET else done
        engine, known = self._to_write(), self._known(run_id)
        return settle(engine, known, step, outcome, value, fail or "", self._by(by), settled_result)
