"""Whatever a run holds, a terminal obeys nothing of it and shows all of it."""

from __future__ import annotations

import io
import json
import re
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.acceptance.test_foreign import CHANGES, COMMANDS

from holdfast import Holdfast, approval, checkpoint, command, emit, inert, milestone, step, workflow
from holdfast.agents import router
from holdfast.cli import app
from holdfast.cli.drawing.progress import Progress
from holdfast.errors import HoldfastError

EVIL = (
    "a\x1b]52;c;ZXZpbA==\x07b\x1b]0;title\x1b\\c\x1b[2J\x1b[1;1Hd\x1b[8mhidden\x1b[0m\x9b31me\x90q\x9c"
    "\u200bf\u00adg\u202eh\u2066i\U000e0041j\ufeffk\u2028l\u3164m\x7fn\x85o\x00p\rq\x08r\ufe0f\ufe0fs"
)
texts = st.text(
    st.one_of(st.characters(max_codepoint=0xFF), st.characters(), st.sampled_from(sorted(set(EVIL))))
)
OURS = re.compile(
    "\x1b\\[(?:[0-9]+(?:;[0-9]+)*)?m|\r\x1b\\[K|\x1b\\[[?]25[lh]|\x1b\\[1A|\x1b\\[2K|\r(?=\x1b\\[(?:2K|1A))"
)
"""What our own program writes: styles, and lines that are drawn over, by rich too."""


def seen(char: str) -> bool:
    """Whether a terminal shows it, and does nothing else."""
    return unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp")


def obeyed(text: str, kept: str = "") -> list[str]:
    return [f"{ord(char):04x}" for char in text if char not in kept and not seen(char)]


@given(texts)
@example(EVIL)
def test_one_line(text: str) -> None:
    """A name or title: nothing but what is seen, on one line; made inert once, it stays as it is."""
    made = inert.one_line(text)
    assert obeyed(made) == []
    assert inert.one_line(made) == made
    assert len(made) >= len(text), "nothing vanishes"


@given(texts)
@example(EVIL)
def test_text_of_several_lines(text: str) -> None:
    """Line breaks and tabs stay, a lone carriage return is a line break."""
    made = inert.lines(text)
    assert obeyed(made, "\n\t") == []
    assert inert.lines(made) == made


@given(texts, st.booleans(), st.booleans())
@example(EVIL, True, False)
@example("\x1b[31mred\x1b[38;5;8mgrey\x1b[48;2;1;2;3mx\x1b[28m", True, False)
def test_what_programs_print(text: str, colour: bool, live: bool) -> None:
    """Colours and nothing else are obeyed, and no colour is left behind."""
    made = inert.printed(text, colour=colour, live=live)
    kept = "\n\t\r" if live else "\n\t"
    assert obeyed(OURS.sub("", made) if colour else made, kept) == []
    codes = re.findall("\x1b\\[([0-9;:]*)m", made)
    assert not codes or not codes[-1].strip("0")


HIDING = (
    *("8", "1;8", "38;5;1;8", "0;8;0", "28;8", "008"),
    *("38:5;8", "58:2;8", "48:2:1;8", "38;5:8", "38;2;1;8", "38;8", "38;;8", "58;5;8", "4:8", "8:1"),
)


@pytest.mark.parametrize("codes", HIDING)
def test_concealed_text_is_shown(codes: str) -> None:
    """`conceal` would hide what follows."""
    assert inert.printed(f"\x1b[{codes}mx", colour=True) == f"␛[{codes}mx"


@pytest.mark.parametrize(
    "codes", ["", "0", "1;31", "38;5;8", "38;2;1;2;8;4", "38:5:8", "58:2::1:2:8", "4:3;58:5:8", "58;5;1"]
)
def test_colours_pass(codes: str) -> None:
    """As they are, on a terminal that has colours."""
    assert inert.printed(f"\x1b[{codes}mx", colour=True).startswith(f"\x1b[{codes}mx")


def test_a_sequence_that_is_too_long_is_marked() -> None:
    """Whatever its length, and it is not read as a number."""
    assert inert.printed(f"\x1b[{'5' * 5000}mx", colour=True) == f"␛[{'5' * 5000}mx"


def test_output_that_cannot_be_shown_is_no_failure_of_the_command(monkeypatch, capsys) -> None:
    """That is said once; the log has the output."""

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(Progress, "_print", fails)
    progress = Progress(whole=True)
    for _ in range(2):
        progress.on_output("r", "echo#1", "stdout", "text")
    assert capsys.readouterr().err.count("the output of echo#1 cannot be shown") == 1


@given(texts)
@example(EVIL)
def test_json_means_the_same(text: str) -> None:
    """On a terminal, JSON has escapes for what would be obeyed or not seen."""
    import msgspec

    written = msgspec.json.encode({"a": text.encode("utf-8", "replace").decode()}).decode()
    made = inert.json(written)
    assert obeyed(made, "\n") == []
    assert json.loads(made) == json.loads(written)


def test_ordinary_text_is_as_it_was() -> None:
    """Letters of all scripts, accents, emoji with their selector, spaces: nothing is marked."""
    for text in (
        "kelp",
        "Tangwälder",
        "海藻",
        "водоросли",
        "अनुच्छेद",
        "❤\ufe0f 👍🏽",
        "a\u00a0b\u3000c",
        "e\u0301",
    ):
        assert inert.one_line(text) == text


# Every command


class Screen(io.StringIO):
    """A terminal that keeps what is written to it."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


TEXT = [""]


@step
def gives() -> list[str]:
    emit("stream", TEXT[0])
    return [TEXT[0], f"{TEXT[0]}\n{TEXT[0]}"]


@step(effect="workspace")
def writes() -> None:
    name = re.sub("[/\0]", "_", TEXT[0]).encode("utf-8", "replace")[:200].decode("utf-8", "ignore")
    Path(f"f{name}").write_text(TEXT[0], errors="replace")


@step
def fails() -> None:
    raise ValueError(TEXT[0])


@workflow
def hostile() -> None:
    gives()
    writes()
    checkpoint("cp")
    writes()
    code = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
    command([sys.executable, "-c", code, TEXT[0].replace("\0", "")], stdin=TEXT[0], name="prints")
    milestone("done", statement=TEXT[0])
    router.choose("draft", ["small"]).report(False, error=TEXT[0])
    decision = approval(f"t{TEXT[0]}", show=[TEXT[0], {"k": TEXT[0]}])
    if decision.outcome == "approved":
        fails()


def screen_of(words: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    try:
        code = app.run_program(words)
    finally:
        monkeypatch.undo()
    assert code != app.OUR_FAULT, (words, screen.getvalue())
    return screen.getvalue()


LOOKS = [
    *(["list"], ["show", "r"], ["show", "r", "--all", "--events"], ["show", "r", "--step", "gives", "--all"]),
    *(
        ["show", "r", "--step", "prints"],
        ["show", "r", "--json", "--events"],
        ["logs", "r"],
        ["logs", "r", "--json"],
    ),
    *(
        ["watch", "r"],
        ["watch", "r", "--json", "--logs"],
        ["stats"],
        ["checkpoints", "r"],
        ["diff", "r", "cp"],
    ),
    *(
        ["diff", "r", "cp", "--stat"],
        ["diff", "r", "cp", "--json"],
        ["op", "log"],
        ["gates"],
        ["doctor"],
        ["workspace", "status"],
    ),
    *(
        ["audit", "verify"],
        ["du"],
        ["config", "show"],
        ["workspace", "verify"],
        ["backup", "list"],
        ["replay", "r"],
    ),
    *(["trust", "--list"], ["completion", "bash"], ["list", "--json"], ["show", "no\x1b]0;x\x07such"]),
    ["rewind", "r", "--to", "cp", "--dry-run"],
    *(["recall", "--all"], ["recall", "--json"], ["prime"], ["prime", "--json"]),
    *(
        ["task", "list"],
        ["task", "ready"],
        ["task", "show", "1"],
        ["task", "show", "1", "--events"],
        ["task", "tree"],
    ),
    *(
        ["session", "list"],
        ["session", "show", "@"],
        ["search", "a"],
        ["search", "--json"],
        ["mirror", "status"],
    ),
    *(
        ["plan", "check", "p.yaml"],
        ["plan", "show", "p.yaml"],
        ["plan", "analyze", "@"],
        ["plan", "new", "@"],
    ),
    *(["budget", "list"], ["budget", "show", "default"], ["evidence", "list"], ["evidence", "show", "r"]),
    *(
        ["evidence", "list", "--json"],
        ["router", "list"],
        ["router", "show", "@"],
        ["router", "show", "draft"],
    ),
    *(["skills", "list"], ["skills", "check"], ["skills", "show", "evil"], ["skills", "show", "@"]),
    ["skills", "stats"],
]
"""The words of each command; `@` stands for a hostile text, or the session."""


def test_every_command_that_looks_is_tried() -> None:
    """A new command is put into the list."""
    tried = {name for name in COMMANDS for words in LOOKS if words[: len(name.split())] == name.split()}
    assert set(COMMANDS) - CHANGES <= tried


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60))
@example(text=EVIL)
def test_no_command_lets_a_run_speak_to_the_terminal(
    text: str, tmp_path_factory, monkeypatch, wait_until
) -> None:
    """Names, titles, errors, results, comments, output and names of files are shown by each command."""
    TEXT[0] = text
    root = tmp_path_factory.mktemp("inert")
    (root / "ws").mkdir()
    monkeypatch.chdir(root / "ws")
    with Holdfast(root / "home", workspace=root / "ws") as hf:
        session = hf.sessions.start(f"a{text}")
        task = hf.tasks.create(f"a{text}".splitlines()[0], body=text, labels=["l"])
        hf.tasks.note(task.id, f"a{text}")
        hf.memory.remember(f"a{text}", kind="decision", source=text, cites=[text])
        run = hf.with_id("r").start(hostile)
        wait_until(lambda: run.status == "waiting", "the approval")
        waiting = [
            screen_of(["--home", str(root / "home"), *words], monkeypatch)
            for words in (["show", "r"], ["list"])
        ]
        hf.approve("r", by=text, comment=text)
        try:
            hf.resume("r").result(timeout=20)
        except (ValueError, HoldfastError):
            pass
    pages = {"waiting": "".join(waiting)}
    monkeypatch.chdir(root / "ws")
    Path("p.yaml").write_text(
        json.dumps({"name": "p", "steps": [{"id": "a", "run": ["echo", text], "x": text}]})
    )
    Path("skills/evil").mkdir(parents=True)
    front = f"---\nname: evil\ndescription: {json.dumps('d' + text)}\n---\n{text}\n"
    Path("skills/evil/SKILL.md").write_text(front, "utf-8", "replace")
    for words in LOOKS:
        hostile_word = session.id if words[0] == "session" else f"a{text}".replace("\0", "")
        words = [hostile_word if word == "@" else word for word in words]
        pages[" ".join(words)] = screen_of(["--home", str(root / "home"), *words], monkeypatch)
        monkeypatch.chdir(root / "ws")
    bad = {words: obeyed(OURS.sub("", page), "\n\t") for words, page in pages.items()}
    assert {words: chars[:5] for words, chars in bad.items() if chars} == {}
    assert "ValueError" in pages["show r"]


def test_a_question_and_live_output_on_a_real_terminal(cli) -> None:
    """What is approved reads as what it is; what a command prints does not reach the clipboard."""
    cli.script(f"""
        EVIL = {EVIL!r}
        @step
        def note_it(): emit("says", EVIL)
        @workflow
        def asks():
            note_it()
            command(["cat"], stdin=EVIL, effect="idempotent")
            return approval("pay" + EVIL, show=["rm -rf /tmp/x", EVIL]).outcome
    """)
    terminal = cli.at_a_terminal("run", "--id", "q", "flow.py:asks")
    terminal.expect("decide later (l)? ")
    terminal.type("a\n")
    code, text = terminal.end()
    assert code == 0, text
    _, logs = cli.on_a_terminal("logs", "q")
    for page in (text, logs):
        assert "\x1b]" not in page and "\x1b[2J" not in page and "\u200b" not in page and "\u202e" not in page
        assert "<U+200B>" in page and "<U+202E>" in page and "<U+E0041>" in page and "␛]52" in page
    assert EVIL.encode("utf-8") in cli("logs", "q").out.encode().replace(b"\n", b"\r"), "a pipe has it all"


def test_output_that_comes_before_the_tree(monkeypatch) -> None:
    """A command may print before its run has a title: that is shown, and no fault of the command."""
    from holdfast.cli.drawing.progress import LiveProgress

    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    progress = LiveProgress(whole=False)
    progress.on_output("r", "sh#1", "stdout", "early\x1b]0;x\x07\n")
    progress.note("noted")
    assert screen.getvalue() == "early␛]0;x␇\n  noted\n"
