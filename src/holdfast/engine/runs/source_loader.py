"""Loading Python files as they are now.

Python takes cached bytecode for that of a source file of the same size and second. An edit may change
neither: an agent writes and runs many times in a second.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)
from importlib.util import cache_from_source
from pathlib import Path
from types import CodeType

from holdfast.engine.runs import code_directory
from holdfast.package import ROOT

_HOLDFAST = ROOT.resolve()


class FromSource(SourceFileLoader):
    """Always reads the file itself, and writes no cache."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


class FromSourceOrCache(SourceFileLoader):
    """Uses cached bytecode only if it was written after the source was last changed, by the clock of the file
    system, which is not set back."""

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        try:
            cache = cache_from_source(path)
            if os.stat(cache).st_mtime_ns <= os.stat(path).st_ctime_ns:
                Path(cache).unlink()
        except (OSError, NotImplementedError):
            pass  # there is none
        return super().get_code(fullname)


def install() -> None:
    """Load the modules of projects so, from now on; what is installed is left to Python."""
    sys.path_hooks.insert(0, _finder)
    for entry in list(sys.path_importer_cache):
        if _is_project(entry):
            del sys.path_importer_cache[entry]


def _finder(entry: str) -> FileFinder:
    if not _is_project(entry):
        raise ImportError(f"{entry} is not in a project")
    return FileFinder(
        entry,
        (ExtensionFileLoader, EXTENSION_SUFFIXES),
        (FromSourceOrCache, SOURCE_SUFFIXES),
        (SourcelessFileLoader, BYTECODE_SUFFIXES),
    )


def _is_project(entry: str) -> bool:
    path = Path(entry)
    if not path.is_dir() or path.is_relative_to(_HOLDFAST):
        return False
    return not code_directory.is_installed(path)
