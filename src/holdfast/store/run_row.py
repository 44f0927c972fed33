"""A run's row as the fold of its history: what every store's projection must agree with."""

from __future__ import annotations

from holdfast.kernel.state import RunState
from holdfast.store.port import RunRow


def run_row(run_id: str, epoch: int, state: RunState, number: int = 0) -> RunRow:
    """A run as `list` shows it, by the fold."""
    return RunRow(
        id=run_id,
        workflow=state.code.name,
        status=state.status,
        reason=state.reason,
        cause=state.cause,
        attention_step=state.attention_step,
        owner=state.owner,
        epoch=epoch,
        generation=state.generation,
        parent=state.parent,
        created_at=state.created_at,
        updated_at=state.updated_at,
        version=state.version,
        ended_at=state.ended_at,
        stage=state.stage,
        number=number,
    )
