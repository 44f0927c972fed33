"""The effects of an operation, done or planned, as rows of a name and what it names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.cli.drawing.terminal import Line, clean, out, typed, wrap
from holdfast.counts import counted
from holdfast.ways import Way, quoted

if TYPE_CHECKING:
    from holdfast import FilesBack, GitBack, PartBack

_INDENT = 11
_MOST = 12
_MOST_TEXT = 60


def row(name: str, text: str, style: str = "") -> Iterator[Line]:
    """A row that continues below itself where the text is long."""
    width = max(min(out.width, 160) - _INDENT, 20)
    for n, part in enumerate(wrap(text, width) if out.is_terminal else [text]):
        yield [((name if n == 0 else "").ljust(_INDENT), "dim"), (part, style)]


def names(name: str, items: Sequence[str], note: str = "", style: str = "") -> Iterator[Line]:
    """A row with the first of many names; none at all if there is nothing to name."""
    if not items:
        return
    listed = ", ".join(clean(item) for item in items[:_MOST])
    more = f" and {len(items) - _MOST:,} more (--json has all)" if len(items) > _MOST else ""
    yield from row(name, f"{listed}{more}" + (f": {note}" if note else ""), style)


def deleted(items: Iterable[Any]) -> Iterator[Line]:
    """The runs and tasks of a deletion."""
    for kind in ("run", "task"):
        named = [f"#{one.number} {one.id} ({one.title})" for one in items if one.kind == kind]
        yield from names(f"{kind}s", named)


_SIGNS = {"added": ("+", "green"), "removed": ("-", "red"), "modified": ("~", "yellow")}
_COUNTED = ("modified", "added", "removed", "mode", "type")


def files(back: FilesBack | None, of_both: str = "") -> Iterator[Line]:
    """The effects on files: how many, then one line for each, and what stays; `of_both` says how to put
    back what the run and others changed."""
    if back is None:
        return
    counts = {kind: sum(one.change == kind for one in back.changes) for kind in _COUNTED}
    counted_kinds = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
    yield from row(
        "files", f"{counted_kinds or 'nothing to change'} in {clean(back.root)}, {clean(back.as_of)}"
    )
    for one in back.changes[:_MOST]:
        yield from _file(one.change, one.path)
    if len(back.changes) > _MOST:
        yield [" " * _INDENT, (f"and {len(back.changes) - _MOST:,} more (--json has all)", "dim")]
    for n, kept in enumerate(back.kept[:_MOST]):
        name = ("kept" if n == 0 else "").ljust(_INDENT)
        way = f"; {of_both}" if of_both and kept.conflict else ""
        yield [(name, "dim"), (clean(kept.path), "cyan"), (f"  {kept.why}{way}", "dim")]
    if len(back.kept) > _MOST:
        yield [" " * _INDENT, (f"and {len(back.kept) - _MOST:,} more (--json has all)", "dim")]
    if back.rescued:
        way = quoted(Way("workspace restore", "", {"snapshot": back.rescued[:12]}))
        note = typed(f"written while this ran; {way} puts them there")
        yield from names("rescued", back.rescued_paths, note, "yellow")


def _file(change: str, path: str) -> Iterator[Line]:
    sign, style = _SIGNS.get(change, ("~", "yellow"))
    yield [" " * _INDENT, (f"{sign} {clean(path)}", style), (f"  {change}", "dim")]


def parts(name: str, back: PartBack) -> Iterator[Line]:
    """The effects on tasks, or on the memory: a line for each, and what stays."""
    first = name
    for one in back.changes[:_MOST]:
        yield [
            (first.ljust(_INDENT), "dim"),
            (one.id[:8], "yellow"),
            f"  {start(one.name)}",
            (f"  {one.change}", "dim"),
        ]
        first = ""
    if len(back.changes) > _MOST:
        yield [" " * _INDENT, (f"and {len(back.changes) - _MOST:,} more (--json has all)", "dim")]
    for kept in back.kept[:_MOST]:
        yield [
            (first.ljust(_INDENT), "dim"),
            (kept.id[:8], "cyan"),
            f"  {start(kept.name)}",
            (f"  stays: {clean(kept.why)}", "dim"),
        ]
        first = ""


def start(text: str) -> str:
    """The beginning of a text, on one line."""
    line = clean(text)
    return line if len(line) <= _MOST_TEXT else f"{line[: _MOST_TEXT - 1]}…"


def git(back: GitBack | None) -> Iterator[Line]:
    """The effects on the repository: a line for each ref, and what stays."""
    if back is None:
        return
    parts = [counted(len(back.moves), "ref")] if back.moves else []
    parts += ["the index"] if back.index == "back" else []
    parts += [counted(back.stash, "stash entry", "stash entries")] if back.stash else []
    parts += ["what is in progress"] if back.progress == "back" else []
    go = "goes" if len(parts) == 1 and (back.index == "back" or parts[0].startswith("1 ")) else "go"
    yield from row("git", f"{', '.join(parts)} {go} back" if parts else "nothing to change")
    for one in back.moves[:_MOST]:
        before, after = (_commit(text) for text in (one.before, one.after))
        yield [" " * _INDENT, (clean(one.ref), "yellow"), (f"  {before} → {after}", "dim")]
    for kept in back.kept[:_MOST]:
        yield [" " * _INDENT, (clean(kept.ref), "cyan"), (f"  stays: {clean(kept.why)}", "dim")]


def git_stays(back: GitBack | None) -> Iterator[Line]:
    """The run's changes to the repository, which stay without `--git`."""
    if back is None:
        return
    yield from row("git", "the run's commits stay, and what else it did to git; --git undoes that", "yellow")
    for one in back.moves[:_MOST]:
        now, then = (_commit(text) for text in (one.before, one.after))
        yield [" " * _INDENT, (clean(one.ref), "cyan"), (f"  stays at {now}; was {then} then", "dim")]


def _commit(text: str) -> str:
    """A commit's first letters, or a branch; none."""
    return (text if text.startswith("refs/") else text[:10]) or "none"


def plan(digest: str) -> Iterator[Line]:
    """The plan of a preview, for `--plan`."""
    yield from row("plan", f"{digest[:12]}: with --plan, this is done or nothing", "dim")


def ways(*found: Way) -> Iterator[Line]:
    """The commands that continue from here, each with what it does."""
    commands = [typed(way.shell()) for way in found]
    widest = max(map(len, commands))
    for n, (command, way) in enumerate(zip(commands, found, strict=True)):
        yield [
            (("next" if n == 0 else "").ljust(_INDENT), "dim"),
            (command.ljust(widest), "cyan"),
            (f"  {way.effect}", "dim"),
        ]


def show(lines: Iterator[Line]) -> None:
    out.lines(lines)
