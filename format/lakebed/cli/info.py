"""``lakebed info``: what a dataset consists of."""

from __future__ import annotations

import click

from lakebed.cli import describe
from lakebed.cli.opening import as_of_option, opened
from lakebed.cli.output import json_option, say_json, say_lines, with_errors


@click.command()
@click.argument("url")
@as_of_option
@json_option
@with_errors
def info(url: str, as_of: str | None, as_json: bool) -> None:
    """Show schema, lengths, versions and info of URL[@branch, @commit or @tag].

    For example: lakebed info photos@v1
    """
    facts = describe.facts(opened(url, as_of))
    if as_json:
        say_json(facts)
    else:
        say_lines(describe.facts_text(facts))
