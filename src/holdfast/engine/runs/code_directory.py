"""The directories whose modules this process executes. Two of them must not be mixed.

Python keeps one module per name and process. If `a/flow.py` and `b/flow.py` each import their own `tools`,
the second one gets the first one's. So a process that holdfast starts executes the code of one directory.
There it comes first on the path. In a program's own process a directory is refused if the name of one of its
modules leads elsewhere there.
"""

from __future__ import annotations

import sys
import sysconfig
import threading
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder
from pathlib import Path
from types import ModuleType

from holdfast.errors import CodeClash

_SUFFIXES = (".py", ".pyc", *EXTENSION_SUFFIXES)
_INSTALLED = tuple(
    Path(path).resolve()
    for path in {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
_PACKAGES = {"site-packages", "dist-packages"}
_NAMELESS = {"__init__", "__main__"}
"""Files that every package or program may have: they are imported under another name, or executed."""

one_at_a_time = threading.RLock()
"""Held while the code of a run is imported: if a package's `__init__` imports one of its modules, which
imports a name of the package, two threads that import both at once wait for each other, and one fails."""

_own = False
_only: Path | None = None


def keep_to_one() -> None:
    """From now on this process is for the code of one directory, whichever comes first."""
    global _own
    main = sys.modules["__main__"]
    is_module = getattr(main, "__spec__", None) is not None and not sys.flags.safe_path
    if not _own and is_module and not Path(__file__).is_relative_to(Path(sys.path[0]).resolve()):
        # `python -m` has put the working directory there, which the run has nothing to do with.
        del sys.path[0]
    _own = True


def is_for_one() -> bool:
    """Whether this process is for the code of one directory."""
    return _own


def enter(directory: Path, where: str, script: str = "") -> None:
    """Let this process import the modules of `directory`. `script` is the name of the file that is loaded
    from it. Raises `CodeClash` if its modules would mix with others."""
    global _only
    check(directory, where, script)
    if _own:
        _only = directory
        if not _is_on_path(directory, sys.path[:1]):
            sys.path.insert(0, str(directory))
    elif not _is_alone(script, directory) and not _is_on_path(directory, sys.path):
        sys.path.insert(0, str(directory))


def check(directory: Path, where: str, script: str = "") -> None:
    """Raises `CodeClash` if the modules of `directory` would mix with others in this process."""
    if _own:
        if _only not in (None, directory):
            raise CodeClash(where, f"its code is in {directory}, and this process executes that in {_only}")
        return
    if _is_alone(script, directory):
        return
    is_on_path = _is_on_path(directory, sys.path)
    for name, path in modules_in(directory).items():
        other = _other(name, directory, is_on_path)
        if other:
            raise CodeClash(where, _clash(path, name, other))


def check_origin(module: ModuleType, directory: Path, where: str) -> None:
    """Raises `CodeClash` if a module that was to be imported from `directory` came from somewhere else."""
    if import_root(module) != directory:
        top = module.__name__.partition(".")[0]
        path = modules_in(directory).get(top, directory / top)
        raise CodeClash(where, _clash(path, top, str(_origin(module))))


def import_root(module: ModuleType) -> Path | None:
    """The directory that a module was imported from: its file without the dotted path. None if it has no
    file, or one that does not lie where its name says."""
    file = getattr(module, "__file__", None)
    return root_of(module.__name__, file) if file else None


def root_of(name: str, file: str) -> Path | None:
    """The same for a module of that name in that file."""
    path = Path(file).absolute()
    names = name.split(".")
    stem = path.name.partition(".")[0]
    inside = path.parent if stem == "__init__" else path.with_name(stem)
    if len(inside.parts) <= len(names) or inside.parts[-len(names) :] != tuple(names):
        return None
    return Path(*inside.parts[: -len(names)]).resolve()


def _clash(path: Path, name: str, other: str) -> str:
    return f"{path} and {other} are both {name!r}, and one process can have only one of them"


def modules_in(directory: Path) -> dict[str, Path]:
    """The top-level modules of a directory: name → file, or directory of a package."""
    found = {path.name.partition(".")[0]: path for path in module_paths(directory)}
    return {name: path for name, path in found.items() if name not in _NAMELESS}


def module_paths(directory: Path) -> Iterator[Path]:
    """The files and packages of a directory that can be imported."""
    try:
        for path in directory.iterdir():
            if path.name.partition(".")[0].isidentifier() and _is_module(path):
                yield path
    except OSError:
        return


def _is_module(path: Path) -> bool:
    if path.name.endswith(_SUFFIXES):
        return path.is_file()
    if path.suffix or not path.is_dir() or path.name == "__pycache__":
        return False
    try:
        return any(inside.name.endswith(_SUFFIXES) for inside in path.iterdir())
    except OSError:
        return False


def _other(name: str, directory: Path, is_on_path: bool) -> str:
    """The module of that name here, if it is not from the directory. A directory that is not on the
    path yet comes first on it: then its names must mean nothing at all."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        origin = _origin(loaded)
        if origin is not None and not origin.is_relative_to(directory):
            return "" if name in sys.stdlib_module_names else str(origin)
        return ""
    found = _found(name, sys.path)
    if found is None or found.is_relative_to(directory):
        return ""
    return "" if is_on_path and name in sys.stdlib_module_names else str(found)


def _found(name: str, path: list[str]) -> Path | None:
    """Where Python would find the module now."""
    try:
        spec = PathFinder.find_spec(name, path)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    places = [spec.origin] if spec.has_location else list(spec.submodule_search_locations or ())
    return Path(places[0]).resolve() if places and places[0] else None


def _origin(module: ModuleType) -> Path | None:
    """The file of a loaded module, or the first directory of a package without one."""
    file = getattr(module, "__file__", None)
    if file:
        return Path(file).resolve()
    try:
        places = list(getattr(module, "__path__", ()))
    except Exception:  # whatever stands in for a module
        return None
    return Path(places[0]).resolve() if places else None


def _is_on_path(directory: Path, path: list[str]) -> bool:
    return any((Path(entry) if entry else Path.cwd()).resolve() == directory for entry in path)


def _is_alone(script: str, directory: Path) -> bool:
    return modules_in(directory).keys() <= {script}


def project_files() -> Iterator[Path]:
    """The files of the loaded modules that were not installed with the interpreter or into it."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.startswith("/"):
            path = Path(file)
            if not is_installed(path):
                yield path


def is_installed(path: Path) -> bool:
    """Whether it came with the interpreter, or was installed into it."""
    return not _PACKAGES.isdisjoint(path.parts) or any(map(path.is_relative_to, _INSTALLED))
