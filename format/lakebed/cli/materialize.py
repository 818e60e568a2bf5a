"""``lakebed materialize``: fetch what links lead to, and tell which lead nowhere."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

import lakebed
from lakebed.cli.completion import tensor_names
from lakebed.cli.output import json_option, say, say_json, with_errors
from lakebed.errors import GetDataFromLinkError, SampleAppendError

_SHOWN = 20


@click.command()
@click.argument("src")
@click.argument("dest", required=False)
@click.option(
    "-t",
    "--tensor",
    "tensors",
    multiple=True,
    shell_complete=tensor_names,
    help="Only this tensor; may be repeated.",
)
@click.option("--overwrite", is_flag=True, help="Replace a dataset at DEST, or begin anew.")
@click.option("--ignore-errors", is_flag=True, help="Leave empty samples where links lead nowhere.")
@click.option("--progress/--no-progress", default=True, help="Show how far it is.")
@json_option
@with_errors
def materialize(
    src: str,
    dest: str | None,
    tensors: tuple[str, ...],
    overwrite: bool,
    ignore_errors: bool,
    progress: bool,
    as_json: bool,
) -> None:
    """Fetch what the links of SRC lead to: into a copy at DEST, or in their place. Goes on where it was stopped.

    Exit status 1: some links lead nowhere.

    For example: lakebed materialize photos photos-local
    """
    try:
        broken = lakebed.materialize(
            src,
            dest,
            tensors or None,
            overwrite=overwrite,
            ignore_errors=ignore_errors,
            progressbar=progress and sys.stderr.isatty(),
        )
    except (GetDataFromLinkError, SampleAppendError) as error:
        notes = "; ".join(getattr(error, "__notes__", ()))
        hint = "with --ignore-errors such links become empty samples"
        raise click.ClickException("; ".join(filter(None, (str(error), notes, hint)))) from error
    if as_json:
        say_json({"dataset": dest or src, "broken": [asdict(link) for link in broken]})
    else:
        for link in broken[:_SHOWN]:
            say(f"empty: {link}")
        if len(broken) > _SHOWN:
            say(f"empty: {len(broken) - _SHOWN:,} more; --json lists all")
        found = f"{len(broken):,} links lead nowhere" if broken else "what the links lead to is stored now"
        say(f"{dest or src}: {found}")
    if broken:
        sys.exit(1)
