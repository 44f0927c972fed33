"""Bytes that are no text, streams that are closed, an output that is full: a sentence, never exit code 70."""

from __future__ import annotations

import os
import subprocess

import pytest

ODD = b"a\xffb"
FLOW = "@step\ndef one(x): return x\n@workflow\ndef main(x: str = ''): return one(x)\n"


@pytest.fixture
def flow(cli):
    cli.script(FLOW)
    return cli


def run(cli, *words, cwd=None, **kwargs) -> subprocess.CompletedProcess[bytes]:
    """With words of any bytes."""
    argv = [cli.python, "-m", "holdfast", *(word if isinstance(word, bytes) else str(word) for word in words)]
    return subprocess.run(
        argv,
        cwd=cwd or cli.directory,
        env=cli.env,
        stdin=subprocess.DEVNULL,
        capture_output=not kwargs,
        timeout=60,
        check=False,
        **kwargs,
    )


def refuses(done: subprocess.CompletedProcess[bytes], code: int = 2) -> None:
    assert done.returncode == code, (done.args, done.stderr)
    assert done.stderr.startswith(b"holdfast: ") and b"Traceback" not in done.stderr
    assert b"fault of holdfast" not in done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["run", b"echo " + ODD], 2),
        (["run", "--", "echo", ODD], 2),
        (["run", "--", ODD], 3),
        (["run", "--id", ODD, "true"], 2),
        (["run", ODD + b".py:main"], 3),
        (["show", ODD], 3),
        (["approve", "gate", ODD], 2),
        (["approve", "gate", "--comment", ODD], 2),
        (["pause", "gate", "--reason", ODD], 2),
        (["signal", "gate", ODD, "1"], 2),
        (["rewind", "gate", "--to", ODD], 3),
        ([ODD], 2),
    ],
)
def test_arguments_that_are_no_text(cli, words, code):
    """Each is refused with a sentence, and nothing is done."""
    cli.script('@workflow\ndef main(): approval("ok")')
    cli("run", "--id", "gate", "flow.py:main", code=5)
    refuses(run(cli, *words), code)
    assert [row["status"] for row in cli("list", "--json").json()] == ["waiting"]


def test_a_workflow_takes_any_bytes(flow):
    """As Python gives them to programs."""
    assert run(flow, "run", "--id", "r", "flow.py:main", ODD).returncode == 0
    assert run(flow, "show", "r").returncode == 0
    assert run(flow, "list", "--json").returncode == 0


@pytest.mark.parametrize("words", [["run", "true"], ["run", "flow.py:main"]])
def test_a_directory_whose_name_is_no_text(flow, words):
    """Nothing can be run there; what looks at the store says what it says."""
    place = os.path.join(os.fsencode(flow.directory), ODD)
    os.mkdir(place)
    with open(os.path.join(place, b"flow.py"), "w") as file:
        file.write("from holdfast import *\n" + FLOW)
    done = run(flow, *words, cwd=place)
    refuses(done)
    assert b"not UTF-8" in done.stderr
    for look in (["list"], ["list", "--json"], ["config", "show", "--json"], ["doctor"]):
        assert run(flow, *look, cwd=place).returncode in (0, 1), look


def test_a_home_whose_name_is_no_text(flow):
    """SQLite could not open it."""
    done = run(flow, "--home", os.fsencode(flow.directory) + b"/" + ODD, "run", "true")
    refuses(done)
    assert b"not UTF-8" in done.stderr


@pytest.mark.parametrize("closed", [[0], [1], [2], [0, 1, 2]], ids=str)
def test_streams_that_are_closed(flow, closed):
    """Of stdin, stdout and stderr any: every command does what it does, and ends with its code."""
    close = "".join(f"os.close({number});" for number in closed)
    prefix = f"import os, sys; {close} os.execv(sys.argv[1], sys.argv[1:])"
    for words, code in (
        (["run", "--id", "r", "flow.py:main", "x"], 0), (["run", "--id", "c", "echo said"], 0),
        (["list"], 0), (["show", "r", "--json"], 0), (["doctor"], 0), (["show", "none"], 3), (["--help"], 0),
    ):  # fmt: skip
        done = subprocess.run(
            [flow.python, "-c", prefix, *flow.argv(*words)],
            cwd=flow.directory,
            env=flow.env,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, (words, done)
        assert b"Traceback" not in done.stderr
    assert [flow.status(run_id) for run_id in ("r", "c")] == ["completed", "completed"]
    flow("audit", "verify")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has it")
def test_an_output_that_is_full(flow):
    """A sentence and a code of its own; the run has completed all the same. Errors have nowhere to go."""
    with open("/dev/full", "w") as full:
        for words in (
            ["run", "--id", "r", "flow.py:main", "x"],
            ["list"],
            ["--help"],
            ["show", "r", "--json"],
        ):
            done = run(flow, *words, stdout=full, stderr=subprocess.PIPE)
            assert (done.returncode, b"No space left" in done.stderr) == (74, True), done
        assert run(flow, "list", stdout=subprocess.PIPE, stderr=full).returncode == 0
    assert flow.status("r") == "completed"
