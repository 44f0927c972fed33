"""A run's steps by the scopes they were called from, and what of a long run is only counted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from typing import TypeAlias

    from holdfast.views.records import StepInfo

    Item: TypeAlias = "StepInfo | Scope | Branches | Folded"

_BRANCH = re.compile(r"(.+)\[(\d+)\]", re.DOTALL)


class Scope:
    """Steps and inner scopes, in the order in which they came."""

    __slots__ = ("_inner", "items", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.items: list[Item] = []
        self._inner: dict[str, Scope] = {}

    def below(self, name: str) -> Scope:
        inner = self._inner.get(name)
        if inner is None:
            inner = self._inner[name] = Scope(name)
            self.items.append(inner)
        return inner


class Branches(NamedTuple):
    """Branches of one name, if they are too many to be drawn one by one."""

    scopes: list[Scope]

    @property
    def name(self) -> str:
        """Such as `ask[1..40]`."""
        (name, first), (_, last) = _place(self.scopes[0]), _place(self.scopes[-1])
        return f"{name}[{first}..{last}]"


class Folded(NamedTuple):
    """Items that are only counted: steps, or branches."""

    items: Sequence[Item]


def by_scope(steps: Iterable[StepInfo]) -> Scope:
    """The root scope of a run."""
    root = Scope("")
    scopes = {"": root}
    for step in steps:
        path = step.key[: step.key.rfind("/") + 1]
        scope = scopes.get(path)
        if scope is None:
            scope = root
            for name in path.split("/")[:-1]:
                scope = scope.below(name)
            scopes[path] = scope
        scope.items.append(step)
    return root


def steps_in(item: Item) -> Iterator[StepInfo]:
    """All steps of an item, those of inner scopes too."""
    if not isinstance(item, (Scope, Branches, Folded)):
        yield item
        return
    for one in item.scopes if isinstance(item, Branches) else item.items:
        if isinstance(one, (Scope, Branches, Folded)):
            yield from steps_in(one)
        else:
            yield one


def is_quiet(item: Item) -> bool:
    """Whether all of it has completed."""
    if not isinstance(item, (Scope, Branches, Folded)):
        return item.status == "completed"
    return all(step.status == "completed" for step in steps_in(item))


class Folding(msgspec.Struct, frozen=True):
    """How a long run is made short.

    most      so many items of a scope are all drawn; of more, `edge` at its beginning and at its end,
              and between them those that have not completed
    branches  so many branches of one name are all drawn; of more, those that have not completed
    loud      so many that have not completed are drawn
    """

    most: int = 40
    edge: int = 8
    branches: int = 4
    loud: int = 20

    def fold(self, items: Sequence[Item]) -> list[Item]:
        """The drawn part of a scope."""
        items = arrange(items, self.branches)
        if len(items) <= self.most:
            return items
        loud = [n for n, item in enumerate(items) if not is_quiet(item)]
        kept = {*range(self.edge), *range(len(items) - self.edge, len(items))}
        kept.update(loud[: self.loud // 2], loud[-self.loud // 2 :])
        drawn: list[Item] = []
        between: list[Item] = []
        for n, item in enumerate(items):
            if n not in kept:
                between.append(item)
                continue
            drawn += _folded(between)
            drawn.append(item)
            between = []
        return drawn

    def unfold(self, branches: Branches) -> list[Item]:
        """The lines below the heading of branches: none if all have completed."""
        loud = [scope for scope in branches.scopes if not is_quiet(scope)]
        if not loud:
            return []
        rest: list[Item] = [*loud[self.loud :], *(scope for scope in branches.scopes if is_quiet(scope))]
        return [*loud[: self.loud], *_folded(rest)]


INNER = Folding(most=12, edge=4, loud=8)
"""For a child run, of which less is to be seen."""


def _folded(items: list[Item]) -> list[Item]:
    """As one item, where that saves a line."""
    return [Folded(items)] if len(items) > 2 else items


def arrange(items: Sequence[Item], most: int | None = None) -> list[Item]:
    """The items with branches in the order of their numbers, not of what happened in them first; if
    there are more than `most` of one name, as one."""
    arranged: list[Item] = []
    together: dict[str, list[Scope]] = {}
    for item in items:
        if isinstance(item, Scope):
            together.setdefault(_place(item)[0], []).append(item)
        else:
            arranged += _branched(together, most)
            together.clear()
            arranged.append(item)
    return arranged + _branched(together, most)


def _branched(together: dict[str, list[Scope]], most: int | None) -> list[Item]:
    found: list[Item] = []
    for scopes in together.values():
        scopes.sort(key=_place)
        found += [Branches(scopes)] if most is not None and len(scopes) > most else scopes
    return found


def _place(scope: Scope) -> tuple[str, int]:
    """Its name, and which of that name it is."""
    found = _BRANCH.fullmatch(scope.name)
    return (found[1], int(found[2])) if found else (scope.name, 0)
