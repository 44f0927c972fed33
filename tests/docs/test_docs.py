"""README and docs: what they show works, and everything that exists is in them."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.kernel import events

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md", "docs/rewind.md"])
def test_the_first_example_runs_and_runs_again(page: str, tmp_path: Path) -> None:
    """The example of the page works as a script; run again, it gives the same result from the log."""
    script = tmp_path / "flow.py"
    script.write_text(python_blocks(ROOT / page)[0])
    environ = {**os.environ, "HOLDFAST_HOME": str(tmp_path / "home")}
    outputs = [
        subprocess.run(
            [sys.executable, script], env=environ, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert outputs[0].splitlines()[-1] == outputs[1].splitlines()[-1] != ""


@pytest.mark.parametrize("page", sorted(DOCS.glob("guide-*.md")), ids=lambda page: page.name)
def test_examples_of_guides_can_be_loaded(page: Path) -> None:
    """Each example is whole: what it uses is imported or defined in it."""
    for block in python_blocks(page):
        subprocess.run([sys.executable, "-c", block], check=True)


def test_every_public_name_can_be_imported() -> None:
    """What `__all__` promises is there, and nothing else is offered."""
    there = {name for name in holdfast.__all__ if hasattr(holdfast, name)}
    assert there == set(holdfast.__all__) == {*holdfast._HOME_OF, "__version__"}


@pytest.mark.parametrize("name", [name for name in holdfast.__all__ if name != "__version__"])
def test_every_public_name_is_documented(name: str) -> None:
    """Each public name has its line in the API page."""
    assert re.search(rf"`{name}\b", (DOCS / "api.md").read_text())


@pytest.mark.parametrize("name", sorted(events.TYPES))
def test_every_event_is_documented(name: str) -> None:
    """Each event type is in the page of formats."""
    assert f"`{name}`" in (DOCS / "formats.md").read_text()


def reference() -> dict[str, object]:
    spec = importlib.util.spec_from_file_location("reference", DOCS / "reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.PAGES


@pytest.mark.parametrize("page", ["errors.md", "settings.md", "cli.md", "states.md"])
def test_reference_pages_are_what_the_code_says(page: str) -> None:
    """Commands, settings and errors are documented as they are; `docs/reference.py` writes the pages."""
    make = reference()[page]
    assert callable(make)
    assert (DOCS / page).read_text() == make()


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(DOCS.glob("*.md"))], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of a page leads to a file."""
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target
