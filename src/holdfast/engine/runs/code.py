"""Where a workflow's code is, and how another process finds it again.

A function of a module is found by module and qualified name, in the directory that the module was imported
from, or, if it was installed, wherever the interpreter has it. A function of a script (`__main__`)
is found by the script's path: the file is loaded under another name, so that its
`if __name__ == "__main__"` part does not run, and the classes that the log knows as `__main__:X`
are looked up there. The modules beside either are those of its own directory (`code_directory`).
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Sequence
from contextvars import Token
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.engine.runs import code_directory, source_loader
from holdfast.engine.runs.source_loader import FromSource
from holdfast.errors import BadInput, CodeNotFound
from holdfast.kernel.classes import Alias, alias_module, enter_alias, leave_alias
from holdfast.kernel.events import Code

if TYPE_CHECKING:
    from typing import TypeAlias

    from holdfast.engine.runs.workflow import AsyncWorkflow, Workflow

    AnyWorkflow: TypeAlias = "Workflow[..., Any] | AsyncWorkflow[..., Any]"

_loading = threading.local()


def own_process() -> None:
    """From now on this process executes the code of one directory, as its files are now: called in what
    holdfast itself starts to execute runs."""
    code_directory.keep_to_one()
    source_loader.install()


def code_of(workflow: Workflow[Any, Any] | AsyncWorkflow[Any, Any]) -> Code:
    """Where this workflow is, as a later process must look for it."""
    fn = workflow.fn
    if "<locals>" in fn.__qualname__:
        raise BadInput(
            f"workflow {fn.__qualname__} is defined inside a function, so no other process could find it; "
            "move it to the top level of its module"
        )
    module: str = fn.__module__
    script = directory = ""
    if module == "__main__" or module.startswith(_SCRIPT):
        script = _script_of(sys.modules[module])
        _modules.setdefault(script, module)
        module = ""
    else:
        directory = _directory_of(module)
    return Code(
        name=fn.__qualname__,
        module=module,
        script=script,
        cwd=os.getcwd(),
        interpreter=sys.executable,
        directory=directory,
    )


def code_of_call(workflow: AnyWorkflow, args: Sequence[Any], kwargs: dict[str, Any]) -> Code:
    """The same for a run with these arguments, with its title."""
    code = code_of(workflow)
    if workflow.title is None:
        return code
    return msgspec.structs.replace(code, title=workflow.title(*args, **kwargs))


def load(code: Code) -> Workflow[Any, Any] | AsyncWorkflow[Any, Any]:
    """The workflow again. Raises CodeNotFound with the reason."""
    from holdfast.engine.runs.workflow import AsyncWorkflow, Workflow

    where = f"{code.script or code.module}:{code.name}"
    if code.argv:
        module, name = importlib.import_module(_COMMANDS), "run_command"
    else:
        name = code.name
        with code_directory.one_at_a_time:
            module = load_script(code.script, where) if code.script else _import(code, where)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise CodeNotFound(where, f"there is no {code.name} in it; was it renamed or removed?")
    if not isinstance(found, (Workflow, AsyncWorkflow)):
        raise CodeNotFound(where, f"{code.name} is there, but it is no @workflow")
    return found


def check(code: Code) -> None:
    """Raises `CodeClash` if classes that the run names would be those of other code in this process."""
    where = f"{code.script or code.module}:{code.name}"
    if code.script:
        path = Path(code.script)
        if code.script not in _modules and _name_of(path) not in sys.modules and path.is_file():
            code_directory.check(path.resolve().parent, where, path.stem)
    elif not code.argv and (directory := _to_enter(code)) is not None:
        code_directory.check(directory, where)


def load_script(script: str, where: str) -> ModuleType:
    """The module of a script's file, loaded once, never as `__main__`."""
    path = Path(script)
    main = sys.modules.get("__main__")
    if main is not None and _same_file(getattr(main, "__file__", None), path):
        _modules[script] = "__main__"
        return main
    name = _name_of(path)
    with code_directory.one_at_a_time:
        loaded = sys.modules.get(name)
        if loaded is None:
            loaded = _load(path, name, script, where)
    _modules[script] = name
    return loaded


def _load(path: Path, name: str, script: str, where: str) -> ModuleType:
    if not path.is_file():
        raise CodeNotFound(where, f"the file {script} does not exist; restore it, then resume")
    loader = FromSource(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None:
        raise CodeNotFound(where, f"{script} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    code_directory.enter(path.resolve().parent, where, path.stem)
    sys.modules[name] = module
    try:
        _execute(loader, module)
    except BaseException as error:
        sys.modules.pop(name, None)
        if isinstance(error, (Exception, SystemExit)):
            raise CodeNotFound(where, _why("loading", error)) from error
        raise
    alias_module("__main__", name)
    return module


def _name_of(path: Path) -> str:
    """The module's name: two scripts of one name are two modules."""
    mark = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:8]
    return f"{_SCRIPT}{path.stem}_{mark}"


def enter(code: Code) -> Token[Alias | None] | None:
    """In this context, `__main__` in names of classes is the script of this run; `leave` undoes it.

    A run whose workflow is in a module leaves it as it is: a child of a script's run shares its
    parent's.
    """
    module = _modules.get(code.script) if code.script else None
    return None if module is None else enter_alias("__main__", module)


def leave(token: Token[Alias | None] | None) -> None:
    if token is not None:
        leave_alias(token)


def _execute(loader: Any, module: ModuleType) -> None:
    _loading.script = module.__file__
    try:
        loader.exec_module(module)
    finally:
        _loading.script = ""


def refuse_while_loading() -> None:
    """A script that opens a Holdfast at import would start itself again and again."""
    script = getattr(_loading, "script", "")
    if script:
        raise BadInput(
            f"{script} opens a Holdfast while it is loaded to find its workflows; put that part of the "
            'script under `if __name__ == "__main__":`'
        )


def _import(code: Code, where: str) -> ModuleType:
    directory = _to_enter(code)
    if code.directory and not Path(code.directory).exists():
        raise CodeNotFound(where, f"the directory {code.directory} does not exist; restore it, then resume")
    if directory is not None:
        code_directory.enter(directory, where)
    try:
        module = importlib.import_module(code.module)
    except ModuleNotFoundError as error:
        if error.name and code.module.startswith(error.name):
            raise CodeNotFound(
                where,
                f"there is no module {error.name!r}; run where it can be imported "
                f"(it was {code.directory or code.cwd})",
            ) from None
        raise CodeNotFound(where, f"importing it failed: {error}") from error
    except (Exception, SystemExit) as error:
        raise CodeNotFound(where, _why("importing", error)) from error
    if code.directory:
        code_directory.check_origin(module, Path(code.directory).resolve(), where)
    return module


def _to_enter(code: Code) -> Path | None:
    """The directory that the module's code is imported from; None if this process has that very module, or
    if it is found as any other that was installed.

    A run of an older holdfast has only its working directory on record: that is it if the module is there.
    """
    recorded = code.directory or code.cwd
    if not recorded:
        return None
    directory = Path(recorded).resolve()
    loaded = sys.modules.get(code.module)
    if loaded is not None and code_directory.import_root(loaded) == directory:
        return None
    if code.directory:
        return directory
    is_there = code.module.partition(".")[0] in code_directory.modules_in(directory)
    return directory if is_there else None


def _directory_of(name: str) -> str:
    """The directory that a loaded module was imported from; empty if it was installed, or has no file.
    Workflows of holdfast's own are found wherever the interpreter has it."""
    if name.partition(".")[0] == "holdfast":
        return ""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if module is None or not file:
        return ""
    known = _directories.get((name, file))
    if known is None:
        root = None if code_directory.is_installed(Path(file)) else code_directory.import_root(module)
        known = _directories[name, file] = "" if root is None else str(root)
    return known


_directories: dict[tuple[str, str], str] = {}
"""A module's name and file → what it was imported from, as it was when first asked."""


def _why(doing: str, error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f'{doing} it ended the program ({error}); put that part under `if __name__ == "__main__":`'
    return f"{doing} it raised {type(error).__name__}: {error}"


def _script_of(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    known = _scripts.get(file or "")
    if known is not None:
        return known
    if not file:
        raise BadInput(
            "the workflow lives in an interactive session, where no other process could find it; "
            "put it into a file"
        )
    return _scripts.setdefault(file, str(Path(file).resolve()))


_scripts: dict[str, str] = {}
"""A module's file → its whole path, as it was when first asked: the directory may change later."""


def _same_file(file: str | None, path: Path) -> bool:
    return bool(file) and Path(str(file)).resolve() == path.resolve()


_modules: dict[str, str] = {}
"""A script's whole path → the module that it is in this process."""

_SCRIPT = "holdfast_script_"
_COMMANDS = "holdfast.engine.primitives.command"
"""The module of the workflow that runs one command: found by its name, as every workflow is."""
