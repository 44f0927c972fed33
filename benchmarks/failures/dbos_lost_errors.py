"""Lost errors, on DBOS: the workflow catches a step's error and continues; after a crash, replay is to raise it again."""

from __future__ import annotations

import threading

from dbos import DBOS, SetWorkflowID
from scene import Scene, Verdict, play, this, times, verdict


class ApiError(Exception):
    """As clients of APIs have them: the constructor takes more than the message."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status


class Disconnected(Exception):
    """Carries something that cannot be written down."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.connection = threading.Lock()


@DBOS.step()
def call(kind: str) -> str:
    this().note(f"called {kind}")
    raise ApiError(429, "slow down") if kind == "api" else Disconnected("gone")


@DBOS.step()
def crash() -> None:
    this().die_once()


@DBOS.workflow()
def fetch(kind: str) -> None:
    try:
        call(kind)
    except ApiError as error:
        this().note(f"caught {kind}: ApiError with status {error.status}")
    except Exception as error:
        this().note(f"caught {kind}: {type(error).__name__}")
    crash()


def app(scene: Scene, kind: str) -> None:
    """The first life starts the workflow; the second only launches, which recovers it."""
    again = bool(scene.notes("died"))
    DBOS(config={"name": "fetch", "system_database_url": f"sqlite:///{scene.home / 'dbos.sqlite'}"})
    DBOS.launch()
    if not again:
        with SetWorkflowID("fetch"):
            fetch(kind)
    DBOS.retrieve_workflow("fetch").get_result()
    DBOS.destroy()


def lived_twice(scene: Scene, kind: str) -> tuple[list[str], int]:
    """What was caught, live and in replay, and how often the step ran."""
    scene = Scene(scene.home / kind)
    scene.home.mkdir()
    scene.live("app", kind)
    scene.live("app", kind)
    return scene.told(f"caught {kind}: ", 2), len(scene.notes("called"))


def judge(scene: Scene) -> Verdict:
    api, api_calls = lived_twice(scene, "api")
    connection, connection_calls = lived_twice(scene, "connection")
    same = len(set(api)) == len(set(connection)) == 1
    return verdict(
        f"`ApiError(status, body)`: {' live, '.join(api)} in replay; one that cannot be pickled: "
        f"{' live, '.join(connection)} in replay, and the failed step ran {times(connection_calls)}",
        plain=same and api_calls == connection_calls == 1,
    )


if __name__ == "__main__":
    play(judge, app=app)
