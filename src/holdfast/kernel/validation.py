"""pydantic's ValidationError, which only pydantic can make, as data and made again.

pydantic is never imported here: who has such an error has imported it.
"""

from __future__ import annotations

import sys
from typing import Any

from holdfast.kernel.stand_ins import KeptObject


def is_validation_error(cls: type) -> bool:
    core = sys.modules.get("pydantic_core")
    base = getattr(core, "ValidationError", None)
    return base is not None and issubclass(cls, base)


def taken_apart(error: Any) -> tuple[str, list[dict[str, Any]]]:
    """The title, and a line for each place that is not valid."""
    return error.title, [
        {name: part for name, part in line.items() if name in ("type", "loc", "input", "ctx", "msg")}
        for line in error.errors(include_url=False)
    ]


def put_together(cls: Any, title: str, lines: list[dict[str, Any]]) -> BaseException:
    made: BaseException = cls.from_exception_data(title, [_line(one) for one in lines])
    return made


def _line(line: dict[str, Any]) -> dict[str, Any]:
    """A kind of error that pydantic does not know by its name is a custom one, with its text."""
    core = sys.modules["pydantic_core"]
    context = {
        name: str(part) if isinstance(part, KeptObject) else part
        for name, part in line.get("ctx", {}).items()
    }
    found = {"type": line["type"], "loc": tuple(line["loc"]), "input": line["input"]}
    if context:
        found["ctx"] = context
    try:
        core.ValidationError.from_exception_data("", [found])
    except Exception:
        text = line["msg"].replace("{", "{{").replace("}", "}}")
        found["type"] = core.PydanticCustomError(line["type"], text, context or None)
        found.pop("ctx", None)
    return found
