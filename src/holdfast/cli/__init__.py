"""The command line: one module for each command, loaded when the command is given."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """The program `holdfast`."""
    # While modules load nothing becomes garbage; whatever executes runs turns this on again.
    gc.disable()
    try:
        from holdfast.cli.app import run_program

        code = run_program()
    except KeyboardInterrupt:  # before anything could report it
        os._exit(130)
    if "holdfast.engine.engine" not in sys.modules:
        # No code but ours ran, and all it had to say is flushed: taking the interpreter down in
        # good order would be a tenth of what `holdfast list` costs.
        os._exit(code)
    raise SystemExit(code)
