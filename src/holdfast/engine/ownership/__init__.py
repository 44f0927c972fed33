"""The owners of runs: their locks, their heartbeats, and what a dead owner leaves."""
