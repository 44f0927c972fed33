"""Orphaned, on LangGraph: one of three processes is killed in a step; another one is to continue its thread, and with
no other. Nothing does that by itself, so the other process looks for unfinished threads and invokes them."""

from __future__ import annotations

from typing import Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from scene import Scene, Verdict, kill, play, this, times, verdict


class Order(TypedDict):
    name: str
    paid: str


def pay(order: Order) -> dict[str, str]:
    scene, name = this(), order["name"]
    return {"paid": scene.body(name, until="began" if scene.notes(f"began {name}") else "continue")}


def graph_of(saver: SqliteSaver) -> Any:
    builder = StateGraph(Order)
    builder.add_node("pay", pay)
    builder.add_edge(START, "pay")
    return builder.compile(checkpointer=saver)


def config(name: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": name}}


def app(scene: Scene, name: str) -> None:
    with SqliteSaver.from_conn_string(str(scene.home / "checkpoints.sqlite")) as saver:
        graph_of(saver).invoke({"name": name, "paid": ""}, config(name), durability="sync")


def other(scene: Scene) -> None:
    with SqliteSaver.from_conn_string(str(scene.home / "checkpoints.sqlite")) as saver:
        graph = graph_of(saver)
        scene.note("open")
        scene.must("killed")
        threads = {saved.config["configurable"]["thread_id"] for saved in saver.list(None)}
        for thread in sorted(threads):
            if graph.get_state(config(thread)).next:
                graph.invoke(None, config(thread), durability="sync")


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
        "nothing continues by itself; whoever looks for unfinished threads finds the dead one's and the living one's alike: "
        f"invoked, the dead one's step ran {times(again)} more, the living one's {times(doubled)}",
        plain=again == 1 and not doubled,
    )


if __name__ == "__main__":
    play(judge, app=app, other=other)
