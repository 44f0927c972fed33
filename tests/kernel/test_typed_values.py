"""Values of a declared type. Each test is about classes that several threads decode for the first time."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import pytest

import holdfast
from holdfast import typed_values

SOURCES = Path(holdfast.__file__).parent
PROGRAM = """
from __future__ import annotations
import sys, threading, types
import msgspec
from holdfast import typed_values

sys.setswitchinterval(1e-6)
CLASSES = '''
from __future__ import annotations
import msgspec
class Inner(msgspec.Struct):
    a: int
    b: str | None = None
class Outer(msgspec.Struct):
    x: Inner
    y: tuple[Inner, ...] = ()
'''
GIVEN = {"x": {"a": 1}, "y": [{"a": 2}]}

def use(convert, decode, cls):
    together.wait()
    assert convert(GIVEN, cls).y[0].a == decode(msgspec.json.encode(GIVEN), cls).y[0].a == 2

ways = {
    "safe": (typed_values.convert, typed_values.decode),
    "unsafe": (msgspec.convert, lambda data, cls: msgspec.json.decode(data, type=cls)),
}[sys.argv[1]]
for number in range(400):
    module = types.ModuleType(f"module_{number}")
    sys.modules[module.__name__] = module
    exec(CLASSES, module.__dict__)
    together = threading.Barrier(4)
    threads = [threading.Thread(target=use, args=(*ways, module.Outer)) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
print("whole")
"""
FORK = """
from __future__ import annotations
import os, signal, threading
import msgspec
from holdfast import typed_values

begun, go_on = threading.Event(), threading.Event()

def slow():
    begun.set()
    go_on.wait(5)
    return int

class Slow(msgspec.Struct):
    x: slow()

other = threading.Thread(target=typed_values.decode, args=(b'{"x": 1}', Slow))
other.start()
begun.wait()
threading.Timer(0.2, go_on.set).start()
child = os.fork()
signal.alarm(10)
if not child:
    os._exit(typed_values.decode(b'{"x": 2}', Slow).x)
other.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
HANDLER = """
from __future__ import annotations
import signal
import msgspec
from holdfast import typed_values

class Inside(msgspec.Struct):
    x: int

def slow():
    signal.raise_signal(signal.SIGUSR1)
    return int

class Slow(msgspec.Struct):
    x: slow()

found = []
signal.signal(signal.SIGUSR1, lambda *_: found.append(typed_values.decode(b'{"x": 1}', Inside).x))
signal.alarm(10)
value = typed_values.decode(b'{"x": 2}', Slow).x
print(*found, value)
"""
BUILT_IN = {"dict", "list", "tuple", "str", "int", "float", "Any", "msgspec", "Raw"}


def execute(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_class_may_be_decoded_first_by_several_threads() -> None:
    done = execute(PROGRAM, "safe")
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr


def test_msgspec_alone_ends_the_process() -> None:
    """If it no longer does, `typed_values` has become needless."""
    assert execute(PROGRAM, "unsafe").returncode < 0


def test_a_fork_waits_for_a_class_that_is_half_read() -> None:
    """A child would inherit the half and the lock."""
    done = execute(FORK)
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


def test_a_signal_handler_may_decode_while_a_class_is_read() -> None:
    done = execute(HANDLER)
    assert (done.returncode, done.stdout) == (0, "1 2\n"), done.stderr


def test_a_type_with_metadata_that_cannot_be_hashed() -> None:
    assert typed_values.convert("a", Annotated[str, {"x": 1}]) == "a"


def test_a_value_that_does_not_fit_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        typed_values.decode(b"[1", list[int])
    with pytest.raises(msgspec.ValidationError, match="Expected `int`"):
        typed_values.convert("1", int)
    assert typed_values.convert("1", int, strict=False) == 1


def test_no_module_decodes_classes_without_the_lock() -> None:
    """Types of built-in values have no annotations to read. The packed listings have classes of their own, in
    whose import their decoder is made; the command line reads arguments before it has threads."""
    allowed = {"typed_values.py", "workspace/snapshots/listing.py", "cli/parameters.py"}
    found = {
        f"{path.relative_to(SOURCES).as_posix()}:{call.lineno}"
        for path in SOURCES.rglob("*.py")
        if path.relative_to(SOURCES).as_posix() not in allowed
        for call in _typed_calls(ast.parse(path.read_text()))
    }
    assert found == set()


def _typed_calls(tree: ast.Module) -> Iterator[ast.Call]:
    """Calls of msgspec with a type that may be a class of annotated fields."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not ast.unparse(call.func).startswith("msgspec."):
            continue
        name = ast.unparse(call.func).rpartition(".")[2]
        types = [one.value for one in call.keywords if one.arg == "type"]
        types += {"convert": call.args[1:2], "Decoder": call.args[:1]}.get(name, [])
        if name in ("convert", "Decoder", "decode") and any(_names(one) - BUILT_IN for one in types):
            yield call


def _names(tree: ast.expr) -> set[str]:
    ids = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return ids | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
