"""Loading a workflow by its place: `path.py:name` or `package.module:name`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import BadInput, CodeNotFound, NotFound

if TYPE_CHECKING:
    from holdfast.engine.runs.workflow import AsyncWorkflow, Workflow
    from holdfast.plans.model import Plan

_DOTTED = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_MODULE = re.compile(rf"({_DOTTED}):({_DOTTED})")
_SCRIPT = re.compile(rf"(.+\.py):({_DOTTED})", re.DOTALL)


def load_workflow(target: str) -> Workflow[..., Any] | AsyncWorkflow[..., Any]:
    """The workflow that `path.py:name` or `module:name` names. Raises `NotFound` if there is no such file,
    `CodeNotFound` with the workflows that there are, `CodeClash` if its modules would mix with others of this
    process, and `BadInput` for any other text."""
    place = find_workflow(target)
    if place is None:
        raise BadInput(f"{target!r} names no workflow; write `path.py:name` or `module:name`")
    return place.load()


def names_workflow(word: str) -> bool:
    """Whether the word has the form of a workflow by its place."""
    return bool(_SCRIPT.fullmatch(word) or _MODULE.fullmatch(word))


def find_workflow(target: str) -> WorkflowPlace | None:
    """The place that `target` names, None if it has another form: a command line may end like a place, too.
    Raises `NotFound` if there is no such file."""
    script = _SCRIPT.fullmatch(target)
    if script and (Path(script[1]).is_file() or not re.search(r"\s", target)):
        if not Path(script[1]).is_file():
            raise NotFound(f"there is no file {script[1]} in {Path.cwd()}")
        return WorkflowPlace(script[2], script=str(Path(script[1]).resolve()))
    module = _MODULE.fullmatch(target)
    return WorkflowPlace(module[2], module=module[1]) if module else None


class WorkflowPlace(NamedTuple):
    """Where a workflow is: its name in a file or in a module."""

    name: str
    script: str = ""
    module: str = ""

    def load(self, *, own_process: bool = False) -> Workflow[..., Any] | AsyncWorkflow[..., Any]:
        """The workflow. With `own_process`, this process is from now on for the code of its directory alone.
        Raises as `load_workflow` does; nothing of a store is touched."""
        from holdfast.engine.runs import code as codes
        from holdfast.kernel.events import Code

        if own_process:
            codes.own_process()
        code = Code(
            name=self.name,
            script=self.script,
            module=self.module,
            cwd=str(Path.cwd()),
            interpreter=sys.executable,
        )
        try:
            return codes.load(code)
        except CodeNotFound as error:
            there = self._beside()
            if not there:
                raise
            why = f"{error.why.partition('; was it')[0]}; there is {there}"
            raise CodeNotFound(error.workflow, why) from None

    def _beside(self) -> str:
        """The workflows of the same file; empty if it could not be loaded."""
        from holdfast.facade.workflow_names import listed

        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if file and (file == self.script or (not self.script and module.__name__ == self.module)):
                return listed(Path(file), Path(file).name if self.script else self.module)
        return ""


def plan_runner() -> AsyncWorkflow[[Plan, dict[str, Any]], dict[str, Any]]:
    """The workflow that executes plans, in a process that is for the code of one directory alone."""
    from holdfast.engine.runs import code as codes
    from holdfast.plans.interpreter import run_plan

    codes.own_process()
    return run_plan
