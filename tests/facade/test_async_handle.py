"""`hf.aio` is what the façade says: its file is generated, and its signatures are those of `Holdfast`."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from holdfast.async_handle import AsyncHoldfast
from holdfast.handle import Holdfast

ROOT = Path(__file__).parents[2]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("async_generator", ROOT / "tools" / "async_handle.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocking() -> dict[str, Any]:
    """The public methods of `Holdfast` that do I/O."""
    found = {
        name: inspect.getattr_static(Holdfast, name) for name in dir(Holdfast) if not name.startswith("_")
    }
    return {
        name: getattr(Holdfast, name)
        for name, method in found.items()
        if getattr(getattr(method, "__func__", method), "__blocking__", False)
    }


def test_the_file_is_what_the_generator_writes() -> None:
    """After a change to the façade, `python tools/async_handle.py` writes it again."""
    module = generator()
    assert module.TARGET.read_text() == module.source()


@pytest.mark.parametrize("name", sorted(blocking()))
def test_a_coroutine_has_the_signature_of_its_method(name: str) -> None:
    """Names, kinds, defaults, annotations and the result."""
    coroutine = getattr(AsyncHoldfast, name)
    assert inspect.iscoroutinefunction(coroutine)
    mine, theirs = (inspect.signature(one) for one in (coroutine, blocking()[name]))
    assert mine.return_annotation == theirs.return_annotation
    own = [one for one in mine.parameters.values() if one.name != "self"]
    assert own == [one for one in theirs.parameters.values() if one.name != "self"]


def test_arguments_reach_the_method(tmp_path: Path) -> None:
    """By position and by name; a method of the class too."""
    import asyncio

    async def main() -> tuple[list[Any], Any]:
        async with Holdfast(tmp_path / "home") as hf:
            made = await hf.aio.backup(tmp_path, files=False)
            return await hf.aio.backups(tmp_path), made

    (found,), made = asyncio.run(main())
    assert (found.path, found.files) == (made.path, None)
