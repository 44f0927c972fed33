"""The keys of a plan file: which there are, and which kind of step takes which."""

from __future__ import annotations

from typing import Final

from holdfast.plans.model import Kind

PLAN: Final = (
    "name", "description", "input", "parallel", "budget", "checkpoint_every", "defaults", "steps",
)  # fmt: skip
KINDS: Final[tuple[Kind, ...]] = ("run", "python", "agent", "approve", "wait", "sleep", "tool", "plan")
ANY: Final = ("id", "description", "needs", "when", "foreach", "milestone")
"""Keys of every step."""
OF_KIND: Final[dict[Kind, tuple[str, ...]]] = {
    "run": ("retry", "timeout", "effect", "writes", "isolate", "env", "cwd", "stdin"),
    "python": ("with", "retry", "timeout", "effect", "writes", "isolate"),
    "agent": ("by", "retry", "timeout", "writes", "isolate"),
    "approve": ("show", "timeout"),
    "wait": ("timeout",),
    "sleep": (),
    "tool": ("with", "timeout"),
    "plan": ("with", "timeout"),
}
STEP: Final = (*ANY, *KINDS, *dict.fromkeys(key for keys in OF_KIND.values() for key in keys))
DEFAULTS: Final = ("retry", "timeout", "effect", "writes", "isolate", "env", "cwd")
TAKE_DEFAULTS: Final[tuple[Kind, ...]] = ("run", "python", "agent")
"""A default timeout is no limit for a person, nor for a sub-plan."""
BUDGET: Final = ("usd", "tokens", "seconds", "steps")
RETRY: Final = ("attempts", "initial", "factor", "cap", "total")
RESERVED: Final = (
    "input", "item", "index", "steps", "checkpoint", "len", "skipped", "failed", "true", "false", "null",
)  # fmt: skip
"""Names that mean something else, in expressions or as a scope."""
