"""``lakebed cp``: a dataset with its history, or the content of one version, to another place."""

from __future__ import annotations

from functools import partial

import click

import lakebed
from lakebed.cli.addresses import parsed
from lakebed.cli.commands import command, overwrite_option, progress_option, tensor_option
from lakebed.cli.describe import tell_made
from lakebed.storage.url import parse


@command
@click.argument("src")
@click.argument("dest")
@tensor_option()
@click.option(
    "--flat", is_flag=True, help="What the dataset holds now, or at SRC@VERSION, without its history."
)
@click.option(
    "--deeplake3", is_flag=True, help="Tensors of more than 2^20 chunks, too, as Deep Lake 3.9.52 reads them."
)
@overwrite_option
@progress_option
def cp(
    src: str,
    dest: str,
    tensors: tuple[str, ...],
    flat: bool,
    deeplake3: bool,
    overwrite: bool,
    progressbar: bool,
    as_json: bool,
) -> None:
    """Copy a dataset with its history from SRC to DEST; if it is killed, the same command resumes.

    SRC[0:100], SRC[3,5,8] and SRC:train copy these rows, or this split, as they are now or at SRC@VERSION, and nothing
    else.

    For example: lakebed cp 'photos@v1:train[0:1000]' sample
    """
    part = parsed(src)
    ref = parse(part.address, existing=True).ref
    flat = flat or not part.is_whole
    if ref is not None and not flat:
        raise click.UsageError(
            f"{src} is the address of a version: copy what it holds with --flat, or the whole dataset without @{ref}"
        )
    ds = part.of(lakebed.load(part.address, read_only=True))
    if deeplake3 and flat:
        raise click.UsageError("--deeplake3 is for copies with the whole history")
    copied = ds.copy if flat else partial(ds.deepcopy, deeplake3=deeplake3)
    made = copied(dest, tensors=list(tensors) or None, overwrite=overwrite, progressbar=progressbar)
    tell_made(made, dest, {"source": src}, is_flat=flat, as_json=as_json)
