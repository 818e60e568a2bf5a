"""``lakebed merge``: merge the changes of another branch into this one."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from typing import Literal

import click

import lakebed
from lakebed.cli.commands import command
from lakebed.cli.output import tell


@command
@click.argument("url")
@click.argument("version", metavar="BRANCH")
@click.option(
    "--conflict",
    type=click.Choice(["ours", "theirs"]),
    help="Whose value to keep for samples that both changed; without it, a conflict is an error.",
)
@click.option("--delete-removed-tensors", is_flag=True, help="Also delete tensors that BRANCH deleted.")
@click.option("--force", is_flag=True, help="Merge even if both renamed a tensor.")
def merge(
    url: str,
    version: str,
    conflict: Literal["ours", "theirs"] | None,
    delete_removed_tensors: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Merge a branch, commit or tag of URL[@branch] into that branch. After an error nothing is changed.

    For example: lakebed merge photos fixes --conflict theirs
    """
    ds = lakebed.load(url, read_only=False)
    before = ds.commit_id
    with redirect_stdout(StringIO()):
        ds.merge(version, conflict, delete_removed_tensors=delete_removed_tensors, force=force)
    if ds.commit_id == before:
        text = f"{ds.branch} has all of {version} already"
    else:
        text = f"merged {version} into {ds.branch}: {ds.max_len:,} rows, commit {ds.commit_id}"
    told = {"branch": ds.branch, "merged": version, "commit": ds.commit_id, "rows": ds.max_len}
    tell(told, text, as_json=as_json)
