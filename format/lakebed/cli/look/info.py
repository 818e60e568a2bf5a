"""``lakebed info``: schema, lengths and versions of a dataset."""

from __future__ import annotations

import click

from lakebed.cli import describe
from lakebed.cli.addresses import as_of_option, opened
from lakebed.cli.commands import command
from lakebed.cli.output import say_json, say_lines


@command
@click.argument("url")
@as_of_option
def info(url: str, as_of: str | None, as_json: bool) -> None:
    """Show schema, lengths, versions and info of URL[@branch, @commit or @tag].

    For example: lakebed info photos@v1
    """
    facts = describe.facts(opened(url, as_of))
    if as_json:
        say_json(facts)
    else:
        say_lines(describe.facts_text(facts))
