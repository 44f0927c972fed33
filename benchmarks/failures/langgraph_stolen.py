"""Stolen, on LangGraph: the program is started a second time while it is in a step."""

from __future__ import annotations

from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from scene import Scene, Verdict, play, this, times, verdict


class Order(TypedDict):
    paid: str


def pay(order: Order) -> Order:
    return {"paid": this().body("pay", until="continue")}


def app(scene: Scene) -> None:
    """Continues with the thread if it is unfinished, as the documentation says, or begins it."""
    builder = StateGraph(Order)
    builder.add_node("pay", pay)
    builder.add_edge(START, "pay")
    with SqliteSaver.from_conn_string(str(scene.home / "checkpoints.sqlite")) as saver:
        graph = builder.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": "order"}}
        unfinished = graph.get_state(config).next
        graph.invoke(None if unfinished else {"paid": ""}, config, durability="sync")


def judge(scene: Scene) -> Verdict:
    first = scene.start("app")
    scene.must("began pay")
    second = scene.live_beside("app", sign="began pay", count=2)
    scene.note("continue")
    for process in (first, second):
        process.wait(30)
    begun = len(scene.notes("began pay"))
    return verdict(
        f"started again, the program continues the thread: the running step began {times(begun)} (the library leaves that to "
        "the application; its server, a product apart, has strategies for it)",
        plain=begun == 1,
    )


if __name__ == "__main__":
    play(judge, app=app)
