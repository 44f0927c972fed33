"""Stolen, on DBOS: a second process launches on the same database while the first is in a step."""

from __future__ import annotations

import time

from dbos import DBOS, DBOSConfig, SetWorkflowID
from scene import Scene, Verdict, play, this, times, verdict


@DBOS.step()
def pay(name: str) -> str:
    return this().body(name, until=f"continue {name}")


@DBOS.workflow()
def order(name: str) -> str:
    return pay(name)


def launch(scene: Scene, database: str, executor: str) -> None:
    config: DBOSConfig = {"name": "shop", "system_database_url": f"sqlite:///{scene.home / database}"}
    if executor:
        config["executor_id"] = executor
    DBOS(config=config)
    DBOS.launch()


def app(scene: Scene, name: str, executor: str = "") -> None:
    launch(scene, name, executor)
    with SetWorkflowID("order"):
        order(name)
    DBOS.destroy()


def onlooker(scene: Scene, name: str, executor: str = "") -> None:
    """Starts no workflow."""
    launch(scene, name, executor)
    time.sleep(6)
    DBOS.destroy()


def times_begun(scene: Scene, name: str, *executors: str) -> int:
    """How often the step of one order began while a second process was there."""
    first = scene.start("app", name, *executors[:1])
    scene.must(f"began {name}")
    second = scene.live_beside("onlooker", name, *executors[1:], sign=f"began {name}", count=2)
    scene.note(f"continue {name}")
    for process in (first, second):
        process.wait(30)
    return len(scene.notes(f"began {name}"))


def judge(scene: Scene) -> Verdict:
    alike = times_begun(scene, "alike")
    apart = times_begun(scene, "apart", "one", "two")
    return verdict(
        f"a second process that only launches: the running step began {times(alike)} with the default executor id, "
        f"{times(apart)} with an id per process (what its documentation advises for several; see orphaned)",
        plain=alike == 1,
        other=apart == 1,
    )


if __name__ == "__main__":
    play(judge, app=app, onlooker=onlooker)
