"""Compares an edited file of the mirror with the store, and lists the changes to import.

A session's file (`current.json`, `sessions/ID.json`) can change names, texts and statuses of tasks, add
decisions and files to the current task, and add decisions and patterns to the memory; a `memory.json` can
add memories and change texts. What a file leaves out is never removed from the store. A task or a memory
whose id the store does not know is new only if its words are: a file can be imported again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.errors import BadInput
from holdfast.kernel import memory as memories
from holdfast.kernel import task as tasks
from holdfast.mirror import memory_file, sealed_json
from holdfast.store.port import MemoryFilter
from holdfast.store.tracker_port import TaskFilter
from holdfast.views.mirror import ImportChange

if TYPE_CHECKING:
    from holdfast.redaction import Redactor
    from holdfast.store.port import Store

_STATUS_ACTIONS = {
    ("pending", "in_progress"): "claim",
    ("in_progress", "pending"): "release",
    ("pending", "completed"): "complete",
    ("in_progress", "completed"): "complete",
    ("pending", "failed"): "fail",
    ("in_progress", "failed"): "fail",
    ("completed", "pending"): "reopen",
    ("failed", "pending"): "reopen",
}
_ORDER = {"create": 0, "edit": 1, "note": 2, "remember": 3}


TaskWords: TypeAlias = tuple[str, str]


def task_words(store: Store, redactor: Redactor) -> Set[TaskWords]:
    """(name, body) of each task of the store: what one of the same words that has no id, or that of another
    store, would be once more."""
    redact = redactor.redact
    return {
        (redact(row.fields.name), redact(row.fields.body)) for row in store.tasks(TaskFilter(archived=True))
    }


class Importing:
    """The changes of one file; `left` has a sentence for each thing that cannot be imported."""

    def __init__(
        self,
        store: Store,
        redactor: Redactor,
        data: bytes,
        name: str,
        known: Callable[[], Set[TaskWords]] | None = None,
    ) -> None:
        """`known` gives the `task_words` of the store, for several files once. Raises `BadInput` if the file
        is no file of the mirror that can be imported."""
        self._store = store
        self._redactor = redactor
        self._known = known
        self.left: list[str] = []
        self._texts_of: dict[tuple[str, str], set[str]] = {}
        found = sealed_json.read(data)
        if found is None:
            raise BadInput(
                f"{name} is no JSON object, so nothing can be imported; correct it, or compare it with the "
                "file in `previous` beside it"
            )
        if not {"memories", "current_task", "completed_tasks"} & set(found):
            raise BadInput(
                f"{name} is no file that can be imported; name a current.json, a file of a session, or a "
                "memory.json"
            )
        self._file = found

    def changes(self) -> list[ImportChange]:
        """The changes in the order in which to make them: a status last, because an ended task cannot be
        edited. A task that the file names twice is edited once, and its status is changed once."""
        found: dict[object, ImportChange] = {}
        for one in (*self._memories(), *self._session()):
            kind = "status" if one.action in _STATUS_ACTIONS.values() else one.action
            key = (kind, one.target) if kind in ("status", "edit") else repr(one)
            known = found.get(key)
            if known is None:
                found[key] = one
            elif known.action == one.action:
                found[key] = ImportChange(one.action, one.target, one.fields | known.fields)
            else:
                self.left.append(f"task {one.target} cannot both {known.action} and {one.action}")
        return sorted(found.values(), key=lambda one: _ORDER.get(one.action, len(_ORDER)))

    # memory.json

    def _memories(self) -> Iterator[ImportChange]:
        for item in self._listed(self._file.get("memories"), "memories"):
            text = self._text(item, "text", "a memory")
            kind = item.get("kind", "fact")
            if text is None:
                continue
            if kind not in memories.KINDS:
                self.left.append(f"{kind!r} is no kind of memory; use {', '.join(memories.KINDS)}")
                continue
            id = item.get("id") or ""
            known = self._memory(id) if isinstance(id, str) and id else None
            fields = {"kind": kind, "text": text, "scope": str(item.get("scope") or memories.PROJECT)}
            if known is None:
                if not self._has_memory(fields):
                    yield ImportChange("remember", "", fields)
            elif self._redactor.redact(known.text) != text:
                if known.status == "current":
                    yield ImportChange("remember", known.id, fields)
                else:
                    self.left.append(f"memory {known.id} is {known.status}; its text cannot be changed")

    def _has_memory(self, fields: dict[str, Any]) -> bool:
        """Whether the store has a memory with the same text, of any id."""
        key = (fields["kind"], fields["scope"])
        if key not in self._texts_of:
            found = self._store.memories(MemoryFilter(kind=key[0], scope=key[1]), limit=memory_file.MOST)
            self._texts_of[key] = {self._redactor.redact(one.text) for one in found}
        return fields["text"] in self._texts_of[key]

    def _memory(self, id: str) -> memories.Memory | None:
        found = self._store.memories(MemoryFilter(prefix=id, every=True), limit=2)
        return next((one for one in found if one.id == id), None)

    # A session's file

    def _session(self) -> Iterator[ImportChange]:
        current = self._file.get("current_task")
        if isinstance(current, dict):
            yield from self._task(current, current.get("status"))
            context = current.get("context")
            yield from self._notes(current.get("id"), context if isinstance(context, dict) else {})
        for name, status in (("completed_tasks", "completed"), ("failed_tasks", "failed")):
            for item in self._listed(self._file.get(name), name):
                yield from self._task(item, status)
        known = self._file.get("memory")
        if isinstance(known, dict):
            for name, kind in (("key_decisions", "decision"), ("learned_patterns", "pattern")):
                yield from self._remembered(self._texts(known.get(name)), kind)

    def _task(self, item: dict[str, Any], status: object) -> Iterator[ImportChange]:
        id, name = item.get("id"), self._text(item, "name", "a task")
        if name is None:
            return
        state = self._state(id)
        if state is None:
            words = {"name": name, "body": str(item.get("body") or "")}
            if (words["name"], words["body"]) in self._known_tasks:
                return
            yield ImportChange("create", "", dict[str, Any](words))
            if status not in ("pending", None):
                self.left.append(f"{name!r} is created as pending: its status is set by `holdfast task`")
            return
        fields, changed = state.fields, dict[str, Any]()
        if self._redactor.redact(fields.name) != name:
            changed["name"] = name
        body = item.get("body")
        if isinstance(body, str) and body != self._redactor.redact(fields.body):
            changed["body"] = body
        if changed:
            yield ImportChange("edit", str(id), changed)
        if status != fields.status and status in tasks.STATUSES:
            action = _STATUS_ACTIONS.get((fields.status, str(status)))
            if action is None:
                self.left.append(f"task {id} is {fields.status}; it cannot be made {status} by an import")
            else:
                text = item.get("summary") if action == "complete" else item.get("error")
                yield ImportChange(action, str(id), {"text": text} if isinstance(text, str) and text else {})
        elif status is not None and status not in tasks.STATUSES:
            self.left.append(f"{status!r} is no status of a task; there are {', '.join(tasks.STATUSES)}")

    @cached_property
    def _known_tasks(self) -> Set[TaskWords]:
        return task_words(self._store, self._redactor) if self._known is None else self._known()

    def _notes(self, id: object, context: dict[str, Any]) -> Iterator[ImportChange]:
        state = self._state(id)
        if state is None:
            return
        for name, kind in (("decisions", "decision"), ("files_modified", "file")):
            known = {self._redactor.redact(note.text) for note in state.notes if note.kind == kind}
            for text in self._texts(context.get(name)):
                if text not in known:
                    yield ImportChange("note", str(id), {"kind": kind, "text": text})

    def _remembered(self, texts: list[str], kind: str) -> Iterator[ImportChange]:
        if not texts:
            return
        found = self._store.memories(MemoryFilter(kind=kind), limit=memory_file.MOST)
        known = {self._redactor.redact(one.text) for one in found}
        for text in texts:
            if text not in known:
                yield ImportChange("remember", "", {"kind": kind, "text": text, "scope": memories.PROJECT})

    def _state(self, id: object) -> tasks.TaskState | None:
        if not isinstance(id, str) or not id:
            return None
        return tasks.fold(self._store.load(tasks.stream_of(id)))

    # Values that a person may have typed

    def _listed(self, value: object, name: str) -> Iterator[dict[str, Any]]:
        if value is None:
            return
        if not isinstance(value, list):
            self.left.append(f"{name} is no list")
            return
        for item in value:
            if isinstance(item, dict):
                yield item
            else:
                self.left.append(f"{name} has an item that is no object: {item!r:.60}")

    def _text(self, item: dict[str, Any], key: str, what: str) -> str | None:
        text = item.get(key)
        if isinstance(text, str) and text.strip():
            return text
        self.left.append(f"{what} without {key!r} cannot be imported: {item!r:.80}")
        return None

    @staticmethod
    def _texts(value: object) -> list[str]:
        return (
            [one for one in value if isinstance(one, str) and one.strip()] if isinstance(value, list) else []
        )
