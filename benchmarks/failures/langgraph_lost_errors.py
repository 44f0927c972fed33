"""Lost errors, on LangGraph: the workflow catches a step's error and continues; after a crash, replay is to raise it again."""

from __future__ import annotations

import time

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint, task
from scene import Scene, Verdict, play, this, times, verdict


class ApiError(Exception):
    """As clients of APIs have them: the constructor takes more than the message."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status


@task
def call() -> str:
    this().note("called")
    if len(this().notes("called")) == 1:
        raise ApiError(429, "slow down")
    return "an answer"


@task
def crash() -> None:
    time.sleep(0.5)
    this().die_once()


def app(scene: Scene) -> None:
    with SqliteSaver.from_conn_string(str(scene.home / "checkpoints.sqlite")) as saver:

        @entrypoint(checkpointer=saver)
        def fetch(topic: str) -> None:
            try:
                scene.note(f"got {call().result()}")
            except ApiError as error:
                scene.note(f"got ApiError with status {error.status}")
            crash().result()

        begin = None if scene.notes("died") else "kelp"
        fetch.invoke(begin, {"configurable": {"thread_id": "fetch"}}, durability="sync")


def judge(scene: Scene) -> Verdict:
    scene.live("app")
    scene.live("app")
    got, calls = scene.told("got ", 2), len(scene.notes("called"))
    return verdict(
        f"{' live, '.join(got)} in replay: a failed task is not replayed but run again (as documented), {times(calls)} in all, "
        "and the workflow took two different ways",
        plain=len(set(got)) == 1 and calls == 1,
    )


if __name__ == "__main__":
    play(judge, app=app)
