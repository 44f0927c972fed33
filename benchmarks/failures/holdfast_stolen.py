"""Stolen, on holdfast: the program is started a second time while it is in a step."""

from __future__ import annotations

from scene import Scene, Verdict, play, this, times, verdict

from holdfast import Holdfast, RunHeld, step, workflow


@step
def pay() -> str:
    return this().body("pay", until="continue")


@workflow
def order() -> str:
    return pay()


def app(scene: Scene) -> None:
    """Takes over what is left of dead processes, then continues its own."""
    with Holdfast(scene.home / "store") as hf:
        hf.recover()
        try:
            hf.with_id("order").run(order)
        except RunHeld:
            scene.note("refused")


def judge(scene: Scene) -> Verdict:
    first = scene.start("app")
    scene.must("began pay")
    second = scene.live_beside("app", sign="began pay", count=2)
    scene.note("continue")
    for process in (first, second):
        process.wait(30)
    begun, refused = len(scene.notes("began pay")), len(scene.notes("refused"))
    return verdict(
        f"started again, the program is {'' if refused else 'not '}refused with `RunHeld`; the running step began {times(begun)}",
        plain=begun == refused == 1,
    )


if __name__ == "__main__":
    play(judge, app=app)
