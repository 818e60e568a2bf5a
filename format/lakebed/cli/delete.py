"""``lakebed delete``: a dataset with all its versions, or some of its tensors."""

from __future__ import annotations

import click

import lakebed
from lakebed.cli.completion import tensor_names
from lakebed.cli.output import json_option, say, say_json, with_errors
from lakebed.runtime.printable import printable
from lakebed.storage.url import parse


@click.command()
@click.argument("url")
@click.option(
    "-t",
    "--tensor",
    "tensors",
    multiple=True,
    shell_complete=tensor_names,
    help="Only this tensor or group, which earlier commits keep; may be repeated.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--large", is_flag=True, help="Also what takes more than 1 GB.")
@click.option("--force", is_flag=True, help="Also what does not open as a dataset, or is being written.")
@json_option
@with_errors
def delete(url: str, tensors: tuple[str, ...], yes: bool, large: bool, force: bool, as_json: bool) -> None:
    """Delete URL with all its versions, or with -t only tensors from its last version. It asks before.

    lakebed branch, tag and view delete those with -d.

    For example: lakebed delete photos-test --yes
    """
    if force and tensors:
        raise click.UsageError("--force is for a whole dataset")
    ref = parse(url, existing=True).ref
    if ref is not None and not tensors:
        raise click.UsageError(
            f"a dataset goes with all its versions: leave out @{ref}, or name tensors with -t"
        )
    if tensors:
        ds = lakebed.load(url, read_only=False)
        for name in tensors:
            ds[name]  # an error before the question, and before any is gone
        _ask(f"Delete {', '.join(tensors)} from {url}?", yes=yes)
        with ds:
            for name in tensors:
                (ds.delete_group if name in ds.groups else ds.delete_tensor)(name, large_ok=large)
    else:
        told = "" if force else _told(url)
        _ask(f"Delete {url}{told}?", yes=yes)
        lakebed.delete(url, force=force, large_ok=large)
    gone = list(tensors) or url
    if as_json:
        say_json({"deleted": gone})
    elif tensors:
        say(f"deleted {', '.join(tensors)} from {url}; it is not committed yet")
    else:
        say(f"deleted {url}")


def _told(url: str) -> str:
    """Return in words how much a dataset holds, which no other program is writing."""
    with lakebed.load(url, read_only=False) as ds:
        return f" with {ds.max_len:,} rows, {len(ds.commits):,} commits, {len(ds.branches):,} branches"


def _ask(question: str, *, yes: bool) -> None:
    if not yes:
        click.confirm(printable(question), abort=True, err=True)
