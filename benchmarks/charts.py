"""Bar charts in SVG, written by hand: `write(rows, directory)` makes `sequential.svg` and `concurrent.svg`.

A chart has a ground of its own, light or dark as the reader's system is, so that it can be read on any page. `rows` are
those of `peers.comparison.compare`; `python benchmarks/charts.py ROWS.json DIRECTORY` draws them again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
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

CHARTS = {
    "sequential": (
        "sequential",
        "Sequential steps per second",
        "One run of 300 steps, one after another; results of 200 bytes",
    ),
    "concurrent": (
        "many",
        "Concurrent steps per second",
        "50 runs of 20 steps each, at once; results of 200 bytes",
    ),
}
NOTE = "Medians; the thin lines go from the lowest to the highest round."


def write(rows: Sequence[dict[str, Any]], directory: Path) -> list[Path]:
    """Draw both charts into `directory` and say where."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for file, (figure, title, subtitle) in CHARTS.items():
        path = directory / f"{file}.svg"
        path.write_text(chart(rows, figure, title, subtitle))
        written.append(path)
    return written


def chart(rows: Sequence[dict[str, Any]], figure: str, title: str, subtitle: str) -> str:
    """One chart: a bar per row that has `figure`, the fastest first; the yardstick is a dashed line across each."""
    bars = sorted(
        (row for row in rows if figure in row and not row.get("yardstick")),
        key=lambda row: -row[figure]["rate"],
    )
    raw = next((row["sequential"]["rate"] for row in rows if row.get("yardstick")), 0.0)
    top = max([row[figure]["high"] for row in bars] + [raw], default=1.0) or 1.0
    height = HEAD + ROW * len(bars) + FOOT
    scale = (WIDTH - 2 * MARGIN - VALUE_ROOM) / top
    said = "; ".join(f"{row['name']} {row[figure]['rate']:,.0f}" for row in bars)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" aria-label="{escape(f"{title}: {said}", QUOTES)}">',
        f"<style>{STYLE}</style>",
        f'<rect class="ground" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        _text("title", MARGIN, 36, title),
        _text("small", MARGIN, 57, subtitle),
        *(_bar(row, figure, HEAD + ROW * index, scale, raw) for index, row in enumerate(bars)),
        *([_yardstick(raw, scale, height)] if raw else []),
        _text("small", MARGIN, height - 16, NOTE),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _bar(row: dict[str, Any], figure: str, y: int, scale: float, raw: float) -> str:
    """A line of words, the bar under it, the spread of the rounds, the yardstick, the value."""
    rate, low, high = (row[figure][key] for key in ("rate", "low", "high"))
    kind = "ours" if row["name"] == "holdfast" else "peer"
    bar, middle, mark = y + 18, y + 18 + BAR / 2, MARGIN + raw * scale
    words = (
        f'{escape(row["name"])} <tspan class="small" font-weight="400" dx="4">{escape(_note(row))}</tspan>'
    )
    value = f"{rate:,.0f}"
    value_at = MARGIN + max(rate, high) * scale + 8
    if value_at - 6 < mark < value_at + DIGIT * len(value) + 6:
        value_at = mark + 8
    lines = [
        f'<text class="name" x="{MARGIN}" y="{y + 10}">{words}</text>',
        f'<rect class="{kind}" x="{MARGIN}" y="{bar}" width="{max(rate * scale, 1):.1f}" height="{BAR}" rx="2"/>',
        f'<line class="spread" x1="{MARGIN + low * scale:.1f}" x2="{MARGIN + high * scale:.1f}" y1="{middle}" y2="{middle}"/>',
        _text("value", value_at, middle + 5, value),
    ]
    if raw:
        lines.append(
            f'<line class="yardstick" x1="{mark:.1f}" x2="{mark:.1f}" y1="{bar - 3}" y2="{bar + BAR + 3}"/>'
        )
    return "\n".join(lines)


def _note(row: dict[str, Any]) -> str:
    return " · ".join(part for part in (row.get("version"), row.get("setting")) if part)


def _yardstick(raw: float, scale: float, height: int) -> str:
    """What the dashes mean, under the last of them."""
    x = MARGIN + raw * scale
    anchor, at = ("end", x + 4) if x > WIDTH / 2 else ("start", x - 4)
    words = f"raw SQLite, one row per commit: {raw:,.0f}"
    return f'<text class="yardstick-text" x="{at:.1f}" y="{height - FOOT + 12}" text-anchor="{anchor}">{words}</text>'


def _text(kind: str, x: float, y: float, words: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'


if __name__ == "__main__":
    for file in write(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])):
        print(file)
