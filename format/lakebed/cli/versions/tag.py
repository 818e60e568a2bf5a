"""``lakebed tag``: list, make and delete names for commits."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

import lakebed
from lakebed.cli import describe
from lakebed.cli.addresses import writable
from lakebed.cli.commands import command
from lakebed.cli.output import say, tell, tell_table
from lakebed.runtime import clock


@command
@click.argument("url")
@click.argument("name", required=False)
@click.argument("commit", required=False)
@click.option("-m", "--message", help="Reason for the tag.")
@click.option("-d", "--delete", is_flag=True, help="Delete the tag; its commit stays.")
def tag(
    url: str, name: str | None, commit: str | None, message: str | None, delete: bool, as_json: bool
) -> None:
    """List the tags of URL; with NAME give that name to COMMIT, or to the last commit of URL[@branch].

    For example: lakebed tag photos v1 -m "first release"
    """
    if name is None:
        if delete or message is not None:
            raise click.UsageError("give the NAME of the tag, too")
        found = list(lakebed.load(url, read_only=True).get_tags().values())
        headings = ["tag", "commit", "made", "by", "message"]
        tell_table(list(map(_plain, found)), headings, list(map(_row, found)), "no tags yet", as_json=as_json)
        return
    if delete:
        if commit is not None or message is not None:
            raise click.UsageError("--delete takes neither a COMMIT nor a message")
        writable(url).delete_tag(name)
        if not as_json:
            say(f"deleted tag {name}")
        return
    made = writable(url).create_tag(name, commit, message)
    tell(_plain(made), f"{made.name} is {made.commit}", as_json=as_json)


def _row(tag: Any) -> list[str]:
    return [
        tag.name,
        tag.commit[:12],
        f"{clock.utc(tag.time)} UTC",
        tag.user,
        describe.cell(tag.message or ""),
    ]


def _plain(tag: Any) -> dict[str, Any]:
    found = asdict(tag)
    return {**found.pop("extra"), **found, "time": clock.utc(tag.time)}
