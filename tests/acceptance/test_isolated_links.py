"""What an isolated step writes through links stays in its copy until it is brought, as one."""

from __future__ import annotations

import os

import pytest

LINKS = {
    "absolute": lambda root: str(root / "data"),
    "to the root": lambda root: str(root),
    "out and in again": lambda root: f"../{root.name}/data",
    "another name of it": lambda root: str(root.parent / "alias" / "data"),
    "by another link": lambda root: "absolute",
    "to what is not there yet": lambda root: str(root / "data" / "new"),
}


@pytest.mark.parametrize("kind", LINKS)
def test_nothing_leaks_through_a_link(cli, kind) -> None:
    """While the step works the workspace is as it was; then its changes are there. The link stays."""
    root = cli.directory
    (root / "data").mkdir()
    (root / "data" / "f").write_text("old")
    (root.parent / "alias").symlink_to(root)
    (root / "absolute").symlink_to(root / "data")
    text = LINKS[kind](root)
    (root / "link").symlink_to(text)
    target = {"to the root": "link/data/f", "to what is not there yet": "link"}.get(kind, "link/f")
    result = "data/new" if kind == "to what is not there yet" else "data/f"
    seen = f"cat {root}/{result} 2>/dev/null >> {root.parent}/seen; true"
    cli("run", "--id", "r", "--isolate", "--", "sh", "-c", f"echo changed > {target}; {seen}")
    assert (root.parent / "seen").read_text() == ("" if kind == "to what is not there yet" else "old")
    assert (root / result).read_text() == "changed\n"
    assert os.readlink(root / "link") == text
    assert os.readlink(root / "absolute") == str(root / "data")


def test_a_failed_step_has_changed_nothing_behind_a_link(cli) -> None:
    """What it did there is dropped with its copy."""
    (cli.directory / "f").write_text("old")
    (cli.directory / "link").symlink_to(cli.directory / "f")
    cli("run", "--id", "r", "--isolate", "--", "sh", "-c", "echo changed > link; exit 1", code=1)
    assert (cli.directory / "f").read_text() == "old"


def test_links_that_a_step_makes(cli) -> None:
    """One into its copy leads to that place of the workspace; a changed one is changed; others stay."""
    root = cli.directory
    (root / "f").write_text("old")
    (root / "moved").symlink_to(root / "f")
    (root / "away").symlink_to("/dev/null")
    script = 'ln -s "$PWD/f" made; rm moved; ln -s /dev/null moved'
    cli("run", "--id", "r", "--isolate", "--", "sh", "-c", script)
    assert os.readlink(root / "made") == str(root / "f")
    assert os.readlink(root / "moved") == os.readlink(root / "away") == "/dev/null"
