"""Discarded siblings, on DBOS: one of two parallel steps fails while the other runs; then the workflow is tried again.

In the form of its documentation: tasks made in order, gathered with `return_exceptions=True`. A workflow that failed has ended;
`fork_workflow` from the failed step is the way to try it again.
"""

from __future__ import annotations

import asyncio
import time

from dbos import DBOS, SetWorkflowID
from scene import Scene, Verdict, play, this, times, verdict


@DBOS.step()
async def search(name: str) -> str:
    scene = this()
    if name == "slow":
        scene.note("began slow")
        await scene.wait_async("failed long ago")
        scene.note("ended slow")
        return "done slow"
    await scene.wait_async("began slow")
    if not scene.notes("failed"):
        scene.note("failed")
        raise OSError("no route to host")
    return "done quick"


@DBOS.workflow()
async def research() -> list[str]:
    tasks = [asyncio.create_task(search(name)) for name in ("quick", "slow")]
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def launch(scene: Scene) -> None:
    DBOS(config={"name": "research", "system_database_url": f"sqlite:///{scene.home / 'dbos.sqlite'}"})
    DBOS.launch()


def app(scene: Scene) -> None:
    launch(scene)
    with SetWorkflowID("research"):
        asyncio.run(research())


def again(scene: Scene) -> None:
    launch(scene)
    steps = DBOS.list_workflow_steps("research")
    scene.note(f"recorded {sum(step['error'] is None for step in steps)}")
    failed = next(step["function_id"] for step in steps if step["error"] is not None)
    scene.note(f"result {DBOS.fork_workflow('research', failed).get_result()}")
    DBOS.destroy()


def judge(scene: Scene) -> Verdict:
    first = scene.start("app")
    scene.must("failed")
    time.sleep(0.5)
    scene.note("failed long ago")
    first.wait(30)
    scene.live("again")
    scene.told("result ['done quick', 'done slow']")
    begun, recorded = len(scene.notes("began slow")), scene.told("recorded ") == ["1"]
    kept = "finished and was recorded" if recorded else "was not recorded"
    return verdict(
        f"the sibling {kept} (`gather` with `return_exceptions=True`, as documented); but trying again is `fork_workflow` "
        f"from the failed step, and the sibling after it began {times(begun)} in all",
        plain=begun == 1 and recorded,
        other=recorded,
    )


if __name__ == "__main__":
    play(judge, app=app, again=again)
