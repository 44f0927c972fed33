"""Where events are kept: the port, and the stores that implement it."""
