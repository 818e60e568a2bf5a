"""The full command line: help, errors, `--docs`. `run` reads ordinary command lines without it.

Importing argparse and making a parser takes as long as importing thirty of our modules.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from lakebed import __version__


def parse(args: Sequence[str]) -> argparse.Namespace:
    """Parse the command line: `command`, `debug`, and the command's `config` and `catalog`."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--debug", action="store_true", help="log more")
    parser = argparse.ArgumentParser(
        prog="destination-deeplake", description="Airbyte destination for tensor datasets."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument(
        "--docs",
        nargs="?",
        action=_Docs,
        metavar="PAGE",
        help="print a page of the documentation, or their names",
    )
    commands = parser.add_subparsers(title="commands", dest="command", required=True)
    commands.add_parser("spec", help="outputs the json configuration specification", parents=[common])
    for name, text in (
        ("check", "checks the config can be used to connect"),
        ("write", "writes data to the destination"),
    ):
        command = commands.add_parser(name, help=text, parents=[common])
        command.add_argument("--config", required=True, help="path to the json configuration file")
        if name == "write":
            command.add_argument("--catalog", required=True, help="path to the configured catalog JSON file")
    return parser.parse_args(args)


class _Docs(argparse.Action):
    """Action that prints a page of the documentation and ends the program."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        _namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        _option: str | None = None,
    ) -> None:
        from destination_deeplake.pages import contents, pages

        known = pages()
        if values is not None and str(values) not in known:
            parser.error(f"there is no page {values!r}; --docs alone lists them")
        sys.stdout.write(contents() if values is None else known[str(values)].read_text(encoding="utf-8"))
        parser.exit()
