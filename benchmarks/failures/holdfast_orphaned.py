"""Orphaned, on holdfast: one of three processes is killed in a step; another one is to continue its run, and with
no other."""

from __future__ import annotations

from scene import Scene, Verdict, kill, play, this, times, verdict

from holdfast import Holdfast, step, workflow


@step
def pay(name: str) -> str:
    scene = this()
    return scene.body(name, until="began" if scene.notes(f"began {name}") else "continue")


@workflow
def order(name: str) -> str:
    return pay(name)


def app(scene: Scene, name: str) -> None:
    with Holdfast(scene.home / "store") as hf:
        hf.with_id(name).run(order, name)


def other(scene: Scene) -> None:
    """Has been open all the time; the kill is all it learns."""
    with Holdfast(scene.home / "store") as hf:
        scene.note("open")
        scene.must("killed")
        for run in hf.recover():
            run.result()


def judge(scene: Scene) -> Verdict:
    other = scene.start("other")
    scene.must("open")
    living, dead = scene.start("app", "living"), scene.start("app", "dead")
    scene.must("began living")
    scene.must("began dead")
    kill(dead)
    scene.note("killed")
    other.wait(30)
    scene.note("continue")
    living.wait(30)
    again, doubled = len(scene.notes("began dead")) - 1, len(scene.notes("began living")) - 1
    return verdict(
        f"`recover()` in another process: the dead one's step ran {times(again)} more, the living one's {times(doubled)}",
        plain=again == 1 and not doubled,
    )


if __name__ == "__main__":
    play(judge, app=app, other=other)
