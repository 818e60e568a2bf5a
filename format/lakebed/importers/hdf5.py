"""HDF5: arrays of a file and its groups, with their attributes; read chunk by chunk.

Links to other files, storage outside of the file, and virtual datasets of other files are not followed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from lakebed.errors import IngestionError
from lakebed.importers.arrays import Array, Block, Context, Found, attribute, made, planned, with_stored
from lakebed.importers.plan import Plan, Problem
from lakebed.importers.source import Source
from lakebed.importers.stored import size_of, stored_of

BATCHED = True

_SUFFIXES = (".h5", ".hdf5", ".hdf", ".he5")
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_SAMPLED = 16
# The HDF5 library works for one thread at a time, also on files that are open apart.
_mutex = threading.RLock()


def recognise(source: Source) -> str | None:
    """Say that it is an HDF5 file; None if it is none."""
    if not source.is_file or source.suffix not in _SUFFIXES:
        return None
    with source.open() as file:
        return "an HDF5 file" if file.read(8) == _SIGNATURE else None


def plan(source: Source, *, arrays: Sequence[str] = (), rows: str | None = None) -> Plan:
    """Plan a tensor for each array, by its path: ``group/name``.

    Parameters
    ----------
    source
        The file.
    arrays
        Paths of the arrays that are taken; left out, all.
    rows
        Path of the array whose first axis is that of the rows; left out, the length that most arrays have.
    """
    with _opened(source) as file:
        return planned(source, with_stored(_found(file)), "an HDF5 file", arrays, rows)


def rows(item: Block, context: Context) -> Iterator[Any]:
    """Yield some rows of all arrays."""
    with _opened(context.source) as file:
        columns = list(
            made({name: _one(file, name, context.kinds[name]) for name in context.tensors}, item, context)
        )
    yield from columns


def _one(file: Any, name: str, kind: str) -> Array:
    """Return an array; of what is stored with others beside it, all of them.

    Raises
    ------
    IngestionError
        If the file has changed.
    """
    if kind != "stored":
        return _Array(file[name])
    found = stored_of(
        name, _attributes(file[name]), lambda other: _Array(file[other]) if other in file else None
    )
    if found is None:
        raise IngestionError(f"what is said of {name} has changed")
    return found


def describe(plan: Plan) -> dict[str, Any]:
    """Say the attributes of the file, and which arrays are no columns of rows."""
    return plan.about


@contextmanager
def _opened(source: Source) -> Iterator[Any]:
    try:
        import h5py
    except ImportError as error:
        raise IngestionError("HDF5 files need h5py: pip install 'destination-deeplake[hdf5]'") from error
    path = source.path(source.name)
    with _mutex:
        try:
            with source.open() as raw, h5py.File(raw if path is None else path, "r") as file:
                yield file
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            if isinstance(error, IngestionError):
                raise
            raise IngestionError(f"{source.shown} is no HDF5 file, or damaged: {error}") from error


@dataclass(frozen=True)
class _Array:
    """A dataset of an open file."""

    data: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape or ())

    @property
    def dtype(self) -> np.dtype[Any]:
        found: np.dtype[Any] = self.data.dtype
        return found

    def read(self, start: int, stop: int) -> Any:
        return self.data[start:stop] if self.data.shape else self.data[()]


def _found(file: Any) -> Found:
    arrays: dict[str, _Array] = {}
    kinds: dict[str, str] = {}
    attributes: dict[str, Mapping[str, Any]] = {"": _attributes(file)}
    steps: dict[str, int] = {}
    sizes: dict[str, int] = {}
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
                found = _attributes(one)
                if found:
                    attributes[""] = {**attributes[""], full: found}
                continue
            kind = _kind(one, full, problems)
            if kind == "":
                continue
            arrays[full] = _Array(one)
            attributes[full] = _attributes(one)
            if kind is not None:
                kinds[full] = kind
            if one.chunks:
                steps[full] = int(one.chunks[0])
            if kind is not None and one.shape and one.shape[0]:
                sizes[full] = _size(one)
    return Found(dict(sorted(arrays.items())), kinds, attributes, steps, problems, sizes)


def _size(one: Any) -> int:
    """Return about how many bytes a row of texts or lists has: those of some."""
    count = one.shape[0]
    rows = sorted({count * at // _SAMPLED for at in range(_SAMPLED)})
    return max(8, sum(size_of(np.asarray(one[row], object)) for row in rows) // len(rows))


def _followed(group: Any, name: str, full: str, seen: set[Any], problems: list[Problem]) -> Any:
    """Return a group or dataset of this file that was not seen before; None for all else."""
    import h5py

    link = group.get(name, getlink=True)
    if isinstance(link, h5py.ExternalLink):
        problems.append(Problem(full, f"a link to the file {link.filename!r} is not followed", 0))
        return None
    if isinstance(link, h5py.SoftLink):
        return None  # another name of what has one of its own, or a way through another file
    try:
        one = group[name]
    except (KeyError, OSError, RuntimeError) as error:
        problems.append(Problem(full, f"it cannot be opened: {error}", 0))
        return None
    if not isinstance(one, h5py.Group | h5py.Dataset):
        return None
    if one.id in seen:
        return None  # by another name, or a circle
    seen.add(one.id)
    return one


def _kind(one: Any, full: str, problems: list[Problem]) -> str | None:
    """Return the kind that the dtype does not tell, None where it does; "" for what is left out."""
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
        why = "opaque values have no tensor"
    if why:
        problems.append(Problem(full, f"{why}: it is left out", 0))
        return ""
    return None


def _attributes(one: Any) -> dict[str, Any]:
    found = {}
    for name in one.attrs:
        try:
            found[str(name)] = attribute(one.attrs[name])
        except (OSError, TypeError, ValueError, RuntimeError) as error:
            found[str(name)] = f"cannot be read: {error}"
    return found
