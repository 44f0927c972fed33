"""`python -m holdfast.cli.serving HOME RUN`: go on with one run, to its end or until it waits.

How a process that serves a store executes a run of another directory or interpreter.
"""

from __future__ import annotations

import sys

from holdfast import wiring


def main() -> int:
    home, run_id = sys.argv[1:3]
    place = wiring.find_place({"home": home}, create=False)
    store = wiring.open_store(place)
    try:
        engine = wiring.open_engine(place, store)
        try:
            engine.resume(run_id, stay=False).rested.wait()
        finally:
            engine.close()
    finally:
        store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
