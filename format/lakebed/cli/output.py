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

from lakebed.errors import LakebedError, QueryError
from lakebed.printable import printable

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

            raise click.ClickException(in_shell(str(error))) from error
        except BrokenPipeError:
            # The reader (head, less) has seen enough; a second error at exit would only be noise.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    return run


class Loaded(MutableMapping[str, click.Command]):
    """Commands that are loaded when they are asked for.

    Parameters
    ----------
    package
        Where they are.
    table
        By name, module and attribute below the package, with a dot between them, and the first sentence of its help.
    """

    def __init__(self, package: str, table: Mapping[str, tuple[str, str]]) -> None:
        self._package = package
        self._table = dict(table)
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
        rows = [(name, self._sentence(name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

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
