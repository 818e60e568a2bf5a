"""``lakebed diff``: the changes between versions, for people or as JSON."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import click

import lakebed
from lakebed.cli.commands import command
from lakebed.cli.describe import plain
from lakebed.cli.output import say_coloured, say_json


@command
@click.argument("url")
@click.argument("id_1", required=False)
@click.argument("id_2", required=False)
def diff(url: str, id_1: str | None, id_2: str | None, as_json: bool) -> None:
    """Show what changed in URL[@branch or @commit] since its last commit, since ID_1, or between ID_1 and ID_2.

    For example: lakebed diff photos main fixes
    """
    ds = lakebed.load(url, read_only=True)
    if as_json:
        say_json(_listed(ds.diff(id_1, id_2, as_dict=True)))
        return
    with redirect_stdout(StringIO()) as printed:
        ds.diff(id_1, id_2)
    say_coloured(printed.getvalue())


def _listed(value: Any) -> Any:
    """Return a dictionary of differences as JSON; sets of rows become ascending lists."""
    if isinstance(value, set):
        return sorted(value)
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_listed(item) for item in value]
    return plain(value)
