"""One of four processes on one store: `worker.py HOME START_AT SECONDS` prints [steps, longest step]."""

from __future__ import annotations

import json
import sys
import time
from itertools import pairwise

from holdfast import Holdfast, workflow
from workflows import work


@workflow
def busy(seconds: float) -> list[float]:
    times = [time.perf_counter()]
    while times[-1] - times[0] < seconds:
        work(len(times), "do it")
        times.append(time.perf_counter())
    return [len(times) - 1, max(b - a for a, b in pairwise(times))]


def main() -> None:
    home, start_at, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    with Holdfast(home) as hf:
        time.sleep(max(0.0, start_at - time.time()))
        print(json.dumps(hf.run(busy, seconds)))


if __name__ == "__main__":
    main()
