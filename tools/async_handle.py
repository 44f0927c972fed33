"""Writes `src/holdfast/async_handle.py` from the façade: `python tools/async_handle.py`.

Each public method of `Holdfast` that carries `@blocking` becomes a coroutine with the same signature, and
so do those of its namespaces (`hf.tasks` becomes `hf.aio.tasks`). The signatures are read from the source,
so that defaults and annotations stay as they are written. A test fails when the file is stale.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from holdfast.coroutines import Coroutines
from holdfast.facade.namespace import Namespace
from holdfast.handle import Holdfast

TARGET = Path(__file__).parents[1] / "src" / "holdfast" / "async_handle.py"

HEAD = '''\
"""`hf.aio`: the methods of a Holdfast that do I/O, as coroutines. Written by `tools/async_handle.py`: change
the façade, and write it again."""

from __future__ import annotations

{imports}

if TYPE_CHECKING:
{typing_imports}

'''
HOLDFAST = '''
class AsyncHoldfast(Coroutines):
    """Coroutines, each of which calls the method of the same name in a thread."""

'''
NAMESPACE = '''
class {own}(AsyncNamespace):
    """`hf.aio.{name}`: the methods of `hf.{name}` as coroutines."""

'''
PROPERTY = '''
    @property
    def {name}(self) -> {own}:
        """The methods of `hf.{name}` as coroutines."""
        return {own}(self._holdfast.{name})
'''


class Method(NamedTuple):
    """A blocking method: its definition, the module it is in, and its overloads."""

    module: ModuleType
    node: ast.FunctionDef
    overloads: tuple[ast.FunctionDef, ...] = ()


def namespaces() -> dict[str, type]:
    """The namespaces of `Holdfast`: its cached properties, by name, with the class that each returns."""
    found: dict[str, type] = {}
    for cls in Holdfast.__mro__:
        module = inspect.getmodule(cls)
        for name, one in vars(cls).items():
            if name.startswith("_") or not isinstance(one, cached_property) or module is None:
                continue
            hint = one.func.__annotations__["return"]
            imported: dict[str, type] = {}
            exec(import_of(module, hint), imported)
            if issubclass(imported[hint], Namespace):
                found[name] = imported[hint]
    return found


def methods(of: type = Holdfast) -> Iterator[Method]:
    """Every public method of `Holdfast`, or of a namespace, that carries `@blocking`, in the order of the
    source; not those that `Coroutines` has already."""
    own = vars(Coroutines) if of is Holdfast else {}
    for cls in of.__mro__:
        module = inspect.getmodule(cls)
        if module is None or not module.__name__.startswith("holdfast."):
            continue
        for name, found in vars(cls).items():
            function = found.__func__ if isinstance(found, (classmethod, staticmethod)) else found
            if name.startswith("_") or name in own or not getattr(function, "__blocking__", False):
                continue
            *overloads, last = _definitions(module, cls.__name__, name)
            yield Method(module, last, tuple(overloads))


def _definitions(module: ModuleType, cls: str, name: str) -> list[ast.FunctionDef]:
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ClassDef) and node.name == cls:
            found = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == name]
            if found:
                return found
    raise LookupError(f"{module.__name__} defines no {cls}.{name}")


def overload_of(node: ast.FunctionDef) -> str:
    """The source of one overload of a coroutine."""
    returns = ast.unparse(node.returns) if node.returns else "None"
    return f"    @overload\n    async def {node.name}({ast.unparse(node.args)}) -> {returns}: ...\n"


def coroutine(node: ast.FunctionDef, target: str) -> str:
    """The source of the coroutine that calls the method of `self.TARGET`."""
    taken = node.args
    positional = [one.arg for one in (*taken.posonlyargs, *taken.args)][1:]
    passed = [f"self.{target}.{node.name}", *positional]
    passed += [f"*{taken.vararg.arg}"] if taken.vararg else []
    passed += [f"{one.arg}={one.arg}" for one in taken.kwonlyargs]
    passed += [f"**{taken.kwarg.arg}"] if taken.kwarg else []
    first = (taken.posonlyargs or taken.args)[0]
    first.arg = "self"
    returns = ast.unparse(node.returns) if node.returns else "None"
    summary = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
    return (
        f"    async def {node.name}({ast.unparse(taken)}) -> {returns}:\n"
        f'        """{_wrapped(summary)}"""\n'
        f"        return await self._call({', '.join(passed)})\n"
    )


def _wrapped(text: str) -> str:
    """A docstring's text in lines of at most 110 characters, the first of which begins after the quotes."""
    from textwrap import wrap

    return "\n        ".join(wrap(text, 98))


def names(node: ast.FunctionDef) -> tuple[set[str], set[str]]:
    """The names that a signature needs when it is executed (defaults), and those only for annotations."""
    taken = node.args
    defaults = [one for one in (*taken.defaults, *taken.kw_defaults) if one is not None]
    every = (*taken.posonlyargs, *taken.args, *taken.kwonlyargs, taken.vararg, taken.kwarg)
    annotations = [one.annotation for one in every if one is not None and one.annotation is not None]
    needed = {one.id for root in defaults for one in ast.walk(root) if isinstance(one, ast.Name)}
    hints = [*annotations, *([node.returns] if node.returns else [])]
    typing = {one.id for root in hints for one in ast.walk(root) if isinstance(one, ast.Name)}
    return needed, typing - needed


def import_of(module: ModuleType, name: str) -> str:
    """The statement that imports a name as the module has it; empty for a builtin."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom):
            for one in node.names:
                if (one.asname or one.name) == name:
                    return f"from {node.module} import {one.name}" + (f" as {name}" if one.asname else "")
        elif isinstance(node, ast.Import):
            for one in node.names:
                if (one.asname or one.name).partition(".")[0] == name:
                    return f"import {one.name}" + (f" as {name}" if one.asname else "")
    if hasattr(module, name):
        return f"from {module.__name__} import {name}"
    return ""


def source() -> str:
    """The whole file, formatted."""
    at_run_time, for_hints = set(), set()

    def bodies(of: type, target: str) -> str:
        made = []
        for module, node, overloads in methods(of):
            needed, hinted = names(node)
            at_run_time.update(import_of(module, name) for name in needed)
            for_hints.update(import_of(module, name) for name in hinted)
            at_run_time.update({"from typing import overload"} if overloads else ())
            made += [*map(overload_of, overloads), coroutine(node, target)]
        return "\n".join(made)

    text, properties = "", ""
    for name, cls in namespaces().items():
        own = f"Async{cls.__name__}"
        text += NAMESPACE.format(own=own, name=name) + bodies(cls, "_namespace") + "\n"
        properties += PROPERTY.format(own=own, name=name)
    text += HOLDFAST + bodies(Holdfast, "_holdfast") + properties
    always = {
        "from holdfast.coroutines import AsyncNamespace, Coroutines",
        "from typing import TYPE_CHECKING",
    }
    imports = sorted((at_run_time | always) - {""})
    hints = sorted(for_hints - at_run_time - {""})
    head = HEAD.format(imports="\n".join(imports), typing_imports="\n".join(f"    {one}" for one in hints))
    return _formatted(head + text)


def _formatted(text: str) -> str:
    ruff = [sys.executable, "-m", "ruff"]
    named = ["--stdin-filename", str(TARGET), "-"]
    sorts = [*ruff, "check", "--quiet", "--fix", "--select", "I", *named]
    text = subprocess.run(sorts, input=text, capture_output=True, text=True, check=True).stdout
    return subprocess.run(
        [*ruff, "format", "--quiet", *named], input=text, capture_output=True, text=True, check=True
    ).stdout


if __name__ == "__main__":
    TARGET.write_text(source())
