"""Console entry: `destination-deeplake spec | check --config F | write --config F --catalog F`.

The connector has two entry points and one implementation. This module parses the command line of the CDK itself,
because importing airbyte-cdk takes more than a second of CPU and 75 MB in every command, and a sync needs nothing of
it. `destination.DestinationDeeplake` is the standard class based on the CDK, for programs that expect one (`launch`,
test suites, PyAirbyte in process). Both call the functions below and in `sync`, `probe` and `failures`; a test compares
their output.

`destination-deeplake import FORMAT SRC DEST` and `export` are commands of `lakebed`, so that the connector's image can
also import and export data sets.

Exit status: 0 success (or a failed `check`, by the protocol), 1 failure with a TRACE (if standard output is gone, with
a line on standard error instead), 2 wrong command line, 128 + n stopped by signal n.

Most syncs are short, so a fast start matters (docs/design/036): each command imports only the modules that it needs,
and ordinary command lines are read without argparse.
"""

import gc
import os
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING

from destination_deeplake.failures import UNEXPECTED, ConfigError, Failure, FailureType, describe
from destination_deeplake.messages import Message, Output, spec_message, specification, status_message
from destination_deeplake.notices import notices

if TYPE_CHECKING:
    import argparse

_FILES = {"spec": (), "check": ("config",), "write": ("config", "catalog")}
"""Command -> its arguments that are files."""


def run() -> None:
    """Run the command line of this process; does not return."""
    # OpenBLAS starts a thread per processor, and these threads use processor time while they wait; a sync needs none.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # A platform restarts a killed sync within seconds; in a bucket, only an expired lease shows that it was killed.
    os.environ.setdefault("LAKEBED_LEASE_SECONDS", "60")
    if sys.argv[1:2] in (["import"], ["export"]):
        from lakebed.cli import main as command

        command(prog_name="destination-deeplake")
    # Loading makes no garbage, and its objects live until the end of the process, so garbage collection would only
    # cost time.
    gc.disable()
    status = main(sys.argv[1:])
    gc.freeze()
    sys.exit(status)


def main(args: Sequence[str]) -> int:
    """Run one command and return the exit status.

    Parameters
    ----------
    args : sequence of str
        Command line without the program name.
    """
    parsed = _ordinary(args) or parse_args(args)
    out = Output(sys.stdout.fileno(), debug=parsed.debug)
    try:
        with notices(out, debug=parsed.debug):
            status = _command(parsed, out)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - outermost: all become a TRACE, a panic in Rust too
        if out.is_closed and isinstance(error, BrokenPipeError):
            return _unread()
        return _failed(error, out)
    return _unread() if out.is_unread else status


def _failed(error: BaseException, out: Output) -> int:
    """Send the TRACE of any failure, and return the exit status."""
    try:
        failure = describe(error)
    except Exception:  # noqa: BLE001 - the text of a foreign error may itself raise
        failure = Failure(FailureType.SYSTEM, UNEXPECTED, type(error).__name__)
    try:
        out.log("FATAL", failure.message)
        out.send(failure.trace())
    except OSError as unsaid:
        # Standard output failed, so report on standard error.
        sys.stderr.write(
            f"{failure.message}\nStandard output cannot be written any more ({unsaid.strerror}).\n"
        )
    else:
        if out.is_closed:
            sys.stderr.write(f"{failure.message}\n")
            return _unread()
    return 1


def _unread() -> int:
    """Report on standard error that standard output has no reader any more, and return the exit status."""
    sys.stderr.write("Standard output has no reader any more; earlier records are written.\n")
    return 1


def _ordinary(args: Sequence[str]) -> SimpleNamespace | None:
    """Read a command line as platforms send it; None for other command lines, which `parse_args` reads or refuses."""
    if not args or args[0] not in _FILES:
        return None
    files: dict[str, str | None] = dict.fromkeys(_FILES[args[0]])
    options = [option for option in args[1:] if option != "--debug"]
    for option, value in zip(options[::2], options[1::2], strict=False):
        name = option.removeprefix("--")
        if option == name or name not in files or value.startswith("-"):
            return None
        files[name] = value
    if len(options) % 2 or None in files.values():
        return None
    return SimpleNamespace(command=args[0], debug=len(options) < len(args) - 1, **files)


def parse_args(args: Sequence[str]) -> "argparse.Namespace":
    """Parse the command line: `command`, `debug`, and the command's `config` and `catalog`."""
    from destination_deeplake.command_line import parse

    return parse(args)


def check(config_path: str) -> Message:
    """Return the CONNECTION_STATUS for a configuration file.

    Raises
    ------
    Exception
        If the check failed for a reason that the user cannot change.
    """
    from destination_deeplake.config import read_config

    try:
        config = read_config(config_path)
    except ConfigError as error:
        return status_message(str(error))
    from destination_deeplake.probe import problem_with

    _loaded()
    return status_message(problem_with(config))


def write(config_path: str, catalog_path: str, descriptor: int, out: Output) -> int:
    """Run one sync from a file descriptor and return the exit status.

    Raises
    ------
    Exception
        The error that ended the sync early.
    """
    from destination_deeplake.catalog import read_catalog
    from destination_deeplake.config import read_config
    from destination_deeplake.write import write as run_sync

    _loaded()
    config = read_config(config_path)
    return run_sync(config, read_catalog(catalog_path, config.choices), descriptor, out)


def _loaded() -> None:
    """Enable garbage collection, without the objects loaded so far."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def _command(parsed: "SimpleNamespace | argparse.Namespace", out: Output) -> int:
    if parsed.command == "write":
        return write(parsed.config, parsed.catalog, sys.stdin.fileno(), out)
    if parsed.command == "check":
        out.send(check(parsed.config))
        return 0
    out.send(spec_message(specification()))
    return 0
