"""Puts the parts together: finds project, home and settings, opens store and engine.

The only room below the CLI that reads the environment, and the only one that opens a backend.
"""

from __future__ import annotations

from holdfast.wiring.opening import (
    find_location,
    keep_to_quota,
    open_engine,
    open_files,
    open_redactor,
    open_store,
    place_of_run,
    quota_of,
    schema_version,
)
from holdfast.wiring.place import Place, had_store
from holdfast.wiring.place_backups import (
    back_up,
    backup_directory,
    restore_backup,
)
from holdfast.wiring.place_finding import find_place, warn_of_other_store
from holdfast.wiring.place_mirror import (
    drain_mirror,
    mirror_directory,
    open_mirror,
    restore_pointer,
    why_no_mirror,
)
from holdfast.wiring.place_repair import kept_journals, left_mirror, lost_end, repair_store
from holdfast.wiring.place_trust import (
    doubted_settings,
    refuse_foreign_code,
    refuse_untrusted_delivery,
    token_of,
    trust_store,
    untrusted,
    untrusted_agents,
)
from holdfast.wiring.tracker_author import actor, code_here, open_tracker

__all__ = [
    "Place", "actor", "back_up", "backup_directory", "code_here", "doubted_settings", "drain_mirror",
    "find_location", "find_place", "had_store", "keep_to_quota", "kept_journals", "left_mirror", "lost_end",
    "mirror_directory", "open_engine", "open_files", "open_mirror", "open_redactor", "open_store",
    "open_tracker", "place_of_run", "quota_of", "refuse_foreign_code", "refuse_untrusted_delivery",
    "repair_store", "restore_backup", "restore_pointer", "schema_version", "token_of", "trust_store",
    "untrusted", "untrusted_agents", "warn_of_other_store", "why_no_mirror",
]  # fmt: skip
