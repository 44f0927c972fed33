"""The charts: well-formed, in proportion, readable by a screen reader and in the dark."""

from __future__ import annotations

from xml.etree import ElementTree

import charts
from charts import Bar, Yardstick

SVG = "{http://www.w3.org/2000/svg}"


def bar(name: str, rate: float, low: float | None = None, high: float | None = None) -> Bar:
    return Bar(name, "<FULL> & more", rate, low or rate, high or rate, ours=name == "holdfast")


BARS = [bar("slow", 500), bar("holdfast", 2000), bar("DBOS", 1000)]


def drawn(bars: list[Bar]) -> ElementTree.Element:
    text = charts.chart('A "title"', "and more", bars, Yardstick("raw SQLite", 4000), "a note")
    return ElementTree.fromstring(text)


def rectangles(svg: ElementTree.Element) -> list[ElementTree.Element]:
    return [rect for rect in svg.iter(f"{SVG}rect") if rect.get("class") in ("ours", "peer")]


def test_bars_are_in_proportion_and_the_fastest_comes_first() -> None:
    """Twice the rate is twice the length; ours is marked; the yardstick is no bar."""
    found = rectangles(drawn(BARS))
    widths = [float(rect.get("width", "0")) for rect in found]
    assert [rect.get("class") for rect in found] == ["ours", "peer", "peer"]
    assert [round(widths[0] / width, 1) for width in widths] == [1, 2, 4]


def test_everything_stays_inside_the_picture() -> None:
    """Also when the highest round is far from the median."""
    svg = drawn([*BARS, bar("holdfast", 2000, 100, 9000)])
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
    assert drawn(BARS).get("aria-label") == 'A "title": holdfast 2,000; DBOS 1,000; slow 500'


def test_there_is_a_dark_form() -> None:
    """Every colour of the light form has one for the dark."""
    light, _, dark = charts.STYLE.partition("@media (prefers-color-scheme: dark)")
    for kind in ("ground", "title", "name", "value", "small", "ours", "peer", "spread", "yardstick"):
        assert f".{kind}" in light
        assert f".{kind}" in dark
