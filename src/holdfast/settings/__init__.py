"""Typed settings, and where each value came from.

From weakest to strongest: the default, `[tool.holdfast]` in pyproject.toml, holdfast.toml, `.env`,
the environment, a flag. The files are looked for in the project root. A setting `recover_limit` is
the variable `HOLDFAST_RECOVER_LIMIT`. Every fault of every source is reported at once, also of a
source that a stronger one overrides: a wrong line that does no harm today does it tomorrow.

To add a setting, add a field to `Settings`: its type, limits and description are all there is.
"""

from __future__ import annotations

from holdfast.settings.definition import HANDLERS, Settings
from holdfast.settings.resolving import Resolved, Setting, load, reference
from holdfast.settings.sources import OTHER_VARIABLES, PROJECT_FILES, Origin

__all__ = [
    "HANDLERS", "OTHER_VARIABLES", "PROJECT_FILES", "Origin", "Resolved", "Setting", "Settings", "load",
    "reference",
]  # fmt: skip
