"""A LangGraph process to be killed in a step: `langgraph_victim.py HOME MARKS FORM DURABILITY`.

The first life begins the thread; the second continues it as the documentation says, with None for the input. Apart from the
worker, because its start is part of the figure and it is to import no more than a user's program does.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph_flows import FLOWS, begin, config


def main(home: str, marks: str, form: str, durability: Any) -> None:
    start = None if Path(marks).exists() else begin(1, marks)
    with SqliteSaver.from_conn_string(str(Path(home) / "checkpoints.sqlite")) as saver:
        FLOWS[form](saver).invoke(start, config("victim", 1), durability=durability)


if __name__ == "__main__":
    main(*sys.argv[1:])
