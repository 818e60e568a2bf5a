"""``lakebed export FORMAT DATASET DEST``: datasets in other formats."""

from __future__ import annotations

from typing import Any

import click

import lakebed
from lakebed.cli.addresses import opened
from lakebed.cli.commands import json_option
from lakebed.cli.exchange.formats import Formats, format_command, summaries_of
from lakebed.errors import ExportError
from lakebed.exporters.core.registry import exporter_of, exporters
from lakebed.runtime.options import options_of

_COMMON = (
    click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing."),
    click.option("--overwrite", is_flag=True, help="Replace what is at DEST."),
    click.option("--strict", is_flag=True, help="Fail at the first row that cannot be written."),
    click.option("--split", metavar="A/B", help="Splits that are written: train/val."),
    click.option(
        "--workers", type=int, metavar="N", help="Number of threads; one for each core if left out."
    ),
    click.option("--progress/--no-progress", "progressbar", default=True, help="Show a progress bar."),
    json_option,
)


class ExportFormats(Formats):
    """Formats to export to."""

    def summaries(self) -> list[tuple[str, str]]:
        """Return name and summary of each format."""
        return summaries_of(exporters())

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        """Return the command of a format."""
        try:
            exporter = exporter_of(name)
        except ExportError as error:
            raise click.UsageError(str(error)) from error

        def call(dataset: str, dest: str, **given: Any) -> Any:
            return lakebed.export_to(name, opened(dataset), dest, **given)

        places = [click.Argument(["dataset"]), click.Argument(["dest"])]
        options = options_of(exporter.plan)
        return format_command(name, f"Write {exporter.summary}.", options, places, _COMMON, call)


@click.group("export", cls=ExportFormats, subcommand_metavar="FORMAT DATASET DEST [OPTIONS]")
def export() -> None:
    """Write a dataset in another format; lakebed export FORMAT --help lists the options of a format.

    DATASET may be a version, a split or rows: photos@v1, photos:train, photos[0:100].

    For example: lakebed export coco photos photos-coco
    """
