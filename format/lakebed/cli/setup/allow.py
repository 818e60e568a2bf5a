"""``lakebed allow``: folders that links to files may lead into, for all processes of this user."""

from __future__ import annotations

import click

from lakebed.cli.commands import command
from lakebed.cli.output import say, say_json
from lakebed.links import kept


@command
@click.argument("folder", required=False)
@click.option(
    "--list", "listed", is_flag=True, help="List what is allowed, and in which datasets links are yours."
)
@click.option(
    "--remove", is_flag=True, help="Take FOLDER back, or what was remembered of the dataset FOLDER."
)
def allow(folder: str | None, listed: bool, remove: bool, as_json: bool) -> None:
    """Let the links of all datasets lead into FOLDER and below, for you and from now on.

    Files that your own programs have linked in a dataset of this machine need no permission.

    For example: lakebed allow /data/photos
    """
    if listed:
        _list(as_json=as_json)
    elif folder is None:
        raise click.UsageError("name a FOLDER, or pass --list")
    elif not remove:
        say(f"links may lead into {kept.allow(folder)}")
    elif kept.disallow(folder):
        say(f"links are no longer followed because of {folder}")
    else:
        raise click.ClickException(f"{folder} is not allowed, and is not a dataset with links of your own")


def _list(*, as_json: bool) -> None:
    folders, datasets = kept.allowed(), dict(kept.datasets())
    if as_json:
        say_json({"folders": list(folders), "datasets": datasets})
        return
    for each in folders:
        say(each)
    for dataset, count in datasets.items():
        say(f"{count:,} files that you have linked in {dataset}")
    if not folders and not datasets:
        say("nothing is allowed", err=True)
