"""Patterns of `def` workflows."""

from __future__ import annotations

from tests.crash.exact.basic_steps import look_up, post
from tests.crash.exact.cases import case, saw
from tests.crash.oracle.witness import see

from holdfast import parallel, workflow


@case("found.append(...) under parallel")
def appended_here() -> str:
    """A list in the order of completion is the argument of the next step."""
    found: list[str] = []

    def collect(item: str) -> None:
        found.append(saw(look_up(item), len(found)))

    parallel(collect, "abcdef", limit=3)
    return saw(post(" ".join(found)))


@case("budget shared by threads")
def budget() -> dict[str, str]:
    """Branches stop when the calls of all of them have used up the budget."""
    results: dict[str, str] = {}

    def explore(start: str) -> None:
        for depth in range(4):
            if len(results) >= 6:
                see("no budget left", start, depth)
                return
            item = f"{start}{depth}"
            results[item] = "..."
            results[item] = saw(post.with_key(item)(item), len(results))

    parallel(explore, "abc")
    return results


def narrower() -> list[str]:
    """The same code with a smaller limit."""
    return spread(1)


@case("parallel(limit=) smaller after the kill", changed=narrower)
def wider() -> list[str]:
    """After the kill only one branch runs at a time: no divergence, nothing is repeated."""
    return spread(4)


def spread(limit: int) -> list[str]:
    def branch(item: str) -> str:
        saw(look_up(item))
        return saw(post(item))

    return parallel(branch, "abcdef", limit=limit)


@workflow
def section(title: str) -> str:
    return f"{saw(look_up(title))} {saw(post(title))}"


@case("nested parallel with child runs")
def nested_threads() -> list[str]:
    """Branches inside branches, some of them child runs."""
    found: list[str] = []

    def part(name: str) -> None:
        def piece(number: int) -> str:
            return saw(look_up(f"{name}{number}"))

        found.extend(parallel(piece, range(2)))
        found.append(section(name))
        see("child", name, len(found))

    parallel(part, "ab")
    saw(post(" ".join(found)))
    return found
