"""The bench's side of a peer, with a fake worker."""

from __future__ import annotations

import os
import sys
import textwrap
import time
from pathlib import Path

import pytest

from peers import environment
from peers.environment import Unavailable
from peers.peer import Broken, Peer

PEERS = Path(environment.__file__).parent

WORKER = """
    import os, subprocess, sys, time
    from protocol import serve

    class Fake:
        version, setting, durability = "1.0", "no disk", "none"
        def __init__(self):
            self.child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            print("noise on stdout")
        def sequential(self, steps): return steps * 2.0
        def many(self, runs, steps): return float(runs * steps)
        def many_async(self, runs, steps): return float(os.environ.get("PYTHONPATH") is None)
        def disk(self, steps, size): return dict(all=1.5)
        def one_step_runs(self, runs): raise ValueError("no runs here")
        def kill_to_rerun(self): os._exit(3)
        def close(self): pass

    {start}
"""


def peer(tmp_path: Path, start: str = "serve(Fake)") -> Peer:
    script = tmp_path / "fake.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(PEERS)!r})\n" + textwrap.dedent(WORKER).format(start=start)
    )
    return Peer("Fake", [sys.executable, str(script)], tmp_path)


def test_commands_go_out_and_figures_come_back(tmp_path: Path) -> None:
    """One worker answers many commands; what it prints besides does not disturb."""
    with peer(tmp_path) as fake:
        assert (fake.version, fake.setting, fake.durability) == ("1.0", "no disk", "none")
        assert fake.sequential() == 600.0
        assert fake.many() == 1000.0
        assert fake.disk() == {"all": 1.5}


def test_a_peer_sees_no_modules_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its environment is its own, whatever this process was started with."""
    monkeypatch.setenv("PYTHONPATH", "src")
    with peer(tmp_path) as fake:
        assert fake.many_async() == 1.0


def test_a_failed_measurement_is_an_error_and_not_a_figure(tmp_path: Path) -> None:
    """The worker says what went wrong, and continues."""
    with peer(tmp_path) as fake:
        with pytest.raises(Broken, match="ValueError: no runs here"):
            fake.one_step_runs()
        assert fake.sequential() == 600.0


def test_a_dead_worker_is_an_error(tmp_path: Path) -> None:
    """At once, and for every later command."""
    with peer(tmp_path) as fake:
        for _ in range(2):
            with pytest.raises(Broken, match="Fake is gone"):
                fake.kill_to_rerun()


def test_a_worker_that_does_not_come_up_is_unavailable_with_its_last_words(tmp_path: Path) -> None:
    """The reason is what the table shows."""
    with pytest.raises(Unavailable, match="no such library"):
        peer(tmp_path, 'raise SystemExit("no such library")')


def test_close_leaves_no_process_behind(tmp_path: Path) -> None:
    """What the worker started ends with it."""
    fake = peer(tmp_path)
    group = fake._process.pid
    os.killpg(group, 0)
    fake.close()
    fake.close()
    deadline = time.monotonic() + 10
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(0.01)


def test_an_environment_is_made_once_and_anew_when_its_pins_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half-made one does not count."""
    calls: list[str] = []
    monkeypatch.setenv("BENCH_PEERS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(environment, "HERE", tmp_path)
    monkeypatch.setattr(environment, "_call", lambda command: calls.append(command[2]))
    pins = tmp_path / "requirements-thing.txt"
    pins.write_text("thing==1\n")

    environment.python_of("thing")
    environment.python_of("thing")
    assert len(calls) == 2

    pins.write_text("thing==2\n")
    environment.python_of("thing")
    assert len(calls) == 4

    def fails(command: list[str]) -> None:
        raise Unavailable("no such version")

    pins.write_text("thing==3\n")
    monkeypatch.setattr(environment, "_call", fails)
    for _ in range(2):
        with pytest.raises(Unavailable, match="no such version"):
            environment.python_of("thing")


def test_pins_are_exact_and_name_no_registry() -> None:
    """Anybody gets the same versions from the registry that their own pip is set up for."""
    files = sorted(PEERS.glob("requirements-*.txt"))
    assert [file.name for file in files] == [
        f"requirements-{name}.txt" for name in ("dbos", "langgraph", "restate")
    ]
    for file in files:
        for line in file.read_text().splitlines():
            name, exact, version = line.partition("==")
            assert exact, f"{file.name}: {line}"
            assert name
            assert version[0].isdigit()
