"""What is done to runs from outside and spans them: rewind, undo, fork, replay, archive."""
