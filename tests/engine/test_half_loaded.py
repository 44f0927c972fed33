"""Modules that another thread is still importing: what only looks whether they are there meets them half
loaded. `resume --all` runs several workflows in one process, each of which imports what it needs."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

from holdfast.colour import in_loop
from holdfast.engine.runs import code, code_directory
from holdfast.kernel import classes
from holdfast.kernel.events import Code
from holdfast.plans.steps import _module
from holdfast.wiring.tracker_author import code_here

SLOW = """
import half_loaded_gate
from holdfast import workflow
class Early: ...
@workflow
def early() -> None: ...
half_loaded_gate.entered.set()
assert half_loaded_gate.finish.wait(30)
class Draft: ...
"""


@pytest.mark.parametrize(
    ("name", "ask", "answer"),
    [("asyncio", in_loop, False), ("holdfast.engine.execution.scope", code_here, None)],
)
def test_a_half_loaded_module_is_as_one_that_is_not_there(monkeypatch, name, ask, answer):
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert ask() is answer


@pytest.fixture
def gate(tmp_path: Path, monkeypatch):
    """A module `half_loaded` that a thread is importing until `finish` is set."""
    gate = ModuleType("half_loaded_gate")
    gate.entered, gate.finish = threading.Event(), threading.Event()
    (tmp_path / "half_loaded.py").write_text(SLOW)
    monkeypatch.setitem(sys.modules, "half_loaded_gate", gate)
    monkeypatch.syspath_prepend(str(tmp_path))
    importing = threading.Thread(target=__import__, args=("half_loaded",))
    importing.start()
    assert gate.entered.wait(30)
    yield gate
    gate.finish.set()
    importing.join(30)
    sys.modules.pop("half_loaded", None)


@pytest.mark.parametrize(
    "find",
    [
        lambda _: classes.find("half_loaded:Draft"),
        lambda directory: _module("half_loaded", directory, "plan.yaml").Draft,
    ],
    ids=["class", "plan"],
)
def test_who_needs_a_module_waits_until_it_is_loaded(gate, tmp_path: Path, find):
    threading.Timer(0.2, gate.finish.set).start()
    assert find(tmp_path).__name__ == "Draft"


def test_names_that_are_defined_already_are_found_without_a_wait(gate):
    """The thread that imports the module may itself wait for a run of it: a workflow that is executed at
    import. No lock is needed either, which a thread may hold that waits for the module."""
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with code_directory.one_at_a_time:
            held.set()
            release.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(30)
    found: list[str] = []

    def find() -> None:
        found.append(classes.find("half_loaded:Early").__name__)
        found.append(code.load(Code(name="early", module="half_loaded")).name)

    finder = threading.Thread(target=find)
    finder.start()
    finder.join(5)
    assert found == ["Early", "early"] and not gate.finish.is_set()
    release.set()
    holder.join(30)


def test_two_workflows_of_one_package_are_imported_one_after_the_other(tmp_path: Path, monkeypatch):
    """The package imports the second, which needs a name of the package. Two threads that Python lets import
    both at once wait for each other, and one of them fails."""
    gate = ModuleType("half_loaded_gate")
    gate.entered, gate.finish = threading.Event(), threading.Event()
    package = tmp_path / "two_flows"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import half_loaded_gate\n"
        "half_loaded_gate.entered.set()\n"
        "assert half_loaded_gate.finish.wait(30)\n"
        "MODEL = 'small'\n"
        "from two_flows.second import second\n"
    )
    for name in ("first", "second"):
        (package / f"{name}.py").write_text(
            "from holdfast import workflow\n"
            "from two_flows import MODEL\n"
            f"@workflow\ndef {name}() -> None: ...\n"
        )
    monkeypatch.setitem(sys.modules, "half_loaded_gate", gate)
    monkeypatch.syspath_prepend(str(tmp_path))
    found: dict[str, object] = {}

    def load(name: str) -> None:
        try:
            found[name] = code.load(Code(name=name, module=f"two_flows.{name}")).name
        except Exception as error:
            found[name] = error
            gate.finish.set()

    threads = [threading.Thread(target=load, args=(name,)) for name in ("first", "second")]
    threads[0].start()
    assert gate.entered.wait(30)
    threads[1].start()
    threading.Timer(0.2, gate.finish.set).start()
    for thread in threads:
        thread.join(30)
    assert found == {"first": "first", "second": "second"}
    for name in [name for name in sys.modules if name.startswith("two_flows")]:
        del sys.modules[name]
