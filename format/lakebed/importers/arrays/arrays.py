"""Arrays side by side, one row of each at a time: the common part of importers of NumPy, HDF5, Zarr, bcolz and Dask.

Arrays whose first axis has the length that most arrays have become tensors, with rows along this axis. Small arrays of
other shapes are kept in the info of the dataset; larger ones are reported. Arrays are read in blocks of some megabytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Annotated, Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import IngestionError
from lakebed.importers.arrays.stored import BESIDE, Array, Stored, sampled_bytes, size_of, stored_of, text_of
from lakebed.importers.core.columns import tensor_name
from lakebed.importers.core.plan import Plan, Problem, TensorPlan, as_json, tensor
from lakebed.importers.core.source import Source

ALONE = "array"
"""Name of the tensor for an array that has no name."""

_ITEM_BYTES = 16 << 20
_MOST_IN_INFO = 64 << 10
_CHUNKS = "lz4"
_KINDS = {**dict.fromkeys("biufc", "numbers"), **dict.fromkeys("SU", "text"), **dict.fromkeys("mM", "times")}

# Maximum number of bytes of an array per byte of its file; no real compression reaches it, even for zeros. Arrays
# smaller than _SMALL may have any ratio.
_MOST_PER_BYTE = 2000
_SMALL = 1 << 30


class ArrayOptions(TypedDict, total=False):
    """Options of importers of arrays."""

    arrays: Annotated[
        Sequence[str], "Names of the arrays that are taken, such as group/name; by default all."
    ]
    rows: Annotated[
        str | None,
        "Name of the array whose first axis has the length of the rows; by default the length of most arrays.",
    ]


@dataclass(frozen=True)
class Sliced:
    """An array of a library that returns rows for slices."""

    data: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return tuple(self.data.shape or ())

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the array."""
        found = self.data.dtype
        return np.dtype(object) if found.kind == "T" else found

    def read(self, start: int, stop: int) -> Any:
        """Return rows."""
        return np.asarray(self.data[start:stop] if self.data.shape else self.data[()])


@dataclass(frozen=True)
class Found:
    """The contents of a file.

    Parameters
    ----------
    arrays
        Name -> array.
    kinds
        Name -> ``text``, ``json`` or ``arrays``, for arrays whose kind does not follow from the dtype.
    attributes
        Name of the array, or "" for the whole file -> attributes.
    steps
        Name -> number of rows that are stored together, as in a chunk.
    problems
        Arrays that are left out.
    """

    arrays: Mapping[str, Array]
    kinds: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    steps: Mapping[str, int] = field(default_factory=dict)
    problems: Sequence[Problem] = ()


class Block(NamedTuple):
    """Rows of all arrays."""

    start: int
    stop: int

    def __str__(self) -> str:
        return f"rows {self.start:,} to {self.stop:,}"


@dataclass(frozen=True)
class Context:
    """Context of workers: the tensor and the kind of each array."""

    source: Source
    tensors: Mapping[str, str]
    kinds: Mapping[str, str]


def planned(
    source: Source, found: Found, what: str, *, arrays: Sequence[str] = (), rows: str | None = None
) -> Plan:
    """Plan a tensor for each array.

    Parameters
    ----------
    what
        Description of the source.
    arrays, rows
        See :class:`ArrayOptions`.

    Raises
    ------
    IngestionError
        If a named array does not exist, or no array has rows.
    """
    for name in (*arrays, *([rows] if rows is not None else [])):
        if name not in found.arrays:
            raise IngestionError(
                f"{source.shown} has no array {name!r}; arrays: {', '.join(sorted(found.arrays)) or 'none'}"
            )
    wanted = {name: array for name, array in found.arrays.items() if not arrays or name in arrays}
    count = _length(wanted, rows)
    if count is None:
        raise IngestionError(f"{source.shown} has no arrays with rows")
    problems = list(found.problems)
    about: dict[str, Any] = {"attributes": dict(found.attributes.get("") or {})}
    tensors: list[TensorPlan] = []
    names: dict[str, str] = {}
    kinds: dict[str, str] = {}
    for name, array in wanted.items():
        if not array.shape or array.shape[0] != count:
            _aside(name, array, count, about, problems)
            continue
        kind = _kind(name, array, found)
        if kind is None:
            problems.append(Problem(name, f"arrays of {array.dtype} cannot be stored, and are left out", 0))
            continue
        names[name], kinds[name] = tensor_name(name, set(names.values())), kind
        tensors.append(_tensor(name, names[name], kind, array, found))
    if not tensors:
        raise IngestionError(f"{source.shown} has no arrays that can be imported: {problems[0].reason}")
    if not arrays:
        _check_sizes(source, [wanted[name] for name in names])
    # About 16 MB, rounded down to whole units of storage.
    step = max(1, _ITEM_BYTES // (1 + sum(_row_bytes(wanted[name]) for name in names)))
    unit = max(found.steps.get(name, 1) for name in names)
    step -= step % unit if step > unit else 0
    return Plan(
        f"{what} of {len(tensors)} arrays with {count:,} rows",
        tensors,
        [Block(at, min(at + step, count)) for at in range(0, count, step)],
        Context(source, names, kinds),
        rows=count,
        nbytes=source.nbytes,
        problems=problems,
        about=about,
    )


def with_stored(found: Found) -> Found:
    """Replace the arrays that an exporter of lakebed wrote by the tensors that they store."""
    arrays = dict(found.arrays)
    for name in found.arrays:
        one = stored_of(name, found.attributes.get(name) or {}, found.arrays.get)
        if one is not None:
            arrays[name] = one
            for of in BESIDE:
                arrays.pop(f"{name}.{of}", None)
    return replace(found, arrays=arrays)


def arrays_of(found: Found, context: Context) -> dict[str, Array]:
    """Return the planned arrays of an opened file.

    Raises
    ------
    IngestionError
        If the file has changed.
    """
    arrays: dict[str, Array] = {}
    for name, kind in context.kinds.items():
        array = found.arrays.get(name)
        if kind == "stored":
            array = stored_of(name, found.attributes.get(name) or {}, found.arrays.get)
        if array is None:
            raise IngestionError(f"{name} differs from the plan: the file has changed")
        arrays[name] = array
    return arrays


def made(arrays: Mapping[str, Array], block: Block, context: Context) -> dict[str, Any]:
    """Return the columns of some rows.

    Raises
    ------
    IngestionError
        If an array has fewer rows than its shape claims.
    """
    columns: dict[str, Any] = {}
    for name, called in context.tensors.items():
        values = arrays[name].read(block.start, block.stop)
        if len(values) != block.stop - block.start:
            raise IngestionError(f"{name} ends before {block}")
        columns[called] = converted(values, context.kinds[name])
    return columns


def _check_sizes(source: Source, arrays: Sequence[Array]) -> None:
    """Refuse small files whose headers claim very large arrays, which would fill the disk.

    Raises
    ------
    IngestionError
        If the arrays are larger than 1 GB and larger than two thousand times the file.
    """
    parts = [part for array in arrays for part in (array.parts if isinstance(array, Stored) else (array,))]
    size = sum(_nbytes(part) for part in parts)
    if size > max(_SMALL, _MOST_PER_BYTE * source.nbytes):
        raise IngestionError(
            f"{source.shown} says that its {source.nbytes:,} bytes hold arrays of {size:,} bytes: if that is true, "
            "name the arrays to import, arrays=[...] (--arrays)"
        )


def _nbytes(array: Array) -> int:
    return prod(array.shape) * max(1, array.dtype.itemsize)


def _length(arrays: Mapping[str, Array], rows: str | None) -> int | None:
    if rows is not None:
        return arrays[rows].shape[0] if arrays[rows].shape else None
    # Ignore arrays without values: if a row has no bytes, a header may claim any number of rows.
    lengths = Counter(array.shape[0] for array in arrays.values() if array.shape and 0 not in array.shape)
    if not lengths:
        is_empty = any(isinstance(array, Stored) and not array.shape[0] for array in arrays.values())
        return 0 if is_empty else None
    return max(lengths, key=lambda length: (lengths[length], length))


def _aside(name: str, array: Array, count: int, about: dict[str, Any], problems: list[Problem]) -> None:
    """Keep an array of another length in the info if it is small; otherwise report that it is left out."""
    if array.dtype.kind in "biuf" and _nbytes(array) <= _MOST_IN_INFO:
        whole = array.read(0, array.shape[0] if array.shape else 1)
        about.setdefault("arrays", {})[name] = {
            "dtype": str(array.dtype.newbyteorder("=")),
            "shape": list(array.shape),
            "values": np.asarray(whole).tolist(),
        }
        return
    told = f"{array.shape[0]:,} rows" if array.shape else "no rows"
    reason = (
        f"it is left out, because it has {told}, and other arrays {count:,} (import it alone, by its name)"
    )
    problems.append(Problem(name, reason, 0))


def _kind(name: str, array: Array, found: Found) -> str | None:
    if isinstance(array, Stored):
        return "stored"
    return found.kinds.get(name) or ("json" if array.dtype.names else _KINDS.get(array.dtype.kind))


def _tensor(name: str, called: str, kind: str, array: Array, found: Found) -> TensorPlan:
    if isinstance(array, Stored):
        return replace(array.plan, name=called)
    info = dict(found.attributes.get(name) or {})
    if called != name:
        info["column"] = name
    if kind in ("text", "json"):
        return tensor(called, kind, info=info, chunk_compression=_CHUNKS)
    if kind == "times":
        return tensor(called, dtype="int64", info={**info, "logical_type": str(array.dtype)})
    if kind == "arrays":
        return tensor(called, info=info, chunk_compression=_CHUNKS)
    compression = _CHUNKS if len(array.shape) > 1 else None
    return tensor(called, dtype=array.dtype.newbyteorder("=").name, info=info, chunk_compression=compression)


def _row_bytes(array: Array) -> int:
    if isinstance(array, Stored):
        return array.row_bytes
    if array.dtype.kind == "O" and len(array.shape) == 1:
        return sampled_bytes(array.shape[0], lambda row: size_of(array.read(row, row + 1)))
    return prod(array.shape[1:]) * max(1, array.dtype.itemsize)


def converted(values: Any, kind: str) -> Any:
    """Convert rows of an array to values of its tensor."""
    if kind == "stored":
        return values
    if kind == "text":
        return [_text(value) for value in values]
    if kind == "json":
        return [_document(value) for value in values]
    if kind == "times":
        return np.asarray(values).view("int64")
    if kind == "arrays":
        return [np.ascontiguousarray(value) for value in values]
    found: NDArray[Any] = np.asarray(values)
    return found.astype(found.dtype.newbyteorder("="), copy=False)


def _text(value: Any) -> str | None:
    if isinstance(value, np.ndarray):
        raise IngestionError("an array of texts in each row cannot be stored; a single text per row can")
    return None if value is None else text_of(value, "an array")


def _document(value: Any) -> Any:
    """Return a record as JSON."""
    names = getattr(getattr(value, "dtype", None), "names", None)
    if names:
        return {name: _document(value[name]) for name in names}
    if isinstance(value, bytes):
        return _text(value)
    if isinstance(value, np.ndarray):
        return [_document(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def attributes_of(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """Return attributes as JSON."""
    return {str(name): as_json(value, _MOST_IN_INFO) for name, value in attributes.items()}
