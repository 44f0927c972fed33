"""Orphaned, on DBOS: one of three processes, each with an executor id of its own as its documentation advises, is
killed in a step; another one is to continue its workflow, and with no other."""

from __future__ import annotations

import time

from dbos import DBOS, SetWorkflowID
from scene import Scene, Verdict, kill, play, this, verdict

WATCHED_S = 15


@DBOS.step()
def pay(name: str) -> str:
    scene = this()
    return scene.body(name, until="began" if scene.notes(f"began {name}") else "continue")


@DBOS.workflow()
def order(name: str) -> str:
    return pay(name)


def launch(scene: Scene, executor: str) -> None:
    url = f"sqlite:///{scene.home / 'dbos.sqlite'}"
    DBOS(config={"name": "shop", "system_database_url": url, "executor_id": executor})
    DBOS.launch()


def app(scene: Scene, name: str) -> None:
    launch(scene, name)
    with SetWorkflowID(name):
        order(name)
    DBOS.destroy()


def other(scene: Scene) -> None:
    """Has been open all the time; stays for as long as is watched."""
    launch(scene, "other")
    scene.note("open")
    scene.must("killed")
    time.sleep(WATCHED_S)
    status = DBOS.retrieve_workflow("dead").get_status().status
    scene.note(f"status {status}")
    DBOS.destroy()


def restarted(scene: Scene) -> None:
    """The dead process again, under its own id."""
    launch(scene, "dead")
    DBOS.retrieve_workflow("dead").get_result()
    scene.note("restarted")
    DBOS.destroy()


def judge(scene: Scene) -> Verdict:
    other = scene.start("other")
    scene.must("open")
    living, dead = scene.start("app", "living"), scene.start("app", "dead")
    scene.must("began living")
    scene.must("began dead")
    kill(dead)
    scene.note("killed")
    other.wait(60)
    again, status = len(scene.notes("began dead")) - 1, scene.told("status ")[0]
    scene.live("restarted")
    kill(living)
    went_on = bool(scene.notes("restarted"))
    return verdict(
        f"with two other processes alive, the dead one's workflow was {status} after {WATCHED_S} s; a process started under "
        f"the dead one's executor id {'did' if went_on else 'did not'} continue it (its documentation: that, or Conductor, "
        "a service apart)",
        plain=again == 1 and len(scene.notes("began living")) == 1,
        other=went_on,
    )


if __name__ == "__main__":
    play(judge, app=app, other=other, restarted=restarted)
