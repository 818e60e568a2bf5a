"""Commands of the shell: finding and declaring them, printing their errors, and options that several share."""

from __future__ import annotations

import os
import re
import sys
import traceback
import warnings
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

import lakebed
from lakebed.cli.output import say, say_error
from lakebed.errors import DatasetNotFoundError, LakebedError, QueryError
from lakebed.runtime.printable import printable

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])

# -- options -------------------------------------------------------------------------------------------------------

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document for programs instead of text for people."
)
progress_option = click.option(
    "--progress/--no-progress",
    "progressbar",
    default=True,
    callback=lambda _, __, value: value and sys.stderr.isatty(),
    help="Show a progress bar.",
)
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace a dataset at DEST.")


def tensor_option(help: str = "Only this tensor or group; may be repeated.") -> Callable[[F], F]:  # noqa: A002
    """Return the option ``-t``, whose values a shell completes."""
    return click.option("-t", "--tensor", "tensors", multiple=True, shell_complete=_tensor_names, help=help)


def _tensor_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return names of tensors of the dataset on the command line, if the dataset is on this machine."""
    from click.shell_completion import CompletionItem

    from lakebed.cli.addresses import parsed

    given = [ctx.params.get(name) for name in ("url", "src", "dataset")]
    # If the cursor is at the last word, click has not assigned the arguments to parameters yet.
    url = next((one for one in [*given, *ctx.args] if one), None)
    if not isinstance(url, str) or "://" in url:  # do not complete in a bucket, which may be slow
        return []
    try:
        names = lakebed.load(parsed(url).address, read_only=True).tensors
    except (lakebed.LakebedError, click.UsageError):
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


# -- one command ---------------------------------------------------------------------------------------------------


def command(function: Callable[..., None]) -> click.Command:
    """Make a command of a function: with the option ``--json``, and with errors as sentences."""
    return json_option(click.command()(with_errors(function)))


def with_errors(function: Callable[..., None]) -> Callable[..., None]:
    """Print errors that a user can act on as one sentence instead of a traceback."""

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            function(*args, **kwargs)
        except LakebedError as error:
            from lakebed.cli.advice import in_shell

            is_part = isinstance(error, DatasetNotFoundError) and _names_part(kwargs)
            hint = " This command takes no part of a dataset: leave out :SPLIT and [ROWS]." if is_part else ""
            raise click.ClickException(in_shell(str(error)) + hint) from error
        except BrokenPipeError:
            # The reader (head, less) has closed the pipe; writing to it at exit would raise a second error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    return run


def _names_part(given: Mapping[str, Any]) -> bool:
    """Return whether the dataset of a command was given as a split or as rows of one."""
    from lakebed.cli.addresses import parsed

    address = next((given[name] for name in ("url", "src", "dataset") if given.get(name)), None)
    try:
        part = parsed(address) if isinstance(address, str) else None
    except click.UsageError:
        return False
    return part is not None and not part.is_whole and lakebed.exists(part.address)


# -- all commands --------------------------------------------------------------------------------------------------


class Loaded(UserDict[str, Any]):
    """Commands by name, each of which is loaded on first use.

    Parameters
    ----------
    package
        Package with a folder for each group.
    groups
        Heading of the help -> folder, and names of its commands with spaces between them.
    """

    def __init__(self, package: str, groups: Mapping[str, tuple[str, str]]) -> None:
        super().__init__({name: folder for folder, names in groups.values() for name in names.split()})
        self._package = package
        self.groups = {heading: names.split() for heading, (_, names) in groups.items()}

    def _place(self, name: str, folder: str) -> tuple[str, str]:
        """Return the path of a command's module, relative to the package, and the name of its function."""
        function = f"{name}_" if name == "import" else name
        return f"{folder}.{'pack' if name == 'unpack' else function}", function

    def __getitem__(self, name: str) -> click.Command:
        if isinstance(folder := self.data[name], str):
            module, function = self._place(name, folder)
            self.data[name] = getattr(import_module(f"{self._package}.{module}"), function)
        command: click.Command = self.data[name]
        return command

    def sentence(self, name: str) -> str:
        """Return the first sentence of a command's help; unless it is loaded, it is read from the source."""
        found: str | click.Command = self.data[name]
        if isinstance(found, str):
            module, function = self._place(name, found)
            path = Path(__file__).parent.joinpath(*module.split(".")).with_suffix(".py")
            text = re.search(
                rf'^def {function}\(.*?"""(.*?)"""',
                path.read_text(encoding="utf-8"),
                re.DOTALL | re.MULTILINE,
            )
            found = click.Command(name, help=text[1] if text else "")
        return found.get_short_help_str(limit=1_000)


class Commands(click.Group):
    """A group of commands whose errors and warnings are escaped, so that they cannot control the terminal."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands with whole sentences, which click would cut off; load no command."""
        names = self.list_commands(ctx)
        groups = self.commands.groups if isinstance(self.commands, Loaded) else {"Commands": names}
        width = max(map(len, names), default=0)
        for heading, of in groups.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [(name.ljust(width), self._sentence(name)) for name in of if name in names]
                )

    def _sentence(self, name: str) -> str:
        if isinstance(self.commands, Loaded):
            return self.commands.sentence(name)
        return self.commands[name].get_short_help_str(limit=1_000)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            with _warnings():
                return super().invoke(ctx)
        except click.ClickException as error:
            # Errors of queries mark the place on a separate line; other errors are one line.
            is_laid_out = isinstance(error.__cause__, QueryError)
            error.message = printable(error.message, lines=is_laid_out)  # type: ignore[misc]  # declared final
            raise

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line of the process."""
        before, sys.excepthook = sys.excepthook, _unexpected
        try:
            return super().main(*args, **kwargs)
        except SystemExit:
            sys.excepthook = before
            raise


@contextmanager
def _warnings() -> Iterator[None]:
    """Print each warning on one line, without the source line that caused it."""
    with warnings.catch_warnings():
        warnings.showwarning = _warn
        yield


def _warn(
    message: Warning | str,
    category: type[Warning],  # noqa: ARG001 - the signature of warnings.showwarning
    filename: str,  # noqa: ARG001
    lineno: int,  # noqa: ARG001
    file: TextIO | None = None,  # noqa: ARG001
    line: str | None = None,  # noqa: ARG001
) -> None:
    from lakebed.cli.advice import in_shell

    say(f"Warning: {in_shell(str(message))}", err=True)


def _unexpected(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of a fault of the library, escaped, because it may quote texts of a dataset."""
    say_error("".join(traceback.format_exception(kind, error, trace)))
