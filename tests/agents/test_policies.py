"""Policies by themselves: which gates they decide, and how."""

from __future__ import annotations

import pytest

from holdfast.agents.deliver.policies import YES, Policy, decide

DOCS = Policy(name="docs", paths=("docs/**", "*.md"))
SMALL = Policy(name="small", stages=("implementation",), files=2, lines=10)
GUIDE = Policy(name="guide", stages=("plan", "implementation"), paths=("docs/**", "*.md"), lines=200)
BOUNDED = Policy(name="bounded", paths=("*.md",), lines=200)
LINES = Policy(name="lines", stages=("plan", "implementation"), lines=200)
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
        ([GUIDE], "plan", ["README.md", "docs/a.txt"], None, "policy:guide"),
        ([GUIDE], "plan", ["README.md", "app.py"], None, None),
        ([GUIDE], "implementation", ["README.md"], 200, "policy:guide"),
        ([GUIDE], "implementation", ["README.md"], 201, None),
        ([GUIDE], "implementation", ["docs/image.png"], None, None),
        ([BOUNDED], "plan", ["README.md"], None, None),
        ([LINES], "plan", ["README.md"], None, None),
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
    """One that rejects comes first; one that asks about what is not known does not approve. A plan has no
    lines: one with `lines` that names the plan among its stages approves it by its paths and files."""
    found = decide(policies, stage, paths, lines)  # type: ignore[arg-type]
    assert (None if found is None else found.by) == by
    if found is not None:
        assert found.outcome == ("rejected" if by in ("policy:guard", "policy:large") else "approved")
