"""What the nightly report computes."""

from pathlib import Path


def parse(lines: list[str]) -> list[dict[str, object]]:
    pairs = [line.split() for line in lines]
    return [{"file": name, "rows": int(rows)} for rows, name in pairs if name != "total"]


def totals(rows: list[dict[str, int]]) -> dict[str, int]:
    return {"files": len(rows), "rows": sum(row["rows"] for row in rows)}


def write_report(rows: list[dict[str, object]], totals: dict[str, int] | None) -> str:
    lines = ["# Nightly report", *(f"- {row['file']}: {row['rows']} rows" for row in rows)]
    if totals is not None:
        lines.append(f"{totals['rows']} rows in {totals['files']} files")
    Path("report.md").write_text("\n".join(lines) + "\n")
    return lines[-1]
