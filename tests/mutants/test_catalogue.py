"""The catalogue of mutants: each edit applies to the source, and each test that is named is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.mutants.catalogue import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("one", MUTANTS, ids=lambda one: one.name)
def test_each_edit_applies(one: Mutant) -> None:
    """What an edit replaces is in the source exactly once."""
    texts: dict[str, str] = {}
    for edit in one.edits:
        text = texts.get(edit.file) or (ROOT / "src/holdfast" / edit.file).read_text()
        assert text.count(edit.old) == 1, edit
        texts[edit.file] = text.replace(edit.old, edit.new)


@pytest.mark.parametrize("one", MUTANTS, ids=lambda one: one.name)
def test_each_test_is_there(one: Mutant) -> None:
    """By its file and its name."""
    file, *names = one.test.partition("[")[0].split("::")
    text = (ROOT / file).read_text()
    if len(names) > 1:  # a contract is inherited: its tests are in holdfast.testing
        text += "".join(path.read_text() for path in (ROOT / "src/holdfast/testing").rglob("*.py"))
    for name in names:
        assert f"def {name}(" in text or f"class {name}" in text, name
