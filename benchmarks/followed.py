"""A process that serves a store, and the run that it serves: `followed.py HOME`.

Says the first line when it serves, and `rss MEGABYTES` for every line that it reads.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from holdfast import Holdfast, approval, step, wait_for, workflow
from holdfast.engine.runs.serving import Service


@step
def note_time() -> float:
    return time.time()


@workflow
def approved() -> float:
    approval("continue")
    return note_time()


@workflow
def signalled() -> float:
    wait_for("go")
    return note_time()


def resident_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS"))) / 1024


def main() -> None:
    stop = threading.Event()
    with Holdfast(sys.argv[1]) as hf:
        service = Service(hf._engine, limit=8)
        serving = threading.Thread(target=service.run, args=(stop,))
        serving.start()
        print("serving", flush=True)
        for _ in sys.stdin:
            print(f"rss {resident_mb()}", flush=True)
        stop.set()
        serving.join()


if __name__ == "__main__":
    main()
