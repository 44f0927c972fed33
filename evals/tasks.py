"""Ten coding tasks, each a small repository, a goal, and a check that fails until the goal is reached.

A task also has the edits that solve it, so that an agent without a model can be evaluated. The question is
not whether a model can program: it is whether the work survives kills, is verified, and costs what it
should. `wrong` edits come first where a task has them: they look right, fail the check, and must be repaired.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Edit(NamedTuple):
    """Replace `old`, which is in the file once, by `new`; an empty `old` writes the whole file."""

    path: str
    old: str
    new: str


class CodingTask(NamedTuple):
    """`files` is path → text. `check` ends with 0 when the goal is reached."""

    name: str
    goal: str
    files: dict[str, str]
    edits: tuple[Edit, ...]
    wrong: tuple[Edit, ...] = ()
    removes: tuple[str, ...] = ()
    check: tuple[str, ...] = ("python3", "-B", "-m", "unittest", "-q")

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that the solution changes, in order, each once."""
        return tuple(dict.fromkeys([*(edit.path for edit in self.edits), *self.removes]))


def _test(body: str) -> str:
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    return f"import unittest\n\n\nclass Check(unittest.TestCase):\n    def test_it(self):\n{lines}"


TASKS: Final = (
    CodingTask(
        "pages",
        "pages() in paging.py counts one page too few when the last one is not full",
        {
            "paging.py": "def pages(total, size):\n    return total // size\n",
            "test_paging.py": _test(
                "from paging import pages\n"
                "self.assertEqual([pages(n, 10) for n in (0, 1, 10, 11, 20)], [0, 1, 1, 2, 2])"
            ),
        },
        (Edit("paging.py", "total // size", "-(-total // size)"),),
    ),
    CodingTask(
        "slug",
        "Add slug(text) to names.py: lower case, words joined by single hyphens",
        {
            "names.py": "def title(text):\n    return text.strip().title()\n",
            "test_names.py": _test(
                "from names import slug\n"
                "self.assertEqual(slug('  Giant Kelp, of  1826! '), 'giant-kelp-of-1826')"
            ),
        },
        (
            Edit(
                "names.py",
                "",
                "import re\n\n\ndef title(text):\n    return text.strip().title()\n\n\n"
                "def slug(text):\n    return '-'.join(re.findall(r'[a-z0-9]+', text.lower()))\n",
            ),
        ),
    ),
    CodingTask(
        "rename",
        "Rename weigh() to weight_of() in scales.py and everywhere it is used",
        {
            "scales.py": "def weigh(items):\n    return sum(items.values())\n",
            "report.py": "from scales import weigh\n\n\ndef line(items):\n    return f'{weigh(items)} kg'\n",
            "test_report.py": _test(
                "import report, scales\n"
                "self.assertFalse(hasattr(scales, 'weigh'))\n"
                "self.assertEqual(report.line({'kelp': 3, 'wrack': 4}), '7 kg')\n"
                "self.assertEqual(scales.weight_of({}), 0)"
            ),
        },
        (
            Edit("scales.py", "def weigh(", "def weight_of("),
            Edit("report.py", "import weigh", "import weight_of"),
            Edit("report.py", "{weigh(", "{weight_of("),
        ),
    ),
    CodingTask(
        "default",
        "Baskets in basket.py share their items: each must have its own",
        {
            "basket.py": "class Basket:\n    def __init__(self, items=[]):\n        self.items = items\n",
            "test_basket.py": _test(
                "from basket import Basket\n"
                "one, two = Basket(), Basket()\n"
                "one.items.append('kelp')\n"
                "self.assertEqual((one.items, two.items), (['kelp'], []))\n"
                "given = ['wrack']\n"
                "Basket(given).items.append('kelp')\n"
                "self.assertEqual(given, ['wrack'])"
            ),
        },
        (
            Edit("basket.py", "items=[]", "items=()"),
            Edit("basket.py", "self.items = items", "self.items = list(items)"),
        ),
    ),
    CodingTask(
        "option",
        "Add an option --reverse to sorter.py that prints the lines in reverse order",
        {
            "sorter.py": "import sys\n\n\ndef main(args):\n    for line in sorted(args):\n"
            "        print(line)\n\n\nif __name__ == '__main__':\n    main(sys.argv[1:])\n",
            "test_sorter.py": _test(
                "import subprocess, sys\n"
                "def said(*args):\n"
                "    return subprocess.run([sys.executable, 'sorter.py', *args],\n"
                "                          capture_output=True, text=True).stdout.split()\n"
                "self.assertEqual(said('b', 'c', 'a'), ['a', 'b', 'c'])\n"
                "self.assertEqual(said('--reverse', 'b', 'c', 'a'), ['c', 'b', 'a'])"
            ),
        },
        (
            Edit(
                "sorter.py",
                "    for line in sorted(args):",
                "    reverse = '--reverse' in args\n"
                "    for line in sorted((a for a in args if a != '--reverse'), reverse=reverse):",
            ),
        ),
    ),
    CodingTask(
        "dates",
        "when() in dates.py must read times that end in Z as UTC",
        {
            "dates.py": "from datetime import datetime\n\n\ndef when(text):\n"
            "    return datetime.strptime(text, '%Y-%m-%dT%H:%M:%S')\n",
            "test_dates.py": _test(
                "from datetime import datetime, timezone\n"
                "from dates import when\n"
                "self.assertEqual(when('2026-01-31T12:00:00Z'),\n"
                "                 datetime(2026, 1, 31, 12, tzinfo=timezone.utc))\n"
                "self.assertEqual(when('2026-01-31T12:00:00'), datetime(2026, 1, 31, 12))"
            ),
        },
        (
            Edit(
                "dates.py",
                "",
                "from datetime import datetime, timezone\n\n\ndef when(text):\n"
                "    naive = datetime.strptime(text.removesuffix('Z'), '%Y-%m-%dT%H:%M:%S')\n"
                "    return naive.replace(tzinfo=timezone.utc) if text.endswith('Z') else naive\n",
            ),
        ),
        wrong=(Edit("dates.py", "strptime(text,", "strptime(text.rstrip('Z'),"),),
    ),
    CodingTask(
        "commas",
        "rows() in table.py must keep commas that are inside quotes",
        {
            "table.py": "def rows(text):\n    return [line.split(',') for line in text.splitlines()]\n",
            "test_table.py": _test(
                "from table import rows\n"
                "self.assertEqual(rows('a,\"b,c\"\\n1,2\\n'), [['a', 'b,c'], ['1', '2']])"
            ),
        },
        (
            Edit(
                "table.py",
                "",
                "import csv\n\n\ndef rows(text):\n    return list(csv.reader(text.splitlines()))\n",
            ),
        ),
        wrong=(Edit("table.py", "split(',')", "replace('\"', '').split(',')"),),
    ),
    CodingTask(
        "retries",
        "fetch() in fetching.py must try three times in all, and raise the last error",
        {
            "fetching.py": "def fetch(get):\n    return get()\n",
            "test_fetching.py": _test(
                "from fetching import fetch\n"
                "tries = []\n"
                "def get():\n"
                "    tries.append(1)\n"
                "    raise OSError(len(tries))\n"
                "with self.assertRaises(OSError) as caught:\n"
                "    fetch(get)\n"
                "self.assertEqual((len(tries), caught.exception.args), (3, (3,)))"
            ),
        },
        (
            Edit(
                "fetching.py",
                "",
                "def fetch(get):\n    for left in (2, 1, 0):\n        try:\n            return get()\n"
                "        except OSError:\n            if not left:\n                raise\n",
            ),
        ),
        wrong=(
            Edit(
                "fetching.py",
                "    return get()",
                "    for _ in range(3):\n        try:\n            return get()\n"
                "        except OSError:\n            pass\n    return get()",
            ),
        ),
    ),
    CodingTask(
        "version",
        "Release 1.3: VERSION, version.py and CHANGES.md must agree",
        {
            "VERSION": "1.2\n",
            "version.py": "VERSION = '1.2'\n",
            "CHANGES.md": "# Changes\n\n## 1.2\n- kelp\n",
            "test_version.py": _test(
                "import pathlib, version\n"
                "self.assertEqual(version.VERSION, '1.3')\n"
                "self.assertEqual(pathlib.Path('VERSION').read_text(), '1.3\\n')\n"
                "self.assertIn('## 1.3', pathlib.Path('CHANGES.md').read_text())"
            ),
        },
        (
            Edit("VERSION", "", "1.3\n"),
            Edit("version.py", "1.2", "1.3"),
            Edit("CHANGES.md", "## 1.2", "## 1.3\n- wrack\n\n## 1.2"),
        ),
    ),
    CodingTask(
        "legacy",
        "Remove the module legacy.py; app.py must not need it any more",
        {
            "legacy.py": "def name():\n    return 'kelp'\n",
            "app.py": "import legacy\n\n\ndef hello():\n    return 'hello ' + legacy.name()\n",
            "test_app.py": _test(
                "import pathlib, app\n"
                "self.assertEqual(app.hello(), 'hello kelp')\n"
                "self.assertFalse(pathlib.Path('legacy.py').exists())"
            ),
        },
        (Edit("app.py", "", "def hello():\n    return 'hello kelp'\n"),),
        removes=("legacy.py",),
    ),
)
