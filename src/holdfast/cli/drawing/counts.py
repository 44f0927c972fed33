"""Counts in words, for what is drawn."""

from __future__ import annotations

from holdfast.counts import counted as counted
