"""The prompt of a job: everything that an agent gets to read, as one text."""

from __future__ import annotations

from holdfast.agents.protocol import Job


def prompt_of(job: Job) -> str:
    """The goal, what is asked now, what was done before, and what the agent may write. Equal jobs give equal
    texts."""
    parts = [job.prompt.strip()]
    if job.goal.strip() not in job.prompt:
        parts.insert(0, f"Goal: {job.goal.strip()}")
    if job.history:
        lines = "\n".join(f"- {line}" for line in job.history)
        parts.append(f"What was done before, the oldest first. Do not repeat what is done:\n{lines}")
    if job.paths:
        parts.append("Files that matter:\n" + "\n".join(f"- {path}" for path in job.paths))
    if not job.changes_files:
        parts.append("Change no files.")
    elif job.writes:
        parts.append(f"Write only files that match: {', '.join(job.writes)}")
    return "\n\n".join(part for part in parts if part) + "\n"
