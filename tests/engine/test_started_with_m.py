"""Programs started with `python -m`: other processes find their code as a part of its package."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from holdfast import Holdfast

DRAFT = """
    import dataclasses, os, signal, sys
    from holdfast import Holdfast, step, workflow

    @dataclasses.dataclass
    class Draft:
        title: str

    class Refused(Exception):
        def __init__(self, draft):
            super().__init__("refused")
            self.draft = draft

    @step
    def judge(draft: Draft) -> Draft:
        assert type(draft) is Draft
        raise Refused(draft)

    @step
    def last(draft: Draft, word: str) -> Draft:
        if "KILL" in os.environ:
            os.kill(os.getpid(), signal.SIGKILL)
        assert type(draft) is Draft
        return Draft(draft.title + word)

    @workflow
    def job(draft: Draft) -> Draft:
        from {package}words import word
        try:
            judge(draft)
        except Refused as error:
            draft = error.draft
        return last(draft, word())

    if __name__ == "__main__":
        with Holdfast() as hf:
            print(hf.with_id("job").run(job, Draft("kelp")))
"""

IMPORTER = """
    from holdfast import Holdfast
    from {module} import Draft, job

    if __name__ == "__main__":
        with Holdfast() as hf:
            result = {call}
            assert type(result) is Draft, type(result)
            print(result)
"""
START = 'hf.with_id("job").run(job, Draft("kelp"))'
RESUME = 'hf.resume("job").result()'
DONE = "Draft(title='kelp and moss')\n"

MODULES = ["pkg.rel", "pkg.__main__", "alone"]
"""A module of a package, the package itself, and a module that is in none."""


class Project:
    """A directory with a package, and processes that start in it."""

    def __init__(self, root: Path, home: Path) -> None:
        self.root = root
        self.home = home

    def write(self, path: str, source: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(source))
        return file

    def python(self, *argv: str, **env: str) -> "subprocess.CompletedProcess[str]":
        inherited = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            [sys.executable, *argv],
            env={**inherited, "HOLDFAST_HOME": str(self.home), **env},
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def holdfast(self, *argv: str, **env: str) -> "subprocess.CompletedProcess[str]":
        return self.python("-m", "holdfast", *argv, **env)

    def killed(self, *argv: str) -> None:
        """The process dies in the last step of the run."""
        ended = self.python(*argv, KILL="1")
        assert ended.returncode == -9, ended.stderr


@pytest.fixture
def project(tmp_path, home):
    project = Project(tmp_path / "their", home)
    project.write("pkg/__init__.py", "")
    for directory in ("", "pkg/"):
        project.write(f"{directory}words.py", "def word():\n    return ' and moss'\n")
    project.write("pkg/rel.py", DRAFT.format(package="."))
    project.write("pkg/__main__.py", DRAFT.format(package="pkg."))
    project.write("alone.py", DRAFT.format(package=""))
    for name, call in (("start", START), ("resume", RESUME)):
        for module in MODULES:
            project.write(f"{name}_{module.replace('.', '_')}.py", IMPORTER.format(module=module, call=call))
    return project


def _started(module: str) -> str:
    return module.removesuffix(".__main__")


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("how", [("resume", "job"), ("resume", "--all")], ids=["one", "all"])
def test_the_cli_resumes_it(project, module, how):
    """Relative imports, and imports of its own package when it runs, mean what they meant."""
    project.killed("-m", _started(module))
    ended = project.holdfast(*how)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    with Holdfast(project.home) as hf:
        assert hf.get("job").status == "completed"


@pytest.mark.parametrize("module", MODULES)
def test_the_same_program_continues_it(project, module):
    """Started with `-m` again, it attaches to its run: names, classes and digests are the same."""
    project.killed("-m", _started(module))
    ended = project.python("-m", _started(module))
    assert (ended.returncode, ended.stdout) == (0, DONE), ended.stderr


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("call", ["start", "resume"])
def test_a_program_that_imports_the_module_continues_it(project, module, call):
    """Its values are of the classes that this program has imported."""
    project.killed("-m", _started(module))
    ended = project.python(f"{call}_{module.replace('.', '_')}.py")
    assert (ended.returncode, ended.stdout) == (0, DONE), ended.stderr


@pytest.mark.parametrize("module", MODULES)
def test_it_continues_the_run_of_a_program_that_imports_the_module(project, module):
    """The reverse: the run was begun by an importer."""
    project.killed(f"start_{module.replace('.', '_')}.py")
    ended = project.python("-m", _started(module))
    assert (ended.returncode, ended.stdout) == (0, DONE), ended.stderr


@pytest.mark.parametrize("first", ["-m", "path"])
def test_a_run_is_the_same_with_and_without_m(project, first):
    """A run that is on record by its script's path alone is continued by `-m`, and the reverse."""
    ways = {"-m": ("-m", "alone"), "path": ("alone.py",)}
    project.killed(*ways[first])
    (other,) = ways.keys() - {first}
    ended = project.python(*ways[other])
    assert (ended.returncode, ended.stdout) == (0, DONE), ended.stderr


def test_a_module_that_the_program_has_twice(project):
    """If a package imports the module that `-m` starts, its classes exist twice. In a resumed run they do,
    too: each value is of the class that it was of."""
    project.write("pkg/__init__.py", "from .twice import Draft, make\n")
    project.write(
        "pkg/twice.py",
        """
        import dataclasses, os, signal
        from holdfast import Holdfast, step, workflow

        @dataclasses.dataclass
        class Draft:
            title: str

        @step
        def make(title: str) -> Draft:
            return Draft(title)

        @step
        def last(own: Draft, other: object) -> str:
            if "KILL" in os.environ:
                os.kill(os.getpid(), signal.SIGKILL)
            import pkg
            assert type(own) is Draft and type(other) is pkg.Draft and pkg.Draft is not Draft
            return own.title + other.title

        @workflow
        def job() -> str:
            import pkg
            return last(make("kelp"), pkg.make("moss"))

        if __name__ == "__main__":
            with Holdfast() as hf:
                print(hf.with_id("job").run(job))
    """,
    )
    project.killed("-W", "ignore", "-m", "pkg.twice")
    ended = project.holdfast("resume", "job", "--json")
    assert '"kelpmoss"' in ended.stdout, ended.stdout + ended.stderr


BOTH = """
    import dataclasses, os, signal, sys
    from holdfast import Holdfast, step, workflow

    @dataclasses.dataclass
    class Draft:
        title: str

    @step
    def last(draft: object) -> object:
        if "KILL" in os.environ:
            os.kill(os.getpid(), signal.SIGKILL)
        return draft

    @workflow
    def child(draft: object) -> object:
        return last(draft)

    @workflow
    def job(draft: object, of: str) -> object:
        import pkg.both
        return {"main": child, "imported": pkg.both.child}[of](draft)

    if __name__ == "__main__":
        import pkg.both
        modules = {"main": sys.modules["__main__"], "imported": pkg.both}
        flow, draft, of = sys.argv[1:]
        with Holdfast() as hf:
            result = hf.with_id("job").run(modules[flow].job, modules[draft].Draft("kelp"), of)
            print(type(result) is modules[draft].Draft)
"""
WAYS = ["main", "imported"]


@pytest.mark.parametrize("child", WAYS)
@pytest.mark.parametrize("draft", WAYS)
@pytest.mark.parametrize("flow", WAYS)
def test_a_program_that_uses_its_module_under_both_names(project, flow, draft, child):
    """Its workflows and classes exist twice. A run of either workflow, with a value of either class, is
    continued by the program, and each value is of the class that it was of."""
    project.write("pkg/both.py", BOTH)
    argv = ("-m", "pkg.both", flow, draft, child)
    project.killed(*argv)
    ended = project.python(*argv)
    assert (ended.returncode, ended.stdout) == (0, "True\n"), ended.stderr


@pytest.mark.parametrize(
    ("flow", "draft"), [("main", "main"), ("main", "imported"), ("imported", "imported")]
)
def test_the_cli_resumes_a_run_of_either_name(project, flow, draft):
    """It loads the program's file, and the module that it imports."""
    project.write("pkg/both.py", BOTH)
    project.killed("-m", "pkg.both", flow, draft, "main")
    ended = project.holdfast("resume", "job", "--json")
    assert '"kelp"' in ended.stdout, ended.stdout + ended.stderr


def test_a_value_of_the_main_module_in_a_run_of_another(project):
    """Only the program itself has that class: any other process says so, and the program continues the
    run."""
    project.write("pkg/both.py", BOTH)
    argv = ("-m", "pkg.both", "imported", "main", "main")
    project.killed(*argv)
    ended = project.holdfast("resume", "job")
    assert ended.returncode == 6
    assert "__main__:Draft cannot be loaded" in ended.stderr
    assert project.python(*argv).stdout == "True\n"


def test_a_main_module_without_the_guard_is_refused(project):
    """Its package's other modules are imported; the file itself must not start runs when it is loaded."""
    file = project.write(
        "pkg/open.py", DRAFT.format(package=".").replace('if __name__ == "__main__":', "if 1:")
    )
    project.killed("-m", "pkg.open")
    for ended in (project.holdfast("resume", "job"), project.python("-c", RESUMER)):
        assert ended.returncode in (1, 3)
        assert f"{file} opens a Holdfast while it is loaded" in ended.stderr + ended.stdout


RESUMER = """
from holdfast import Holdfast
with Holdfast() as hf:
    hf.resume("job").result()
"""


@pytest.mark.parametrize(
    "resume", [("-m", "holdfast", "resume", "job"), ("-c", RESUMER)], ids=["cli", "import"]
)
def test_a_project_that_was_moved(project, resume):
    """The package is found where it is now, by the CLI and by a program that imports it."""
    project.killed("-m", "pkg.rel")
    project.root = project.root.rename(project.root.with_name("moved"))
    ended = project.python(*resume)
    assert ended.returncode == 0, ended.stderr
    with Holdfast(project.home) as hf:
        assert hf.get("job").status == "completed"


def test_a_spawned_process_starts_runs_of_the_main_module(project):
    """In a process that `multiprocessing` has spawned, `__main__` has another name; its runs are found by
    its path as ever."""
    source = (
        DRAFT.format(package="").partition("    if __name__")[0]
        + """
    def work():
        with Holdfast() as hf:
            hf.with_id("job").run(job, Draft("kelp"))

    if __name__ == "__main__":
        import multiprocessing
        process = multiprocessing.get_context("spawn").Process(target=work)
        process.start()
        process.join()
        sys.exit(process.exitcode)
    """
    )
    project.write("spawns.py", source)
    assert project.python("spawns.py", KILL="1").returncode == 247
    ended = project.holdfast("resume", "job", "--json")
    assert "kelp and moss" in ended.stdout, ended.stdout + ended.stderr


def test_a_directory_that_is_executed_is_found_by_its_path(project):
    """`python folder` has a `__main__` without a name under which it could be imported."""
    project.write("folder/__main__.py", (project.root / "alone.py").read_text())
    project.write("folder/words.py", "def word():\n    return ' and moss'\n")
    project.killed("folder")
    ended = project.holdfast("resume", "job", "--json")
    assert "kelp and moss" in ended.stdout, ended.stdout + ended.stderr


def test_a_script_under_the_profiler_is_found_by_its_path(project):
    """The `__main__` that the interpreter was started with is the profiler; the script's is its own."""
    project.write("plain.py", PLAIN)
    project.killed("-m", "cProfile", "plain.py")
    ended = project.holdfast("resume", "job", "--json")
    assert '"kelp"' in ended.stdout, ended.stdout + ended.stderr


PLAIN = """
    import os, signal
    from holdfast import Holdfast, step, workflow

    @step
    def last() -> str:
        if "KILL" in os.environ:
            os.kill(os.getpid(), signal.SIGKILL)
        return "kelp"

    @workflow
    def job() -> str:
        return last()

    if __name__ == "__main__":
        with Holdfast() as hf:
            print(hf.with_id("job").run(job))
"""
