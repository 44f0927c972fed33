"""A library of text files stands for sources that are slow and sometimes fail."""

from pathlib import Path


def sources() -> list[str]:
    return sorted(path.name for path in Path("library").iterdir())


def search(source: str, question: str) -> dict[str, object]:
    lines = (Path("library") / source).read_text().splitlines()
    return {"source": source, "found": [line for line in lines if question.lower() in line.lower()]}


def report(question: str, findings: list[dict[str, list[str]]]) -> str:
    found = [f"- {line} ({one['source']})" for one in findings for line in one["found"]]
    return "\n".join([f"# {question}: {len(found)} findings", *found])
