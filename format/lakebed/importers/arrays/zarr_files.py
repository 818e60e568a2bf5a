"""Zarr 2 and 3: an array, or the arrays of a group and its groups, with their attributes; read chunk by chunk."""

# Paths are strings here, as in storage.
# ruff: noqa: PTH113, PTH114
from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any, Unpack

from lakebed.errors import IngestionError
from lakebed.importers.arrays.array_reader import blocks, new_reader
from lakebed.importers.arrays.arrays import (
    ALONE,
    ArrayOptions,
    Found,
    Sliced,
    attributes_of,
    planned,
    with_stored,
)
from lakebed.importers.core.packages import check_installed
from lakebed.importers.core.plan import Plan, Problem
from lakebed.importers.core.source import Source

BATCHED = True

_MARKS = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")


def recognise(source: Source) -> str | None:
    """Describe a Zarr folder."""
    if not source.is_folder:
        return None
    # Look for the metadata files directly: their names begin with a dot, so `source.files` does not list them.
    is_marked = source.is_local and any(os.path.isfile(f"{source.address}/{mark}") for mark in _MARKS)
    return "a Zarr folder" if is_marked or "zarr.json" in source.files else None


def plan(source: Source, **options: Unpack[ArrayOptions]) -> Plan:
    """Plan a tensor for each array, by its path: ``group/name``."""
    check_installed("Zarr folders", "zarr", "zarr")
    if not source.is_local:
        raise IngestionError(
            f"{source.shown}: a Zarr folder can be imported only from this machine: copy it here first"
        )
    if not source.follow_symlinks:
        _check_inside(source)
    return planned(source, with_stored(new_reader(source, __name__).found()), "a Zarr folder", **options)


rows = partial(blocks, module=__name__)


def _check_inside(source: Source) -> None:
    """Refuse a folder with symbolic links that lead out or in circles: the library would follow them.

    Raises
    ------
    IngestionError
        If a link is found.
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


# -- in the process of array_reader ------------------------------------------------------------------------------


def opened(path: str) -> Any:
    """Open a group or an array."""
    import zarr

    return zarr.open(path, mode="r")


def found_in(found: Any) -> Found:
    """Return the arrays of a group and its groups, or the one array."""
    arrays = _arrays(found)
    attributes = {name: attributes_of(one.attrs) for name, one in {"": found, **arrays}.items()}
    known: dict[str, Sliced] = {}
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
            problems.append(
                Problem(name, f"it is left out, because arrays of {one.dtype} cannot be stored", 0)
            )
            continue
        known[name] = Sliced(one)
    steps = {name: int(one.data.chunks[0]) for name, one in known.items() if one.shape}
    return Found(known, kinds, attributes, steps, problems)


def _has_pickles(array: Any) -> bool:
    """Return whether a filter or a codec of an array loads pickles, as one codec of numcodecs does."""
    told = {key: value for key, value in array.metadata.to_dict().items() if key != "attributes"}
    return "pickle" in repr(told).lower()


def _arrays(found: Any) -> Mapping[str, Any]:
    if not hasattr(found, "arrays"):
        return {ALONE: found}
    known: dict[str, Any] = {}
    groups = [("", found)]
    while groups:
        path, group = groups.pop()
        known.update({f"{path}{name}": one for name, one in group.arrays()})
        groups += [(f"{path}{name}/", one) for name, one in group.groups()]
    return dict(sorted(known.items()))
