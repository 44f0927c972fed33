"""`holdfast skills`: the skills of the project, and how work with each ended."""

from __future__ import annotations

import click

from holdfast.cli import access, options
from holdfast.cli.app import Family, home
from holdfast.cli.drawing.rows import row, rows
from holdfast.cli.drawing.terminal import clean, out, pad, say, split
from holdfast.counts import counted
from holdfast.errors import BadInput, NotFound


@click.group("skills", cls=Family)
def skills_command() -> None:
    """List, show and check the skills of the project: folders with a SKILL.md.

    They are looked for in `.holdfast/skills`, in `skills`, and in the directories that the setting
    `skills_dirs` names.
    """


@skills_command.command("list")
@options.json_list
def list_skills(as_json: bool) -> None:
    """List the skills that can be chosen, and how work with each ended."""
    from holdfast.facade.storeless import skills

    try:
        with access.open_to_read() as hf:
            found, faults = hf.skills.list(), hf.skills.check()
    except NotFound:
        found, faults = skills(home())
    if as_json:
        out.json([one.to_json() for one in found])
    else:
        width = max((len(one.name) for one in found), default=0)
        for one in found:
            counts = f"  {one.good} good, {one.bad} bad" if one.good or one.bad else ""
            out.line([(pad(one.name, width), "bold"), f"  {clean(one.description)}", (counts, "dim")])
    for fault in faults:
        say(f"left out: {clean(str(fault))}")
    if not found and not faults and not as_json:
        say("no skills; a folder with a SKILL.md in `skills` is one")


@skills_command.command("show")
@click.argument("name")
@options.json_object
def show(name: str, as_json: bool) -> None:
    """Show the skill NAME with its text."""
    from holdfast.facade.storeless import skill

    try:
        place = access.find_place()
    except NotFound:
        found = skill(name, home())
    else:
        with access.open_to_read(place) as hf:
            found = hf.skills.show(name)
    if as_json:
        out.json(found.to_json())
        return
    out.line(row("skill", [(found.name, "bold")]))
    out.lines(rows("for", clean(found.description)))
    if found.kinds:
        out.lines(rows("kinds", clean(", ".join(found.kinds))))
    out.line(row("file", [clean(found.path)]))
    out.line(row("outcomes", [f"{found.good} good, {found.bad} bad"]))
    out.line("")
    out.lines(clean(line) for line in split(found.text or ""))


@skills_command.command("check")
@options.json_list
def check(as_json: bool) -> int:
    """Check every SKILL.md, and print the faults with file and line.

    Exits with 2 if there is a fault.
    """
    from holdfast.facade.storeless import skills

    found, faults = skills(home())
    if as_json:
        out.json([fault.to_json() for fault in faults])
    else:
        out.lines(clean(str(fault)) for fault in faults)
    if faults:
        return BadInput.exit_code
    say(f"{counted(len(found), 'skill')}, no faults")
    return 0


@skills_command.command("stats")
@click.option("--kind", help="Only this kind of work.")
@options.json_list
def stats(kind: str | None, as_json: bool) -> None:
    """Show how work ended with each text of each skill, by kind of work."""
    found = access.read_list("nothing yet", lambda hf: hf.skills.stats(kind))
    if as_json:
        out.json([one.to_json() for one in found])
        return
    for one in found:
        text = "" if one.current else f"  an earlier text ({clean(one.digest)})"
        out.line(
            [
                f"{clean(one.kind)}  ",
                (clean(one.skill), "bold"),
                f"  {one.good} good, {one.bad} bad",
                (text, "dim"),
            ]
        )
    if not found:
        say("no outcome was reported yet")
