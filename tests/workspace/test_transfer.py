"""Contents as a tar file, and back: all of them, or an error."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest

from holdfast.errors import StoreCorrupt, StoreError
from holdfast.workspace.contents.content_store import Contents
from holdfast.workspace.contents.transfer import exporting, importing


def silent(done: int, total: int) -> None:
    pass


@pytest.fixture
def exported(tmp_path: Path) -> tuple[io.BytesIO, int]:
    """Some contents as a tar file, and how many files are in it."""
    directory = tmp_path / "from"
    contents = Contents(directory)
    for text in (b"one", b"two"):
        with contents.writing() as batch:
            batch.put(text)
    contents.close()
    file = io.BytesIO()
    with exporting(directory) as export:
        files = export.write(file, silent)
    file.seek(0)
    return file, files


def test_there_and_back(exported, tmp_path):
    """An import that ends removes what it has unpacked, and what one has left that was killed."""
    file, files = exported
    (tmp_path / "to" / "import-killed").mkdir(parents=True)
    with importing(file, tmp_path / "to", silent, 0, files) as found:
        assert found.damaged == ()
        found.adopt()
    assert not list((tmp_path / "to").glob("import-*"))
    contents, original = Contents(tmp_path / "to"), Contents(tmp_path / "from")
    assert contents.refs() == original.refs() and len(contents.refs()) == 2
    contents.close()
    original.close()


def test_a_file_with_too_few_contents_is_refused(exported, tmp_path):
    file, files = exported
    with (
        pytest.raises(StoreCorrupt, match="2 saved files instead of 3"),
        importing(file, tmp_path / "to", silent, 0, files + 1),
    ):
        pass


def test_contents_that_vanish_before_they_are_adopted_are_missed(exported, tmp_path):
    """Whoever removes them: an import never ends as if they had been there."""
    file, files = exported
    with importing(file, tmp_path / "to", silent, 0, files) as found:
        (staged,) = (tmp_path / "to").glob("import-*")
        shutil.rmtree(staged)
        with pytest.raises(StoreError, match="cannot be used"):
            found.adopt()
