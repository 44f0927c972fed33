"""Bar charts in SVG, written by hand.

A chart has a ground of its own, light or dark as the reader's system is, so that it can be read on any page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH = 760
MARGIN = 28
HEAD = 84
ROW = 52
FOOT = 50
BAR = 16
VALUE_ROOM = 90
DIGIT = 9
QUOTES = {'"': "&quot;"}

STYLE = """
  .ground { fill: #ffffff; stroke: #d8dee4 }
  .title { fill: #1f2328; font-size: 18px; font-weight: 600 }
  .name { fill: #1f2328; font-size: 14px; font-weight: 600 }
  .value { fill: #1f2328; font-size: 14px; font-weight: 600; font-variant-numeric: tabular-nums }
  .small { fill: #59636e; font-size: 12px }
  .ours { fill: #0f766e }
  .peer { fill: #9aa7b4 }
  .spread { stroke: #1f2328; stroke-width: 1.5; opacity: 0.6 }
  .yardstick { stroke: #e08600; stroke-width: 2; stroke-dasharray: 4 3 }
  .yardstick-text { fill: #b45309; font-size: 12px }
  text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; stroke: #30363d }
    .title, .name, .value { fill: #f0f6fc }
    .small { fill: #9198a1 }
    .ours { fill: #2dd4bf }
    .peer { fill: #59636e }
    .spread { stroke: #f0f6fc }
    .yardstick { stroke: #f0b429 }
    .yardstick-text { fill: #f0b429 }
  }
"""


@dataclass(frozen=True)
class Bar:
    """A rate with its lowest and highest round; `note` is small beside the name."""

    name: str
    note: str
    rate: float
    low: float
    high: float
    ours: bool = False


@dataclass(frozen=True)
class Yardstick:
    """A rate that is no bar: a dashed line across all of them."""

    words: str
    rate: float


def chart(title: str, subtitle: str, bars: Sequence[Bar], yardstick: Yardstick, note: str) -> str:
    """One chart, the fastest first."""
    bars = sorted(bars, key=lambda bar: -bar.rate)
    scale = (WIDTH - 2 * MARGIN - VALUE_ROOM) / max(yardstick.rate, *(bar.high for bar in bars))
    height = HEAD + ROW * len(bars) + FOOT
    said = "; ".join(f"{bar.name} {bar.rate:,.0f}" for bar in bars)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" aria-label="{escape(f"{title}: {said}", QUOTES)}">',
        f"<style>{STYLE}</style>",
        f'<rect class="ground" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        _text("title", MARGIN, 36, title),
        _text("small", MARGIN, 57, subtitle),
        *(_bar(bar, HEAD + ROW * index, scale, yardstick.rate) for index, bar in enumerate(bars)),
        _legend(yardstick, scale, height),
        _text("small", MARGIN, height - 16, note),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _bar(bar: Bar, y: int, scale: float, yardstick: float) -> str:
    """A line of words, the bar under it, the spread of the rounds, the yardstick, the value."""
    kind = "ours" if bar.ours else "peer"
    top, middle, mark = y + 18, y + 18 + BAR / 2, MARGIN + yardstick * scale
    words = f'{escape(bar.name)} <tspan class="small" font-weight="400" dx="4">{escape(bar.note)}</tspan>'
    value = f"{bar.rate:,.0f}"
    value_at = MARGIN + bar.high * scale + 8
    if value_at - 6 < mark < value_at + DIGIT * len(value) + 6:
        value_at = mark + 8
    return "\n".join(
        [
            f'<text class="name" x="{MARGIN}" y="{y + 10}">{words}</text>',
            f'<rect class="{kind}" x="{MARGIN}" y="{top}" width="{max(bar.rate * scale, 1):.1f}" height="{BAR}" rx="2"/>',
            f'<line class="spread" x1="{MARGIN + bar.low * scale:.1f}" x2="{MARGIN + bar.high * scale:.1f}" y1="{middle}" y2="{middle}"/>',
            _text("value", value_at, middle + 5, value),
            f'<line class="yardstick" x1="{mark:.1f}" x2="{mark:.1f}" y1="{top - 3}" y2="{top + BAR + 3}"/>',
        ]
    )


def _legend(yardstick: Yardstick, scale: float, height: int) -> str:
    """What the dashes mean, under the last of them."""
    x = MARGIN + yardstick.rate * scale
    anchor, at = ("end", x + 4) if x > WIDTH / 2 else ("start", x - 4)
    words = f"{yardstick.words}: {yardstick.rate:,.0f}"
    return f'<text class="yardstick-text" x="{at:.1f}" y="{height - FOOT + 12}" text-anchor="{anchor}">{words}</text>'


def _text(kind: str, x: float, y: float, words: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'
