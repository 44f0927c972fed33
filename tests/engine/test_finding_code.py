"""Finding the code: another process resumes a run by module or script, under today's names."""

import os
import sys

import pytest

from holdfast.engine.runs.code import load_script
from holdfast.errors import BadInput, CodeNotFound
from holdfast.testing import at_body

SCRIPT = """
    import dataclasses, enum
    from holdfast import Holdfast, step, workflow

    class Mood(enum.Enum):
        CALM = "calm"

    @dataclasses.dataclass
    class Draft:
        title: str
        mood: Mood

    class Refused(Exception):
        def __init__(self, draft):
            super().__init__("refused")
            self.draft = draft

    @step
    def write(title: str) -> Draft:
        return Draft(title, Mood.CALM)

    @step
    def judge(draft: Draft) -> None:
        raise Refused(draft)

    @step
    def last(draft: Draft) -> Draft:
        assert type(draft) is Draft
        return dataclasses.replace(draft, title=draft.title.upper())

    @workflow
    def job() -> Draft:
        draft = write("kelp")
        try:
            judge(draft)
        except Refused as error:
            assert error.draft == draft
        return last(draft)

    if __name__ == "__main__":
        with Holdfast() as hf:
            print(hf.with_id("job").run(job))
"""

RESUME = """
    from holdfast import Holdfast

    if __name__ == "__main__":
        with Holdfast() as hf:
            print(hf.resume("job").result())
"""


@pytest.fixture(autouse=True)
def _forget_scripts():
    """Scripts of other tests have the same names; a real process would not have loaded them."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name in [name for name in sys.modules if name.startswith(("holdfast_script_", "their"))]:
        del sys.modules[name]


@pytest.fixture
def killed(lab):
    """The script's run, cut off in its last step."""
    job = lab(SCRIPT)
    assert job.run(at_body("last#1")).killed
    return job


def test_a_script_is_found_by_its_path(killed, open_hf):
    """Its `__main__` part does not run; classes of `__main__` resolve to those of the loaded script."""
    result = open_hf().resume("job").result(30)
    assert (type(result).__name__, result.title, result.mood.value) == ("Draft", "KELP", "calm")
    assert type(result).__module__.startswith("holdfast_script_")


def test_another_script_resumes_it(killed, lab):
    """A process whose own `__main__` is another file gets the classes right too."""
    ended = lab(RESUME, name="resume.py").run()
    assert (ended.exit_code, ended.stdout) == (0, "Draft(title='KELP', mood=<Mood.CALM: 'calm'>)\n"), (
        ended.stderr
    )


def test_the_result_of_a_script_is_read_by_another_one(killed, lab):
    """The run has ended: what is loaded of its script is the class of its result."""
    assert killed.run().exit_code == 0
    ended = lab(RESUME, name="resume.py").run()
    assert (ended.exit_code, ended.stdout) == (0, "Draft(title='KELP', mood=<Mood.CALM: 'calm'>)\n"), (
        ended.stderr
    )


def test_the_script_itself_goes_on(killed):
    """Run again, it is `__main__` once more."""
    assert killed.run().stdout == "Draft(title='KELP', mood=<Mood.CALM: 'calm'>)\n"


def test_a_moved_script_is_told(killed, open_hf):
    """The message names the file and what to do; the run is not claimed."""
    moved = killed.script.rename(killed.script.with_name("elsewhere.py"))
    hf = open_hf()
    claims = len(hf.events("job"))
    with pytest.raises(CodeNotFound, match=r"job\.py does not exist; restore it"):
        hf.resume("job")
    assert len(hf.events("job")) == claims
    moved.rename(killed.script)
    assert hf.resume("job").result(30).title == "KELP"


def test_a_renamed_function_is_told(killed, open_hf):
    """By its old name, with the question whether it was renamed."""
    killed.script.write_text(
        killed.script.read_text().replace("job()", "task()").replace("run(job)", "run(task)")
    )
    with pytest.raises(CodeNotFound, match="there is no job in it; was it renamed"):
        open_hf().resume("job")


def test_a_script_that_no_longer_loads_is_told(killed, open_hf):
    """What went wrong is in the message; recover reports it per run, and continues."""
    killed.script.write_text("import a_module_that_is_not_there\n")
    hf = open_hf()
    with pytest.raises(CodeNotFound, match="a_module_that_is_not_there"):
        hf.resume("job")
    (run,) = hf.recover()
    with pytest.raises(CodeNotFound):
        run.result(0)


def test_a_script_that_exits_when_it_is_loaded_is_told(killed, open_hf):
    killed.script.write_text("import sys\nsys.exit('usage: job.py NAME')\n")
    with pytest.raises(CodeNotFound, match=r"ended the program \(usage: job"):
        open_hf().resume("job")


def test_a_script_without_the_guard_is_refused(lab, open_hf):
    """Loading it must not open a Holdfast and start the run again."""
    job = lab(SCRIPT.replace('if __name__ == "__main__":', "if True:"))
    assert job.run(at_body("last#1")).killed
    with pytest.raises(CodeNotFound) as caught:
        open_hf().resume("job")
    assert 'if __name__ == "__main__":' in str(caught.value)
    assert isinstance(caught.value.__cause__, BadInput)


def test_a_module_is_found_from_the_recorded_directory(lab, open_hf, tmp_path, monkeypatch):
    """A workflow imported from a module beside the script is found by module and name."""
    package = tmp_path / "theirpackage"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "flows.py").write_text(
        "from holdfast import step, workflow\n\n"
        "@step\ndef last() -> int:\n    return 7\n\n"
        "class Group:\n    @staticmethod\n    @workflow\n    def job() -> int:\n        return last()\n"
    )
    monkeypatch.chdir(tmp_path)
    job = lab("""
        from holdfast import Holdfast
        from theirpackage.flows import Group

        if __name__ == "__main__":
            with Holdfast() as hf:
                print(hf.with_id("job").run(Group.job))
    """)
    assert job.run(at_body("last#1")).killed
    monkeypatch.chdir("/")
    assert open_hf().resume("job").result(30) == 7


@pytest.mark.parametrize("text", [None, "raise SystemExit('usage')"], ids=["gone", "exits"])
def test_a_module_that_cannot_be_imported_is_told(lab, open_hf, tmp_path, monkeypatch, text):
    """With the directory where it used to be importable, or with what it says."""
    (tmp_path / "theirmodule.py").write_text(
        "from holdfast import step, workflow\n@step\ndef last(): ...\n@workflow\ndef job(): last()\n"
    )
    monkeypatch.chdir(tmp_path)
    job = lab(
        "from holdfast import Holdfast\nfrom theirmodule import job\n"
        "with Holdfast() as hf:\n    hf.with_id('job').run(job)\n"
    )
    assert job.run(at_body("last#1")).killed
    (tmp_path / "theirmodule.py").unlink()
    if text:
        (tmp_path / "theirmodule.py").write_text(text)
    with pytest.raises(CodeNotFound, match="ended the program" if text else "no module 'theirmodule'"):
        open_hf().resume("job")


def test_what_is_no_workflow_any_more_is_told(killed, open_hf):
    """A name that is still there, but undecorated."""
    text = killed.script.read_text()
    killed.script.write_text(text.replace("@workflow\n", ""))
    with pytest.raises(CodeNotFound, match="it is no @workflow"):
        open_hf().resume("job")


def test_two_scripts_of_one_name_do_not_mix(lab, open_hf, tmp_path, home):
    """Each run is resumed with the code of its own path."""
    jobs = []
    for name, word in (("one", "KELP"), ("two", "MOSS")):
        (tmp_path / name).mkdir()
        job = lab(
            SCRIPT.replace('"kelp"', f'"{word.lower()}"').replace('"job"', f'"{name}"'), name=f"{name}/job.py"
        )
        assert job.run(at_body("last#1")).killed
        jobs.append((name, word))
    hf = open_hf()
    assert [hf.resume(name).result(30).title for name, _ in jobs] == [word for _, word in jobs]


def test_runs_of_two_scripts_in_one_process(lab, open_hf):
    """Each was `__main__` when it began: recover, and resume in turn, keep their classes apart."""
    other = SCRIPT.replace('CALM = "calm"', 'CALM = "storm"').replace('"kelp"', '"moss"')
    for name, source in (("one", SCRIPT), ("two", other), ("three", SCRIPT), ("four", other)):
        job = lab(source.replace('"job"', f'"{name}"'), name=f"{name}.py")
        assert job.run(at_body("last#1")).killed
        load_script(str(job.script), name)  # all are there before the first run continues
    hf = open_hf()
    one, two = hf.resume("one").result(30), hf.resume("two").result(30)
    assert [(draft.title, draft.mood.value) for draft in (one, two)] == [("KELP", "calm"), ("MOSS", "storm")]
    results = {run.id: run.result(30) for run in hf.recover()}
    assert {name: draft.mood.value for name, draft in results.items()} == {"three": "calm", "four": "storm"}
    for name, draft in [("one", one), ("two", two), *results.items()]:
        assert type(draft).__module__.startswith(f"holdfast_script_{name}_")


def test_a_script_starts_runs_after_those_of_another(killed, lab):
    """A process that has continued another script's run stores classes of its own `__main__`."""
    source = SCRIPT.replace('"job"', '"own"').replace(
        'print(hf.with_id("own").run(job))',
        'print(hf.resume("job").result().title, hf.with_id("own").run(again, Draft("fern", Mood.CALM)))',
    )
    again = "@workflow\n    def again(draft: Draft) -> Draft:\n        return last(draft)\n\n    if __name__"
    ended = lab(source.replace("if __name__", again), name="own.py").run()
    assert ended.stdout == "KELP Draft(title='FERN', mood=<Mood.CALM: 'calm'>)\n", ended.stderr


def test_scripts_of_one_name_are_two_modules(lab, open_hf, tmp_path):
    """The second does not take the first one's place in `sys.modules`, where its classes are found."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        job = lab(SCRIPT.replace('"job"', f'"{name}"'), name=f"{name}/job.py")
        assert job.run(at_body("last#1")).killed
    hf = open_hf()
    drafts = [hf.resume(name).result(30) for name in ("one", "two")]
    assert all(sys.modules[type(draft).__module__].Draft is type(draft) for draft in drafts)
    assert type(drafts[0]) is not type(drafts[1])


def test_an_edit_of_a_script_is_seen_whatever_its_time_and_size(killed, open_hf, monkeypatch):
    """No bytecode is kept or used: an edit of the same size in the same second is today's code."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    hf = open_hf()
    before = killed.script.stat()
    killed.script.write_text(killed.script.read_text().replace("def job()", "def jab()"))
    os.utime(killed.script, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(CodeNotFound, match="there is no job in it"):
        hf.resume("job")
    for name in [name for name in sys.modules if name.startswith("holdfast_script_")]:
        del sys.modules[name]
    killed.script.write_text(killed.script.read_text().replace("def jab()", "def job()"))
    os.utime(killed.script, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert hf.resume("job").result(30).title == "KELP"
    assert not (killed.script.parent / "__pycache__").exists()
