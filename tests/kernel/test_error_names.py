"""The names of errors: histories of any age name them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

from holdfast import errors


def test_every_error_is_recorded_under_the_name_of_the_package() -> None:
    """A failure in the log names the class `holdfast.errors:NAME`, in whichever room it is defined."""
    for room in pkgutil.iter_modules(errors.__path__):
        module = importlib.import_module(f"holdfast.errors.{room.name}")
        for name, cls in inspect.getmembers(module, inspect.isclass):
            if issubclass(cls, errors.HoldfastError):
                assert getattr(errors, name, None) is cls, f"{name} of {room.name} is not in errors.__all__"
                assert cls.__module__ == "holdfast.errors", name
