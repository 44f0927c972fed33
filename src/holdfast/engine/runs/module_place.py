"""The file of a workflow's module, and the name under which other processes import it.

Both are read where the workflow is decorated. Later may be too late: when the main thread of a script has
ended, Python deletes its `__file__`, while other threads and `atexit` callbacks still run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

_MAIN = ("__main__", "__mp_main__")
"""The names of the module that the interpreter was started with, here and in a process that
`multiprocessing` has spawned."""


class ModulePlace(NamedTuple):
    module: str
    """The name that it has in this process."""
    file: str
    """Empty in an interactive session."""
    imported_as: str
    """For the `__main__` of `python -m pkg.mod`, `pkg.mod`. Empty for a script, and for a directory or an
    archive that is executed as one: these have no name under which they could be imported."""

    @property
    def is_main(self) -> bool:
        return self.module in _MAIN


def place_of(fn: Callable[..., Any]) -> ModulePlace:
    """The place of the module that has the function."""
    module: str = fn.__module__
    own: dict[str, Any] = getattr(fn, "__globals__", {})
    if own.get("__name__") != module:  # it is wrapped by a decorator of another module
        own = getattr(sys.modules.get(module), "__dict__", {})
    file = own.get("__file__") or ""
    imported_as: str = getattr(own.get("__spec__"), "name", "") or "" if module in _MAIN else ""
    if module == "__main__" and file:
        _main.update(namespace=own, file=file)
    return ModulePlace(module, file, "" if imported_as in _MAIN else imported_as)


def main_file() -> str:
    """The file of `__main__`; empty if it has none."""
    namespace = getattr(sys.modules.get("__main__"), "__dict__", {})
    file: str = namespace.get("__file__") or (_main["file"] if namespace is _main["namespace"] else "")
    return file


_main: dict[str, Any] = {"namespace": None, "file": ""}
"""The last `__main__` that has a workflow, for the time after Python has deleted its `__file__`."""
