"""``lakebed branch``: list, make and delete branches."""

from __future__ import annotations

from typing import Any

import click

import lakebed
from lakebed.cli import describe
from lakebed.cli.addresses import writable
from lakebed.cli.commands import command
from lakebed.cli.output import say, tell, tell_table


@command
@click.argument("url")
@click.argument("name", required=False)
@click.option("-d", "--delete", is_flag=True, help="Delete the branch with the commits that only it has.")
@click.option("--force", is_flag=True, help="Delete it also if it was merged into another branch.")
def branch(url: str, name: str | None, delete: bool, force: bool, as_json: bool) -> None:
    """List the branches of URL; with NAME start a branch at URL[@branch, @commit or @tag].

    Uncommitted changes are committed first, as a checkout does; URL@HEAD~1 starts at the last commit.

    For example: lakebed branch photos@v1 fixes
    """
    if force and not delete:
        raise click.UsageError("--force needs --delete")
    if name is None:
        if delete:
            raise click.UsageError("give the NAME of the branch, too")
        _list(url, as_json=as_json)
        return
    ds = writable(url)
    if delete:
        ds.delete_branch(name, force=force)
        if not as_json:
            say(f"deleted branch {name}")
        return
    commit = ds.checkout(name, create=True)
    tell(
        {"branch": name, "commit": commit},
        f"branch {name} begins at {commit or 'no commit'}",
        as_json=as_json,
    )


def _list(url: str, *, as_json: bool) -> None:
    ds = lakebed.load(url, read_only=True)
    found = [_entry(ds, name) for name in ds.branches]
    rows = [
        [
            f"{'*' if entry['current'] else ' '} {entry['branch']}",
            (entry["commit"] or "-")[:12],
            f"{entry['time']} UTC" if entry["time"] else "-",
            describe.cell(str(entry["message"])) if entry["commit"] else "no commits yet",
        ]
        for entry in found
    ]
    tell_table(found, ["  branch", "last commit", "made", "message"], rows, "no branches", as_json=as_json)


def _entry(ds: lakebed.Dataset, name: str) -> dict[str, Any]:
    """Return a branch with its last commit."""
    try:
        last = ds.get_commit_details(f"{name}~1")
    except lakebed.VersionNotFoundError:
        last = {"commit": None, "author": None, "time": None, "message": None}
    return {"branch": name, "current": name == ds.branch, **last}
