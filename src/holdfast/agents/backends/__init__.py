"""The agents that need no extra: programs of the command line, and scripts."""
