"""HDF5: arrays of a file and its groups, with their attributes; read chunk by chunk.

Links to other files, external storage, and virtual datasets of other files are not followed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any, Unpack

from lakebed.importers.arrays.array_reader import blocks, new_reader
from lakebed.importers.arrays.arrays import (
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


def recognise(source: Source) -> str | None:
    """Describe an HDF5 file."""
    return "an HDF5 file" if source.suffix == ".h5" else None


def plan(source: Source, **options: Unpack[ArrayOptions]) -> Plan:
    """Plan a tensor for each array, by its path: ``group/name``."""
    check_installed("HDF5 files", "hdf5", "h5py")
    return planned(source, with_stored(new_reader(source, __name__).found()), "an HDF5 file", **options)


rows = partial(blocks, module=__name__)


# -- in the process of array_reader -------------------------------------------------------------------------------


def opened(file: Any) -> Any:
    """Open a file, by its path or as an open file."""
    # Do not lock the file: this process keeps it open while it waits for requests, and other programs may write to it.
    os.environ["HDF5_USE_FILE_LOCKING"] = "FALSE"
    import h5py

    return h5py.File(file, "r")


def found_in(file: Any) -> Found:
    """Return the arrays of a file and its groups."""
    arrays: dict[str, Sliced] = {}
    kinds: dict[str, str] = {}
    attributes: dict[str, Mapping[str, Any]] = {"": _attributes(file)}
    steps: dict[str, int] = {}
    problems: list[Problem] = []
    seen: set[Any] = {file["/"].id}
    groups = [("", file)]
    while groups:
        path, group = groups.pop()
        for name in group:
            full = f"{path}/{name}" if path else name
            one = _followed(group, name, full, seen, problems)
            if one is None:
                continue
            if hasattr(one, "keys"):
                groups.append((full, one))
                if found := _attributes(one):
                    attributes[""] = {**attributes[""], full: found}
                continue
            kind = _kind(one, full, problems)
            if kind == "":
                continue
            arrays[full] = Sliced(one)
            attributes[full] = _attributes(one)
            if kind is not None:
                kinds[full] = kind
            if one.chunks:
                steps[full] = int(one.chunks[0])
    return Found(dict(sorted(arrays.items())), kinds, attributes, steps, problems)


def _followed(group: Any, name: str, full: str, seen: set[Any], problems: list[Problem]) -> Any:
    """Return a group or dataset of this file; None if it was seen before, or is in another file."""
    import h5py

    link = group.get(name, getlink=True)
    if isinstance(link, h5py.ExternalLink):
        problems.append(Problem(full, f"a link to the file {link.filename!r} is not followed", 0))
        return None
    if isinstance(link, h5py.SoftLink):
        return None  # a soft link is a second name, or leads to another file
    try:
        one = group[name]
    except (KeyError, OSError, RuntimeError) as error:
        problems.append(Problem(full, f"it cannot be opened: {error}", 0))
        return None
    if not isinstance(one, h5py.Group | h5py.Dataset) or one.id in seen:
        return None  # skip named types, second names and cycles
    seen.add(one.id)
    return one


def _kind(one: Any, full: str, problems: list[Problem]) -> str | None:
    """Return the kind of an array: None if its dtype decides it, "" if the array is skipped."""
    import h5py

    why = ""
    if one.external:
        why = "its values are in other files, which are not opened"
    elif one.is_virtual and any(part.file_name != "." for part in one.virtual_sources()):
        why = "it is made of other files, which are not opened"
    elif one.shape is None:
        why = "it is empty"
    elif h5py.check_string_dtype(one.dtype) is not None:
        return "text"
    elif (inner := h5py.check_vlen_dtype(one.dtype)) is not None:
        if inner.kind in "biufc":
            return "arrays"
        why = f"lists of {inner} have no tensor"
    elif h5py.check_ref_dtype(one.dtype) is not None or one.dtype.kind == "O":
        why = "references have no tensor"
    elif one.dtype.kind == "V" and not one.dtype.names:
        why = "opaque values cannot be stored"
    if why:
        problems.append(Problem(full, f"{why}: it is left out", 0))
        return ""
    return None


def _attributes(one: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in one.attrs:
        try:
            found |= attributes_of({name: one.attrs[name]})
        except (OSError, TypeError, ValueError, RuntimeError) as error:
            found[str(name)] = f"cannot be read: {error}"
    return found
