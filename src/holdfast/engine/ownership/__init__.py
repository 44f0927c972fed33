"""Who executes a run: owners, their locks, their signs of life, and what a dead one leaves."""
