"""Snapshots: scanning a tree, listings of directories, differences."""
