"""1,000 async steps on a disk whose every sync takes 50 ms more: `slow_disk.py HOME` prints the
longest delay of a task that ticks every millisecond, in milliseconds."""

from __future__ import annotations

import asyncio
import sys
import time

import apsw

from holdfast import Holdfast, gather, workflow
from workflows import awork


class SlowFile(apsw.VFSFile):
    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        time.sleep(0.05)
        super().xSync(flags)


class SlowDisk(apsw.VFS):
    def __init__(self) -> None:
        super().__init__("slow", "unix", makedefault=True)

    def xOpen(self, name, flags):  # noqa: N802 - SQLite's name
        return SlowFile("unix", name, flags)


async def branch(steps: int) -> None:
    for i in range(steps):
        await awork(i, "do it")


@workflow
async def thousand() -> None:
    await gather(*(branch(20) for _ in range(50)))


async def main(home: str) -> float:
    worst = 0.0

    async def tick() -> None:
        nonlocal worst
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            worst = max(worst, time.perf_counter() - before - 0.001)

    async with Holdfast(home) as hf:
        ticking = asyncio.create_task(tick())
        await hf.start(thousand)
        ticking.cancel()
    return worst * 1000


if __name__ == "__main__":
    disk = SlowDisk()
    print(asyncio.run(main(sys.argv[1])))
