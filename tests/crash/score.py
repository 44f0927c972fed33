"""What a part of the crash suite found out."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Budget:
    """How much to try. A scale of 1 is the short form of `make crash`, less is a sample of it."""

    seed: int
    scale: float = 1.0

    def of(self, count: int) -> int:
        """That many of the short form's `count`, at least one."""
        return max(1, round(count * self.scale))


@dataclass
class Score:
    """One kind of fault: how many points were tried, and what went wrong."""

    kind: str
    what: str
    points: int = 0
    lost: int = 0
    """How often something acknowledged was not there afterwards."""
    violations: list[str] = field(default_factory=list)
    skipped: str = ""
    """Why this kind could not be tried here; such a score proves nothing."""
    notes: dict[str, int] = field(default_factory=dict)
