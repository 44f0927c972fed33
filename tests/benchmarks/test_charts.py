"""The charts: well-formed, in proportion, readable by a screen reader and in the dark."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from benchmarks import charts

SVG = "{http://www.w3.org/2000/svg}"


def row(name: str, rate: float, **more: Any) -> dict[str, Any]:
    figure = {"rate": rate, "low": rate, "high": rate}
    return {
        "name": name,
        "version": "1",
        "setting": "<FULL> & more",
        "sequential": figure,
        "many": figure,
        **more,
    }


ROWS = [row("raw SQLite", 4000, yardstick=True), row("slow", 500), row("holdfast", 2000), row("DBOS", 1000)]


def drawn(rows: list[dict[str, Any]]) -> ElementTree.Element:
    return ElementTree.fromstring(charts.chart(rows, "sequential", 'A "title"', "and more"))


def bars(svg: ElementTree.Element) -> list[ElementTree.Element]:
    return [rect for rect in svg.iter(f"{SVG}rect") if rect.get("class") in ("ours", "peer")]


def test_bars_are_in_proportion_and_the_fastest_comes_first() -> None:
    """Twice the rate is twice the length; ours is marked; the yardstick is no bar."""
    found = bars(drawn(ROWS))
    widths = [float(bar.get("width", "0")) for bar in found]
    assert [bar.get("class") for bar in found] == ["ours", "peer", "peer"]
    assert [round(widths[0] / width, 1) for width in widths] == [1, 2, 4]


def test_everything_stays_inside_the_picture() -> None:
    """Also when the highest round is far from the median."""
    wide = row("holdfast", 2000)
    wide["sequential"] = {"rate": 2000, "low": 100, "high": 9000}
    svg = drawn([*ROWS[:2], wide])
    width = float(svg.get("width", "0"))
    ends = [float(line.get("x2", "0")) for line in svg.iter(f"{SVG}line")]
    ends += [
        float(text.get("x", "0")) + charts.DIGIT * 5
        for text in svg.iter(f"{SVG}text")
        if text.get("class") == "value"
    ]
    assert 0 < max(ends) < width


def test_the_figures_are_in_words_too() -> None:
    """Names and values are in the label that a screen reader says."""
    label = drawn(ROWS).get("aria-label", "")
    assert label == 'A "title": holdfast 2,000; DBOS 1,000; slow 500'


def test_there_is_a_dark_form() -> None:
    """Every colour of the light form has one for the dark."""
    light, _, dark = charts.STYLE.partition("@media (prefers-color-scheme: dark)")
    for kind in ("ground", "title", "name", "value", "small", "ours", "peer", "spread", "yardstick"):
        assert f".{kind}" in light
        assert f".{kind}" in dark


def test_both_charts_are_written(tmp_path: Path) -> None:
    """A row without a figure is left out of that figure's chart only."""
    rows = [*ROWS, {key: value for key, value in row("alone", 10).items() if key != "many"}]
    sequential, concurrent = charts.write(rows, tmp_path / "new")
    assert len(bars(ElementTree.parse(sequential).getroot())) == 4
    assert len(bars(ElementTree.parse(concurrent).getroot())) == 3
