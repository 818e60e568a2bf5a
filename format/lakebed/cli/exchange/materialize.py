"""``lakebed materialize``: fetch the data that links lead to, and list broken links."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

import lakebed
from lakebed.cli.commands import command, progress_option, tensor_option
from lakebed.cli.output import say, say_json, say_some
from lakebed.errors import GetDataFromLinkError, SampleAppendError


@command
@click.argument("src")
@click.argument("dest", required=False)
@tensor_option("Only this tensor; may be repeated.")
@click.option("--overwrite", is_flag=True, help="Replace a dataset at DEST, or begin anew.")
@click.option("--ignore-errors", is_flag=True, help="Leave an empty sample for each broken link.")
@progress_option
def materialize(
    src: str,
    dest: str | None,
    tensors: tuple[str, ...],
    overwrite: bool,
    ignore_errors: bool,
    progressbar: bool,
    as_json: bool,
) -> None:
    """Fetch the files that links of SRC lead to, into a copy at DEST or into SRC itself. Run it again after a kill.

    Exit status 1: some links are broken.

    For example: lakebed materialize photos photos-local
    """
    try:
        broken = lakebed.materialize(
            src,
            dest,
            tensors or None,
            overwrite=overwrite,
            ignore_errors=ignore_errors,
            progressbar=progressbar,
        )
    except (GetDataFromLinkError, SampleAppendError) as error:
        notes = "; ".join(getattr(error, "__notes__", ()))
        hint = "with --ignore-errors such links become empty samples"
        raise click.ClickException("; ".join(filter(None, (str(error), notes, hint)))) from error
    if as_json:
        say_json({"dataset": dest or src, "broken": [asdict(link) for link in broken]})
    else:
        say_some("empty:", broken)
        found = f"{len(broken):,} links lead nowhere" if broken else "what the links lead to is stored now"
        say(f"{dest or src}: {found}")
    if broken:
        sys.exit(1)
