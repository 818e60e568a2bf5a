"""Console entry: `destination-deeplake spec | check --config F | write --config F --catalog F`.

There are two surfaces and one implementation. This one parses the command line of the CDK by itself, because
importing airbyte-cdk costs more than a second of CPU and 75 MB, in `spec` as well as in every sync, for
nothing that the hot path needs. `destination.DestinationDeeplake` is the standard class on top of the CDK,
for whatever expects one (`launch`, test suites, PyAirbyte in process). Both call the functions below and in
`sync`, `probe` and `failures`; a test compares what they print.

`destination-deeplake import FORMAT SRC DEST` and `export` are those of the command `lakebed`, so that the image of the
connector imports and exports data sets as well.

Exit status: 0 done (a failed `check` included, as the protocol wants it), 1 failed with a TRACE, 2 wrong
command line, 128 + n stopped by signal n.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from destination_deeplake.config import read_config, specification
from destination_deeplake.failures import ConfigError, describe
from destination_deeplake.messages import Message, Output, spec_message, status_message
from destination_deeplake.notices import notices
from destination_deeplake.version import __version__


def run() -> None:
    """Run the command line of this process; does not return."""
    # NumPy's BLAS starts a thread per processor that spins while it waits; a sync multiplies no matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # A platform starts a killed sync again within seconds; in a bucket only the lease tells that it was killed.
    os.environ.setdefault("LAKEBED_LEASE_SECONDS", "60")
    if sys.argv[1:2] in (["import"], ["export"]):
        from lakebed.cli import main as command

        command(prog_name="destination-deeplake")
    sys.exit(main(sys.argv[1:]))


def main(args: Sequence[str]) -> int:
    """Run one command and return the exit status.

    Parameters
    ----------
    args : sequence of str
        Command line without the program name.
    """
    parsed = parse_args(args)
    out = Output(sys.stdout.fileno(), debug=parsed.debug)
    try:
        with notices(out, debug=parsed.debug):
            status = _command(parsed, out)
    except BrokenPipeError:
        return _unread()
    except Exception as error:  # noqa: BLE001 - the last stop: every failure becomes a TRACE
        failure = describe(error)
        out.log("FATAL", failure.message)
        out.send(failure.trace())
        return 1
    return _unread() if out.is_unread else status


def _unread() -> int:
    """Say on standard error that standard output is gone, and return the exit status."""
    sys.stderr.write("Nobody reads the output any more; what came before is written.\n")
    return 1


def parse_args(args: Sequence[str]) -> argparse.Namespace:
    """Parse the command line: `command`, `debug`, and `config` and `catalog` where the command has them."""
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
    """Prints a page of the documentation and ends the program."""

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


def check(config_path: str) -> Message:
    """Return the CONNECTION_STATUS for a configuration file.

    Raises
    ------
    Exception
        If the check failed for a reason that is not the user's to cure.
    """
    try:
        config = read_config(config_path)
    except ConfigError as error:
        return status_message(str(error))
    from destination_deeplake.probe import problem_with

    return status_message(problem_with(config))


def write(config_path: str, catalog_path: str, descriptor: int, out: Output) -> int:
    """Run one sync from a file descriptor and return the exit status.

    Raises
    ------
    Exception
        Whatever ended the sync early.
    """
    from destination_deeplake import sync
    from destination_deeplake.catalog import read_catalog

    config = read_config(config_path)
    return sync.write(config, read_catalog(catalog_path, config.choices), descriptor, out)


def _command(parsed: argparse.Namespace, out: Output) -> int:
    if parsed.command == "write":
        return write(parsed.config, parsed.catalog, sys.stdin.fileno(), out)
    out.send(spec_message(specification()) if parsed.command == "spec" else check(parsed.config))
    return 0
