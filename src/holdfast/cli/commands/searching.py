"""`holdfast search`: what has the words of a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import click

from holdfast.cli import access, options
from holdfast.cli.commands.backup import progress_shown
from holdfast.cli.commands.listing import STYLES
from holdfast.cli.drawing import moments
from holdfast.cli.drawing.columns import LEAST, left_out
from holdfast.cli.drawing.tasks import SHORT
from holdfast.cli.drawing.terminal import Line, Piece, cells, clean, fit, out, pad, say
from holdfast.cli.selection import complete_any_status, read_any_statuses, read_since
from holdfast.errors import NotFound
from holdfast.views.search_hit import FAMILIES

if TYPE_CHECKING:
    from holdfast.views.search_hit import Marks, SearchHit, SearchPage

_ONE_OF: Final = {"tasks": "task", "runs": "run", "memory": "memory", "events": "event"}
_FAMILY_WIDTH: Final = 6
_STYLES: Final = {
    **STYLES,
    "in_progress": "cyan",
    "superseded": "dim",
    "withdrawn": "dim",
    "error": "red",
    "doubt": "magenta",
    "attention": "magenta",
    "gate": "magenta",
}


def _read_families(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> list[str]:
    """The families that were named, with commas between or one by one; `task` is `tasks`."""
    meant = {one: many for many, one in _ONE_OF.items()} | {many: many for many in FAMILIES}
    words = [word.strip() for value in values for word in value.split(",")]
    for word in words:
        if word not in meant:
            raise click.BadParameter(f"there is no {word!r} to search in; there are {', '.join(FAMILIES)}")
    return [meant[word] for word in words]


def _read_words(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> list[str]:
    return [word.strip() for value in values for word in value.split(",") if word.strip()]


@click.command("search")
@click.argument("query", nargs=-1)
@click.option(
    "--in",
    "within",
    multiple=True,
    callback=_read_families,
    metavar="FAMILY",
    help="Only in `tasks`, `runs`, `memory` or `events`; several with commas, or given again.",
)
@click.option(
    "--status",
    multiple=True,
    callback=read_any_statuses,
    shell_complete=complete_any_status,
    metavar="STATUS",
    help="Only what has this status; an event has that of its run.",
)
@click.option(
    "--kind",
    multiple=True,
    callback=_read_words,
    metavar="KIND",
    help="Only events or memory of this kind: `error`, `gate`, `decision`, `fact`, ...",
)
@click.option("--since", callback=read_since, metavar="TIME", help="Only what changed since then.")
@click.option("--withdrawn", is_flag=True, help="Also memory that was withdrawn or superseded.")
@click.option(
    "--limit", metavar="N", default=20, show_default=True, type=options.WholeNumber(1), help="How many hits."
)
@click.option(
    "--after", default="", metavar="CURSOR", help="The next page: `after` of the one before (--json)."
)
@options.json_object
def search_command(
    query: Sequence[str],
    within: list[str],
    status: list[str],
    kind: list[str],
    since: datetime | None,
    withdrawn: bool,
    limit: int,
    after: str,
    as_json: bool,
) -> None:
    """Find runs, events, tasks and memory that have all words of QUERY, the best first.

    `'"two words"'` is a phrase, `wor*` the beginning of a word, and `-word` must not be there; write it in
    quotes, or after `--`. Everything else is text to look for. Without a query the newest are listed.

    TIME is as for `holdfast list`. The output of commands is not searched: see `holdfast logs`.
    """
    from holdfast.views.search_hit import SearchPage

    text = " ".join(query)
    try:
        with access.open_to_read() as hf, progress_shown() as progress:
            page = hf.search(
                text,
                within=within or FAMILIES,
                status=status,
                kind=kind,
                since=since,
                withdrawn=withdrawn,
                limit=limit,
                after=after,
                on_progress=progress,
            )
    except NotFound as error:
        # A project without a store has nothing to find; that is no mistake.
        if as_json:
            out.json(SearchPage([]).to_json())
        say(f"nothing to search yet: {error}")
        return
    _print(page, as_json)


def _print(page: SearchPage, as_json: bool) -> None:
    if as_json:
        out.json(page.to_json())
        return
    if not page.hits:
        say("no hits")
        return
    out.lines(_for_people(page.hits) if out.is_terminal else _for_programs(page.hits))
    if page.after:
        say([("there are more hits; --limit N shows so many, --json has the cursor for --after", "dim")])


def _for_programs(hits: Sequence[SearchHit]) -> Iterator[Line]:
    rows = [("FAMILY", "ID", "KIND", "STATUS", "CHANGED", "TEXT")]
    for hit in hits:
        place = clean(f"{hit.id} {hit.step}" if hit.step else hit.id)
        title, below = clean(hit.title), clean(hit.snippet)
        text = title if below in title else " · ".join(filter(None, (title, below)))
        rows.append((hit.family, place, clean(hit.kind), hit.status, moments.utc(hit.at), text))
    widths = [max(cells(row[n]) for row in rows) for n in range(5)]
    for row in rows:
        yield "  ".join([*(pad(row[n], widths[n]) for n in range(5)), row[5]])


def _for_people(hits: Sequence[SearchHit]) -> Iterator[Line]:
    """A line for each hit, and one with the place of the words where that is not in it."""
    width, indent = out.width, _FAMILY_WIDTH + 2
    most = max(width * 2 // 5, 12)
    ids = [_place(hit, most) for hit in hits]
    room_for_ids = min(max(map(cells, ids)), most)
    states = [hit.kind if hit.family == "events" else hit.status for hit in hits]
    room_for_states = max(map(len, states))
    ages = [moments.ago(hit.at) for hit in hits]
    age = max(map(len, ages))
    room = width - _FAMILY_WIDTH - room_for_ids - room_for_states - age - 8
    no_room = left_out(room, (age + 2, LEAST))  # without room for it, the title has a line of its own
    if no_room == 1:
        room += age + 2
    elif no_room > 1:
        room = max(width - indent, 20)
        room_for_ids = min(room_for_ids, max(width - indent - 2 - room_for_states, 8))
    for hit, id, state, old in zip(hits, ids, states, ages, strict=True):
        title, title_marks, below = hit.title, hit.title_marks, hit.snippet
        if hit.step.startswith(title):  # it is there already
            fits = cells(clean(below)) <= room
            title, title_marks, below = (below, hit.snippet_marks, "") if fits else ("", (), below)
        head: list[Piece] = [
            (_ONE_OF[hit.family].ljust(_FAMILY_WIDTH), "dim"),
            "  ",
            (pad(fit(id, room_for_ids), room_for_ids), "bold"),
            "  ",
            (state.replace("_", " ").ljust(room_for_states), _STYLES.get(state, "")),
            (f"  {old.rjust(age)}" if no_room == 0 else "", "dim"),
        ]
        if no_room < 2:
            yield [*head, "  ", *_marked(title, title_marks, room)]
        else:
            yield head
            if title:
                yield [" " * indent, *_marked(title, title_marks, room)]
        if below not in title:
            yield [" " * indent, *_marked(below, hit.snippet_marks, max(width - indent, 20))]


def _place(hit: SearchHit, room: int) -> str:
    """What names a hit: the beginning of an id as other lists show it, and the short number. It is the id of
    a run that gives way where it is too long."""
    if hit.family == "events":
        return clean(f"{hit.id} {hit.step}" if hit.step else hit.id)
    number = f" #{hit.number}" if hit.number else ""
    if hit.family in ("tasks", "memory"):
        return f"{hit.id[:SHORT]}{number}"
    return fit(clean(hit.id), room - cells(number)) + number


def _marked(text: str, marks: Marks, room: int) -> Iterator[Piece]:
    """The text in at most so many columns, with the hits in it set off."""
    done = 0
    for start, end in (*marks, (len(text), len(text))):
        for part, style in ((text[done:start], ""), (text[start:end], "bold yellow")):
            shown = clean(part)
            if cells(shown) > room:
                yield (fit(shown, room), style)
                return
            if shown:
                room -= cells(shown)
                yield (shown, style)
        done = end
