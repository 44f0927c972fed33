"""What readers see is what was measured: no page can have a figure that the results do not have."""

from __future__ import annotations

import msgspec
import pytest

import pages
import results
from peers.roster import ROSTER
from results import Results


@pytest.fixture(scope="module")
def found() -> Results:
    return results.load()


def test_the_readme_has_the_figures_of_the_results(found: Results) -> None:
    """`make bench` writes its section; nothing in it is written by hand."""
    (section,) = pages.SECTION.findall(pages.README.read_text())
    assert section == pages.section(found)


def test_every_headline_is_a_figure(found: Results) -> None:
    """A figure that was renamed does not vanish from the README unseen."""
    assert set(pages.HEADLINES) <= {row.what for row in found.rows}


def test_the_table_and_the_charts_have_the_figures_of_the_results(found: Results) -> None:
    """They are written in the same run."""
    assert (pages.HERE / "results.md").read_text() == pages.page(found)
    for name, picture in pages.pictures(found).items():
        assert (pages.HERE / name).read_text() == picture


def test_every_peer_is_in_the_results_with_a_figure_or_with_a_reason(found: Results) -> None:
    """None is left out silently."""
    assert found.comparison is not None
    there = {peer.name for peer in found.comparison.peers}
    assert there | set(found.comparison.absent) == {entry.name for entry in ROSTER}
    assert not there & set(found.comparison.absent)


def test_the_section_says_who_is_absent_and_what_falls_short(found: Results) -> None:
    """An absent peer is told with the reason; what falls short is counted, and named on the page."""
    assert found.comparison is not None
    comparison = msgspec.structs.replace(found.comparison, peers=[], absent={"DBOS": "there is no network"})
    rows = [msgspec.structs.replace(row, reach=1e9, at_most=False) for row in found.rows]
    missed = msgspec.structs.replace(found, rows=rows, files=[], comparison=comparison)
    section = pages.section(missed)
    assert "DBOS is absent: there is no network." in section
    assert f"\n{len(rows)} of " in section
    assert pages.page(missed).partition("## Figures")[0].count("≥ 1e+09") == len(rows)


def test_the_section_is_replaced_and_nothing_else(found: Results) -> None:
    """What stands before and after it stays as it is."""
    readme = "# A\n\n## How fast\n\nold\n\n## Read on\n\n## How fast it was\n"
    before, after = "# A\n\n", "## Read on\n\n## How fast it was\n"
    assert pages.with_section(readme, found) == before + pages.section(found) + after
