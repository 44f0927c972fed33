"""The base of `hf.tasks`, `hf.sessions` and their like: methods of a Holdfast under a name of their own.

A namespace is a class with `NAMESPACE` and `@blocking` methods. `Holdfast` has it as a `cached_property`
whose return annotation is the class; `tools/async_handle.py` writes its coroutines into `hf.aio` under the
same name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from holdfast.facade.open_store import OpenStore


class Namespace:
    """`hf.NAMESPACE`. In the code of a workflow each of its methods is a step
    (`engine/primitives/service_call.py`): what it takes and returns is recorded."""

    NAMESPACE: ClassVar[str]

    def __init__(self, holdfast: OpenStore) -> None:
        self._holdfast = holdfast

    def _service(self, name: str) -> tuple[Callable[..., Any], Callable[[Any], Any]]:
        """The call of the method as a function whose result can be recorded, and what makes the
        method's own result of that. A method whose result cannot be recorded as it is overrides this."""
        method = getattr(type(self), name).__wrapped__
        return method.__get__(self), _as_it_is


def _as_it_is(value: Any) -> Any:
    return value
