"""`hf.budgets`: limits in money, tokens, seconds and steps, and what is spent of them."""

from __future__ import annotations

from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from holdfast.facade.namespace import Namespace
from holdfast.facade.open_store import blocking
from holdfast.kernel.amounts import check_name
from holdfast.views.budget import Budget

if TYPE_CHECKING:
    from holdfast.agents.governor.budgets import Budgets
    from holdfast.facade.tracking import Tracking


class BudgetNamespace(Namespace):
    """Budgets. What a budget has spent, its parents have, too. A rewind refunds nothing."""

    NAMESPACE: ClassVar = "budgets"
    _holdfast: Tracking

    @blocking
    def set(
        self,
        name: str,
        *,
        usd: str | Decimal | int | None = None,
        tokens: int | str | None = None,
        seconds: str | Decimal | float | None = None,
        steps: int | str | None = None,
        parent: str | None = None,
    ) -> Budget:
        """Make a budget, or change these limits and leave the others; "none" removes a limit, or the parent.
        0 lets nothing begin. Raises `NotFound` for a parent that is not there, `BadInput` if a budget would
        be its own parent."""
        given = {"usd": usd, "tokens": tokens, "seconds": seconds, "steps": steps}
        self._budgets.set(name, given, parent, self._by())
        return self._get(name)

    @blocking
    def raise_(
        self,
        name: str,
        *,
        usd: str | Decimal | int | None = None,
        tokens: int | str | None = None,
        seconds: str | Decimal | float | None = None,
        steps: int | str | None = None,
    ) -> Budget:
        """Add to the limits of a budget; `resume` continues a run that it had stopped. Raises `NotFound`, and
        `BadInput` for a unit that has no limit and for an amount that is not more than 0."""
        given = {"usd": usd, "tokens": tokens, "seconds": seconds, "steps": steps}
        author = self._holdfast._open_tracker().author()
        once = f"{author.run}:{author.generation}:{author.step}" if author.step else ""
        self._budgets.raise_(name, given, author.by, once)
        return self._get(name)

    @blocking
    def get(self, name: str) -> Budget:
        """A budget by its name. Raises `NotFound`."""
        return self._get(name)

    @blocking
    def list(self) -> list[Budget]:
        """All budgets, by name."""
        return [Budget.of(row) for row in self._holdfast._store.budgets()]

    def _get(self, name: str) -> Budget:
        row = self._holdfast._store.budget(check_name(name))
        if row is None:
            from holdfast.kernel.budget import unknown

            raise unknown(name, [one.name for one in self._holdfast._store.budgets()])
        return Budget.of(row)

    def _by(self) -> str:
        return self._holdfast._open_tracker().author().by

    @cached_property
    def _budgets(self) -> Budgets:
        from holdfast.agents.governor import Budgets

        return Budgets(self._holdfast._store, self._holdfast._open_tracker().clock)
