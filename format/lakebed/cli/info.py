"""``lakebed info``: what a dataset consists of."""

from __future__ import annotations

import click

import lakebed
from lakebed.cli import describe
from lakebed.cli.opening import as_of_option, moment
from lakebed.cli.output import json_option, say_json, say_lines, with_errors


@click.command()
@click.argument("url")
@as_of_option
@json_option
@with_errors
def info(url: str, as_of: str | None, as_json: bool) -> None:
    """Show schema, lengths, versions and info of URL[@branch, @commit or @tag]."""
    facts = describe.facts(lakebed.load(url, read_only=True, as_of=moment(as_of)))
    if as_json:
        say_json(facts)
    else:
        say_lines(describe.facts_text(facts))
