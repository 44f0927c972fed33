"""File-system primitives: descriptors instead of paths, atomic exchange, identity of directories."""
