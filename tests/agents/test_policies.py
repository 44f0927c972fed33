"""Policies by themselves: which gates they decide, and how."""

from __future__ import annotations

import pytest

from holdfast.agents.deliver.policies import YES, Policy, decide

DOCS = Policy(name="docs", paths=("docs/**", "*.md"))
SMALL = Policy(name="small", stages=("implementation",), files=2, lines=10)
GUARD = Policy(name="guard", paths=(".github/**",), decide="reject")
LARGE = Policy(name="large", lines=100, decide="reject")


@pytest.mark.parametrize(
    ("policies", "stage", "paths", "lines", "by"),
    [
        ([], "plan", ["a.md"], None, None),
        ([YES], "plan", [], None, "policy:yes"),
        ([DOCS], "plan", ["README.md", "docs/a/b.txt"], None, "policy:docs"),
        ([DOCS], "plan", ["README.md", "app.py"], None, None),
        ([DOCS], "plan", [], None, None),
        ([SMALL], "implementation", ["a.py", "b.py"], 10, "policy:small"),
        ([SMALL], "implementation", ["a.py", "b.py"], 11, None),
        ([SMALL], "implementation", ["a.py", "b.py", "c.py"], 1, None),
        ([SMALL], "implementation", ["image.png"], None, None),
        ([SMALL], "implementation", [], 0, None),
        ([SMALL], "plan", ["a.py"], None, None),
        ([YES, GUARD], "implementation", ["a.py", ".github/ci.yml"], 1, "policy:guard"),
        ([YES, GUARD], "implementation", ["a.py"], 1, "policy:yes"),
        ([YES, LARGE], "implementation", ["a.py"], 101, "policy:large"),
        ([YES, LARGE], "plan", ["a.py"], None, "policy:yes"),
        ([DOCS, YES], "plan", ["a.md"], None, "policy:docs"),
    ],
)
def test_decide(
    policies: list[Policy], stage: str, paths: list[str], lines: int | None, by: str | None
) -> None:
    """One that rejects comes first; one that asks about what is not known does not approve."""
    found = decide(policies, stage, paths, lines)  # type: ignore[arg-type]
    assert (None if found is None else found.by) == by
    if found is not None:
        assert found.outcome == ("rejected" if by in ("policy:guard", "policy:large") else "approved")
