"""Claude Code, Codex and OpenCode as command agents, on a model that follows a script: what they cost, and
what is left of them after `kill -9`."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.acceptance.real_clis import CLIS, NotInstalled, RealCli, programs

from holdfast.testing.fake_provider import Answer, FakeProvider

PLAN = "name: p\nsteps:\n  - {id: hello, agent: Write hello into hello.txt, by: NAME}\n"


@pytest.fixture(scope="session")
def installed() -> Path:
    try:
        return programs()
    except NotInstalled as why:
        pytest.skip(f"the real CLI agents cannot be had: {why}")


@pytest.fixture(params=sorted(CLIS))
def real(request, cli, installed):
    """A project whose plan is for one of them."""
    one = CLIS[request.param]
    cli.directory.joinpath("holdfast.toml").write_text(f"[agent.{one.name}]\n{one.table}")
    cli.directory.joinpath("p.yaml").write_text(PLAN.replace("NAME", one.name))
    cli.env["PATH"] = f"{installed}:{cli.env['PATH']}"
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        cli.env.pop(name, None)
    cli("trust")
    return one


def model(cli, real: RealCli, delay_s: float = 0.0) -> FakeProvider:
    """It lets the agent write the file, and then say that it is done, after a while."""
    done = Answer(text="All done.", delay_s=delay_s)
    return FakeProvider([real.edit(cli.directory), done], side_text="Hello")


def point_at(cli, real: RealCli, provider: FakeProvider) -> None:
    cli.env.update(real.settings(Path(cli.env["HOME"]), cli.directory, provider.url))


def descendants(pid: int) -> list[int]:
    """Every process below this one."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found: list[int] = []
    todo = [pid]
    while todo:
        below = parents.get(todo.pop(), [])
        found += below
        todo += below
    return found


def test_killed_in_the_middle_and_resumed(cli, real, wait_until):
    """`kill -9` of holdfast while the agent has edited and asks its model: its whole tree dies; `resume`
    rolls the edit back, lets it work again, and records session, tokens and cost."""
    hello = cli.directory / "hello.txt"
    with model(cli, real, delay_s=60) as slow:
        point_at(cli, real, slow)
        process = cli.start("run", "p.yaml", "--id", "r")
        wait_until(lambda: any(one.turn == 1 for one in slow.requests), "the edit", 60)
        assert hello.read_text() == "hello\n"
        tree = descendants(process.pid)
        assert len(tree) >= 2  # the supervisor and the program
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in tree), "the end of its tree")
    with model(cli, real) as prompt:
        point_at(cli, real, prompt)
        shown = _resumed(cli)
        assert [one.turn for one in prompt.requests if one.turn is not None] == [0, 1]
    assert hello.read_text() == "hello\n"
    outcome = shown["result"]["hello"]
    assert outcome["text"] == "All done."
    assert outcome["session"]
    (measured,) = shown["measured"]
    priced = {"claude": "0.0012", "codex": None, "opencode": "0.0012"}
    expected = [(200, 40, priced[real.name])]
    if (
        real.name == "opencode"
    ):  # it may have reported a step of its model before the kill: that was used, and counts
        expected.append((300, 60, "0.0018"))
    assert (measured["input_tokens"], measured["output_tokens"], measured["usd"]) in expected


def _resumed(cli):
    done = cli.start("resume", "r")
    assert done.wait(90) == 0, done.communicate()
    return cli("show", "r", "--json").json()
