"""Where a workflow's code is, and how another process finds it again.

A function of a module is found by module and qualified name, in the directory that the module was imported
from, or, if it was installed, wherever the interpreter has it. A function of a script (`__main__`)
is found by the script's path: the file is loaded under another name, so that its
`if __name__ == "__main__"` part does not run, and the classes that the log knows as `__main__:X`
are looked up there. The modules beside either are those of its own directory (`code_directory`).

The `__main__` of `python -m pkg.mod` is both: the log has its path, its module and the directory of that, and
its classes as `__main__:X`. A process of holdfast's own loads the file under another name in its package: if
the program imports `pkg.mod` beside its `__main__`, the two are two modules there, too. Any other process
imports `pkg.mod`, so that the values of the run are of the classes that it knows.
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
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.engine.execution.arguments import is_unchangeable
from holdfast.engine.runs import code_directory, source_loader
from holdfast.engine.runs.module_place import ModulePlace, main_file
from holdfast.engine.runs.source_loader import FromSource
from holdfast.errors import BadInput, CodeNotFound, NotStorable
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
    place = workflow.place
    script = ""
    if _is_script(place):
        script = _script_of(place)
        _modules.setdefault(script, place.module)
        known = _known_as(place)
    else:
        known = _Known(place.module, _directory_of(place.module))
    return Code(
        name=fn.__qualname__,
        module=known.module,
        script=script,
        cwd=os.getcwd(),
        interpreter=sys.executable,
        directory=known.directory,
    )


def code_of_call(workflow: AnyWorkflow, args: Sequence[Any], kwargs: dict[str, Any]) -> Code:
    """The same for a run with these arguments, with its title."""
    code = code_of(workflow)
    if workflow.title is None:
        return code
    return msgspec.structs.replace(code, title=workflow.title(*args, **kwargs))


def older_digests(workflow: AnyWorkflow, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[str, ...]:
    """The other digests that a run with these arguments may have on record: those of an older holdfast, and
    the one that it has if the module of the workflow was `__main__` then, or if it was not."""
    older = tuple(workflow.signature.older(args, kwargs))
    if all(map(is_unchangeable, (*args, *kwargs.values()))):
        return older
    place = workflow.place
    recorded = _known_as(place).module if _is_script(place) else "__main__"
    if not recorded:
        return older
    token = enter_alias(recorded, place.module)
    try:
        return (*older, workflow.signature.digest(args, kwargs).digest)
    except NotStorable:  # this process has both modules, and a class of the other one: no run began so
        return older
    finally:
        leave_alias(token)


def load(code: Code) -> Workflow[Any, Any] | AsyncWorkflow[Any, Any]:
    """The workflow again. Raises CodeNotFound with the reason."""
    from holdfast.engine.runs.workflow import AsyncWorkflow, Workflow

    where = f"{code.script or code.module}:{code.name}"
    if code.argv:
        module, name = importlib.import_module(_COMMANDS), "run_command"
    elif isinstance(loaded := _defined_so_far(code), (Workflow, AsyncWorkflow)):
        return loaded
    else:
        name = code.name
        with code_directory.one_at_a_time:
            module = _load_main(code, where) if code.script else _import(code, where)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise CodeNotFound(where, f"there is no {code.name} in it; was it renamed or removed?")
    if not isinstance(found, (Workflow, AsyncWorkflow)):
        raise CodeNotFound(where, f"{code.name} is there, but it is no @workflow")
    return found


def _defined_so_far(code: Code) -> object:
    """The object with the workflow's name in a module that is being imported: the thread that imports it may
    itself wait for the run."""
    found: Any = sys.modules.get(code.module) if code.module and not code.script else None
    if not getattr(getattr(found, "__spec__", None), "_initializing", False) or _to_enter(code) is not None:
        return None
    for part in code.name.split("."):
        found = getattr(found, part, None)
    return found


def check(code: Code) -> None:
    """Raises `CodeClash` if classes that the run names would be those of other code in this process."""
    where = f"{code.script or code.module}:{code.name}"
    if code.script and not code.module:
        path = Path(code.script)
        if code.script not in _modules and _name_of(path) not in sys.modules and path.is_file():
            code_directory.check(path.resolve().parent, where, path.stem)
    elif not code.argv and code.script not in _modules and (directory := _to_enter(code)) is not None:
        code_directory.check(directory, where)


def _load_main(code: Code, where: str) -> ModuleType:
    """The module of a file that was `__main__` when the run began."""
    if not code.module:
        return load_script(code.script, where)
    main = _main_of(code.script)
    if main is not None:
        return main
    if code_directory.is_for_one() and code.script.endswith(".py") and Path(code.script).is_file():
        return _load_once(code.script, where, _Known(code.module, code.directory))
    _loading.script = code.script
    try:
        module = _import(code, where)
    finally:
        _loading.script = ""
    _modules[code.script] = module.__name__
    return module


def load_script(script: str, where: str) -> ModuleType:
    """The module of a script's file, loaded once, never as `__main__`."""
    return _main_of(script) or _load_once(script, where, _UNKNOWN)


def _main_of(script: str) -> ModuleType | None:
    """`__main__`, if it is that file."""
    main = sys.modules.get("__main__")
    if main is None or not _same_file(main_file(), Path(script)):
        return None
    _modules[script] = "__main__"
    return main


def _load_once(script: str, where: str, known: _Known) -> ModuleType:
    path = Path(script)
    name = _name_of(path, known.module)
    with code_directory.one_at_a_time:
        loaded = sys.modules.get(name)
        if loaded is None:
            loaded = _load(path, name, where, known)
    _modules[script] = name
    return loaded


def _load(path: Path, name: str, where: str, known: _Known) -> ModuleType:
    if not path.is_file():
        raise CodeNotFound(where, f"the file {path} does not exist; restore it, then resume")
    loader = FromSource(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None:
        raise CodeNotFound(where, f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    if not known.module:
        code_directory.enter(path.resolve().parent, where, path.stem)
    elif known.directory:
        code_directory.enter(Path(known.directory).resolve(), where)
    sys.modules[name] = module
    _loaded_as[name] = known
    try:
        _execute(loader, module, spec.parent)
    except BaseException as error:
        sys.modules.pop(name, None)
        if isinstance(error, (Exception, SystemExit)):
            raise CodeNotFound(where, _why("loading", error)) from error
        raise
    alias_module("__main__", name)
    return module


def _name_of(path: Path, imported_as: str = "") -> str:
    """The module's name, in its package if it has one: two scripts of one name are two modules."""
    mark = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:8]
    package = imported_as.rpartition(".")[0]
    return f"{package}{'.' if package else ''}{_SCRIPT}{path.stem}_{mark}"


def enter(code: Code, workflow: AnyWorkflow | None = None) -> Token[Alias | None] | None:
    """In this context, the names of classes are those of this run: the module that was `__main__` when it
    began may have another name here, or be `__main__` here. `leave` undoes it. `workflow` is the code that
    executes the run, if any does.

    A run whose workflow is in a module leaves it as it is: a child of a script's run shares its
    parent's.
    """
    place = None if workflow is None else workflow.place
    if code.script:
        is_it = place is not None and _is_code_in(code, place)
        module = place.module if place is not None and is_it else _modules.get(code.script)
        return None if module is None else enter_alias("__main__", module)
    if code.module and place is not None and _is_script(place) and _known_as(place).module == code.module:
        return enter_alias(code.module, place.module)
    return None


def _is_code_in(code: Code, place: ModulePlace) -> bool:
    """Whether the run's script is that module, also if its project has another place now."""
    if not place.file:
        return False
    module = _known_as(place).module if _is_script(place) else place.module
    return _script_of(place) == code.script or (bool(module) and module == code.module)


def leave(token: Token[Alias | None] | None) -> None:
    if token is not None:
        leave_alias(token)


def _execute(loader: Any, module: ModuleType, package: str | None) -> None:
    _loading.script = module.__file__
    try:
        if package:
            importlib.import_module(package)
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


class _Known(NamedTuple):
    """The name under which the `__main__` of a run can be imported, and from which directory."""

    module: str
    directory: str


_UNKNOWN = _Known("", "")
_loaded_as: dict[str, _Known] = {}
"""The module of a file that was loaded under another name → what its `__main__` was known as."""


def _is_script(place: ModulePlace) -> bool:
    """Whether the module was `__main__` when its runs began."""
    return place.is_main or place.module in _loaded_as


def _known_as(place: ModulePlace) -> _Known:
    if place.module in _loaded_as:
        return _loaded_as[place.module]
    name = place.imported_as
    if not name or not place.file:
        return _UNKNOWN
    known = _mains.get(place)
    if known is None:
        root = code_directory.root_of(name, place.file)
        if root is None:
            known = _UNKNOWN
        else:
            known = _Known(name, "" if code_directory.is_installed(Path(place.file)) else str(root))
        _mains[place] = known
    return known


_mains: dict[ModulePlace, _Known] = {}
"""The name of `__main__`, as it was when first asked: the directory may change later."""


def _script_of(place: ModulePlace) -> str:
    known = _scripts.get(place.file)
    if known is not None:
        return known
    if not place.file:
        raise BadInput(
            "the workflow lives in an interactive session, where no other process could find it; "
            "put it into a file"
        )
    return _scripts.setdefault(place.file, str(Path(place.file).resolve()))


_scripts: dict[str, str] = {}
"""A module's file → its whole path, as it was when first asked: the directory may change later."""


def _same_file(file: str | None, path: Path) -> bool:
    return bool(file) and Path(str(file)).resolve() == path.resolve()


_modules: dict[str, str] = {}
"""A script's whole path → the module that it is in this process."""

_SCRIPT = "holdfast_script_"
_COMMANDS = "holdfast.engine.primitives.command"
"""The module of the workflow that runs one command: found by its name, as every workflow is."""
