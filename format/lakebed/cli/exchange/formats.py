"""Commands of formats, for imports and exports alike: one for each format, made of the options that it declares."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from lakebed.cli.commands import with_errors
from lakebed.cli.output import say_json, say_lines
from lakebed.runtime.options import Option
from lakebed.runtime.plugins import Format


class Formats(click.Group):
    """A group with a command for each format, made on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all formats."""
        return [name for name, _ in self.summaries()]

    def summaries(self) -> list[tuple[str, str]]:
        """Return name and summary of each format, sorted; no format is imported."""
        raise NotImplementedError

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the formats."""
        with formatter.section("Formats"):
            formatter.write_dl(self.summaries())


def summaries_of(formats: Mapping[str, Format]) -> list[tuple[str, str]]:
    """Return name and summary of formats, sorted."""
    return sorted((name, one.summary) for name, one in formats.items())


def format_command(
    name: str,
    summary: str,
    options: Sequence[Option],
    places: Sequence[click.Parameter],
    common: Sequence[Callable[[Any], Any]],
    call: Callable[..., Any],
) -> click.Command:
    """Return the command of a format.

    Parameters
    ----------
    places
        Arguments for source and destination.
    common
        Options of every format.
    call
        Does the work, by places and options as keywords, and returns a report.
    """
    options = [option for option in options if option.kind != "any"]

    @with_errors
    def run(as_json: bool, **given: Any) -> None:
        for option in options:
            given[option.name] = _parsed(option, given[option.name])
        report = call(**given)
        if as_json:
            say_json(report.to_dict())
        else:
            say_lines(str(report))
        sys.exit(1 if report.skipped and not report.written else 0)

    made = click.Command(name, params=[*places, *map(_option, options)], callback=run, help=summary)
    for decorate in reversed(common):
        made = decorate(made)
    return made


def _option(option: Option) -> click.Option:
    """Return the option of a command that stands for an option of a format."""
    flag = f"--{option.name.replace('_', '-')}"
    if option.kind == "bool":
        declared = f"{flag}/--no-{flag[2:]}" if option.default else flag
        return click.Option(
            [declared, option.name], is_flag=True, default=bool(option.default), help=option.help
        )
    if option.kind in ("list", "pairs"):
        shown = "KEY=VALUE" if option.kind == "pairs" else "TEXT"
        return click.Option(
            [flag, option.name], multiple=True, metavar=shown, help=f"{option.help} May be repeated."
        )
    kind: Any = {"int": int, "float": float, "str": str}[option.kind]
    if option.choices:
        kind = click.Choice(option.choices)
    return click.Option(
        [flag, option.name], type=kind, default=option.default, show_default=True, help=option.help
    )


def _parsed(option: Option, value: Any) -> Any:
    """Return the value of an option in the form that the format's function takes.

    Raises
    ------
    click.UsageError
        If a value is not KEY=VALUE as required.
    """
    if option.kind == "list":
        return tuple(value) or option.default
    if option.kind == "pairs":
        pairs = [text.partition("=") for text in value]
        for key, equals, _ in pairs:
            if not equals:
                raise click.UsageError(f"--{option.name.replace('_', '-')} takes KEY=VALUE, not {key!r}")
        return {key: text for key, _, text in pairs} or option.default
    return value
