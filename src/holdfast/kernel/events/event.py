"""The root of all events, and the shapes that events of several streams share."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

NOTHING: Final = msgspec.Raw(b"")
"""An absent value; `None` is a value like any other and is stored as `null`."""


class Event(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The root of all events."""


class Unknown(Event, frozen=True, gc=False):
    """An event of a type that this version does not know; kept, shown, skipped by `evolve`."""

    type: str
    payload: str


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """One exception as data.

    `lost` names what could not be stored: "class", "args" or attributes. If there is any of it, the
    exception is rebuilt as a `StepError`. `inner` holds exceptions found in attributes (by name) and in
    arguments (by `[index]`); one that is the cause or the context as well is written only there.
    """

    type: str
    message: str = ""
    args: msgspec.Raw = NOTHING
    attributes: msgspec.Raw = NOTHING
    traceback: str = ""
    cause: Failure | None = None
    context: Failure | None = None
    suppressed: bool = False
    members: tuple[Failure, ...] = ()
    inner: dict[str, Failure | Literal["cause", "context"]] = {}
    lost: tuple[str, ...] = ()

    @property
    def type_name(self) -> str:
        """The class as Python writes it: `ValueError`, `package.module.ApiError`."""
        module, _, qualname = self.type.partition(":")
        return qualname if module in ("builtins", "__main__") else f"{module}.{qualname}"


class GitPosition(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a git repository stood: `head` is a commit ("" before the first one), `branch` the ref that HEAD
    is at ("" if detached), `busy` what was in progress ("rebase", "merge", ...).

    `refs` (all refs and the stash) and `index` (the index file, "" if there was none) are contents of the
    workspace's content store: a repository can have thousands of refs, and an event names them all in 64
    characters. `index_time` is when the index file was written (nanoseconds): git judges by it whether the
    times inside can be trusted. `progress` is a content, too: the files in which git keeps what is in
    progress; "" if there are none, or if they were not recorded. Without `refs` there was no repository.
    `nested` is a content: where the HEADs of repositories inside the workspace were; "" if there were none.
    """

    refs: str
    head: str = ""
    branch: str = ""
    index: str = ""
    index_time: int = 0
    busy: str = ""
    progress: str = ""
    nested: str = ""

    @property
    def contents(self) -> tuple[str, ...]:
        """Contents that must be kept as long as the repository can be restored to this position."""
        return tuple(one for one in (self.refs, self.index, self.progress, self.nested) if one)
