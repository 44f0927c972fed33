"""Where the peers are installed: one virtual environment each, made from the pinned requirements when
first needed, in `$BENCH_PEERS_CACHE` (`~/.cache/holdfast-bench`). Nothing of them reaches holdfast's own."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
INSTALL_TIMEOUT_S = 900


class Unavailable(Exception):
    """The peer cannot run on this machine; the text says why."""


def cache() -> Path:
    """Where everything is installed."""
    told = os.environ.get("BENCH_PEERS_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(told) if told else Path(base) / "holdfast-bench"


def environ() -> dict[str, str]:
    """The variables that a peer sees: none that would bring modules of this environment into its own, or its doings elsewhere."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, "PYTHONUNBUFFERED": "1", "LANGSMITH_TRACING": "false"}


def python_of(product: str) -> Path:
    """The interpreter of the product's environment, installed if need be."""
    pins = HERE / f"requirements-{product}.txt"
    with _installed(cache() / product, pins, sys.version) as fresh:
        python = cache() / product / "bin" / "python"
        if fresh:
            _call([sys.executable, "-m", "venv", str(cache() / product)])
            _call([*_pip(python), "install", "--quiet", "--requirement", str(pins)])
        return python


def server_of_restate() -> Path:
    """Restate's server, the native program out of its npm package; no install script is run."""
    pins = HERE / "package.json"
    place = cache() / "restate-server"
    with _installed(place, pins) as fresh:
        if fresh:
            npm = shutil.which("npm")
            if npm is None:
                raise Unavailable("its server comes by npm, and there is no npm")
            shutil.copy(pins, place / "package.json")
            quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
            _call([npm, "install", "--prefix", str(place), *quiet])
        for program in place.glob("node_modules/@restatedev/restate-server-*/bin/restate-server"):
            return program
    raise Unavailable("its npm package has no server for this platform")


@contextmanager
def _installed(place: Path, pins: Path, *also: str) -> Iterator[bool]:
    """Hold `place` for this process and say whether it must be filled; it counts as filled only if the
    block ends well, and only as long as the pins are the same."""
    place.parent.mkdir(parents=True, exist_ok=True)
    wanted = hashlib.sha256("\n".join([pins.read_text(), *also]).encode()).hexdigest()
    with place.with_name(place.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = place / ".pins"
        fresh = not stamp.exists() or stamp.read_text() != wanted
        if fresh:
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
        yield fresh
        stamp.write_text(wanted)


def _pip(python: Path) -> list[str]:
    return [str(python), "-m", "pip", "--disable-pip-version-check"]


def _call(command: list[str]) -> None:
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"its installation took over {INSTALL_TIMEOUT_S} s") from None
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise Unavailable(f"its installation failed: {last}")
