"""The directories whose modules this process executes. Two of them must not be mixed.

Python keeps one module per name and process. If `a/flow.py` and `b/flow.py` each import their own `tools`,
the second one gets the first one's. So a process that holdfast starts executes the code of one directory.
In a program's own process a directory is refused if the name of one of its modules leads elsewhere there.
"""

from __future__ import annotations

import sys
import sysconfig
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

_own = False
_only: Path | None = None


def keep_to_one() -> None:
    """From now on this process is for the code of one directory, whichever comes first."""
    global _own
    main = sys.modules["__main__"]
    is_module = getattr(main, "__spec__", None) is not None and not sys.flags.safe_path
    if not _own and is_module and not Path(__file__).is_relative_to(Path(sys.path[0]).resolve()):
        # `python -m` has put the directory of whoever typed it there, which the run has nothing to do with.
        del sys.path[0]
    _own = True


def enter(directory: Path, where: str, script: str = "") -> None:
    """Let this process import the modules of `directory`. `script` is the name of the file that is loaded
    from it. Raises `CodeClash` if its modules would mix with others."""
    global _only
    check(directory, where, script)
    if _own:
        _only = directory
    elif _is_alone(script, directory):
        return  # there is nothing to import from it
    if not _is_on_path(directory):
        sys.path.insert(0, str(directory))


def check(directory: Path, where: str, script: str = "") -> None:
    """Raises `CodeClash` if the modules of `directory` would mix with others in this process."""
    if _own:
        if _only not in (None, directory):
            raise CodeClash(where, f"its code is in {directory}, and this process executes that in {_only}")
        return
    if _is_alone(script, directory):
        return
    is_on_path = _is_on_path(directory)
    for name, path in modules_in(directory).items():
        other = _other(name, directory, is_on_path)
        if other:
            raise CodeClash(where, _clash(path, name, other))


def enter_for(module: str, directory: Path, where: str) -> None:
    """Let this process import a module that was found from `directory` before. If it is not in there, Python
    finds it as it finds any other."""
    if _own or _check_for(module, directory, where):
        enter(directory, where)


def check_for(module: str, directory: Path, where: str) -> None:
    """Raises `CodeClash` if the module, found from `directory` before, would be another one here."""
    if _own or _check_for(module, directory, where):
        check(directory, where)


def _check_for(module: str, directory: Path, where: str) -> bool:
    """Whether the directory is needed to find the module."""
    top = module.partition(".")[0]
    path = modules_in(directory).get(top)
    if path is None:
        return False
    loaded = sys.modules.get(top)
    found = _found(top, sys.path) if loaded is None else _origin(loaded)
    if found is not None and not found.is_relative_to(directory):
        raise CodeClash(where, _clash(path, top, str(found)))
    return found is None and loaded is None


def _clash(path: Path, name: str, other: str) -> str:
    return f"{path} and {other} are both {name!r}, and one process can have only one of them"


def modules_in(directory: Path) -> dict[str, Path]:
    """What can be imported from a directory: name → file, or directory of a package."""
    return {path.name.partition(".")[0]: path for path in module_paths(directory)}


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
    """What the name means in this process, if that is not in the directory. A directory that is not on the
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


def _is_on_path(directory: Path) -> bool:
    return any((Path(entry) if entry else Path.cwd()).resolve() == directory for entry in sys.path)


def _is_alone(script: str, directory: Path) -> bool:
    return set(modules_in(directory)) == {script}


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
