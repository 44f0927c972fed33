"""The graph of a plan's steps: what each needs, by `needs` and by its expressions; cycles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.plans.document import Items, Node, Scalar
from holdfast.plans.expressions import Expression, parse
from holdfast.plans.faults import nearest

if TYPE_CHECKING:
    from holdfast.plans.reading import FaultList
    from holdfast.plans.step_reading import StepReader


class Graph:
    def __init__(self, faults: FaultList, readers: list[StepReader], inputs: set[str]) -> None:
        self._faults = faults
        self._readers = {one.id: one for one in readers if one.id}
        self._inputs = inputs
        self._needs: dict[str, dict[str, None]] = {id: {} for id in self._readers}

    def needs(self) -> dict[str, tuple[str, ...]]:
        """The needs of each step: those declared, then the steps that its expressions name. Unknown names and
        cycles are faults."""
        for reader in self._readers.values():
            self._read_needs(reader)
        for where, text, reader, key in self._faults.uses:
            if reader.id in self._needs:
                self._read_expression(where, parse(text), reader, key)
        self._find_cycles()
        return {id: tuple(needs) for id, needs in self._needs.items()}

    def _read_needs(self, reader: StepReader) -> None:
        entry = reader.node.value.get("needs")
        if entry is None:
            return
        node = entry.node
        given = node.value if isinstance(node, Items) else [node]
        for one in given:
            if not isinstance(one, Scalar) or not isinstance(one.value, str):
                self._faults.add(one, "`needs` is a list of ids: [build, test]")
            elif one.value == reader.id:
                self._faults.add(one, f"step `{reader.id}` needs itself")
            elif one.value not in self._readers:
                self._faults.add(one, f"there is no step `{one.value}`{nearest(one.value, self._readers)}")
            else:
                self._needs[reader.id][one.value] = None

    def _read_expression(self, where: Node, found: Expression, reader: StepReader, key: str) -> None:
        for _, step in found.asked:
            self._name_step(where, step, reader)
        for name in found.inputs:
            if name not in self._inputs:
                self._faults.add(where, f"there is no input `{name}`{nearest(name, self._inputs)}")
        for name in found.names:
            if name in ("input", "steps"):
                continue
            if name in ("item", "index"):
                if "foreach" not in reader.node.value or key in ("foreach", "when"):
                    self._faults.add(where, f"`{name}` is known only inside a step with `foreach`")
                continue
            self._name_step(where, name, reader)

    def _name_step(self, where: Node, name: str, reader: StepReader) -> None:
        if name == reader.id:
            self._faults.add(where, f"step `{name}` uses its own result")
        elif name not in self._readers:
            known = ["input", *(["item", "index"] if "foreach" in reader.node.value else []), *self._readers]
            self._faults.add(where, f"there is no `{name}`{nearest(name, known)}")
        else:
            self._needs[reader.id][name] = None

    def _find_cycles(self) -> None:
        """Each cycle once, at the step of it that stands first."""
        done: set[str] = set()
        for start in self._needs:
            path: list[str] = []
            stack = [(start, iter(self._needs[start]))] if start not in done else []
            if stack:
                path.append(start)
            while stack:
                at, rest = stack[-1]
                step = next((one for one in rest if one not in done), None)
                if step is None:
                    stack.pop()
                    path.pop()
                    done.add(at)
                elif step in path:
                    cycle = [*path[path.index(step) :], step]
                    self._faults.add(
                        self._place(step), f"a cycle: {' needs '.join(f'`{one}`' for one in cycle)}"
                    )
                    done.add(step)
                else:
                    stack.append((step, iter(self._needs[step])))
                    path.append(step)

    def _place(self, step: str) -> Node:
        node = self._readers[step].node
        entry = node.value.get("needs")
        return node if entry is None else entry.node

    def at_once(self, readers: list[StepReader]) -> StepReader | None:
        """The first of these steps that may run beside another of them, or beside itself."""
        depth: dict[str, int] = {}
        for id in levels(self._needs):
            depth[id] = 1 + max((depth.get(need, 0) for need in self._needs[id]), default=0)
        seen: dict[int, StepReader] = {}
        for one in readers:
            if "foreach" in one.node.value:
                return one
            level = depth.get(one.id, 0)
            if level in seen:
                return one
            seen[level] = one
        return None


def levels(needs: dict[str, dict[str, None]]) -> list[str]:
    """The steps, each behind those that it needs; of a cycle none."""
    left = {id: len(set(wanted)) for id, wanted in needs.items()}
    dependents: dict[str, list[str]] = {id: [] for id in needs}
    for id, wanted in needs.items():
        for need in wanted:
            dependents[need].append(id)
    ready = [id for id, count in left.items() if count == 0]
    order: list[str] = []
    while ready:
        id = ready.pop(0)
        order.append(id)
        for one in dependents[id]:
            left[one] -= 1
            if left[one] == 0:
                ready.append(one)
    return order
