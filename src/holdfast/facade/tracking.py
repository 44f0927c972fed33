"""The tracking side of `Holdfast`: what people and agents work on."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.facade.open_store import OpenStore, service

if TYPE_CHECKING:
    from holdfast.facade.budgets import BudgetNamespace
    from holdfast.facade.evidence import EvidenceNamespace
    from holdfast.facade.memory import MemoryNamespace
    from holdfast.facade.sessions import Sessions
    from holdfast.facade.tasks import Tasks


class Tracking(OpenStore):
    """Tasks, sessions, the memory and budgets."""

    @cached_property
    def tasks(self) -> Tasks:
        """Tasks: what is to be done, by whom, and what it waits for."""
        from holdfast.facade.tasks import Tasks

        return Tasks(self)

    @cached_property
    def sessions(self) -> Sessions:
        """Sessions: who works, from when to when."""
        from holdfast.facade.sessions import Sessions

        return Sessions(self)

    @cached_property
    def memory(self) -> MemoryNamespace:
        """The memory: decisions, patterns and facts that later sessions recall."""
        from holdfast.facade.memory import MemoryNamespace

        return MemoryNamespace(self)

    @cached_property
    def evidence(self) -> EvidenceNamespace:
        """Evidence: the documents of milestones, and their verification."""
        from holdfast.facade.evidence import EvidenceNamespace

        return EvidenceNamespace(self)

    @cached_property
    def budgets(self) -> BudgetNamespace:
        """Budgets: limits in money, tokens, seconds and steps, and what is spent of them."""
        from holdfast.facade.budgets import BudgetNamespace

        return BudgetNamespace(self)

    @service
    def prime(self, limit: int = 4000) -> str:
        """The state of the project for the start of a session, in at most `limit` characters: the
        project's type, tasks in progress and ready, runs that wait or stopped and how to continue them, the
        latest decisions and patterns, open sessions. Equal state gives equal text; what does not fit is
        counted. In workflow code it is a recorded step: a resumed run gets the same text."""
        from holdfast.facade.priming import prime

        return prime(self, limit)
