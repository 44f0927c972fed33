"""The comparison alone: `cd benchmarks && python -m peers [--rounds 5] [--only WORD] [--json FILE] [--charts DIRECTORY]`."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

import charts
import figures
import holdfast
from raw import Raw

from . import survey
from .comparison import compare, markdown


class Ours(figures.Figures):
    """holdfast as one of the contenders."""

    name = "holdfast"
    version = holdfast.__version__
    setting = 'SQLite, WAL, synchronous=FULL (durability="full")'
    durability = "as it ships: a step is committed before the next one begins"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="only peers whose name holds this")
    parser.add_argument("--json", type=Path, help="where to write the rows")
    parser.add_argument("--charts", type=Path, help="the directory to write the charts to")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="holdfast-peers-"))
    found = survey(directory, only=options.only)
    try:
        rows = compare([Ours(directory), *found.peers], Raw(directory / "raw").rate, options.rounds)
    finally:
        found.close()
        shutil.rmtree(directory, ignore_errors=True)
    print(markdown(rows, found.missing))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    if options.charts:
        charts.write(rows, options.charts)


if __name__ == "__main__":
    main()
