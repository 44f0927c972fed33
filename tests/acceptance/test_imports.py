"""What a command does not load: most of what it costs to start one is what it imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

EXTRAS = {
    "fastapi", "genai_prices", "holdfast.plans", "mcp", "opentelemetry", "psycopg", "pydantic", "pydantic_ai",
    "ruamel.yaml", "uvicorn",
}  # fmt: skip
EXECUTING = {
    "holdfast.engine.engine",
    "holdfast.engine.execution.perform",
    "concurrent.futures",
}
# Not `inspect`: click and msgspec import it themselves.
HEAVY = {
    "asyncio", "base64", "difflib", "importlib.resources", "json", "random", "rich", "signal", "socket",
    "ssl", "struct", "subprocess", "tempfile", "tomllib",
}  # fmt: skip
MOST_OF_OURS = 111
"""Modules of holdfast that `list` loads. Each costs 0.1 ms or more, of the 100 ms that `list` may take with
10,000 runs: what a list of runs does not need is imported where it is used. Lower this number when it loads
fewer."""

PROBE = """
import sys
from holdfast.cli.app import run_program
code = run_program(sys.argv[1:])
print(*sys.modules, file=sys.stderr)
raise SystemExit(code)
"""


@pytest.fixture
def modules(cli):
    """The modules that are loaded when a command has done its work."""

    def load(*words):
        argv = [sys.executable, "-c", PROBE, *words]
        done = subprocess.run(
            argv, env=cli.env, cwd=cli.directory, capture_output=True, text=True, check=True
        )
        return set(done.stderr.splitlines()[-1].split())

    return load


def test_reading_commands_import_little(cli, modules):
    """`list` and `show` load no engine, nothing of the extras, and nothing large of Python's own."""
    cli("run", "--id", "x", "true")
    for words in (("list",), ("list", "--json"), ("show", "x"), ("show", "x", "--events", "--json")):
        loaded = modules(*words)
        assert "holdfast.store.sqlite.store" in loaded
        assert not loaded & (EXTRAS | EXECUTING | HEAVY), words
    assert not {"holdfast.redaction", "holdfast.views.run_detail"} & modules("list")


def test_a_list_of_runs_loads_no_more_modules_than_it_did(cli, modules):
    """What a package re-exports, or one import too many at the top of a module, shows as a larger number."""
    cli("run", "--id", "x", "true")
    ours = {name for name in modules("list") if name.partition(".")[0] == "holdfast"}
    assert len(ours) <= MOST_OF_OURS, sorted(ours)


def test_the_store_of_a_project_is_found_with_as_little(cli, modules):
    """The same without HOLDFAST_HOME, where the project's own files say where the store is."""
    del cli.env["HOLDFAST_HOME"]
    cli("run", "--id", "x", "true")
    assert not modules("list") & (EXTRAS | EXECUTING | HEAVY)


def test_running_imports_no_extras(cli, modules):
    """`run` in a pipe draws nothing and needs nothing that is not installed with holdfast."""
    assert not modules("run", "true") & (EXTRAS | {"rich"})
