"""The readable mirror: files in the project that show tasks, sessions, memory and runs as JSON."""
