"""A command that was cut off or failed is rolled back with what it did to git, and runs again as if once."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.test_files import events, kill_half_way, wait_until

IDENTITY = """
[user]
    name = n
    email = n@localhost
[init]
    defaultBranch = main
"""
COMMIT = "echo agent >> a; git add a; git commit -qm agent"


def git(root: Path, *words: str, check: bool = True) -> str:
    config = next(path for place in (root, *root.parents) if (path := place / ".gitconfig").exists())
    env = {**os.environ, "GIT_CONFIG_GLOBAL": str(config), "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(["git", *words], cwd=root, env=env, capture_output=True, text=True, check=check)
    return done.stdout


def shape(root: Path) -> dict[str, object]:
    """All that a run can change, without ids and times, which differ from one attempt to the next."""
    refs = git(root, "for-each-ref", "--format=%(refname)").split()
    own = [ref for ref in refs if not ref.startswith(("refs/holdfast/", "refs/stash"))]
    return {
        "head": git(root, "symbolic-ref", "-q", "HEAD", check=False) or git(root, "log", "--format=%s"),
        "refs": {ref: git(root, "log", "--format=%s", ref).splitlines() for ref in own},
        "stash": git(root, "stash", "list", "--format=%s"),
        "index": git(root, "ls-files", "--stage"),
        "status": git(root, "status", "--porcelain"),
        "files": {
            str(path.relative_to(root)): path.read_text()
            for path in sorted(root.rglob("*"))
            if path.is_file() and not {".git", ".holdfast"} & set(path.parts)
        },
    }


def make(root: Path) -> None:
    """Two branches that conflict in `a`, a tag, a stash, something staged and something that is not."""
    git(root, "init", "-q")
    (root / "a").write_text("original\n")
    (root / "b").write_text("original\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    git(root, "checkout", "-qb", "side")
    (root / "a").write_text("side\n")
    git(root, "commit", "-qam", "side")
    git(root, "checkout", "-q", "main")
    git(root, "tag", "v1")
    (root / "b").write_text("stashed\n")
    git(root, "stash", "push", "-q")
    (root / "c").write_text("staged\n")
    git(root, "add", "c")
    (root / "d").write_text("untracked\n")


@pytest.fixture
def project(cli):
    (cli.directory.parent / ".gitconfig").write_text(IDENTITY)
    cli.env |= {
        "GIT_CONFIG_GLOBAL": str(cli.directory.parent / ".gitconfig"),
        "GIT_CONFIG_SYSTEM": os.devnull,
    }
    return cli


def script(first: str, then: str = "") -> tuple[str, ...]:
    """A command that is killed between the two, once."""
    return ("--", "sh", "-c", f"set -e; {first}; touch ../half; [ -e ../go ] || sleep 60; {then or 'true'}")


def killed_and_resumed(cli: Any, words: tuple[str, ...]) -> Any:
    kill_half_way(cli, "run", "--id", "k", *words)
    (cli.directory.parent / "go").touch()
    return cli("resume", "k")


RESOLVE = "echo both > a; git add a"
ACTS: dict[str, tuple[str, str]] = {
    "commit": (COMMIT, ""),
    "two commits": (COMMIT, COMMIT),
    "amend": (f"{COMMIT}; git commit -q --amend -m amended", ""),
    "branch": (f"git checkout -qb new; {COMMIT}; git tag made; git branch other", "git tag last"),
    "deleted branch": ("git branch -qD side", COMMIT),
    "renamed branch": ("git branch -m trunk", COMMIT),
    "switch": ("git checkout -q side; echo more > e; git add e; git commit -qm more", ""),
    "detached": (f"git checkout -q --detach; {COMMIT}", ""),
    "tags": ("git tag -d v1; git tag -a v2 -m two", "git tag v3"),
    "moved tag": ("git tag -f v1 side", ""),
    "stage": ("echo more > a; git add a; git rm -q --cached c", COMMIT),
    "stash": ("echo more > a; git stash push -q", "git stash pop -q"),
    "popped": ("git reset -q --hard; git stash pop -q", COMMIT),
    "reset": ("git reset -q --hard HEAD; git checkout -q --orphan new; git commit -qm orphan", ""),
    "packed": (f"{COMMIT}; git tag made; git pack-refs --all; git gc -q", ""),
    "merge": ("git commit -qm c; git merge side || true", f"{RESOLVE}; git commit -qm merged"),
    "rebase": (
        f"{COMMIT}; git rebase side || true",
        f"{RESOLVE}; GIT_EDITOR=true git rebase --continue",
    ),
    "cherry-pick": (f"{COMMIT}; git cherry-pick side || true", f"{RESOLVE}; git commit -qm picked"),
    "notes": ("git notes add -m well", ""),
}


@pytest.mark.parametrize("act", ACTS)
def test_a_killed_command_is_as_if_it_had_run_once(project, tmp_path, act):
    """Whatever it did to git before it was killed: repository and files are those of one clean run."""
    cli = project
    make(cli.directory)
    (tmp_path / "half").touch()
    (tmp_path / "go").touch()
    clean = tmp_path / "clean"
    subprocess.run(["cp", "-a", cli.directory, clean], check=True)
    words = script(*ACTS[act])
    subprocess.run(words[1:], cwd=clean, env=cli.env, check=True, capture_output=True)
    (tmp_path / "half").unlink()
    (tmp_path / "go").unlink()
    killed_and_resumed(cli, words)
    assert shape(cli.directory) == shape(clean)
    git(cli.directory, "fsck", "--no-dangling")


def test_a_killed_commit_is_one_commit_and_kept(project):
    """The first attempt's commit stays reachable, through a gc, and the line that is printed names it."""
    cli = project
    make(cli.directory)
    kill_half_way(cli, "run", "--id", "k", *script(COMMIT))
    lost = git(cli.directory, "rev-parse", "main").strip()
    (cli.directory.parent / "go").touch()
    resumed = cli("resume", "k")
    assert git(cli.directory, "log", "--format=%s", "main").splitlines() == ["agent", "first"]
    (taken,) = (one for one in events(cli, "k", "FilesSaved") if one["place"] == "taken_back")
    assert taken["refs"] == ["refs/heads/main", "the index"]
    assert f"git for-each-ref {taken['tips']}" in resumed.err
    git(cli.directory, "reflog", "expire", "--expire=now", "--all")
    git(cli.directory, "gc", "-q", "--prune=now")
    assert git(cli.directory, "rev-parse", f"{taken['tips']}heads/main").strip() == lost


def test_a_killed_commit_with_a_look_at_it_in_between(project):
    """`git status`, `git gc` and `git pack-refs` by a person after the kill change nothing of it."""
    cli = project
    make(cli.directory)
    kill_half_way(cli, "run", "--id", "k", *script(COMMIT))
    time.sleep(1.2)
    (cli.directory / "b").touch()
    git(cli.directory, "status")
    git(cli.directory, "pack-refs", "--all")
    git(cli.directory, "gc", "-q")
    (cli.directory.parent / "go").touch()
    cli("resume", "k")
    assert git(cli.directory, "log", "--format=%s", "main").splitlines() == ["agent", "first"]
    assert git(cli.directory, "status", "--porcelain") == "?? d\n"


def test_a_failed_command_is_rolled_back_too(project):
    """Its commit stays until it is resumed, and its second attempt makes the only one."""
    cli = project
    make(cli.directory)
    cli("run", "--id", "k", "--", "sh", "-c", f"{COMMIT} && [ -e ../go ]", code=1)
    assert git(cli.directory, "log", "--format=%s").splitlines() == ["agent", "first"]
    (cli.directory.parent / "go").touch()
    cli("resume", "k")
    assert git(cli.directory, "log", "--format=%s").splitlines() == ["agent", "first"]


def test_the_first_commit_of_a_repository(project):
    """An unborn branch is unborn again."""
    cli = project
    git(cli.directory, "init", "-q")
    killed_and_resumed(cli, script(COMMIT))
    assert git(cli.directory, "log", "--format=%s").splitlines() == ["agent"]


def test_a_repository_that_the_command_makes(project):
    """`git init` in the command: the second attempt finds an empty repository."""
    cli = project
    killed_and_resumed(cli, script(f"git init -q; {COMMIT}; git tag made"))
    assert git(cli.directory, "log", "--format=%s").splitlines() == ["agent"]
    assert git(cli.directory, "tag") == "made\n"


def test_without_git(project):
    """No repository, nothing to do."""
    cli = project
    killed_and_resumed(cli, script("echo x >> log"))
    assert (cli.directory / "log").read_text() == "x\n"
    assert "there is no git repository" in cli("rewind", "k", "--to", "start", "--git", code=2).err


def test_a_linked_worktree(project, tmp_path):
    """`.git` is a file there: HEAD and index are its own, and the main worktree is not touched."""
    cli = project
    main = tmp_path / "main"
    main.mkdir()
    make(main)
    cli.directory.rmdir()
    git(main, "worktree", "add", "-q", "-b", "linked", str(cli.directory))
    before = shape(main)
    killed_and_resumed(cli, script(COMMIT))
    assert git(cli.directory, "log", "--format=%s").splitlines() == ["agent", "first"]
    assert shape(main)["index"] == before["index"] and shape(main)["head"] == before["head"]


def test_something_in_progress_before_the_command(project):
    """A merge that the command was to finish is in progress again for its second attempt."""
    cli = project
    make(cli.directory)
    git(cli.directory, "commit", "-qm", "c")
    (cli.directory / "a").write_text("main\n")
    git(cli.directory, "commit", "-qam", "main")
    git(cli.directory, "merge", "side", check=False)
    killed_and_resumed(cli, script(f"{RESOLVE}; git commit -qm merged"))
    parents = git(cli.directory, "rev-list", "--parents", "-n", "1", "HEAD").split()
    assert len(parents) == 3
    assert git(cli.directory, "log", "--first-parent", "--format=%s").splitlines()[0] == "merged"


def test_a_git_that_was_killed_leaves_no_lock(project):
    """Killed in a pre-commit hook, `git commit -a` leaves the index locked, which no git would survive."""
    cli = project
    make(cli.directory)
    hook = cli.directory / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch ../half; [ -e ../go ] || sleep 60\n")
    hook.chmod(0o755)
    kill_half_way(cli, "run", "--id", "k", "--", "sh", "-c", "echo agent > a; git commit -qam agent")
    assert (cli.directory / ".git" / "index.lock").exists()
    (cli.directory.parent / "go").touch()
    resumed = cli("resume", "k")
    assert "index.lock" in resumed.err
    assert git(cli.directory, "log", "--format=%s").splitlines() == ["agent", "first"]


KILLED = """
import os, signal, sys
from holdfast.cli import main
from holdfast.engine.files import git_rollback
from holdfast.workspace.git import program
count, stop = 0, int(sys.argv[1])

def counted(function, acts):
    def call(*words, **named):
        global count
        if not acts(words):
            return function(*words, **named)
        for moment in ("before", "after"):
            count += 1
            if count == stop:
                os.kill(os.getpid(), signal.SIGKILL)
            if moment == "before":
                done = function(*words, **named)
        return done
    return call

acting = {"update-ref", "symbolic-ref", "stash"}
run = program.subprocess.run
program.subprocess.run = counted(run, lambda words: acting & set(map(str, words[0])))
for name in ("link", "rename", "unlink", "rmdir"):
    here = lambda words: b"/.git/" in os.fsencode(words[0])
    setattr(os, name, counted(getattr(os, name), here))
roll_back = git_rollback.roll_back
def after(*words):
    done = roll_back(*words)
    if stop < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return done
git_rollback.roll_back = after
sys.argv = ["holdfast", *sys.argv[2:]]
main()
"""


def test_a_rollback_that_is_killed_is_begun_again(project, tmp_path):
    """Killed before and after everything that it does to git, and before the files: the next resume does it
    all, no commit is lost and git is not left locked."""
    cli = project
    make(cli.directory)
    first = f"git checkout -qb new; {COMMIT}; git tag made; git merge side || true"
    kill_half_way(cli, "run", "--id", "k", *script(first, f"{RESOLVE}; git commit -qm merged"))
    lost = git(cli.directory, "rev-parse", "new").strip()
    (tmp_path / "go").touch()
    env = {**cli.env, "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [cli.python, "-c", KILLED, "1", "resume", "k"]
    subprocess.run(argv, cwd=cli.directory, env=env, capture_output=True, check=False)
    assert [one["place"] for one in events(cli, "k", "FilesSaved")] == ["before", "stop", "start"]
    for name in ("project", "home"):
        subprocess.run(["cp", "-a", tmp_path / name, tmp_path / f"{name}-saved"], check=True)
    for stop in (-1, *range(2, 100)):
        for name in ("project", "home"):
            there, saved = tmp_path / name, tmp_path / f"{name}-saved"
            for path in there.iterdir():
                subprocess.run(["rm", "-rf", path], check=True)
            subprocess.run(["cp", "-a", f"{saved}/.", there], check=True)
        argv = [cli.python, "-c", KILLED, str(stop), "resume", "k"]
        done = subprocess.run(argv, cwd=cli.directory, env=env, capture_output=True, text=True, check=False)
        assert done.returncode in (0, -9), done.stderr
        if done.returncode == 0:
            break
        cli("resume", "k")
        log = git(cli.directory, "log", "--first-parent", "--format=%s", "new").splitlines()
        assert log == ["merged", "agent", "first"], f"killed at {stop}"
        kept = git(cli.directory, "for-each-ref", "--format=%(objectname)", "refs/holdfast").split()
        assert lost in kept, f"killed at {stop}"
        assert not list((cli.directory / ".git").glob("index.*"))
        assert git(cli.directory, "status", "--porcelain") == "?? d\n"
    assert stop > 10


# Somebody else


def test_a_git_of_somebody_else_is_waited_for(project):
    """It has the index locked while the rollback begins: that continues when it has ended."""
    cli = project
    make(cli.directory)
    kill_half_way(cli, "run", "--id", "k", *script(COMMIT))
    (cli.directory.parent / "go").touch()
    held = "touch .git/index.lock; sleep 2; rm .git/index.lock"
    other = subprocess.Popen(["git", "-c", f"alias.hold=!{held}", "hold"], cwd=cli.directory, env=cli.env)
    while not (cli.directory / ".git" / "index.lock").exists():
        time.sleep(0.01)
    cli("resume", "k")
    other.wait()
    assert git(cli.directory, "log", "--format=%s").splitlines() == ["agent", "first"]


def person_commits(root: Path) -> str:
    (root / "mine").write_text("mine\n")
    git(root, "add", "mine")
    git(root, "commit", "-qm", "mine")
    return git(root, "rev-parse", "HEAD").strip()


@pytest.mark.parametrize("fails", [False, True], ids=["killed", "failed"])
def test_somebody_who_commits_on_top_is_never_lost(project, fails):
    """The rollback refuses with nothing changed, says what to do, and that works."""
    cli = project
    make(cli.directory)
    if fails:
        cli("run", "--id", "k", "--", "sh", "-c", f"{COMMIT} && [ -e ../go ]", code=1)
    else:
        kill_half_way(cli, "run", "--id", "k", *script(COMMIT))
    time.sleep(1.2)
    mine = person_commits(cli.directory)
    before = shape(cli.directory)
    (cli.directory.parent / "go").touch()
    refused = cli("resume", "k", code=6)
    assert "refs/heads/main (changed by the run and by others since)" in refused.err
    assert "holdfast resume k --keep-files" in refused.err
    assert cli.status("k") == "needs_attention"
    assert shape(cli.directory) == before
    cli("resume", "k", code=6)
    cli("resume", "k", "--keep-files")
    log = git(cli.directory, "log", "--format=%H %s").splitlines()
    assert [line.split()[1] for line in log] == ["agent", "mine", "agent", "first"]
    assert log[1].split()[0] == mine


def test_somebody_who_commits_elsewhere_stays(project):
    """Another branch, a tag of theirs: these stay, and the attempt's own goes back."""
    cli = project
    make(cli.directory)
    kill_half_way(cli, "run", "--id", "k", *script(COMMIT))
    time.sleep(1.2)
    git(cli.directory, "tag", "mine")
    git(cli.directory, "update-ref", "refs/heads/side", "main")
    (cli.directory.parent / "go").touch()
    cli("resume", "k")
    assert git(cli.directory, "log", "--format=%s", "main").splitlines() == ["agent", "first"]
    assert git(cli.directory, "tag").split() == ["mine", "v1"]
    lost = git(cli.directory, "rev-parse", "mine")
    assert git(cli.directory, "rev-parse", "side") == lost != git(cli.directory, "rev-parse", "main")


def test_commits_that_were_pushed_are_refused(project, tmp_path):
    """The remote has them: a person decides."""
    cli = project
    make(cli.directory)
    git(tmp_path, "init", "-q", "--bare", "remote")
    git(cli.directory, "remote", "add", "origin", "../remote")
    kill_half_way(cli, "run", "--id", "k", *script(f"{COMMIT}; git push -q origin main"))
    (cli.directory.parent / "go").touch()
    assert "origin" in cli("resume", "k", code=6).err


def test_keep_files(project):
    """A failed command that is resumed with --keep-files begins from what it left."""
    cli = project
    cli("run", "--id", "k", "--", "sh", "-c", "echo x >> log; [ -e ../go ]", code=1)
    cli("resume", "k", "--keep-files", code=1)
    (cli.directory.parent / "go").touch()
    cli("resume", "k", "--keep-files")
    assert (cli.directory / "log").read_text() == "x\nx\nx\n"
    assert cli("resume", "--all", "--keep-files", code=2)


def test_with_writes_the_repository_is_not_the_steps(project):
    """Unless it says that it writes there."""
    cli = project
    make(cli.directory)
    words = script(COMMIT)
    kill_half_way(cli, "run", "--id", "k", "--writes", "a", *words)
    (cli.directory.parent / "go").touch()
    assert cli("resume", "k", code=1).err  # nothing to commit
    git(cli.directory, "reset", "-q", "--hard", "v1")
    for name in ("half", "go"):
        (cli.directory.parent / name).unlink()
    kill_half_way(cli, "run", "--id", "w", "--writes", "a", "--writes", ".git/**", *words)
    (cli.directory.parent / "go").touch()
    cli("resume", "w")
    assert git(cli.directory, "log", "--format=%s").splitlines() == ["agent", "first"]


# Other worktrees, isolated steps, repositories that git cannot read


def begun(cli: Any, *words: str) -> Any:
    """A command that waits for the file `go`, half-way."""
    run = cli.start("run", "--id", "k", *words)
    wait_until((cli.directory.parent / "half").exists, "half-way")
    return run


WAIT = "touch ../half; while [ ! -e ../go ]; do sleep 0.05; done"


@pytest.mark.parametrize("away", [False, True], ids=["on its branch", "switched away"])
@pytest.mark.parametrize("fails", [True, False], ids=["failed", "killed"])
def test_another_worktree_keeps_what_it_did_meanwhile(project, tmp_path, away, fails):
    """A run that used no git at all is resumed: commits and tags of another worktree stay."""
    cli = project
    make(cli.directory)
    other = tmp_path / "other"
    git(cli.directory, "worktree", "add", "-q", "-b", "agent2", str(other))
    run = begun(cli, "--", "sh", "-c", f"echo x >> log; {WAIT}; [ -e ../again ]")
    person_commits(other)
    git(other, "tag", "v2")
    if away:
        git(other, "checkout", "-q", "--detach")
    refs = git(cli.directory, "for-each-ref")
    if fails:
        (tmp_path / "go").touch()
        run.communicate()
    else:
        run.kill()
        run.communicate()
        (tmp_path / "go").touch()
    (tmp_path / "again").touch()
    resumed = cli("resume", "k")
    assert "refs/heads/agent2, refs/tags/v2" in resumed.err
    assert git(cli.directory, "for-each-ref") == refs
    assert (cli.directory / "log").read_text() == "x\n"
    cli("rewind", "k", "--to", "start", "--git")
    assert git(cli.directory, "for-each-ref") == refs


def test_a_commit_beside_another_worktree_goes_back(project, tmp_path):
    """Both committed meanwhile: the attempt's commit goes back and is made once, the other one stays."""
    cli = project
    make(cli.directory)
    other = tmp_path / "other"
    git(cli.directory, "worktree", "add", "-q", "-b", "agent2", str(other))
    run = begun(cli, "--", "sh", "-c", f"{COMMIT}; {WAIT}")
    mine = person_commits(other)
    run.kill()
    run.communicate()
    (tmp_path / "go").touch()
    cli("resume", "k")
    assert git(cli.directory, "log", "--format=%s", "main").splitlines() == ["agent", "first"]
    assert git(cli.directory, "rev-parse", "agent2").strip() == mine


@pytest.mark.parametrize("ending", ["completed", "failed", "killed"])
def test_what_a_person_does_in_the_root_during_an_isolated_step(project, tmp_path, ending):
    """It has a copy of its own: their commits and edits in the root are never the run's."""
    cli = project
    make(cli.directory)
    words = f"{WAIT}; echo x >> a" + ("; false" if ending == "failed" else "")
    run = begun(cli, "--isolate", "--", "sh", "-c", words.replace("..", str(tmp_path)))
    mine = person_commits(cli.directory)
    (cli.directory / "d").write_text("edited\n")
    if ending == "killed":
        run.kill()
    (tmp_path / "go").touch()
    run.communicate()
    assert ((cli.directory / "a").read_text() == "original\nx\n") == (ending == "completed")
    cli("rewind", "k", "--to", "start", "--git")
    assert git(cli.directory, "rev-parse", "HEAD").strip() == mine
    assert (cli.directory / "d").read_text() == "edited\n"
    assert (cli.directory / "a").read_text() == "original\n"


def test_steps_in_copies_beside_each_other(project, tmp_path):
    """Each brings its own change, and all go back: none takes the other's for somebody else's."""
    cli = project
    make(cli.directory)
    (cli.directory / "flow.py").write_text(
        "from holdfast import gather, step, workflow, workspace_path\n"
        "@step(effect='workspace', isolate='copy')\n"
        "async def write(name: str) -> None:\n"
        "    (workspace_path() / name).write_text(name)\n"
        "@workflow\n"
        "async def flow() -> None:\n"
        "    await gather(write('x'), write('y'), write('z'))\n"
    )
    cli("run", "--id", "k", "flow.py:flow")
    assert {"x", "y", "z"} <= {path.name for path in cli.directory.iterdir()}
    cli("rewind", "k", "--to", "start")
    assert not {"x", "y", "z"} & {path.name for path in cli.directory.iterdir()}


def test_a_branch_whose_name_is_not_text(project):
    """Where the repository stood is not known: files alone would be half of the attempt, so nothing moves."""
    cli = project
    make(cli.directory)
    subprocess.run(["git", "checkout", "-qb", b"\xff"], cwd=cli.directory, env=cli.env, check=True)
    kill_half_way(cli, "run", "--id", "k", *script(COMMIT))
    before = (cli.directory / "a").read_text()
    (cli.directory.parent / "go").touch()
    refused = cli("resume", "k", code=6)
    assert "the name of the branch is not UTF-8" in refused.err and "--keep-files" in refused.err
    assert (cli.directory / "a").read_text() == before == "original\nagent\n"
    cli("resume", "k", "--keep-files")


def test_without_git_on_the_path(project, tmp_path):
    """The process that resumes finds no git: nothing moves. Where there never was one, files go back."""
    cli = project
    make(cli.directory)
    kill_half_way(cli, "run", "--id", "k", *script(COMMIT))
    (tmp_path / "go").touch()
    path, programs = cli.env["PATH"], tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "touch", "sleep", "true"):
        (programs / name).symlink_to(shutil.which(name))
    cli.env["PATH"] = str(programs)
    refused = cli("resume", "k", code=6)
    assert "git is not installed" in refused.err
    assert (cli.directory / "a").read_text() == "original\nagent\n"
    for name in ("half", "go"):
        (tmp_path / name).unlink()
    kill_half_way(cli, "run", "--id", "n", *script("echo x >> log"))
    (tmp_path / "go").touch()
    cli("resume", "n")
    assert (cli.directory / "log").read_text() == "x\n"
    cli.env["PATH"] = path
    cli("resume", "k", code=6)


@pytest.mark.parametrize("outer", [True, False], ids=["inside a repository", "inside none"])
@pytest.mark.parametrize("made", [False, True], ids=["moved", "made"])
def test_a_commit_in_a_nested_repository_is_refused(project, outer, made):
    """It cannot be rolled back, so nothing is: put right by hand, the rest goes back and the step runs."""
    cli = project
    lib = cli.directory / "lib"
    if outer:
        make(cli.directory)
        (cli.directory / ".git" / "info" / "exclude").write_text("lib\n")
    if not made:
        lib.mkdir()
        make(lib)
    work = f"mkdir -p lib; cd lib; {'git init -q; ' if made else ''}{COMMIT}; cd ..; echo x >> log"
    kill_half_way(cli, "run", "--id", "k", *script(work))
    (cli.directory.parent / "go").touch()
    refused = cli("resume", "k", code=6)
    assert "lib (a repository inside the workspace, " in refused.err
    assert (cli.directory / "log").read_text() == "x\n"
    if made:
        shutil.rmtree(lib)
    else:
        git(lib, "reset", "-q", "--soft", "HEAD~1")
    cli("resume", "k")
    assert git(lib, "log", "--format=%s").splitlines() == (["agent"] if made else ["agent", "first"])
    assert (cli.directory / "log").read_text() == "x\n"


def test_a_nested_repository_of_somebody_else(project):
    """They commit in it after the attempt was killed: no reason to refuse."""
    cli = project
    make(cli.directory)
    lib = cli.directory / "lib"
    lib.mkdir()
    make(lib)
    kill_half_way(cli, "run", "--id", "k", *script(COMMIT))
    mine = person_commits(lib)
    (cli.directory.parent / "go").touch()
    cli("resume", "k")
    assert git(cli.directory, "log", "--format=%s", "main").splitlines() == ["agent", "first"]
    assert git(lib, "rev-parse", "HEAD").strip() == mine


def test_a_commit_on_a_detached_head_is_reported(project):
    """It is kept under refs/holdfast, and the line that is printed says where."""
    cli = project
    make(cli.directory)
    git(cli.directory, "checkout", "-q", "--detach")
    kill_half_way(cli, "run", "--id", "k", *script(COMMIT))
    lost = git(cli.directory, "rev-parse", "HEAD").strip()
    (cli.directory.parent / "go").touch()
    resumed = cli("resume", "k")
    (taken,) = (one for one in events(cli, "k", "FilesSaved") if one["place"] == "taken_back")
    assert f"git for-each-ref {taken['tips']}" in resumed.err
    assert git(cli.directory, "rev-parse", f"{taken['tips']}HEAD").strip() == lost


# Rewind


@pytest.mark.parametrize("point", ["start", "before:sh"])
def test_rewind_with_git_to_every_point(project, point):
    """A run of one command has no checkpoint, and goes back all the same; undo brings the commits back."""
    cli = project
    make(cli.directory)
    before = shape(cli.directory)
    cli("run", "--id", "k", "--", "sh", "-c", COMMIT)
    after, tip = shape(cli.directory), git(cli.directory, "rev-parse", "main")
    cli("rewind", "k", "--to", point, "--git")
    assert shape(cli.directory) == before
    cli("undo")
    assert shape(cli.directory) == after and git(cli.directory, "rev-parse", "main") == tip
    cli("rewind", "k", "--to", point, "--git")
    cli("resume", "k")
    assert git(cli.directory, "log", "--format=%s").splitlines() == ["agent", "first"]


def test_a_plain_rewind_says_that_commits_stay(project):
    """It names the ref and the option, which still works afterwards, and after an undo."""
    cli = project
    make(cli.directory)
    before = shape(cli.directory)
    cli("run", "--id", "k", "--", "sh", "-c", COMMIT)
    preview = cli("rewind", "k", "--to", "start", "--dry-run").out
    assert "commits stay" in preview and "holdfast rewind k --to start --git" in preview
    done = cli("rewind", "k", "--to", "start")
    assert "refs/heads/main" in done.out and "commits stay" in done.out
    assert git(cli.directory, "log", "--format=%s").splitlines() == ["agent", "first"]
    moves = cli("rewind", "k", "--to", "start", "--dry-run", "--json").json()["git_stays"]["moves"]
    assert [one["ref"] for one in moves] == ["refs/heads/main"]
    cli("rewind", "k", "--to", "start", "--git")
    assert shape(cli.directory) == before
    assert cli("rewind", "k", "--to", "start", "--json").json()["git_stays"] is None


def test_rewind_of_a_killed_run_keeps_what_somebody_committed(project):
    """Its own commits go back, a person's branch stays."""
    cli = project
    make(cli.directory)
    kill_half_way(cli, "run", "--id", "k", *script(COMMIT))
    time.sleep(1.2)
    git(cli.directory, "branch", "mine")
    cli("rewind", "k", "--to", "start", "--git")
    assert git(cli.directory, "log", "--format=%s", "main").splitlines() == ["first"]
    assert git(cli.directory, "log", "--format=%s", "mine").splitlines() == ["agent", "first"]
