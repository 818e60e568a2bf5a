"""``lakebed rename``: another name for a tensor or a group."""

from __future__ import annotations

import click

import lakebed
from lakebed.cli.commands import command
from lakebed.cli.output import tell


@command
@click.argument("url")
@click.argument("name")
@click.argument("new")
def rename(url: str, name: str, new: str, as_json: bool) -> None:
    """Give the tensor or group NAME of URL[@branch] the name NEW.

    lakebed commit makes a version with the new name. The name of a dataset is its path: move its folder, or use lakebed
    cp, to change it.

    For example: lakebed rename photos lables labels
    """
    ds = lakebed.load(url, read_only=False)
    (ds.rename_group if name in ds.groups else ds.rename_tensor)(name, new)
    ds.flush()
    told = {"branch": ds.branch, "name": name, "new": new}
    tell(told, f"{name} is {new} now; it is not committed yet", as_json=as_json)
