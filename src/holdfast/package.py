"""Where this package is, for code that must distinguish its own frames and files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent
"""As the frames of its functions have it: not resolved."""
