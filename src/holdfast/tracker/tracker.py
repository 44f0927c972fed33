"""The tracker: the store, a clock, and who writes. The modules beside it act on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from holdfast.clock import Clock
from holdfast.errors import BadInput, TaskDeleted, TaskNotFound, not_text
from holdfast.json_input import MAX_LEVELS, WRAPPED_LEVELS, is_deeper
from holdfast.kernel import events as e
from holdfast.kernel import task as tasks
from holdfast.kernel.author import NOBODY, Author
from holdfast.kernel.task import TaskState
from holdfast.redaction import Redactor
from holdfast.store.port import NO_EVENTS, Decision, Recorded, Source, Store, new_event
from holdfast.tracker.edit_record import edit_decision, edit_source


def _never(_: str) -> int:
    return 0


class Tracker(NamedTuple):
    """The context of changes to tasks.

    author      called for every event: who writes it, from which run and step
    redactor    what is recorded passes through it
    root        the directory in which checks run
    allow_code  raises `NotTrusted` where the store's checks may be of others
    asked       how often the attempt of the step around has asked with this text before
    acting      the author, for reading and for sessions themselves: in no session, if the store lacks the one
                that the settings name, where `author` raises `SessionNotFound`
    """

    store: Store
    clock: Clock
    author: Callable[[], Author]
    redactor: Callable[[], Redactor]
    root: Path
    allow_code: Callable[[], None]
    asked: Callable[[str], int] = _never
    acting: Callable[[], Author] | None = None

    def actor(self) -> Author:
        """The author of a change, whether or not the session of the settings exists."""
        return self.author() if self.acting is None else self.acting()

    def new_id(self, author: Author, content: str) -> str:
        """The id of what the author makes now. In a step it follows from the step and the content: a step
        that runs again makes the same thing once, and makes two equal things twice, each time."""
        if not author.step:
            return str(self.clock.uuid())
        import hashlib
        import uuid

        place = f"{author.run}:{author.generation}:{author.step}:{self.asked(content)}:{content}"
        return str(uuid.UUID(bytes=hashlib.sha256(place.encode()).digest()[:16], version=4))

    def has_done(self, stream: str, author: Author, is_it: Callable[[e.Event], bool]) -> bool:
        """Whether the step of the author has recorded such an event already: it runs again after a crash.
        Reads the whole stream, so ask only about a change that would be refused otherwise."""
        if not author.step:
            return False
        recorded = (one.event for one in self.store.history(stream))
        return any(is_it(event) and author.is_step_of(getattr(event, "author", NOBODY)) for event in recorded)

    def redacted(self, value: Any) -> Any:
        """The value as it is recorded: JSON without secrets. Raises `BadInput` for what JSON cannot carry
        and for what is nested too deeply."""
        try:
            plain = msgspec.to_builtins(value, str_keys=True)
            plain = msgspec.json.decode(msgspec.json.encode(plain))  # tuples are lists from here on
            is_too_deep = is_deeper(plain, WRAPPED_LEVELS)
        except RecursionError:
            is_too_deep = True
        except UnicodeEncodeError as error:
            raise BadInput(not_text(error.object)) from None
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            raise BadInput(f"only what JSON can carry is kept with a task: {error}") from None
        if is_too_deep:
            raise BadInput(f"what is kept with a task is nested at most {MAX_LEVELS} levels deep")
        return self.redactor().redact_value(plain)

    def load(self, task: str) -> TaskState:
        """A task by its whole id. Raises `TaskNotFound`."""
        state = tasks.fold(self.store.load(tasks.stream_of(task)))
        if state is None:
            raise missing(self.store, task)
        return state

    def change(self, task: str, decide: Callable[[TaskState, int], e.Event | None]) -> TaskState:
        """Append what `decide(state, now)` returns, if anything, and return the task after it. What it raises
        is raised here, and nothing is written. What a person changes is an operation in the same commit."""
        after: list[TaskState] = []

        def write(recorded: Sequence[Sequence[Recorded]]) -> list[Decision]:
            state = tasks.fold(recorded[0])
            if state is None:
                raise TaskNotFound(task)
            now = self.clock.now_us()
            event = decide(state, now)
            changed = state if event is None else tasks.evolve(state, event, state.version + 1, now)
            assert changed is not None
            after.append(changed)
            own = NO_EVENTS if event is None else Decision(tasks.KIND, [new_event(event, now)])
            return [own, edit_decision(task, event, state.version, now)]

        try:
            self.store.command_all([Source(tasks.stream_of(task)), edit_source(self.clock)], write)
        except TaskNotFound:
            raise missing(self.store, task) from None
        return after[0]


def missing(store: Store, task: str, where: str = "") -> TaskNotFound:
    """The error for an id that no task has: that it was deleted, or that there is none. `where` is the
    beginning of the sentence that says where the id stands."""
    deleted = store.deleted(tasks.stream_of(task))
    if deleted is not None:
        return TaskDeleted(task, deleted.operation, final=deleted.final, where=where)
    return TaskNotFound(task)
