"""Runs workflows: drivers, retry, gates, timers, ownership, recovery and commands."""
