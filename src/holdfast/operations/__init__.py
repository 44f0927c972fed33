"""Operations on runs from outside: rewind, undo, fork, replay, archive."""
