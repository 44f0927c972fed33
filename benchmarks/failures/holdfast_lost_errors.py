"""Lost errors, on holdfast: the workflow catches a step's error and continues; after a crash, replay is to raise it again."""

from __future__ import annotations

import threading

from scene import Scene, Verdict, play, this, verdict

from holdfast import Holdfast, StepError, step, workflow


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


@step
def call(kind: str) -> str:
    this().note(f"called {kind}")
    raise ApiError(429, "slow down") if kind == "api" else Disconnected("gone")


@step
def crash() -> None:
    this().die_once()


@workflow
def fetch() -> None:
    for kind in ("api", "connection"):
        try:
            call(kind)
        except ApiError as error:
            this().note(f"caught {kind}: ApiError with status {error.status}")
        except StepError as error:
            this().note(f"caught {kind}: StepError for {error.type_name}")
        except Exception as error:
            this().note(f"caught {kind}: {type(error).__name__}: {error}")
    crash()


def app(scene: Scene) -> None:
    with Holdfast(scene.home / "store") as hf:
        hf.with_id("fetch").run(fetch)


def judge(scene: Scene) -> Verdict:
    scene.live("app")
    scene.live("app")
    api, connection = scene.told("caught api: ", 2), scene.told("caught connection: ", 2)
    calls = len(scene.notes("called"))
    return verdict(
        f"`ApiError(status, body)`: {' live, '.join(api)} in replay; one that cannot be written: "
        f"{' live, '.join(connection)} in replay; the two failed steps ran {calls} times in all",
        plain=api == ["ApiError with status 429"] * 2 and len(set(connection)) == 1 and calls == 2,
    )


if __name__ == "__main__":
    play(judge, app=app)
