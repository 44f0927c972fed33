"""Fails if a line of the digest is longer than the skill allows, or if a note has none."""

import sys
from pathlib import Path

lines = Path("digest.md").read_text().splitlines()
notes = list(Path("notes").glob("*.txt"))
assert len(lines) == len(notes), f"{len(notes)} notes, {len(lines)} headlines"
assert all(len(line.split()) <= 7 for line in lines), "a headline has more than six words"
sys.stdout.write(f"{len(lines)} headlines, none longer than six words\n")
