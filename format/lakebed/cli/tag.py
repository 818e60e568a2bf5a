"""``lakebed tag``: list, make and delete names for commits."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

import lakebed
from lakebed.cli import describe
from lakebed.cli.opening import writable
from lakebed.cli.output import json_option, say, say_json, say_lines, with_errors
from lakebed.runtime import clock


@click.command()
@click.argument("url")
@click.argument("name", required=False)
@click.argument("commit", required=False)
@click.option("-m", "--message", help="Why it has this name.")
@click.option("-d", "--delete", is_flag=True, help="Delete the tag; its commit stays.")
@json_option
@with_errors
def tag(
    url: str, name: str | None, commit: str | None, message: str | None, delete: bool, as_json: bool
) -> None:
    """List the tags of URL; with NAME give that name to COMMIT, or to the last commit of URL[@branch].

    For example: lakebed tag photos v1 -m "first release"
    """
    if name is None:
        if delete or message is not None:
            raise click.UsageError("give the NAME of the tag, too")
        _list(lakebed.load(url, read_only=True), as_json=as_json)
        return
    if delete:
        if commit is not None or message is not None:
            raise click.UsageError("--delete takes neither a COMMIT nor a message")
        writable(url).delete_tag(name)
        if not as_json:
            say(f"deleted tag {name}")
        return
    made = writable(url).create_tag(name, commit, message)
    if as_json:
        say_json(_plain(made))
    else:
        say(f"{made.name} is {made.commit}")


def _list(ds: lakebed.Dataset, *, as_json: bool) -> None:
    found = list(ds.get_tags().values())
    if as_json:
        say_json([_plain(tag) for tag in found])
    elif not found:
        say("no tags yet", err=True)
    else:
        rows = [
            [
                tag.name,
                tag.commit[:12],
                f"{clock.utc(tag.time)} UTC",
                tag.user,
                describe.cell(tag.message or ""),
            ]
            for tag in found
        ]
        say_lines(describe.table(["tag", "commit", "made", "by", "message"], rows))


def _plain(tag: Any) -> dict[str, Any]:
    found = asdict(tag)
    return {**found.pop("extra"), **found, "time": clock.utc(tag.time)}
