"""``lakebed log``: commits in a line, or all of them as a graph, with the changes of each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import click

from lakebed.cli.addresses import as_of_option, moment
from lakebed.cli.commands import command
from lakebed.cli.output import say, say_json, say_lines
from lakebed.dataset.open import open_at
from lakebed.errors import CorruptError
from lakebed.history.commits import commit_time
from lakebed.history.log import Log, LogEntry
from lakebed.history.timestamps import posix_seconds
from lakebed.runtime.printable import printable
from lakebed.storage.url import parse
from lakebed.versions.graph import draw
from lakebed.versions.refs import Refs, read_refs


@command
@click.argument("url")
@click.option(
    "--graph", is_flag=True, help="Draw lines to all parents, of all branches or of the one in URL."
)
@click.option("--stat", is_flag=True, help="Also show what each commit changed.")
@click.option("--all", "everything", is_flag=True, help="The commits of all branches.")
@click.option("-n", "--count", type=click.IntRange(0), help="Maximum number of commits.")
@as_of_option
def log(
    url: str, graph: bool, stat: bool, everything: bool, count: int | None, as_of: str | None, as_json: bool
) -> None:
    """Show the commits of URL[@branch, @commit or @tag], newest first.

    For example: lakebed log photos --graph
    """
    then = moment(as_of)
    handle = open_at(url, read_only=True, as_of=None if then is None else posix_seconds(then))
    session = handle.session
    try:
        refs = read_refs(session.storage)
    except CorruptError as error:
        say(f"Warning: {error}", err=True)
        refs = Refs()
    history = Log(session, refs)
    is_bare = parse(url, existing=True).ref is None and as_of is None
    if everything or (graph and is_bare):
        commits = history.all_commits()
    elif graph:
        commits = history.all_commits(session.snapshot.version_id)
    else:
        commits = history.first_parents()
    chosen = islice(commits, count)
    if as_json:
        say_json([_plain(history, commit, stat=stat) for commit in chosen])
        return
    blocks = _drawn(history, chosen, stat=stat) if graph else _listed(history, chosen, stat=stat)
    is_empty = True
    for block in blocks:
        say_lines(block)
        is_empty = False
    if is_empty and count != 0:
        say("no commits yet", err=True)


def _listed(history: Log, commits: Iterator[LogEntry], *, stat: bool) -> Iterator[str]:
    for commit in commits:
        yield "\n".join(_text(history, commit, stat=stat))


def _drawn(history: Log, commits: Iterator[LogEntry], *, stat: bool) -> Iterator[str]:
    """Put the text of each commit beside its place in the graph."""
    known: dict[str, LogEntry] = {}

    def remembered() -> Iterator[tuple[str, tuple[str, ...]]]:
        for commit in commits:
            known[commit.node.id] = commit
            yield commit.node.id, commit.parents

    for place in draw(remembered()):
        text = _text(history, known.pop(place.id), stat=stat)
        lines = [*place.lines, *[place.below] * (len(text) - len(place.lines))]
        width = max(map(len, [*lines, place.below]))
        text += [""] * (len(lines) - len(text))
        yield "\n".join(f"{line:{width}}  {words}".rstrip() for line, words in zip(lines, text, strict=True))


def _text(history: Log, commit: LogEntry, *, stat: bool) -> list[str]:
    node = commit.node
    names = f"  ({', '.join(commit.names)})" if commit.names else ""
    lines = [f"{node.id[:12]}  {commit_time(node)} UTC  {printable(f'{node.user}{names}')}"]
    lines += [f"    {printable(line)}".rstrip() for line in str(node.message).splitlines() or [""]]
    if stat:
        try:
            lines += _stat(history.changes(node.id))
        except CorruptError as error:
            lines.append(f"      what it changed is lost: {printable(str(error))}")
    return lines


def _stat(changes: dict[str, Any]) -> list[str]:
    """Return one line for each tensor that a commit touched, and for the dataset itself."""
    rows = [("dataset", "info updated")] if changes["info_updated"] else []
    rows += [(name, "deleted") for name in changes["deleted"]]
    rows += [(f"{old} -> {new}", "renamed") for old, new in changes["renamed"].items()]
    for name, counts in changes["tensors"].items():
        words = [flag for flag in ("created", "cleared", "transformed") if counts[flag]]
        signs = (("added", "+"), ("updated", "~"), ("deleted", "-"))
        words += [f"{sign}{counts[what]:,} {what}" for what, sign in signs if counts[what]]
        words += ["info updated"] if counts["info_updated"] else []
        rows.append((name, ", ".join(words)))
    if not rows:
        return ["      nothing changed"]
    rows = [(printable(name), what) for name, what in rows]
    width = max(len(name) for name, _ in rows)
    return [f"      {name:{width}}  {what}" for name, what in rows]


def _plain(history: Log, commit: LogEntry, *, stat: bool) -> dict[str, Any]:
    found = commit.to_json()
    if stat:
        try:
            found["changes"] = history.changes(commit.node.id)
        except CorruptError:
            found["changes"] = None
    return found
