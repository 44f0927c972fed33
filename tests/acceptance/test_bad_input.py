"""What bad input gets: one sentence that names the thing, the right exit code, never a traceback."""

from __future__ import annotations

import shutil

import pytest

FLOW = """
    @step
    def one(n: int): return n
    @workflow
    def main(n, m=0): return one(n)
    @workflow
    def unstorable(): return object()
    @workflow
    def raises(): raise RuntimeError("oh no")
    def plain(): pass
"""


@pytest.fixture(scope="module")
def template(make_cli, tmp_path_factory):
    """A project with a script and two runs, made once."""
    made = make_cli(tmp_path_factory.mktemp("template"))
    made.script(FLOW)
    (made.directory / "empty.py").write_text("print(1)\n")
    made("run", "--id", "kelp-one", "true")
    made("run", "--id", "kelp-two", "flow.py:main", "1")
    return made


@pytest.fixture
def ready(cli, template):
    """A copy of it, to be spoilt at will. The runs' script stays where it was."""
    shutil.copytree(template.home, cli.home)
    cli.directory = template.directory
    return cli


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        # runs that are not there
        (["show", "kelp-thre"], 3, "nearest: kelp-"),
        (["show", "zzz"], 3, "no run has the id 'zzz'"),
        (["resume", "zzz"], 3, "no run has the id 'zzz'"),
        (["logs", "zzz"], 3, "no run has the id 'zzz'"),
        (["settle", "zzz", "x", "--retry"], 3, "no run has the id 'zzz'"),
        (["show", "kelp"], 2, "type more of it"),
        (["show", ""], 3, "no run has the id ''"),
        (["logs", "kelp-one", "--step", "tru"], 3, "has no step 'tru'; nearest: true#1"),
        (["settle", "kelp-two", "nope", "--retry"], 3, "has no step 'nope'"),
        (["settle", "kelp-two", "one", "--retry"], 2, "not in doubt"),
        (["settle", "kelp-two", "one"], 2, "exactly one of --done VALUE, --retry, --fail"),
        (["settle", "kelp-two", "one", "--retry", "--done", "1"], 2, "exactly one of"),
        # steering
        (["approve", "zzz"], 3, "no run has the id 'zzz'"),
        (["approve", "kelp"], 2, "type more of it"),
        (["approve", "kelp-two"], 2, "has ended (completed); there is nothing to decide"),
        (["reject", "kelp-two", "send@ab12cd"], 2, "there is nothing to decide"),
        (["signal", "kelp-two", "go"], 2, "has ended (completed); there is nothing to signal"),
        (["signal", "kelp-two", "no name"], 2, "cannot be a step's name"),
        (["signal", "kelp-two"], 2, "NAME"),
        (["pause", "kelp-two"], 2, "has ended (completed); there is nothing to pause"),
        (["cancel", "kelp-two"], 2, "has ended (completed); there is nothing to cancel"),
        (["cancel", "kelp-two", "--timeout", "-1"], 2, "timeout"),
        (["watch", "zzz"], 3, "no run has the id 'zzz'"),
        (["resume", "--follow"], 2, "--follow goes with --all"),
        # targets that are not there
        (["run", "nothere.py:main"], 3, "there is no file nothere.py"),
        (["run", "flow.py:nope"], 3, "there is no nope in it"),
        (["run", "flow.py:plain"], 3, "it is no @workflow"),
        (["run", "nomodule:main"], 3, "there is no module 'nomodule'"),
        (["run", "no-such-program-here"], 3, "no program 'no-such-program-here'"),
        (["run", "gitt status"], 3, "no program 'gitt'"),
        (["run", "./missing"], 3, "no program './missing'"),
        (["run", "Add auth"], 3, "no program 'Add'"),
        (["run", "Add auth"], 3, "did you mean `holdfast deliver 'Add auth'`?"),
        (["run", "--", "no-such-program-here"], 3, "no program"),
        (["run", "flow.py:man"], 3, "there is no man in it; there is flow.py:main, flow.py:unstorable, "),
        (["run", "flow.py"], 2, "name the workflow in it: flow.py:main, flow.py:unstorable, flow.py:raises"),
        (["run", "./flow.py"], 2, "name the workflow in it: ./flow.py:main, "),
        (["run", "empty.py"], 2, "empty.py has no @workflow; `holdfast run -- python empty.py` runs it"),
        # arguments that do not fit
        (["run", "flow.py:main"], 2, "missing a required argument: 'n'"),
        (["run", "flow.py:main", "1", "2", "3"], 2, "too many positional arguments"),
        (["run", "flow.py:main", "1", "--arg", "q=1"], 2, "unexpected keyword argument 'q'"),
        (["run", "flow.py:main", "--arg", "n"], 2, "must be NAME=VALUE"),
        (["run", "flow.py:main", "1", "--timeout", "3"], 2, "are for commands"),
        (["run", "flow.py:main", "--goal", "add"], 2, "an argument of the workflow is `--arg goal=add`"),
        (["run", "flow.py:main", "--max-words=a b"], 2, "`--arg 'max_words=a b'`"),
        (["run", "flow.py:main", "--args", "n=1"], 2, "did you mean --arg?"),
        (["run", "--jsn", "true"], 2, "no such option: --jsn; did you mean --json?"),
        (["run", "true", "--arg", "n=1"], 2, "--arg is for functions"),
        (["run", "--id", "a/b", "true"], 2, "cannot be a run's id"),
        (["run", "--id", "kelp-two", "flow.py:main", "2"], 2, "exists with other arguments"),
        (["run", "--id", "kelp-two", "true"], 2, "exists with another workflow"),
        (["run", "echo 'oh"], 2, "no closing quotation"),
        (["run", ""], 2, "nothing to run"),
        (["run"], 2, "nothing to run"),
        (["run", "echo", "-n", "x"], 2, "goes after `--`"),
        (["run", "echo a", "b"], 2, "is a whole command line"),
        (["run", "--timeout", "0", "true"], 2, "timeout"),
        (["run", "--effect", "twice", "true"], 2, "effect"),
        # runs that fail
        (["run", "flow.py:unstorable"], 1, "cannot be stored"),
        (["run", "flow.py:raises"], 1, "RuntimeError: oh no"),
        # the command line itself
        (["lst"], 2, "did you mean `holdfast list`?"),
        (["frobnicate"], 2, "there is no command 'frobnicate'; `holdfast --help` lists all\n"),
        (["backup", "lst"], 2, "there is no command 'lst'; did you mean `holdfast backup list`?\n"),
        (["memory"], 2, "there is no command 'memory'; did you mean `holdfast recall`?\n"),
        (["task", "delete"], 2, "there is no command 'delete'; did you mean `holdfast task archive`?\n"),
        (["workspace", "frob"], 2, "there is no command 'frob'; `holdfast workspace --help` lists all\n"),
        (["list", "--status", "odd"], 2, "'odd'"),
        (["list", "--limit", "-1"], 2, "limit"),
        (["repair", "--rebuild", "--dry-run"], 2, "--rebuild"),
        (["repair", "--from", "nothing.db"], 3, "there is no backup"),
        (["--home", "/dev/null", "list"], 0, "no store"),
        (["--home", "/dev/null", "run", "true"], 2, "is not a directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_one_sentence(ready, words, code, says):
    """Each mistake is told in one line that begins with `holdfast:`, with its exit code."""
    result = ready(*words, code=code)
    assert says in result.err
    if code:
        complaints = [line for line in result.err.splitlines() if line.startswith("holdfast: ")]
        assert len(complaints) == 1


@pytest.mark.parametrize(
    "words",
    [
        ["run", "flow.py:main", "{}"],
        ["run", "flow.py:main", "--arg", "n={}"],
        ["run", "plan.yaml", "--input", "x={}"],
        ["plan", "run", "plan.yaml", "--input", "x={}"],
        ["run", "plan.yaml", "--input-file", "{file}"],
        ["plan", "check", "{file}"],
        ["signal", "kelp-two", "go", "{}"],
        ["settle", "kelp-two", "one", "--done", "{}"],
        ["task", "create", "a", "--meta", "x={}"],
        ["task", "import", "{file}"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("levels", [196, 700, 5000])
def test_json_that_is_nested_too_deeply(ready, words, levels, tmp_path):
    """Wherever JSON can be given, depth is refused in one sentence, whether or not it fits the stack."""
    deep = "[" * levels + "]" * levels
    (ready.directory / "plan.yaml").write_text("name: p\ninput: {x: null}\nsteps: [{id: a, run: 'true'}]\n")
    file = tmp_path / "deep.yaml"
    file.write_text(f'{{"name": "a", "meta": {{"a": {deep}}}}}\n')
    result = ready(*(word.replace("{}", deep).replace("{file}", str(file)) for word in words), code=2)
    assert "nested deeper than" in result.err + result.out
    assert "fault of holdfast" not in result.err


def test_a_long_sentence_on_a_narrow_terminal(ready):
    """It continues below itself, broken between words, and a command in it stays whole."""
    code, text = ready.on_a_terminal("lst", columns=60, NO_COLOR="1")
    assert code == 2
    assert text.splitlines() == [
        "holdfast: there is no command 'lst'; did you mean",
        "          `holdfast list`?",
    ]


def test_words_of_other_programs_are_known(ready):
    """`ls` and `ps` list, `status` lists or shows one, `stop` pauses; help names them."""
    ready("run", "--id", "x", "echo x")
    listed = ready("list").out
    assert ready("ls").out == ready("ps").out == ready("status").out == listed
    assert ready("ls", "--json").json() == ready("status", "--json").json() == ready("list", "--json").json()
    assert ready("status", "x", "--json").json() == ready("show", "x", "--json").json()
    assert ready("status", "--home", ready.home).out == ready("list", "--home", ready.home).out
    assert ready("status", "--workflow", "no-such").out == ready("list", "--workflow", "no-such").out
    shown = ready("show", "--home", ready.home, "x", "--json").json()
    assert ready("status", "--home", ready.home, "x", "--json").json() == shown
    assert "run x has ended" in ready("stop", "x", code=2).err
    assert "ls (list), ps (list), status (show), stop (pause)" in " ".join(ready("--help").out.split())


def test_missing_program_creates_nothing(cli):
    """A program that does not exist is found out before there is a run, or even a store."""
    cli("run", "no-such-program-here", code=3)
    assert not cli.home.exists()


def test_no_store_yet(cli):
    """Without a store there are no runs to list, which is no mistake; to show one is."""
    assert cli("list", "--json").json() == []
    assert "no runs yet" in cli("list").err
    assert "there is no store" in cli("show", "x", code=3).err
    assert "there is no store" in cli("audit", "verify", code=3).err
    assert not cli.home.exists()


def test_bad_settings_are_all_told(cli):
    """Every wrong setting is named at once, by all commands and by doctor; patterns are not shown."""
    (cli.directory / ".git").mkdir()
    (cli.directory / "holdfast.toml").write_text('durability = "ful"\nredact = ["hunter2("]\n')
    for words in (("list",), ("run", "true"), ("config", "show")):
        result = cli(*words, code=2)
        assert "durability" in result.err
        assert "redact" in result.err
        assert "hunter2" not in result.err
    assert "durability" in cli("doctor", code=2).out


def test_config_show_hides_patterns(cli):
    """`config show` says where each value came from, and only counts the patterns of `redact`."""
    (cli.directory / ".git").mkdir()
    (cli.directory / "holdfast.toml").write_text('recover_limit = 3\nredact = ["hunter2", "x"]\n')
    shown = {row["key"]: row for row in cli("config", "show", "--json").json()}
    assert (shown["recover_limit"]["value"], shown["recover_limit"]["place"]) == (3, "holdfast.toml:1")
    assert shown["redact"]["value"] == "2 patterns"
    assert shown["home"]["origin"] == "environment"
    assert "hunter2" not in cli("config", "show").out


def test_script_that_exits_at_import(cli):
    """A script that ends the program while it is loaded is told to use the guard."""
    cli.script("import sys\n@workflow\ndef main(): return 1\nsys.exit(5)")
    assert '__name__ == "__main__"' in cli("run", "flow.py:main", code=3).err


def test_script_that_runs_itself_at_import(cli):
    """A script that opens a Holdfast while it is loaded would start itself again: refused."""
    cli.script("@workflow\ndef main(): return 1\nwith Holdfast() as hf: hf.run(main)")
    assert "__main__" in cli("run", "flow.py:main", code=3).err


def test_our_own_fault(cli):
    """An error of ours is one line with exit code 70; HOLDFAST_DEBUG=1 shows the traceback."""
    import subprocess
    import sys

    code = (
        "import holdfast.cli.access as a, holdfast.cli as c, sys\n"
        "def broken(): raise ZeroDivisionError('on purpose')\n"
        "a.open_to_read = broken\nsys.argv = ['holdfast', 'list']\nc.main()"
    )
    for debug in ("", "1"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=cli.env | {"HOLDFAST_DEBUG": debug},
            cwd=cli.directory,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 70
        assert "HOLDFAST_DEBUG=1 shows the traceback" in done.stderr
        assert ("Traceback" in done.stderr) is bool(debug)


def test_working_directory_that_is_gone(cli):
    """A deleted working directory is named, not a fault of ours."""
    import subprocess

    done = subprocess.run(
        ["sh", "-c", 'mkdir gone && cd gone && rmdir ../gone && exec "$@"', "sh", *cli.argv("list")],
        env=cli.env, cwd=cli.directory, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, "working directory" in done.stderr) == (3, True), done.stderr
