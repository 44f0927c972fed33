"""Normalisers: what differs between two runs of a command does not count, what it found does."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.agents.evidence.normalising import Normaliser, normalise

DIGITS = st.integers(0, 99)
NAME = st.text("abcxyz019", min_size=1, max_size=8)
CLOCK = st.builds("{:02}:{:02}:{:02}".format, st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
DATES = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1))
MOMENT = st.one_of(
    DATES.map(lambda at: at.isoformat(timespec="milliseconds") + "Z"),
    DATES.map(lambda at: at.strftime("%a %b %d %H:%M:%S UTC %Y").replace(" 0", "  ")),
    DATES.map(lambda at: at.isoformat(" ", timespec="seconds")),
)
VARIABLE = {
    "moment": MOMENT,
    "clock": CLOCK,
    "duration": st.one_of(
        st.builds("{}.{:02}s".format, DIGITS, DIGITS),
        st.builds("{} ms".format, DIGITS),
        st.builds("{}m{}.{}s".format, DIGITS, DIGITS, DIGITS),
        st.builds("{} minutes, {} seconds".format, DIGITS, DIGITS),
    ),
    "tmp": st.one_of(
        st.builds("/tmp/{}".format, NAME),
        st.builds("/var/folders/{}/{}/T/{}".format, NAME, NAME, NAME),
        st.builds("/tmp/pytest-of-{}/pytest-{}".format, NAME, DIGITS),
    ),
    "address": st.integers(0x10000, 1 << 47).map(hex),
    "pid": st.integers(100, 4_000_000),
    "port": st.integers(1024, 65535),
    "uuid": st.uuids(),
}
"""What may be another one in each run."""
REPORT = """\
started at {moment} as pid {pid}
server[{pid}]: listens on 127.0.0.1:{port}
<Widget object at {address}>, id {uuid}
wrote {tmp}/report.txt
[{clock}] 3 passed, 1 failed in {duration}
"""


@given(first=st.fixed_dictionaries(VARIABLE), second=st.fixed_dictionaries(VARIABLE))
def test_times_paths_addresses_and_ids_do_not_count(
    first: dict[str, object], second: dict[str, object]
) -> None:
    """Two reports that differ in nothing else are equal, and what they found stands in the result."""
    one, other = normalise(REPORT.format(**first)), normalise(REPORT.format(**second))
    assert one == other
    assert "3 passed, 1 failed in <duration>" in one


@given(
    st.integers(0, 999), st.integers(0, 999), st.sampled_from(["passed", "failed", "errors", "%", "lines"])
)
def test_counts_count(one: int, other: int, what: str) -> None:
    """A number that is a result stays a result."""
    assert (normalise(f"{one} {what}") == normalise(f"{other} {what}")) == (one == other)


@given(st.text(st.sampled_from("abc \n.,:;()[]{}<>=+*-_#'\"%")))
def test_plain_text_is_unchanged(text: str) -> None:
    """Without digits and paths there is nothing to hide, but for white space at the ends of lines."""
    assert normalise(text) == "\n".join(line.rstrip() for line in text.split("\n")).rstrip("\n")


PIECES = st.lists(
    st.one_of(
        st.text(max_size=4),
        st.sampled_from(["/tmp/a", "12:30:59", "0x7fabcd", "1.5s", "pid 4", "\x1b[1m", "\r"]),
    )
).map("".join)


@given(PIECES)
@example("\x1b\x1b[0m[0m")
@example("0 ns0 ns")
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    """Whatever is normalised already is left as it is."""
    once = normalise(text)
    assert normalise(once) == once


@given(PIECES, st.sampled_from(["/srv/project", "/home/ann/my.project"]))
def test_the_workspace_has_one_name_wherever_it_is(text: str, root: str) -> None:
    """Output of a copy is that of the workspace; another directory whose name begins alike is another one."""
    normaliser = Normaliser([root, "/copies/verify-1", ""])
    assert normaliser(f"{root}/a {text}") == normaliser(f"/copies/verify-1/a {text}")
    assert normaliser(f"{root}2/a") == f"{root}2/a"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("50%\r100%\r\ndone\r\n", "100%\ndone"),
        ("\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x07link", "red link"),
        ("took 1h 2m 3s", "took <duration>"),
        ("Nov 18 03:16:43 host", "<time> host"),
        ("v1.2.3 on port 8080", "v1.2.3 on port 8080"),
        ("line 12:34 of a.py:56", "line 12:34 of a.py:56"),
        ("epoch 1763435803.25", "epoch <time>"),
        ("0x1f", "0x1f"),
    ],
)
def test_examples(text: str, shown: str) -> None:
    """What output of programs looks like."""
    assert normalise(text) == shown


@pytest.mark.parametrize(
    "piece", ["y", "1", "1 ", "\r", "\x1b[", "\x1b]", "1s ", "/tmp/", "pid ", "12:", "2026-11-", "1.1", " "]
)
def test_no_text_takes_long(piece: str) -> None:
    """A quarter of a megabyte of anything is done in the time of a test: no pattern is quadratic."""
    assert normalise(piece * (250_000 // len(piece))) is not None
