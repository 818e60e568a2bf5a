"""What the command prints. The only module of it that writes to the terminal: what a dataset holds is escaped here."""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from types import TracebackType
from typing import Any, TextIO

import click

import lakebed
from lakebed.errors import DatasetNotFoundError, LakebedError, QueryError
from lakebed.runtime.printable import printable

_COLOUR = re.compile("(\x1b\\[(?:0|9[34])m)")
"""What ``Dataset.diff`` colours its headings with."""


def say(text: str = "", *, err: bool = False) -> None:
    """Print one line for people."""
    click.echo(printable(text), err=err)


def say_lines(text: str) -> None:
    """Print text that is laid out in lines, such as a table."""
    click.echo(printable(text, lines=True))


def say_coloured(text: str) -> None:
    """Print text in which the library has coloured headings; click drops colours that nobody sees, as in a pipe."""
    parts = _COLOUR.split(text)
    parts[::2] = [printable(part, lines=True) for part in parts[::2]]
    click.echo("".join(parts), nl=False)


def say_json(found: Any, *, indent: int | None = 2) -> None:
    """Print JSON for programs: ASCII only, which reads back as what it was."""
    click.echo(json.dumps(found, indent=indent).replace("\x7f", "\\u007f"))


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document for programs instead of text for people."
)
jsonl_option = click.option(
    "--jsonl", "as_jsonl", is_flag=True, help="Print JSON for programs, a line for each row."
)


def with_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Print errors that a user can act on as one sentence instead of a traceback."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except LakebedError as error:
            from lakebed.cli.advice import in_shell

            is_part = isinstance(error, DatasetNotFoundError) and _names_part(kwargs)
            hint = " This command takes no part of a dataset: leave out :SPLIT and [ROWS]." if is_part else ""
            raise click.ClickException(in_shell(str(error)) + hint) from error
        except BrokenPipeError:
            # The reader (head, less) has seen enough; a second error at exit would only be noise.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    return run


def _names_part(given: Mapping[str, Any]) -> bool:
    """Tell whether the dataset of a command was given as a split or rows of one."""
    from lakebed.cli.parts import parsed

    address = next((given[name] for name in ("url", "src", "dataset") if given.get(name)), None)
    try:
        part = parsed(address) if isinstance(address, str) else None
    except click.UsageError:
        return False
    return part is not None and not part.is_whole and lakebed.exists(part.address)


class Loaded(MutableMapping[str, click.Command]):
    """Commands that are loaded when they are asked for.

    Parameters
    ----------
    package
        Where they are.
    table
        By name, module and attribute below the package, with a dot between them, and the first sentence of its help.
    groups
        Heading in the help -> names of its commands, with spaces between them.
    """

    def __init__(self, package: str, table: Mapping[str, tuple[str, str]], groups: Mapping[str, str]) -> None:
        self._package = package
        self._table = dict(table)
        self.groups = {heading: names.split() for heading, names in groups.items()}
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            module, _, attribute = self._table[name][0].partition(".")
            self._loaded[name] = getattr(import_module(f"{self._package}.{module}"), attribute)
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._table[name] = ("", command.help or "")
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._table[name]
        self._loaded.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._table

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def sentence(self, name: str) -> str:
        """Return the first sentence of a command's help, without loading it."""
        return self._table[name][1]


class Commands(click.Group):
    """A group of commands whose errors and warnings leave a terminal alone, too."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands with whole sentences, which click cuts off, and load none for it."""
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
            # Errors of queries point at the place on a line of its own; others have no lines that are meant.
            is_laid_out = isinstance(error.__cause__, QueryError)
            error.message = printable(error.message, lines=is_laid_out)  # type: ignore[misc]  # what it is stays
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
    """Print warnings as a line each, without the line of code that they come from."""
    with warnings.catch_warnings():
        warnings.showwarning = _warn
        yield


def _warn(
    message: Warning | str,
    category: type[Warning],  # noqa: ARG001 - Python calls it with all of these
    filename: str,  # noqa: ARG001
    lineno: int,  # noqa: ARG001
    file: TextIO | None = None,  # noqa: ARG001
    line: str | None = None,  # noqa: ARG001
) -> None:
    from lakebed.cli.advice import in_shell

    say(f"Warning: {in_shell(str(message))}", err=True)


def _unexpected(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of a mistake of ours, which may quote what a dataset holds."""
    text = "".join(traceback.format_exception(kind, error, trace))
    click.echo(printable(text, lines=True), err=True, nl=False)
