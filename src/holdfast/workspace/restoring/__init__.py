"""Restores: plan, journal, the moves in the tree, and what others wrote meanwhile."""
