"""The plan of a run, as it was stored when the run was started, beside its file as that is now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import HoldfastError
from holdfast.kernel import codec
from holdfast.plans.comparison import differences
from holdfast.plans.model import Plan
from holdfast.plans.reading import read
from holdfast.views.run_detail import PLAN_RUNNER

if TYPE_CHECKING:
    from holdfast.store.port import Store


class StoredPlan(NamedTuple):
    """`directory` is where the run was started, which its paths are relative to."""

    plan: Plan
    inputs: dict[str, Any]
    directory: Path


def stored_plan(store: Store, run_id: str) -> StoredPlan | None:
    """None if the run is none of a plan."""
    for _, created in store.creations([run_id]):
        if (created.code.module, created.code.name) != PLAN_RUNNER:
            return None
        args, kwargs = codec.decode(store.blob(created.blob) if created.blob else created.args)
        given = dict(zip(("plan", "inputs"), args, strict=False)) | kwargs
        return StoredPlan(given["plan"], given["inputs"], Path(created.code.cwd))
    return None


def file_changes(stored: StoredPlan) -> list[str]:
    """The differences between the plan and its file now; none if the file is gone or there was none."""
    path = stored.directory / stored.plan.source
    if not stored.plan.source or not path.is_file():
        return []
    try:
        now = read(path)
    except HoldfastError as error:
        return [str(error)]
    return differences(stored.plan, now)
