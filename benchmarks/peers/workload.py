"""What is measured, the same for holdfast and every peer: what the steps do, and how many there are.

Imported by the workers, which run in the environments of the peers: the standard library only, and little of it,
because a process that is started again after a kill imports this on its way to the step.
"""

from __future__ import annotations

import hashlib
import time
from binascii import b2a_base64
from pathlib import Path

STEPS = 300
RUNS, RUN_STEPS = 50, 20
ONE_STEP_RUNS = 100
TEXTS, TEXT_BYTES = 600, 2048

RESULT: dict[str, object] = {"text": "x" * 180, "n": 1}


def text(i: int, size: int) -> str:
    """The `i`th text of `size` bytes; no two are alike, and none gets much smaller by compression."""
    return b2a_base64(hashlib.shake_128(str(i).encode()).digest(size))[:size].decode()


def hang_once(marks: str) -> None:
    """Note in `marks` that a body begins now; the first one stays there to be killed."""
    with Path(marks).open("a") as file:
        file.write(f"{time.time()}\n")
    if len(Path(marks).read_text().splitlines()) == 1:
        time.sleep(60)
