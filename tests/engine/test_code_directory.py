"""Directories of code in one process: which go together, and when a file that was loaded has changed."""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from holdfast.engine.runs.loaded_files import LoadedFiles

PROGRAM = """
import sys
from pathlib import Path
from holdfast.engine.runs import code_directory
from holdfast.engine.runs.code import load_script, own_process
from holdfast.errors import CodeClash

{first}
for script in {scripts}:
    try:
        print(load_script(script, script).NAME)
    except CodeClash as error:
        print("clash", error.why)
"""


@pytest.fixture
def load(tmp_path):
    """Loads scripts in a process of its own, one after the other: what each has as NAME, or why not."""

    def run(*scripts, main=".", first="", **options):
        program = tmp_path / main / "program.py"
        program.parent.mkdir(exist_ok=True)
        program.write_text(
            PROGRAM.format(first=textwrap.dedent(first), scripts=[str(one) for one in scripts])
        )
        env = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"} | options
        done = subprocess.run(
            [sys.executable, str(program)], env=env, capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


@pytest.fixture
def make(tmp_path):
    def script(directory: str, imports: str = "", **modules: str) -> Path:
        (tmp_path / directory).mkdir(exist_ok=True)
        for name, text in modules.items():
            (tmp_path / directory / f"{name}.py").write_text(f"NAME = {text!r}\n")
        path = tmp_path / directory / "flow.py"
        path.write_text(f"from {imports} import NAME\n" if imports else f"NAME = {directory!r}\n")
        return path

    return script


def test_directories_without_a_common_name_go_together(load, make):
    first, second = make("a", "kelp", kelp="a"), make("b", "rock", rock="b")
    second = second.rename(second.with_name("other.py"))
    assert load(first, second, main="c") == ["a", "b"]


def test_scripts_of_one_name_clash_if_they_have_modules_beside_them(load, make):
    """Those could import it."""
    first, second = make("a", "kelp", kelp="a"), make("b", "rock", rock="b")
    both = f"{second} and {first} are both 'flow', and one process can have only one of them"
    assert load(first, second, main="c") == ["a", f"clash {both}"]


def test_scripts_that_lie_alone_go_together(load, make):
    """There is nothing that could be imported from their directories."""
    assert load(make("a"), make("b"), main="c") == ["a", "b"]


@pytest.mark.parametrize("main", ["a", "c"])
def test_modules_of_one_name_clash(load, make, main):
    """Loaded or not: the import may come later."""
    first, second = make("a", "tools", tools="a"), make("b", tools="b")
    said = load(first, second, main=main)
    assert said[0] == "a"
    assert said[1].startswith("clash ") and "one process can have only one of them" in said[1]


def test_a_package_without_init_clashes_too(load, make, tmp_path):
    for name in ("a", "b"):
        make(name)
        (tmp_path / name / "lib").mkdir()
        (tmp_path / name / "lib" / f"of_{name}.py").touch()
        (tmp_path / name / "flow.py").rename(tmp_path / name / f"flow_{name}.py")
    said = load(tmp_path / "a/flow_a.py", tmp_path / "b/flow_b.py", main="c")
    assert said[0] == "a" and "are both 'lib'" in said[1]


def test_what_would_hide_an_installed_module_is_refused(load, make):
    """The rest of the process would import it from there."""
    assert "are both 'msgspec'" in load(make("a", msgspec="mine"), main="c")[0]
    assert "are both 'wave'" in load(make("b", wave="mine"), main="c")[0]


def test_the_programs_own_directory(load, make):
    """What lies there is the program's own, also a file called like a module of the standard library."""
    make("a", "tools", tools="a", wave="mine")
    assert load(make("a", "tools"), main="a") == ["a"]


@pytest.mark.parametrize("name", ["__init__", "__main__"])
def test_files_that_have_no_name_of_their_own(load, make, tmp_path, name):
    """Every package or program may have them."""
    first, second = make("a", "kelp", kelp="a", **{name: ""}), make("b", "rock", rock="b", **{name: ""})
    second = second.rename(second.with_name("other.py"))
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / f"{name}.py").touch()
    assert load(first, second, main="c") == ["a", "b"]


def test_the_directory_comes_first_in_a_process_of_holdfasts_own(load, make, tmp_path):
    """Also if it is on the path already, behind another one."""
    make("b", "tools", tools="b")
    path = f"{tmp_path / 'b'}:{tmp_path / 'a'}"
    assert load(make("a", "tools", tools="a"), main="c", first="own_process()", PYTHONPATH=path) == ["a"]


def test_a_module_that_came_from_elsewhere(load, make, tmp_path):
    """PYTHONPATH has a `tools`, and it is loaded: the script would get that one."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "tools.py").write_text("NAME = 'shared'\n")
    said = load(make("b", "tools", tools="b"), main="c", first="import tools", PYTHONPATH=str(shared))
    assert said[0].startswith("clash") and str(shared / "tools.py") in said[0]


def test_a_process_of_holdfasts_own_has_one_directory(load, make):
    """Whatever is in the second."""
    said = load(make("a"), make("b"), make("a"), main="c", first="own_process()")
    assert said == ["a", f"clash its code is in {make('b').parent}, and this process executes that in "
                    f"{make('a').parent}", "a"]  # fmt: skip


# Files that were loaded


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "theirs.py").write_text("X = 1\n")
    long_ago = time.time() - 100
    os.utime(tmp_path / "theirs.py", (long_ago, long_ago))
    yield tmp_path
    sys.modules.pop("theirs", None)


def load_theirs(project):
    """As a worker does: its own files are as old as they are."""
    time.sleep(0.05)  # the file is older than the watch
    loaded = LoadedFiles(project)
    import theirs  # noqa: F401

    assert loaded.changed() is None
    return loaded


def test_nothing_has_changed(project):
    loaded = load_theirs(project)
    (project / "notes.txt").write_text("no module")
    (project / "out").mkdir()
    assert loaded.changed() is None


@pytest.mark.parametrize("how", ["edited", "replaced", "removed", "a new one"])
def test_a_change_is_seen(project, how):
    """And stays one."""
    loaded = load_theirs(project)
    path = project / "theirs.py"
    status = path.stat()
    if how == "edited":
        path.write_text("X = 2\n")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    elif how == "replaced":
        (project / "new").write_text("X = 2\n")
        (project / "new").rename(path)
    elif how == "removed":
        path.unlink()
    else:
        (project / "beside.py").touch()
    changed = project if how == "a new one" else path
    assert loaded.changed() == changed
    if how == "a new one":
        (project / "beside.py").unlink()
    assert loaded.changed() == changed


def test_a_file_written_while_it_was_loaded_counts_as_changed(project):
    """It may have been read before or after."""
    loaded = LoadedFiles(project)
    import theirs  # noqa: F401

    (project / "theirs.py").write_text("X = 2\n")
    assert loaded.changed() == project / "theirs.py"
