"""``lakebed delete``: remove a dataset with all its versions, or some of its tensors."""

from __future__ import annotations

import click

import lakebed
from lakebed.cli.commands import command, tensor_option
from lakebed.cli.output import tell
from lakebed.runtime.printable import printable
from lakebed.storage.url import parse


@command
@click.argument("url")
@tensor_option("Only this tensor or group, which earlier commits keep; may be repeated.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--large", is_flag=True, help="Also delete data of more than 1 GB.")
@click.option("--force", is_flag=True, help="Also delete a dataset that does not open, or is being written.")
def delete(url: str, tensors: tuple[str, ...], yes: bool, large: bool, force: bool, as_json: bool) -> None:
    """Delete URL with all its versions, or with -t only tensors from its last version.

    The command asks for confirmation.

    lakebed branch, tag and view delete those with -d.

    For example: lakebed delete photos-test --yes
    """
    if force and tensors:
        raise click.UsageError("--force deletes a whole dataset: leave out -t")
    ref = parse(url, existing=True).ref
    if ref is not None and not tensors:
        raise click.UsageError(
            f"a dataset is deleted with all its versions: leave out @{ref}, or name tensors with -t"
        )
    if tensors:
        ds = lakebed.load(url, read_only=False)
        for name in tensors:
            ds[name]  # raise before the question and before any deletion if the tensor does not exist
        _ask(f"Delete {', '.join(tensors)} from {url}?", yes=yes)
        with ds:
            for name in tensors:
                (ds.delete_group if name in ds.groups else ds.delete_tensor)(name, large_ok=large)
        gone = f"{', '.join(tensors)} from {url}; it is not committed yet"
    else:
        _ask(f"Delete {url}{'' if force else _told(url)}?", yes=yes)
        lakebed.delete(url, force=force, large_ok=large)
        gone = url
    tell({"deleted": list(tensors) or url}, f"deleted {gone}", as_json=as_json)


def _told(url: str) -> str:
    """Describe the content of a dataset for messages; raise if another program is writing it."""
    with lakebed.load(url, read_only=False) as ds:
        return f" with {ds.max_len:,} rows, {len(ds.commits):,} commits, {len(ds.branches):,} branches"


def _ask(question: str, *, yes: bool) -> None:
    if not yes:
        click.confirm(printable(question), abort=True, err=True)
