"""``lakebed import FORMAT SRC DEST``: data sets of other formats."""

from __future__ import annotations

from typing import Any

import click

import lakebed
from lakebed.cli.commands import json_option
from lakebed.cli.exchange.formats import Formats, format_command, summaries_of
from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.core.registry import importer_of, importers, recognised
from lakebed.importers.core.source import Source
from lakebed.runtime.options import Option, options_of

_COMMON = (
    click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing."),
    click.option("--append", is_flag=True, help="Add to the rows of the dataset at DEST."),
    click.option("--overwrite", is_flag=True, help="Replace the dataset at DEST."),
    click.option(
        "--strict", is_flag=True, help="Fail at the first file, row or value that cannot be imported."
    ),
    click.option(
        "--lossless", is_flag=True, help="Store images of several kinds as PNG, so that no pixel is lost."
    ),
    click.option(
        "--workers", type=int, metavar="N", help="Number of workers; one for each core if left out."
    ),
    click.option(
        "--scheduler",
        type=click.Choice(["threaded", "processed", "serial", "ray"]),
        help="Kind of workers; the best for the format if left out.",
    ),
    click.option(
        "--split",
        metavar="A/B",
        help="Splits that are taken: train/val. With shares, train=0.8/val=0.2, rows are assigned by chance.",
    ),
    click.option("--separate", is_flag=True, help="Make a dataset of each split, DEST/train and so on."),
    click.option("--seed", type=int, default=0, help="Seed for drawing shares."),
    click.option(
        "--checkpoint",
        type=int,
        metavar="N",
        help="Commit after this many items of the source; 0 never before the end.",
    ),
    click.option("--follow-symlinks", is_flag=True, help="Follow symbolic links that lead out of SRC."),
    click.option("--progress/--no-progress", "progressbar", default=True, help="Show a progress bar."),
    json_option,
)


class ImportFormats(Formats):
    """Formats to import; ``auto SRC`` takes the options of the format that it recognises in the source."""

    def summaries(self) -> list[tuple[str, str]]:
        """Return name and summary of each format."""
        return [("auto", "finds out the format"), *summaries_of(importers())]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        """Return the command of a format."""
        if name == "auto":
            told = "Detect the format of SRC, print it, and import SRC; options of the format may follow SRC."
            return _command(name, told, [])
        try:
            importer = importer_of(name)
        except IngestionError as error:
            raise click.UsageError(str(error)) from error
        return _command(name, f"Import {importer.summary}.", options_of(importer.plan))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name; for ``auto`` with further options, that of the format."""
        found = super().resolve_command(ctx, args)
        name, command, rest = found
        if name != "auto" or command is None or not _more_than(command, rest):
            return found
        try:
            source = Source.of(rest[0], None, follow_symlinks="--follow-symlinks" in rest)
            importer = recognised(source)[0]
        except LakebedError as error:
            raise click.ClickException(str(error)) from error
        return importer.name, self.get_command(ctx, importer.name), rest


@click.group("import", cls=ImportFormats, subcommand_metavar="FORMAT SRC DEST [OPTIONS]")
def import_() -> None:
    """Import a data set of another format; lakebed import FORMAT --help lists the options of a format.

    Rows that cannot be imported are left out, counted and listed. After a kill, run the command again. SRC and DEST are
    paths or addresses of buckets, whose credentials come from the environment.

    For example: lakebed import auto coco/ coco-lake --dry-run
    """


def _more_than(command: click.Command, args: list[str]) -> bool:
    """Return whether the source is followed by options that the command does not know."""
    if not args or args[0].startswith("-"):
        return False
    known = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)} | {"--help"}
    given = (arg.partition("=")[0] for arg in args[1:] if arg.startswith("--") and arg != "--")
    return any(flag not in known for flag in given)


def _command(name: str, summary: str, options: list[Option]) -> click.Command:
    def call(src: str, dest: str | None, **given: Any) -> Any:
        if dest is None and not given["dry_run"]:
            raise click.UsageError("Missing argument 'DEST'; only --dry-run needs no DEST")
        return lakebed.import_from(name, src, dest, **given)

    places = [click.Argument(["src"]), click.Argument(["dest"], required=False)]
    return format_command(name, summary, options, places, _COMMON, call)
