"""What the release plan computes."""

from pathlib import Path


def changed_files() -> list[str]:
    return sorted(str(path) for path in Path("src").glob("*.py"))


def write_notes(version: str, files: list[str]) -> str:
    return f"Version {version}: {len(files)} files changed ({', '.join(files)})"
