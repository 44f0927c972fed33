"""What is kept of a command's output and passed on, and what counts for a command's identity."""

import sys
import tracemalloc

import pytest

from holdfast import DivergenceError, Retry, Secret, command, emit
from holdfast.engine.execution.command_output import Lines, OutputLimit
from holdfast.engine.primitives import command_line
from holdfast.errors import BadInput, CommandFailed
from holdfast.testing.crash import at_body


def sh(script, **options):
    return command(["sh", "-c", script], **options)


def py(script, **options):
    return command([sys.executable, "-c", script], **{"effect": "idempotent", **options})


def kept(limit, *pieces):
    written = []
    keeps = OutputLimit(limit, lambda source, text: written.append((source, text)))
    for piece in pieces:
        keeps.take(*piece)
    keeps.close()
    return written


# The limit


@pytest.mark.parametrize("size", [1, 499, 500, 501, 999, 1000])
def test_output_within_the_limit_is_kept_whole(size):
    """To the last byte, in whatever pieces it comes."""
    text = ("0123456789" * 200)[:size]
    assert "".join(text for _, text in kept(1000, ("stdout", text))) == text
    assert "".join(text for _, text in kept(1000, *(("stdout", one) for one in text))) == text


def test_one_byte_more_is_left_out():
    found = kept(1000, ("stdout", "0123456789" * 100 + "x"))
    assert "[holdfast: 1 byte left out here]\n" in [text for _, text in found]
    assert (
        "".join(text for _, text in found if "[holdfast" not in text)
        == "0123456789" * 50 + ("0123456789" * 50 + "x")[1:]
    )


def test_of_longer_output_the_ends_are_kept():
    """The beginning, a line that says how much is missing, the end: as many bytes as the limit says."""
    text = "".join(f"{n:09}\n" for n in range(500))
    found = "".join(text for _, text in kept(1000, *(("stdout", line) for line in text.splitlines(True))))
    reached, missing = (
        "[holdfast: the output limit of 1000 bytes is reached; only the end of the rest is kept]\n",
        "[holdfast: 3.9 KB left out here]\n",
    )
    assert found == text[:500] + reached + missing + text[-500:]


def test_the_notice_is_a_line_of_its_own_and_characters_stay_whole():
    """The cuts fall between characters of several bytes, and no notice is glued to text."""
    found = kept(10, ("stdout", "é" * 3), ("stderr", "€" * 20))
    assert found == [
        ("stdout", "éé"),
        (
            "stdout",
            "\n[holdfast: the output limit of 10 bytes is reached; only the end of the rest is kept]\n",
        ),
        ("stderr", "[holdfast: 56 bytes left out here]\n"),
        ("stderr", "€€"),
    ]


def test_a_limit_of_nothing_keeps_a_count():
    assert "".join(text for _, text in kept(0, ("stdout", "a" * 2048))).endswith("2.0 KB left out here]\n")


def test_a_gigabyte_is_neither_in_the_log_nor_in_memory():
    size = 0

    def write(_, text):
        nonlocal size
        size += len(text)

    keeps = OutputLimit(1 << 20, write)
    piece = "x" * 65535 + "\n"
    tracemalloc.start()
    try:
        for _ in range((1 << 30) // len(piece)):
            keeps.take("stdout", piece)
        keeps.close()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size < (1 << 20) + 300
    assert peak < 1 << 20


def test_a_command_keeps_what_its_limit_says(hf, act):
    """The log has the ends; the result has the last 64 KB, and the command is not disturbed."""
    script = "import sys\nfor n in range(200000): sys.stdout.write(f'{n:09}\\n')"
    result = hf.with_id("x").run(act(lambda: py(script, output_limit=100_000)))
    text = "".join(line.text for line in hf.logs("x"))
    assert len(text) < 100_300
    assert text.startswith("000000000\n")
    assert text.endswith("000199999\n")
    assert "1.8 MB left out here]" in text
    assert result.stdout.endswith("000199999\n")
    assert len(result.stdout) == 64 * 1024


def test_each_attempt_has_its_own_limit(hf, act):
    script = "print('x' * 3000); raise SystemExit(1)"
    with pytest.raises(CommandFailed):
        hf.with_id("x").run(
            act(lambda: py(script, output_limit=1000, retry=Retry(attempts=2, initial=0.001)))
        )
    lines = hf.logs("x")
    for attempt in (1, 2):
        assert "left out here]" in "".join(line.text for line in lines if line.attempt == attempt)


def test_a_wrong_limit_is_refused(hf, act):
    with pytest.raises(BadInput, match="output_limit=-1"):
        hf.run(act(lambda: sh("true", output_limit=-1)))


# Lines


def test_lines_come_whole_and_by_source():
    found = []
    lines = Lines(lambda _, line: found.append(line))
    lines.take("stdout", "a")
    lines.take("stderr", "X\r\n")
    lines.take("stdout", "b\n\nc")
    lines.take("stdout", "y" * 150_000 + "\nlast")
    lines.close()
    assert found[:3] == ["X", "ab", ""]
    assert [len(one) for one in found[3:-1]] == [65536, 65536, 150_001 - 2 * 65536]
    assert found[-1] == "last"


def test_on_line_hears_each_line_while_the_command_runs(hf, act, tmp_path):
    """Redacted, live: the command waits for what the callback does. `emit` in it belongs to the step."""
    heard = []
    token = "ghp_" + "a1B2" * 9
    go = tmp_path / "go"

    def listen(line):
        heard.append(line)
        emit("line", line)
        go.touch()

    script = f"echo token={token}; while [ ! -e {go} ]; do sleep 0.01; done; echo err >&2; printf end"
    hf.with_id("x").run(act(lambda: sh(script, on_line=listen)))
    assert token not in heard[0]
    assert heard[0].startswith("token=")
    assert sorted(heard[1:]) == ["end", "err"]
    emitted = [event.data for event in hf.events("x") if event.type == "Emitted"]
    assert [one["step"] for one in emitted] == ["sh#1"] * 3


def test_on_line_in_an_async_workflow(hf, act):
    heard = []

    async def plot():
        await command.aio(["sh", "-c", "echo one; echo two"], on_line=heard.append)

    hf.run(act(plot))
    assert heard == ["one", "two"]


@pytest.mark.parametrize("script", ["echo bad; sleep 60", "printf bad"])
def test_an_error_of_on_line_fails_the_step(hf, act, script):
    """The command is ended, and the error says where it was raised; now and in the log."""

    def listen(line):
        raise LookupError(f"no such session: {line}")

    with pytest.raises(LookupError, match="no such session: bad") as caught:
        hf.with_id("x").run(act(lambda: sh(script, on_line=listen)))
    assert "raised by on_line of the command sh#1" in caught.value.__notes__[0]
    assert [one.status for one in hf.steps("x")] == ["failed"]


def test_a_replay_does_not_call_on_line_and_it_does_not_count(twice, open_hf):
    heard = []

    def plot():
        sh("echo one", on_line=lambda line: heard.append(line), output_limit=1000 + len(heard))
        return len(heard)

    assert twice(plot) == (1, 1)


# Identity


def digests(hf, run_id):
    return [event.data["digest"] for event in hf.events(run_id) if event.type == "StepStarted"]


def test_the_input_counts(hf, act):
    """Text by its content, a secret by its name; the log does not show it."""

    def plot():
        for stdin in (None, "a", "b", Secret("one", "value-1"), Secret("one", "value-2"), Secret("two", "x")):
            sh("cat > /dev/null", stdin=stdin)

    hf.with_id("x").run(act(plot))
    none, a, b, secret, rotated, other = digests(hf, "x")
    assert len({none, a, b, secret, other}) == 5
    assert secret == rotated
    started = [event.data["args"] for event in hf.events("x") if event.type == "StepStarted"]
    assert all("stdin" not in one for one in started)


def test_secrets_in_the_environment_count_by_name_and_reach_the_program(hf, act):
    def plot():
        found = []
        for value in ("s3cret-value-1", "s3cret-value-2"):
            script = "[ $TOKEN = s3cret-value-1 ] && echo first || echo second"
            found.append(sh(script, env={"TOKEN": Secret("token", value)}).stdout)
        return found

    assert hf.with_id("x").run(act(plot)) == ["first\n", "second\n"]
    one, two = digests(hf, "x")
    assert one == two
    assert "s3cret-value" not in "".join(str(event.data) for event in hf.events("x")).replace(
        "= s3cret-value-1 ]", ""
    )


@pytest.mark.parametrize(("before", "after"), [("a", "b"), ("a", None), (None, "a")])
def test_another_input_diverges(open_hf, act, crashes, before, after):
    first = open_hf()
    store = crashes.arm(first)
    stdin = [before]

    def plot():
        sh("cat", stdin=stdin[0])
        if store.left is None:
            store.left = 0

    with pytest.raises(Exception, match="dead"):
        first.with_id("x").run(act(plot))
    crashes.bury(first)
    stdin[0] = after
    with pytest.raises(DivergenceError, match="arguments"):
        open_hf().with_id("x").run(act(plot))


@pytest.mark.parametrize("stdin", [None, "a"])
def test_a_run_from_before_the_input_counted_goes_on(open_hf, act, crashes, monkeypatch, stdin):
    first = open_hf()
    store = crashes.arm(first)

    def plot():
        sh("cat > /dev/null", stdin=stdin, env={"A": "b"})
        if store.left is None:
            store.left = 0

    with monkeypatch.context() as older:
        older.setattr(
            command_line.CommandLine,
            "digested",
            lambda self, _: command_line._SHOWN.digest((self.argv, self.cwd, self.env), {}),
        )
        with pytest.raises(Exception, match="dead"):
            first.with_id("x").run(act(plot))
    crashes.bury(first)
    open_hf().with_id("x").run(act(plot))


def test_a_command_that_was_killed_begins_again_with_its_limit(lab, open_hf):
    """SIGKILL in the middle of a long output, and of a second command; each attempt is kept within bounds."""
    crash = lab(
        """
        from holdfast import Holdfast, command, workflow
        from holdfast.testing.crash import mark

        @workflow
        def noisy() -> int:
            heard = 0
            def listen(line):
                nonlocal heard
                heard += 1
                if heard == 5000:
                    mark("heard")
            loud = ["sh", "-c", "seq 1 10000"]
            command(loud, name="first", effect="idempotent", output_limit=2000, on_line=listen)
            command(["true"], name="second", effect="idempotent")
            return heard

        with Holdfast() as hf:
            print(hf.with_id("x").run(noisy))
        """
    )
    from holdfast.testing.crash import at_mark

    assert crash.run(kill=at_mark("heard")).killed
    assert crash.run(kill=at_body("second#1")).killed
    done = crash.run()
    assert (done.exit_code, done.stdout.strip()) == (0, "0"), done.stderr  # replayed: nothing was heard
    hf = open_hf()
    lines = hf.logs("x", step="first")
    last = "".join(line.text for line in lines if line.attempt == 2)
    assert len(last) < 2300
    assert last.startswith("1\n2\n")
    assert last.endswith("9999\n10000\n")
