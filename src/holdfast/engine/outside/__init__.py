"""Runs as seen from outside: requests to them, their records, events for callbacks."""
