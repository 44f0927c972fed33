"""The type of a project, by the files at its root."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_MARKS: Final = {
    "python": ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile"),
    "node": ("package.json", "deno.json"),
    "rust": ("Cargo.toml",),
    "go": ("go.mod",),
    "java": ("pom.xml", "build.gradle", "build.gradle.kts"),
    "ruby": ("Gemfile",),
    "php": ("composer.json",),
    "elixir": ("mix.exs",),
    "swift": ("Package.swift",),
    "dart": ("pubspec.yaml",),
    "zig": ("build.zig",),
    "haskell": ("stack.yaml", "cabal.project"),
    "cmake": ("CMakeLists.txt",),
    "dotnet": ("global.json", "Directory.Build.props"),
    "nix": ("flake.nix",),
    "terraform": ("main.tf",),
    "make": ("Makefile",),
}
"""A type, and the files of which one is enough."""
_ENDINGS: Final = {".sln": "dotnet", ".csproj": "dotnet", ".gemspec": "ruby", ".cabal": "haskell"}
_LAST: Final = "make"
"""Counts only if nothing else is found: many projects have one beside."""

UNKNOWN: Final = "unknown"


def project_types(root: Path) -> tuple[str, ...]:
    """The types of the project, in a fixed order; empty if nothing is recognised or the directory cannot be
    read."""
    try:
        names = {one.name for one in root.iterdir() if one.is_file()}
    except OSError:
        return ()
    endings = {_ENDINGS[ending] for name in names if (ending := Path(name).suffix) in _ENDINGS}
    found = [kind for kind, marks in _MARKS.items() if kind in endings or names.intersection(marks)]
    return tuple(kind for kind in found if kind != _LAST or len(found) == 1)


def project_type(root: Path) -> str:
    """The same in one word: the first type, or `unknown`."""
    return next(iter(project_types(root)), UNKNOWN)
