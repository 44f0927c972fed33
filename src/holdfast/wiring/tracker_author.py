"""Opens the tracker, and says who writes to it: the user, or the run and step whose code is executing."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from holdfast.clock import Clock, SystemClock
from holdfast.errors import SessionNotFound
from holdfast.wiring.place import Place
from holdfast.wiring.place_trust import refuse_foreign_code

if TYPE_CHECKING:
    from holdfast.engine.execution.execution import Execution
    from holdfast.kernel.author import Author
    from holdfast.redaction import Redactor
    from holdfast.store.port import Store
    from holdfast.store.sqlite.store import SqliteStore
    from holdfast.tracker.tracker import Tracker


def actor(place: Place) -> str:
    """The name of the actor in this process: the setting `actor`, or the user. Every record with a name (of
    tasks, runs, operations and budgets) has this one, unless the call names another."""
    return place.resolved.settings.actor or _user()


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name
        return str(os.getuid())


def open_tracker(
    place: Place, store: SqliteStore, redactor: Callable[[], Redactor], clock: Clock | None = None
) -> Tracker:
    """Tasks and sessions of the store, as this process writes them."""
    from holdfast.tracker.tracker import Tracker

    return Tracker(
        store,
        clock or SystemClock(),
        partial(author, place, store),
        redactor,
        place.root,
        partial(refuse_foreign_code, place.home),
        asked,
        partial(author, place, store, in_session=False),
    )


_asked: WeakKeyDictionary[Execution, Counter[tuple[str, int, str]]] = WeakKeyDictionary()


def asked(text: str) -> int:
    """How often the attempt of the step around has asked with this text before; 0 outside of steps."""
    inside = code_here()
    if inside is None or not hasattr(inside, "key"):
        return 0
    counts = _asked.setdefault(inside.execution, Counter())
    counts[inside.key, inside.attempt, text] += 1
    return counts[inside.key, inside.attempt, text] - 1


def code_here() -> Any:
    """The run, or the step of a run, whose code is executing here. No engine is imported to find out."""
    scope = sys.modules.get("holdfast.engine.execution.scope")
    current = getattr(scope, "current", None)  # another thread may be loading it
    return None if current is None else current.get()


def author(place: Place, store: Store, *, in_session: bool = True) -> Author:
    """The author of a change of the tracker: the user, or the name that the settings give; in the session
    that they name, or the last one of that name that is open; inside a run, from which run and step. Raises
    `SessionNotFound` if the store lacks the session that the settings name; without `in_session`, that
    setting does not count then."""
    from holdfast.kernel.author import Author
    from holdfast.tracker.sessions import exists, newest, open_session

    by, named = actor(place), place.resolved.settings.session
    if named and not exists(store, named):
        if in_session:
            raise SessionNotFound(named, newest(store), setting=True)
        named = None
    session = named or open_session(store, by)
    inside = code_here()
    if inside is None or inside.execution.engine.home != place.home:
        return Author(by, session)
    run = inside.execution
    step = getattr(inside, "key", "")
    return Author(by, session, run.id, run.state.generation, step, run.state.version)
