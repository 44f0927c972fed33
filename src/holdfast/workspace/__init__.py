"""Files of a workspace: saved, compared and restored. See `docs/decisions/0008-workspace-contents.md`."""
