"""The constants of the library that switch a path: what the code has, what the table says of each, and lower ones."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import lakebed
from lakebed.errors import ModuleNotInstalledException

ROOT = Path(lakebed.__file__).parent
TABLE = Path(__file__).with_name("constants.txt")
LOWERED = "lowered"
Key = tuple[str, str]
"""File below the package, and name."""


@dataclass(frozen=True)
class Entry:
    """What programs do about a constant; for those that they lower, between what."""

    reason: str
    low: float = 0
    high: float = 0


@cache
def table() -> dict[Key, Entry]:
    """Read the table.

    Raises
    ------
    ValueError
        If a constant is listed twice, or before any reason.
    """
    found: dict[Key, Entry] = {}
    reason = ""
    for line in TABLE.read_text().splitlines():
        if line.startswith("="):
            reason = line[1:].strip()
        elif line and not line.startswith("#"):
            file, *rest = line.split()
            lowered = reason == LOWERED
            names = rest[:1] if lowered else rest
            for name in names:
                if (file, name) in found or not reason:
                    raise ValueError(f"{file} {name} is listed twice, or has no reason")
                found[file, name] = Entry(reason, *map(float, rest[1:])) if lowered else Entry(reason)
    return found


def module_of(file: str) -> str:
    return ".".join(["lakebed", *Path(file).with_suffix("").parts]).removesuffix(".__init__")


def _files() -> list[Path]:
    return [path for path in sorted(ROOT.rglob("*.py")) if path.relative_to(ROOT).parts[0] != "testing"]


@cache
def in_code() -> set[Key]:
    """All numbers at module level, and the switches of the config.

    Not those of importers and exporters, which programs of datasets do not come to.
    """
    found = set()
    for path in _files():
        if path.relative_to(ROOT).parts[0] in ("importers", "exporters"):
            continue
        file, tree = path.relative_to(ROOT).as_posix(), ast.parse(path.read_bytes())
        targets = [_assigned(statement) for statement in tree.body]
        names = [name for name in targets if name is not None and name.isupper()]
        if names:
            try:
                module = importlib.import_module(module_of(file))
            except ModuleNotInstalledException:  # a framework that another environment has
                continue
            kinds = (int, float) if file == "config.py" else _Number
            found |= {(file, name) for name in names if isinstance(getattr(module, name, None), kinds)}
    return found


class _Truth(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool)


class _Number(metaclass=_Truth):
    """Numbers that are no truth values."""


def _assigned(statement: ast.stmt) -> str | None:
    """The name that a statement gives a value to."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target: ast.expr = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        target = statement.target
    else:
        return None
    return target.id.lstrip("_") and target.id if isinstance(target, ast.Name) else None


_IMPORT = re.compile(rb"^ *from (lakebed[\w.]*) import (?:\(([^)]*)\)|([^\n]*))", re.MULTILINE)


@cache
def _imports() -> Mapping[tuple[str, str], list[str]]:
    """The modules that import a name of another one: (module, name) -> them."""
    found: dict[tuple[str, str], list[str]] = {}
    for path in _files():
        importer = module_of(path.relative_to(ROOT).as_posix())
        for module, several, one in _IMPORT.findall(path.read_bytes()):
            for name in re.findall(r"\w+", re.sub("#.*", "", (several or one).decode())):
                found.setdefault((module.decode(), name), []).append(importer)
    return found


@cache
def holders(file: str, name: str) -> list[str]:
    """The modules that have a constant under its name: its own, and those that import it."""
    found = dict.fromkeys([module_of(file), *_imports().get((module_of(file), name), [])])
    return [module for module in found if name in vars(importlib.import_module(module))]


@contextmanager
def lowered(chosen: Mapping[Key, float]) -> Iterator[None]:
    """Set constants to other values for a while, wherever they were imported to."""
    places = [(sys.modules[module], key) for key in chosen for module in holders(*key)]
    before = [(holder, name, getattr(holder, name)) for holder, (_, name) in places]
    try:
        for holder, key in places:
            setattr(holder, key[1], chosen[key])
        yield
    finally:
        for holder, name, value in before:
            setattr(holder, name, value)


def choice(seed: int) -> dict[Key, float]:
    """Draw which constants a program lowers, and to what: none in a third of all programs."""
    random = np.random.default_rng((seed, 2))
    share = float(random.choice([0, 0.1, 0.5]))
    chosen: dict[Key, float] = {}
    for (file, name), entry in table().items():
        if entry.reason == LOWERED and random.random() < share:
            chosen[file, name] = between(
                entry, float(random.random()), getattr(importlib.import_module(module_of(file)), name)
            )
    return chosen


def between(entry: Entry, share: float, now: Any) -> Any:
    """A value between the bounds of an entry, small ones more often, of the type that the constant has."""
    low, high = entry.low, entry.high
    value = (low + 1) * ((high + 1) / (low + 1)) ** share - 1
    return (
        bool(round(value))
        if isinstance(now, bool)
        else type(now)(round(value) if isinstance(now, int) else value)
    )
