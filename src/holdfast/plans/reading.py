"""Reading plans: YAML text to a `Plan`, or every fault of it at once."""

from __future__ import annotations

import importlib.machinery
import os
import shutil
import sys
from collections.abc import Callable
from collections.abc import Mapping as Dict
from pathlib import Path
from typing import Any

import msgspec

from holdfast.errors import BadExpression, NotFound, PlanFaults
from holdfast.plans import document, keys
from holdfast.plans.document import Entry, Items, Mapping, Node, Scalar, Unreadable
from holdfast.plans.expressions import parse
from holdfast.plans.faults import Fault, nearest
from holdfast.plans.graph import Graph
from holdfast.plans.inputs import input_faults
from holdfast.plans.model import Plan, PlanStep
from holdfast.plans.step_reading import StepReader, _kind

SUFFIXES = (".yaml", ".yml", ".md")
_NESTED = 8
"""How many sub-plans can be inside each other."""


AgentFault = Callable[[str, bool], str]
"""What is wrong with the agent of a step, by its name, and whether the step sets options of a command agent;
empty if nothing is."""


def read(
    source: str | os.PathLike[str],
    inputs: Dict[str, Any] | None = None,
    *,
    agent_fault: AgentFault | None = None,
) -> Plan:
    """The plan in a file, or in a text of more than one line.

    With `inputs`, they are checked against what the plan takes, and with `agent_fault` its agents. Raises
    `PlanFaults` with every fault, and `NotFound` if there is no such file.
    """
    plan, faults = _read(source, inputs, agent_fault)
    if plan is None or any(not fault.remark for fault in faults):
        name = str(source) if _is_path(source) else "the plan"
        raise PlanFaults(name, [fault for fault in faults if not fault.remark])
    return plan


def check(
    source: str | os.PathLike[str],
    inputs: Dict[str, Any] | None = None,
    *,
    agent_fault: AgentFault | None = None,
) -> list[Fault]:
    """Every fault and remark of a plan, in the order of its lines; nothing runs. Raises `NotFound` if there
    is no such file."""
    return _read(source, inputs, agent_fault)[1]


def _is_path(source: str | os.PathLike[str]) -> bool:
    """Anything but a text of more than one line. A mapping in braces, and nothing at all, are no paths."""
    return not isinstance(source, str) or ("\n" not in source and source.strip()[:1] not in ("", "{"))


def _read(
    source: str | os.PathLike[str], inputs: Dict[str, Any] | None, agent_fault: AgentFault | None
) -> tuple[Plan | None, list[Fault]]:
    if not _is_path(source):
        assert isinstance(source, str)
        reader = _PlanReader(source, "", Path.cwd(), (), agent_fault)
    else:
        path = Path(source)
        reader = _PlanReader(_text(path), str(source), path.parent, (path.resolve(),), agent_fault)
    plan = reader.plan()
    faults = reader.faults.found
    if plan is not None and inputs is not None:
        faults += input_faults(plan, inputs, places=reader.input_places)
    return plan, sorted(set(faults))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(f"there is no file {path} in {Path.cwd()}") from None
    except UnicodeDecodeError:
        raise PlanFaults(str(path), [Fault("", 1, 1, "the file is no UTF-8 text")]) from None
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}") from None


class FaultList:
    """The faults of one file, and what its steps refer to."""

    def __init__(self, file: str, directory: Path) -> None:
        self.found: list[Fault] = []
        self._file = file
        self._directory = directory
        self.uses: list[tuple[Node, str, StepReader, str]] = []
        """Expressions: where, what, of which step, and which key of it."""

    def add(self, where: Node | Entry | Unreadable, text: str, *, remark: bool = False) -> None:
        self.found.append(Fault(self._file, where.line, where.column, text, remark))

    def expression(self, where: Node, text: str, step: StepReader, key: str) -> None:
        """Note an expression; its names are checked when all steps are known."""
        try:
            parse(text)
        except BadExpression as error:
            self.add(where, str(error))
        else:
            self.uses.append((where, text, step, key))

    def program(self, where: Node, program: str, step: StepReader) -> None:
        """A program that is not there; one of the project's own may be made by an earlier step."""
        if "PATH" in step.fields.get("env", {}):
            return
        if "/" in program:
            if not Path(program).is_absolute() or Path(program).exists():
                return
            self.add(where, f"there is no program {program}")
        elif shutil.which(program) is None:
            self.add(where, f"there is no program `{program}`{_nearest_program(program)}")

    def target(self, where: Node, target: str) -> None:
        """A function whose module is not there. Nothing is imported: that would execute code."""
        module = target.rpartition(":")[0]
        if module.endswith(".py"):
            if not (self._directory / module).is_file():
                self.add(where, f"there is no file {module} in {self._directory}")
            return
        top = module.partition(".")[0]
        if top in sys.modules or top in sys.builtin_module_names:
            return
        path = [str(self._directory), os.getcwd(), *sys.path]
        try:
            spec = importlib.machinery.PathFinder.find_spec(top, path)
        except (ImportError, ValueError):
            spec = None
        if spec is None:
            self.add(where, f"there is no module `{top}` in {self._directory}, nor installed")


def _nearest_program(program: str) -> str:
    names: set[str] = set()
    for directory in os.get_exec_path():
        try:
            names.update(path.name for path in Path(directory).iterdir())
        except OSError:
            continue
    hint = nearest(program, sorted(names))
    return hint or "; check its name, or write its path"


class _PlanReader:
    """Reads one file. `above` are the files that it is a sub-plan of, and its own."""

    def __init__(
        self,
        text: str,
        shown: str,
        directory: Path,
        above: tuple[Path, ...],
        agent_fault: AgentFault | None,
        file: str = "",
    ) -> None:
        self._text = text
        self._shown = shown
        self._directory = directory
        self._above = above
        self._agent_fault = agent_fault
        self.faults = FaultList(file, directory)
        self.input_places: dict[str, tuple[int, int]] = {}

    def plan(self) -> Plan | None:
        """The plan; None if so much is wrong that there is none."""
        if self._shown.endswith(".md"):
            from holdfast.plans.checklist import as_document

            try:
                root, checklist, faults = as_document(self._text, Path(self._shown).stem)
            except Unreadable as error:
                self.faults.add(error, error.text)
                return None
            for one in faults:
                self.faults.add(one, one.text)
            found = None if root is None else self._plan(root)
            return None if found is None else msgspec.structs.replace(found, checklist=checklist)
        try:
            node, twice = document.parse(self._text)
        except Unreadable as error:
            self.faults.add(error, error.text)
            return None
        for one in twice:
            self.faults.add(one, one.text)
        if not isinstance(node, Mapping):
            self.faults.add(node, f"a plan is a mapping with `name` and `steps`, not {_kind(node)}")
            return None
        return self._plan(node)

    def _plan(self, root: Mapping) -> Plan | None:
        for name, entry in root.value.items():
            if name not in keys.PLAN:
                self.faults.add(entry, f"a plan has no key `{name}`{nearest(name, keys.PLAN)}")
        inputs = self._mapping(root, "input")
        defaults = self._defaults(root)
        readers = self._steps(root, defaults)
        sub_plans = {reader.id: self._sub_plan(reader) for reader in readers if reader.kind == "plan"}
        graph = Graph(self.faults, readers, set(inputs or {}))
        needs = graph.needs()
        self._remark_on(root, readers, graph)
        fields: dict[str, Any] = {
            "name": self._name(root),
            "description": self._string(root, "description"),
            "input": inputs or {},
            "parallel": self._number(root, "parallel", 8, least=1),
            "budget": self._budget(root),
            "checkpoint_every": self._number(root, "checkpoint_every", 0, least=1),
            "source": _relative(Path(self._shown)) if self._shown else "",
            "directory": _relative(self._directory),
        }
        if any(not fault.remark for fault in self.faults.found):
            return None
        steps = tuple(
            PlanStep(
                id=one.id,
                kind=one.kind or "run",
                needs=needs[one.id],
                plan=sub_plans.get(one.id),
                **one.fields,
            )
            for one in readers
        )
        return Plan(steps=steps, **fields)

    # The plan's own keys

    def _name(self, root: Mapping) -> str:
        entry = root.value.get("name")
        if entry is None:
            self.faults.add(root, "a plan needs a `name`")
            return ""
        value = entry.node.value
        if not isinstance(value, str) or not value.strip() or len(value) > 200 or "\n" in value:
            self.faults.add(entry.node, "`name` is a text of one line")
        return str(value)

    def _string(self, root: Mapping, key: str) -> str:
        entry = root.value.get(key)
        if entry is None:
            return ""
        if not isinstance(entry.node.value, str):
            self.faults.add(entry.node, f"`{key}` must be text, not {_kind(entry.node)}")
        return str(entry.node.value)

    def _number(self, root: Mapping, key: str, default: int, *, least: int) -> int:
        entry = root.value.get(key)
        if entry is None:
            return default
        value = entry.node.value
        if type(value) is int and value >= least:
            return value
        self.faults.add(entry.node, f"`{key}` is a whole number, at least {least}")
        return default

    def _mapping(self, root: Mapping, key: str) -> dict[str, Any] | None:
        entry = root.value.get(key)
        if entry is None or (isinstance(entry.node, Scalar) and entry.node.value is None):
            return None
        if not isinstance(entry.node, Mapping):
            self.faults.add(entry.node, f"`{key}` is a mapping, {{name: value}}, not {_kind(entry.node)}")
            return None
        for name, one in entry.node.value.items():
            self.input_places[name] = (one.line, one.column)
            if not name.isidentifier():
                self.faults.add(one, f"`{name}` cannot be the name of an input: letters, digits and `_`")
        found: dict[str, Any] = document.plain(entry.node)
        return found

    def _budget(self, root: Mapping) -> dict[str, float]:
        entry = root.value.get("budget")
        if entry is None:
            return {}
        if not isinstance(entry.node, Mapping):
            self.faults.add(entry.node, f"`budget` is a mapping, {{usd: 5}}, not {_kind(entry.node)}")
            return {}
        for name, one in entry.node.value.items():
            value = one.node.value
            if name not in keys.BUDGET:
                self.faults.add(one, f"`budget` has no key `{name}`{nearest(name, keys.BUDGET)}")
            elif isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
                self.faults.add(one.node, f"`{name}` of a budget is a number, not less than 0")
            elif name in keys.WHOLE and value != int(value):
                self.faults.add(one.node, f"`{name}` of a budget is a whole number")
        found: dict[str, float] = document.plain(entry.node)
        return found

    def _defaults(self, root: Mapping) -> dict[str, Entry]:
        entry = root.value.get("defaults")
        if entry is None:
            return {}
        if not isinstance(entry.node, Mapping):
            self.faults.add(entry.node, f"`defaults` is a mapping, {{timeout: 10m}}, not {_kind(entry.node)}")
            return {}
        for name, one in entry.node.value.items():
            if name not in keys.DEFAULTS:
                self.faults.add(one, f"`defaults` has no key `{name}`{nearest(name, keys.DEFAULTS)}")
        return {name: one for name, one in entry.node.value.items() if name in keys.DEFAULTS}

    # Steps

    def _steps(self, root: Mapping, defaults: dict[str, Entry]) -> list[StepReader]:
        entry = root.value.get("steps")
        if entry is None:
            self.faults.add(root, "a plan needs `steps`")
            return []
        if not isinstance(entry.node, Items) or not entry.node.value:
            self.faults.add(entry.node, "`steps` is a list of at least one step")
            return []
        readers: list[StepReader] = []
        for node in entry.node.value:
            if not isinstance(node, Mapping):
                self.faults.add(node, f"a step is a mapping with `id` and what it does, not {_kind(node)}")
                continue
            reader = StepReader(self.faults, node, defaults)
            reader.read()
            same = next((one for one in readers if one.id and one.id == reader.id), None)
            if same is not None:
                at = node.value["id"].node
                self.faults.add(at, f"the id `{reader.id}` is taken by the step in line {same.node.line}")
                continue
            readers.append(reader)
        return readers

    def _sub_plan(self, reader: StepReader) -> Plan | None:
        entry = reader.node.value["plan"]
        value = entry.node.value
        if not isinstance(value, str) or not value.endswith(SUFFIXES):
            self.faults.add(entry.node, "`plan` is the path of a plan's file, from the directory of this one")
            return None
        path = self._directory / value
        if path.resolve() in self._above:
            self.faults.add(entry.node, f"{value} is this plan itself, or one that it is inside of")
            return None
        if len(self._above) > _NESTED:
            self.faults.add(entry.node, f"more than {_NESTED} plans are inside each other")
            return None
        try:
            text = _text(path)
        except NotFound as error:
            self.faults.add(entry.node, str(error))
            return None
        above = (*self._above, path.resolve())
        inner = _PlanReader(text, str(path), path.parent, above, self._agent_fault, value)
        plan = inner.plan()
        self.faults.found += inner.faults.found
        if plan is not None:
            for fault in input_faults(plan, reader.fields.get("given", {}), templated=True):
                self.faults.add(reader.node.value.get("with", entry), fault.text)
        return plan

    def _remark_on(self, root: Mapping, readers: list[StepReader], graph: Graph) -> None:
        for one in readers:
            if one.kind == "agent":
                self._check_agent(one)
            elif one.kind == "tool":
                self._check_tool(one)
        at_once = graph.at_once([one for one in readers if one.kind in ("run", "agent") and not _shares(one)])
        if at_once and self._number(root, "parallel", 8, least=1) > 1:
            where = at_once.node.value[at_once.kind or "run"]
            self.faults.add(
                where,
                "commands that may change files run one after another, also where the plan allows several at "
                "once; say `effect: idempotent` or `isolate: copy` if they may run side by side",
                remark=True,
            )

    def _check_agent(self, reader: StepReader) -> None:
        if self._agent_fault is None:
            return
        by = reader.node.value.get("by")
        adjusts = bool(reader.fields.get("retry") or reader.fields.get("isolate"))
        fault = self._agent_fault(str(reader.fields.get("by", "")), adjusts)
        if fault:
            self.faults.add(reader.node.value["agent"] if by is None else by.node, fault)

    def _check_tool(self, reader: StepReader) -> None:
        from holdfast.plans.steps import tools

        name, known = str(reader.fields.get("text", "")), tools()
        if name not in known:
            self.faults.add(
                reader.node.value["tool"].node, f"there is no tool `{name}`{nearest(name, sorted(known))}"
            )
            return
        given = reader.fields.get("given", {})
        unknown = [key for key, value in given.items() if "${" in str(value)]
        for text in known[name].faults(given, unknown):
            self.faults.add(reader.node.value.get("with", reader.node), text)


def _shares(reader: StepReader) -> bool:
    """Whether several such commands run side by side."""
    return reader.fields.get("effect") == "idempotent" or reader.fields.get("isolate") == "copy"


def _relative(path: Path) -> str:
    """From the working directory, if it is below it."""
    whole, here = path.resolve(), Path.cwd()
    return str(whole.relative_to(here)) if whole.is_relative_to(here) else str(whole)
