"""README and docs: what they show works, and everything that exists is in them."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import click
import pytest

import holdfast
from holdfast import Holdfast, errors, plans
from holdfast.cli import app, ending, options
from holdfast.cli.commands import resuming, steering
from holdfast.facade.budgets import BudgetNamespace
from holdfast.facade.evidence import EvidenceNamespace
from holdfast.facade.memory import MemoryNamespace
from holdfast.facade.router import RouterNamespace
from holdfast.facade.sessions import Sessions
from holdfast.facade.skills import SkillsNamespace
from holdfast.facade.tasks import Tasks
from holdfast.kernel import events

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md", "docs/rewind.md"])
def test_the_first_example_runs_and_runs_again(page: str, tmp_path: Path) -> None:
    """The example of the page works as a script; run again, it gives the same result from the log."""
    script = tmp_path / "flow.py"
    script.write_text(python_blocks(ROOT / page)[0])
    environ = {**os.environ, "HOLDFAST_HOME": str(tmp_path / "home")}
    outputs = [
        subprocess.run(
            [sys.executable, script], env=environ, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert outputs[0].splitlines()[-1] == outputs[1].splitlines()[-1] != ""


def test_every_key_of_a_plan_is_documented() -> None:
    """In the tables of its page, with the kinds of steps that take it; and no key that is not there."""
    from holdfast.plans import keys

    text = (DOCS / "plan-format.md").read_text()
    plan, step, _ = (part for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:4])
    rows = re.findall(r"^\| `(\w+)` \|(.*)", plan, re.MULTILINE)
    assert {key for key, _ in rows} == set(keys.PLAN)
    kinds = dict(re.findall(r"^\| `(\w+)` \|(.*)", step.partition("| key |")[0], re.MULTILINE))
    assert set(kinds) == set(keys.KINDS)
    documented = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", step.partition("| key |")[2], re.MULTILINE))
    assert set(documented) == set(keys.STEP) - set(keys.KINDS)
    for kind, taken in keys.OF_KIND.items():
        for key, of in documented.items():
            named = (
                of == "all"
                or (of.startswith("all but") and f"`{kind}`" not in of)
                or ("all" not in of and f"`{kind}`" in of)
            )
            assert named == (key in keys.ANY or key in taken), (kind, key)
    for key in (*keys.BUDGET, *keys.RETRY, *keys.DEFAULTS):
        assert f"`{key}`" in text


def test_the_examples_in_async_code_run(tmp_path: Path) -> None:
    """README's lines below its first example, and the whole script of the API page."""
    first, *others = python_blocks(ROOT / "README.md")
    (below,) = [block for block in others if "async with Holdfast" in block]
    (whole,) = [block for block in python_blocks(DOCS / "api.md") if "async with Holdfast" in block]
    script = first.partition("if __name__")[0] + below + "\n\nimport asyncio\nasyncio.run(main())\n"
    for text, printed in ((script, "sent 27 characters\n"), (whole, "['notes on kelp', 'notes on rock']\n")):
        (tmp_path / "flow.py").write_text(text)
        environ = {**os.environ, "HOLDFAST_HOME": str(tmp_path / "home")}
        done = subprocess.run(
            [sys.executable, tmp_path / "flow.py"], env=environ, capture_output=True, text=True, check=True
        )
        assert done.stdout.startswith(printed)


@pytest.mark.parametrize(
    "page", [*sorted(DOCS.glob("guide-*.md")), DOCS / "rewind.md"], ids=lambda page: page.name
)
def test_examples_of_guides_can_be_loaded(page: Path) -> None:
    """Each example is whole: what it uses is imported or defined in it. Scripts have their own test."""
    for block in python_blocks(page):
        if "__main__" not in block:
            subprocess.run([sys.executable, "-c", block], check=True)


def test_the_script_of_the_guide_to_steps_runs(tmp_path: Path) -> None:
    """Children of either colour; run again, it gives the same results from the log."""
    (block,) = [one for one in python_blocks(DOCS / "guide-steps.md") if "__main__" in one]
    script = tmp_path / "flow.py"
    script.write_text(block)
    environ = {**os.environ, "HOLDFAST_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-W", "error", script]
    for _ in range(2):
        ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
        assert (ran.stdout, ran.stderr) == ("72\n47\n", "")


def test_every_public_name_can_be_imported() -> None:
    """What `__all__` promises is there, and nothing else is offered."""
    there = {name for name in holdfast.__all__ if hasattr(holdfast, name)}
    assert there == set(holdfast.__all__) == {*holdfast._HOME_OF, "__version__"}


@pytest.mark.parametrize("name", [name for name in holdfast.__all__ if name != "__version__"])
def test_every_public_name_is_documented(name: str) -> None:
    """Each public name has its line in the API page."""
    assert re.search(rf"`{name}\b", (DOCS / "api.md").read_text())


METHODS = {
    "Holdfast": holdfast.Holdfast.__init__,
    **{
        name: method
        for name, method in inspect.getmembers(holdfast.Holdfast, inspect.isroutine)
        if not name.startswith("_")
        and name not in ("at", "close", "with_id", "with_task")
        and not isinstance(inspect.getattr_static(holdfast.Holdfast, name), cached_property)
    },
    **{
        f"{space.NAMESPACE}.{name}": method
        for space in (
            Tasks,
            Sessions,
            MemoryNamespace,
            BudgetNamespace,
            RouterNamespace,
            SkillsNamespace,
            EvidenceNamespace,
        )
        for name, method in inspect.getmembers(space, inspect.isfunction)
        if not name.startswith("_")
    },
}


@pytest.mark.parametrize("name", METHODS)
def test_every_parameter_is_documented(name: str) -> None:
    """Each argument that a method of `Holdfast` takes by name is in its line of the API page."""
    page = (DOCS / "api.md").read_text()
    (line,) = [line for line in page.splitlines() if re.match(rf"\| [^|]*`(Holdfast\.)?{name}\(", line)]
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    taken = inspect.signature(METHODS[name]).parameters.values()
    wanted = {one.name for one in taken if one.name not in ("self", "cls") and one.kind not in kinds}
    assert {one for one in wanted if not re.search(rf"\b{one}\b", line)} == set()


@pytest.mark.parametrize("name", sorted(events.all_types()))
def test_every_event_is_documented(name: str) -> None:
    """Each event type is in the page of formats."""
    assert f"`{name}`" in (DOCS / "formats.md").read_text()


def reference() -> dict[str, object]:
    spec = importlib.util.spec_from_file_location("reference", DOCS / "reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.PAGES


@pytest.mark.parametrize("page", sorted(reference()))
def test_reference_pages_are_what_the_code_says(page: str) -> None:
    """Commands, settings and errors are documented as they are; `docs/reference.py` writes the pages."""
    make = reference()[page]
    assert callable(make)
    assert (DOCS / page).read_text() == make()


def leaves(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Each command that does something, by all of its words."""
    if not isinstance(command, click.Group):
        yield context.command_path, command
        return
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from leaves(inner, click.Context(inner, parent=context, info_name=name))


COMMANDS = dict(leaves(app.program, click.Context(app.program, info_name="holdfast")))


def test_every_command_has_its_section() -> None:
    """The page of the command line has all commands, and no other."""
    told = re.findall(r"^### (holdfast .*)$", (DOCS / "cli.md").read_text(), re.MULTILINE)
    assert sorted(told) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_shown_at_work(name: str) -> None:
    """Each command is in a page that somebody wrote, not only in the generated one."""
    assert any(name in page.read_text() for page in PAGES if page.name != "cli.md")


def test_help_is_written_for_people() -> None:
    """A family shows the first sentence of each command whole, and no option takes an `INTEGER RANGE`."""
    context = click.Context(app.program)
    commands = [app.program.get_command(context, name) for name in app.COMMANDS]
    groups = [one for one in commands if isinstance(one, click.Group)]
    assert groups and [one.name for one in groups if not isinstance(one, app.Family)] == []
    page = (DOCS / "cli.md").read_text()
    assert re.findall(r"^ +--\S+ (?:INTEGER|FLOAT).*", page, re.MULTILINE) == []


def command_lines(page: Path) -> Iterator[list[str]]:
    """The words of each `holdfast ...` that a page shows: in a console, indented, or in backticks."""
    text = re.sub(r"^```python\n.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for found in re.finditer(r"^(?:\$ |    )(?:\$ )?(holdfast .*)$|`(holdfast [^`]+)`", text, re.MULTILINE):
        line = re.sub(r"\s# .*| < .*| > .*", "", found[1] or found[2]).replace("...", "")
        yield shlex.split(line)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "cli.md"], ids=lambda page: page.name
)
def test_commands_on_pages_exist(page: Path) -> None:
    """A command that a page shows is one, and so is each of its options."""
    for words in command_lines(page):
        if words[1:2] == ["--help"] or words[1].isupper():
            continue
        path = next((" ".join(words[:n]) for n in (3, 2) if " ".join(words[:n]) in COMMANDS), "")
        groups = {name.rpartition(" ")[0] for name in COMMANDS}
        assert path or " ".join(words[:2]) in groups, words
        known = {text for option in COMMANDS[path].params for text in option.opts} if path else set()
        own = words[: words.index("--")] if "--" in words else words
        assert {word.partition("=")[0] for word in own if word.startswith("--")} <= known, words


def test_every_exit_code_is_documented() -> None:
    """Those of errors and those that commands end with are in the table, and no other."""
    used = {cls.exit_code for cls in vars(errors).values() if isinstance(cls, type) and hasattr(cls, "code")}
    used |= {*ending._CODES.values(), ending.INTERRUPTED, app.OUR_FAULT, app.OUTPUT_LOST}
    used |= {steering.HELD, resuming.USAGE}
    told = re.findall(r"^\| (\d+) \|", (DOCS / "errors.md").read_text(), re.MULTILINE)
    assert sorted(map(int, told)) == sorted(used)


def test_every_page_is_linked_from_the_readme() -> None:
    """`Read on` leads to each page."""
    text = (ROOT / "README.md").read_text().partition("## Read on")[2]
    assert {page.name for page in DOCS.glob("*.md")} == set(re.findall(r"\(docs/([\w-]+\.md)\)", text))


def test_every_picture_is_on_the_page() -> None:
    """What `docs/captures.py` takes is there, and is shown."""
    taken = {f"captures/{path.name}" for path in (DOCS / "captures").glob("*.svg")}
    assert taken == set(re.findall(r"\((captures/[\w-]+\.svg)\)", (DOCS / "captures.md").read_text()))


def test_pictures_do_not_tell_where_they_were_taken() -> None:
    """No paths of a machine, no addresses but the one that SVG is named by."""
    for path in (DOCS / "captures").glob("*.svg"):
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"/tmp|/home|/root|/work|https?:", text), path.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of a page leads to a file, and to a heading in it if it names one."""
    for target, heading in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", page.read_text()):
        file = page.parent / target if target else page
        assert file.exists(), target
        assert not heading or heading in anchors(file), f"{target}#{heading}"


def anchors(page: Path) -> set[str]:
    """The headings of a page, as GitHub makes them names."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


PLAN = """\
name: scopes
steps:
  - id: list
    run: ["printf", "kelp\\nwrack\\n"]
  - id: weigh
    foreach: list.stdout.lines
    run: ["true"]
    effect: idempotent
"""


def test_the_scopes_of_a_plan_are_those_of_the_page(tmp_path: Path) -> None:
    """The keys that `concepts.md` gives for the steps of a plan are keys of a run of such a plan."""
    (tmp_path / "plan.yaml").write_text(PLAN)
    with Holdfast(tmp_path / "home", workspace=tmp_path, durability="process") as hf:
        hf.with_id("r").run(plans.run_plan, plans.read(str(tmp_path / "plan.yaml")), {})
        keys = {one.key for one in hf.get("r").steps}
    page = (DOCS / "concepts.md").read_text()
    (said,) = re.findall(r"^- A step of a plan is a scope.*?(?=^- )", page, re.MULTILINE | re.DOTALL)
    named = re.findall(r"`(\S+\[\S+#\d+)`", said)
    assert len(named) == 2 and set(named) <= keys


def test_options_that_take_a_number_say_which() -> None:
    """The type of each is one whose error is a sentence."""
    wrong = [
        (name, option.opts)
        for name, command in COMMANDS.items()
        for option in command.params
        if isinstance(option.type, (click.IntRange, click.FloatRange))
        and not isinstance(option.type, (options.WholeNumber, options.Number))
    ]
    assert wrong == []
