"""Formats of importers and exporters, including formats that installed packages add by entry points."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import Any

from lakebed.runtime.installed import entry_points


@dataclass(frozen=True)
class Format:
    """A format that one module reads or writes.

    Parameters
    ----------
    name
        Name that users type.
    module
        Name of the module with the functions of the format; imported on first use.
    summary
        Sources or results of the format, in one line of ``--help``.
    entry
        Entry point of the package that adds the format; None for formats of lakebed.
    """

    name: str
    module: str
    summary: str
    entry: EntryPoint | None = None

    @property
    def functions(self) -> Any:
        """The module."""
        return _loaded(self)

    @property
    def plan(self) -> Callable[..., Any]:
        """The function that every format has; its keyword arguments are the options of the format."""
        found: Callable[..., Any] = self.functions.plan
        return found


@cache
def _loaded(one: Format) -> Any:
    return import_module(one.module) if one.entry is None else one.entry.load()


def formats(group: str, built_in: Iterable[Format]) -> dict[str, Format]:
    """Return formats by name; formats of other packages come first and replace built-in formats of the same name."""
    found: dict[str, Format] = {}
    for entry in sorted(entry_points(group), key=lambda entry: entry.name):
        found[entry.name] = Format(entry.name, entry.value, f"of {entry.value.partition('.')[0]}", entry)
    for one in built_in:
        found.setdefault(one.name, one)
    return found


def choices(name: str, known: Collection[str], hint: str = "", otherwise: str = ".") -> str:
    """Return the end of a message about an unknown name: a hint or the nearest known name, and all known names."""
    near = get_close_matches(name, known, 1)
    told = hint or (f"; did you mean {near[0]!r}?" if near else otherwise)
    return f"{name!r}{told} There are: {', '.join(sorted(known))}"
