"""``lakebed materialize``: fetch what links lead to, and tell which lead nowhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict

import click

import lakebed
from lakebed.cli.output import say, say_json
from lakebed.errors import GetDataFromLinkError, SampleAppendError

_SHOWN = 20


def materialize(
    src: str,
    dest: str | None,
    tensors: Sequence[str] | None,
    *,
    overwrite: bool,
    ignore_errors: bool,
    progressbar: bool,
    as_json: bool,
) -> None:
    """Put data in place of the links of a dataset, or of a copy of it, and print the links that lead nowhere."""
    try:
        broken = lakebed.materialize(
            src,
            dest,
            tensors,
            overwrite=overwrite,
            ignore_errors=ignore_errors,
            progressbar=progressbar and sys.stderr.isatty(),
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
