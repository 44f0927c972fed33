"""What `holdfast resume RUN` costs: it opens the store once, and reads the run's history as often as told."""

import subprocess

COUNTING = """
import sys
from holdfast.store.sqlite.store import SqliteStore

counts = {"opened": 0, "read": 0}


def counting(name, count, whole):
    plain = getattr(SqliteStore, name)

    def counted(self, *args, **kwargs):
        counts[count] += not (whole and kwargs.get("after"))
        return plain(self, *args, **kwargs)

    setattr(SqliteStore, name, counted)


counting("__init__", "opened", False)
counting("history", "read", True)
sys.argv = ["holdfast", "resume", "a"]
from holdfast.cli import main

try:
    main()
finally:
    print(counts["opened"], counts["read"], file=sys.stderr)
"""


def test_resume_opens_the_store_once(cli):
    """The whole history is read to show where the run stands, to claim it, and, at the end, to report."""
    cli.script(
        """
        @step
        def work():
            if not os.path.exists("ready"):
                raise RuntimeError("not yet")
            return "kelp"

        @workflow
        def main():
            return work()
        """
    )
    cli("run", "--id", "a", "flow.py:main", code=1)
    (cli.directory / "ready").touch()
    done = subprocess.run(
        [cli.python, "-c", COUNTING],
        cwd=cli.directory,
        env=cli.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, '"kelp"\n'), done.stderr
    assert done.stderr.splitlines()[-1] == "1 3"
