"""Zarr 2 and 3: an array, or the arrays of a group and its groups, with their attributes; read chunk by chunk."""

# Paths are strings here, as in storage.
# ruff: noqa: PTH114
from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from lakebed.errors import IngestionError
from lakebed.importers.arrays.array_reader import blocks, new_reader
from lakebed.importers.arrays.arrays import Block, Context, Found, attribute, planned, with_stored
from lakebed.importers.core.plan import Plan, Problem
from lakebed.importers.core.source import Source

BATCHED = True

_MARKS = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")
_ALONE = "array"


def recognise(source: Source) -> str | None:
    """Say that it is a Zarr folder; None if it is none."""
    if not source.is_folder:
        return None
    # Names that begin with a dot are no files of a source.
    is_marked = "zarr.json" in source.files or (
        source.is_local and any(_exists(f"{source.address}/{mark}") for mark in _MARKS)
    )
    return "a Zarr folder" if is_marked else None


def plan(source: Source, *, arrays: Sequence[str] = (), rows: str | None = None) -> Plan:
    """Plan a tensor for each array, by its path: ``group/name``.

    Parameters
    ----------
    source
        The folder.
    arrays
        Paths of the arrays that are taken; left out, all.
    rows
        Path of the array whose first axis is that of the rows; left out, the length that most arrays have.
    """
    _check(source)
    return planned(source, with_stored(new_reader(source, __name__).found()), "a Zarr folder", arrays, rows)


def rows(item: Block, context: Context) -> Iterator[Any]:
    """Yield some rows of all arrays."""
    return blocks(item, context, __name__)


def describe(plan: Plan) -> dict[str, Any]:
    """Say the attributes, and which arrays are no columns of rows."""
    return plan.about


@dataclass(frozen=True)
class _Array:
    """An array of an open folder."""

    data: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.data.dtype) if self.data.dtype.kind != "T" else np.dtype(object)

    def read(self, start: int, stop: int) -> Any:
        return np.asarray(self.data[start:stop] if self.data.shape else self.data[()])


def _check(source: Source) -> None:
    """Refuse what cannot be read here.

    Raises
    ------
    IngestionError
        If the library is missing, or the folder is elsewhere, or links lead out of it.
    """
    if find_spec("zarr") is None:
        raise IngestionError(
            "Zarr folders need zarr: pip install zarr, or, in a checkout, pip install '.[zarr]'"
        )
    if not source.is_local:
        raise IngestionError(
            f"{source.shown}: Zarr folders are imported from this machine: copy it here first"
        )
    if not source.follow_symlinks:
        _check_inside(source)


# -- in the process of array_reader ------------------------------------------------------------------------------


def opened(path: str) -> Any:
    """Open a group or an array."""
    import zarr

    return zarr.open(path, mode="r")


def found_in(found: Any) -> Found:
    """Return the arrays of a group and its groups, or the one array."""
    arrays = _arrays(found)
    attributes = {"": _attributes(found), **{name: _attributes(one) for name, one in arrays.items()}}
    known: dict[str, _Array] = {}
    kinds: dict[str, str] = {}
    problems: list[Problem] = []
    for name, one in arrays.items():
        if _has_pickles(one):
            reason = "it holds pickled objects, which are not loaded, since that would run code"
            problems.append(Problem(name, reason, 0))
            continue
        if one.dtype.kind in "OT":
            kinds[name] = "text"
        elif one.dtype.kind == "V" and not one.dtype.names:
            problems.append(Problem(name, f"arrays of {one.dtype} have no tensor: it is left out", 0))
            continue
        known[name] = _Array(one)
    steps = {name: int(one.data.chunks[0]) for name, one in known.items() if one.shape}
    return Found(known, kinds, attributes, steps, problems)


def _has_pickles(array: Any) -> bool:
    """Tell whether a filter or a codec of an array unpickles: numcodecs has one that does."""
    told = {key: value for key, value in array.metadata.to_dict().items() if key != "attributes"}
    return "pickle" in repr(told).lower()


def _check_inside(source: Source) -> None:
    """Refuse a folder with symbolic links that lead out or in circles: the library would follow them.

    Raises
    ------
    IngestionError
        If there is one.
    """
    root = os.path.realpath(source.address)
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = f"{folder}/{name}"
            if not os.path.islink(path):
                continue
            if name in folders or not os.path.realpath(path).startswith(f"{root}/"):
                raise IngestionError(
                    f"{path} is a symbolic link that leads out of the folder, or to another folder; to follow such "
                    "links: follow_symlinks=True (--follow-symlinks)"
                )


def _arrays(found: Any) -> Mapping[str, Any]:
    if not hasattr(found, "arrays"):
        return {_ALONE: found}
    known: dict[str, Any] = {}
    groups = [("", found)]
    while groups:
        path, group = groups.pop()
        known.update({f"{path}{name}": one for name, one in group.arrays()})
        groups += [(f"{path}{name}/", one) for name, one in group.groups()]
    return dict(sorted(known.items()))


def _attributes(one: Any) -> dict[str, Any]:
    return {str(name): attribute(value) for name, value in dict(one.attrs).items()}


def _exists(path: str) -> bool:
    from pathlib import Path

    return Path(path).is_file()
