"""Tasks, links and sessions: what people and agents track together. Knows the store by its port, and no
engine."""
