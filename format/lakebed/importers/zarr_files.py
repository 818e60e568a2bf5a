"""Zarr 2 and 3: an array, or the arrays of a group and its groups, with their attributes; read chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lakebed.errors import IngestionError
from lakebed.importers.arrays import Array, Block, Context, Found, attribute, made, planned, with_stored
from lakebed.importers.plan import Plan, Problem
from lakebed.importers.source import Source
from lakebed.importers.stored import stored_of

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
    found = _opened(source)
    attributes = {"": _attributes(found), **{name: _attributes(one) for name, one in _arrays(found).items()}}
    known: dict[str, _Array] = {}
    kinds: dict[str, str] = {}
    problems: list[Problem] = []
    for name, one in _arrays(found).items():
        if one.dtype.kind in "OT":
            kinds[name] = "text"
        elif one.dtype.kind == "V" and not one.dtype.names:
            problems.append(Problem(name, f"arrays of {one.dtype} have no tensor: it is left out", 0))
            continue
        known[name] = _Array(one)
    steps = {name: int(one.data.chunks[0]) for name, one in known.items() if one.shape}
    found_arrays = with_stored(Found(known, kinds, attributes, steps, problems))
    return planned(source, found_arrays, "a Zarr folder", arrays, rows)


def rows(item: Block, context: Context) -> Iterator[Any]:
    """Yield some rows of all arrays."""
    found = _arrays(_opened(context.source))
    yield from made({name: _one(found, name, context.kinds[name]) for name in context.tensors}, item, context)


def _one(found: Mapping[str, Any], name: str, kind: str) -> Array:
    """Return an array; of what is stored with others beside it, all of them.

    Raises
    ------
    IngestionError
        If the folder has changed.
    """
    if kind != "stored":
        return _Array(found[name])
    one = stored_of(
        name, _attributes(found[name]), lambda other: _Array(found[other]) if other in found else None
    )
    if one is None:
        raise IngestionError(f"what is said of {name} has changed")
    return one


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


def _opened(source: Source) -> Any:
    """Open a group or an array.

    Raises
    ------
    IngestionError
        If it is none, or not on this machine.
    """
    try:
        import zarr
    except ImportError as error:
        raise IngestionError("Zarr folders need zarr: pip install 'destination-deeplake[zarr]'") from error
    if not source.is_local:
        raise IngestionError(
            f"{source.shown}: Zarr folders are imported from this machine: copy it here first"
        )
    try:
        return zarr.open(source.address, mode="r")
    except Exception as error:  # the library raises what its codecs and parsers do
        raise IngestionError(f"{source.shown} is no Zarr folder, or damaged: {error}") from error


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
