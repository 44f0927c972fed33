"""How runs, steps, gates, values and errors look on a terminal and in a pipe."""
