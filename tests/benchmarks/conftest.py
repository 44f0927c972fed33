"""The modules of the benchmark, importable by the names they have for each other.

At the end of the path, because `benchmarks/profile.py` has a namesake in the standard library.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
