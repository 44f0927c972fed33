"""For tests of holdfast and of what is built on it."""
