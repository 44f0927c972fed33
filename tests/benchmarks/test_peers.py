"""The bench's side of a peer, with a fake worker; and the comparison, with contenders that are none."""

from __future__ import annotations

import os
import sys
import textwrap
import time
from pathlib import Path

import pytest
from benchmarks.peers import Missing, Peer, Unavailable, environment
from benchmarks.peers.comparison import compare, markdown

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
        assert fake.sequential(300) == 600.0
        assert fake.many(50, 20) == 1000.0


def test_a_failed_measurement_is_an_error_and_not_a_figure(tmp_path: Path) -> None:
    """The worker says what went wrong, and goes on."""
    with peer(tmp_path) as fake:
        with pytest.raises(RuntimeError, match="ValueError: no runs here"):
            fake.one_step_runs()
        assert fake.sequential(1) == 2.0


def test_a_dead_worker_is_an_error(tmp_path: Path) -> None:
    """At once, and for every later command."""
    with peer(tmp_path) as fake:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="Fake is gone"):
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


class Contender:
    """Runs at a fixed multiple of raw, whatever raw is."""

    version, setting, durability = "1", "none", "nothing"

    def __init__(self, name: str, factor: float, speed: list[float], order: list[str]) -> None:
        self.name, self.factor, self.speed, self.order = name, factor, speed, order

    def sequential(self) -> float:
        self.order.append(self.name)
        return self.factor * self.speed[0]

    many = one_step_runs = sequential

    def kill_to_rerun(self) -> float:
        return 7.0


def test_ratios_hold_on_a_machine_whose_speed_changes() -> None:
    """Each figure is taken against the raw commits around it, and nobody always comes first."""
    speed, order = [100.0], list[str]()

    def raw() -> float:
        return speed[0]

    class Slowing(Contender):
        def kill_to_rerun(self) -> float:
            speed[0] /= 2
            return 7.0

    rows = compare([Slowing("a", 0.5, speed, order), Contender("b", 3, speed, order)], raw, rounds=4)
    assert [row["name"] for row in rows] == ["raw SQLite", "a", "b"]
    assert [row["sequential"].get("ratio") for row in rows] == [None, 0.5, 3.0]
    assert rows[2]["many"] == {"rate": 112.5, "low": 37.5, "high": 300.0, "ratio": 3.0}
    assert rows[1]["kill_to_rerun"]["rate"] == 7.0
    firsts = order[6::6]
    assert firsts == ["a", "b", "a", "b"]


def test_the_table_has_the_setting_beside_the_figures_and_the_missing_with_their_reason() -> None:
    """A peer that cannot run is told, never left out."""
    rows = compare([Contender("a", 0.5, [1000.0], [])], lambda: 1000.0, rounds=1)
    text = markdown(rows, [Missing("Restate", "there is no npm")])
    assert (
        "| **a** 1 | 500 (0.50 × raw) | 500 (0.50 × raw) | 500 (0.50 × raw) | 7 ms | none; nothing |" in text
    )
    assert "| **Restate** | not available: there is no npm |" in text
