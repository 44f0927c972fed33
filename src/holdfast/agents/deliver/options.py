"""How a goal is delivered: the agents of each role, the checks, the bounds and the policies."""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.agents.deliver.policies import Policy
from holdfast.agents.deliver.verifying import check_lines
from holdfast.errors import BadInput

Role = Literal["planner", "developer", "reviewer", "verifier"]


class DeliverOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An argument of `deliver`, recorded with the run.

    planner, developer, reviewer  the agent of each role; empty for the one that the settings name
    verifier         an agent that judges after the checks have passed; empty for none
    checks           command lines that must succeed; empty for the one that the project's files show
    rounds           so often a rejected plan, and a rejected implementation, is made again
    retries          so often objections of a review, and failed checks, go back to the developer
    check_timeout_s  seconds that one check may take
    policies         decisions made beforehand
    """

    planner: str = ""
    developer: str = ""
    reviewer: str = ""
    verifier: str = ""
    checks: tuple[str, ...] = ()
    rounds: int = 5
    retries: int = 3
    check_timeout_s: float = 1800.0
    policies: tuple[Policy, ...] = ()

    def agent(self, role: Role) -> str:
        """The name of the agent in that role; empty if none is named."""
        name: str = getattr(self, role)
        return name

    def check(self) -> DeliverOptions:
        """Itself. Raises `BadInput` for what cannot be meant."""
        check_lines(self.checks)
        for name in ("rounds", "retries"):
            if getattr(self, name) < 0:
                raise BadInput(f"{name}={getattr(self, name)}: not less than 0")
        if not self.check_timeout_s > 0:
            raise BadInput(f"check_timeout_s={self.check_timeout_s:g}: more than 0 seconds")
        return self
