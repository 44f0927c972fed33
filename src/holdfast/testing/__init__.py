"""For tests of holdfast and of what is built on it."""

from typing import TYPE_CHECKING

from holdfast.testing.clock import FakeClock
from holdfast.testing.crash import CrashLab, after_append, after_ms, at_body, at_mark, before_append, mark

if TYPE_CHECKING:
    from holdfast.testing.fake_provider import Answer, FakeProvider, Fault, ProviderRequest, ToolCall

__all__ = [
    "Answer",
    "CrashLab",
    "FakeClock",
    "FakeProvider",
    "Fault",
    "ProviderRequest",
    "ToolCall",
    "after_append",
    "after_ms",
    "at_body",
    "at_mark",
    "before_append",
    "mark",
]

_PROVIDER = ("Answer", "FakeProvider", "Fault", "ProviderRequest", "ToolCall")


def __getattr__(name: str) -> type:
    """On demand: `StoreContract` needs pytest, and the provider is a program of its own too."""
    if name == "StoreContract":
        from holdfast.testing.contract import StoreContract

        return StoreContract
    if name in _PROVIDER:
        from holdfast.testing import fake_provider

        found: type = getattr(fake_provider, name)
        return found
    raise AttributeError(name)
