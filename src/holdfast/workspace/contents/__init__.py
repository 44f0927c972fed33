"""The content store: packs, large contents, refs by SHA-256."""
