"""The learning side of `Holdfast`: the router and the skills."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.facade.open_store import OpenStore

if TYPE_CHECKING:
    from holdfast.facade.router import RouterNamespace
    from holdfast.facade.skills import SkillsNamespace


class Learning(OpenStore):
    """Router and skills."""

    @cached_property
    def router(self) -> RouterNamespace:
        """The router: how work ended with each model or agent."""
        from holdfast.facade.router import RouterNamespace

        return RouterNamespace(self)

    @cached_property
    def skills(self) -> SkillsNamespace:
        """Skills: the texts for prompts that the project has, and how work with each ended."""
        from holdfast.facade.skills import SkillsNamespace

        return SkillsNamespace(self)
