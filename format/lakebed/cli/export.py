"""``lakebed export FORMAT DATASET DEST``: datasets in other formats, a command for each with its own options."""

from __future__ import annotations

import sys
from typing import Any

import click

import lakebed
from lakebed.cli.import_ import option_of, parsed
from lakebed.cli.opening import opened
from lakebed.cli.output import json_option, say_json, say_lines, with_errors
from lakebed.errors import ExportError
from lakebed.exporters.core.registry import exporter_of, exporters
from lakebed.runtime.options import Option, options_of

_COMMON = (
    click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing."),
    click.option("--overwrite", is_flag=True, help="Replace what is at DEST."),
    click.option("--strict", is_flag=True, help="Fail at the first row that cannot be written."),
    click.option("--split", metavar="A/B", help="Splits that are written: train/val."),
    click.option(
        "--workers", type=int, metavar="N", help="How many threads write; one for each core if left out."
    ),
    click.option("--progress/--no-progress", "progressbar", default=True, help="Show how far it is."),
    json_option,
)


class Formats(click.Group):
    """A command for each format."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all formats."""
        return sorted(exporters())

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        """Return the command of a format."""
        try:
            exporter = exporter_of(name)
        except ExportError as error:
            raise click.UsageError(str(error)) from error
        return _command(name, f"Write {exporter.summary}.", options_of(exporter.plan))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the formats without importing any."""
        with formatter.section("Formats"):
            formatter.write_dl(sorted((name, exporter.summary) for name, exporter in exporters().items()))


@click.group("export", cls=Formats, subcommand_metavar="FORMAT DATASET DEST [OPTIONS]")
def export() -> None:
    """Write a dataset in another format; lakebed export FORMAT --help lists the options of a format.

    DATASET may be a version, a split or rows: photos@v1, photos:train, photos[0:100].

    For example: lakebed export coco photos photos-coco
    """


def _command(name: str, summary: str, all_options: list[Option]) -> click.Command:
    options = [option for option in all_options if option.kind != "any"]

    @with_errors
    def run(dataset: str, dest: str, as_json: bool, **given: Any) -> None:
        for option in options:
            given[option.name] = parsed(option, given[option.name])
        report = lakebed.export_to(name, opened(dataset), dest, **given)
        if as_json:
            say_json(report.to_dict())
        else:
            say_lines(str(report))
        sys.exit(1 if report.skipped and not report.written else 0)

    parameters: list[click.Parameter] = [
        click.Argument(["dataset"]),
        click.Argument(["dest"]),
        *(option_of(option) for option in options),
    ]
    command = click.Command(name, params=parameters, callback=run, help=summary)
    for decorate in reversed(_COMMON):
        command = decorate(command)
    return command
