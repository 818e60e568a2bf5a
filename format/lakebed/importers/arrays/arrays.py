"""Arrays that lie side by side, a row of each at a time: what NumPy, HDF5 and Zarr files have in common.

Arrays whose first axis is as long as that of most others become tensors, whose rows are along it. Of the others small
ones are kept in the info of the dataset, and larger ones are told. Arrays are read in blocks of some megabytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import IngestionError
from lakebed.importers.core.columns import tensor_name
from lakebed.importers.core.plan import Plan, Problem, TensorPlan, tensor
from lakebed.importers.core.source import Source
from lakebed.importers.core.stored import Stored, names_beside, sampled_bytes, size_of, stored_of

_ITEM_BYTES = 16 << 20
_MOST_IN_INFO = 64 << 10
_CHUNKS = "lz4"
_NUMBERS = "biufc"

# Bytes of arrays for each byte of the file that holds them: no compression of zeros reaches as many. Files that are not
# large when they are unpacked may be compressed as they like.
_MOST_PER_BYTE = 2000
_SMALL = 1 << 30


class Array(Protocol):
    """An array of a file."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Its type; ``object`` for texts and for arrays of varying length."""

    def read(self, start: int, stop: int) -> Any:
        """Return rows, as an array or a list of what they hold."""


@dataclass(frozen=True)
class Found:
    """What a file holds.

    Parameters
    ----------
    arrays
        By name.
    kinds
        Name -> ``text``, ``json`` or ``arrays`` for what the dtype does not tell.
    attributes
        Name of an array -> what is said of it; "" is the whole.
    steps
        Name -> rows that are stored together.
    problems
        What is left out.
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
    """What workers know: the tensor and the kind of each array."""

    source: Source
    tensors: Mapping[str, str]
    kinds: Mapping[str, str]


def planned(source: Source, found: Found, what: str, wanted: Sequence[str], rows: str | None) -> Plan:
    """Plan a tensor for each array.

    Parameters
    ----------
    what
        What the source is, in words.
    wanted
        Names of the arrays that are taken; none for all.
    rows
        Name of the array whose first axis is that of the rows; None for the one that most arrays have.

    Raises
    ------
    IngestionError
        If there are no arrays of rows, or none of a name.
    """
    for name in (*wanted, *([rows] if rows is not None else [])):
        if name not in found.arrays:
            raise IngestionError(
                f"{source.shown} has no array {name!r}: {', '.join(sorted(found.arrays)) or 'it has none'}"
            )
    arrays = {name: array for name, array in found.arrays.items() if not wanted or name in wanted}
    count = _length(arrays, rows)
    if count is None:
        raise IngestionError(f"{source.shown} has no arrays with rows")
    problems = list(found.problems)
    about: dict[str, Any] = {"attributes": dict(found.attributes.get("") or {})}
    tensors: list[TensorPlan] = []
    names: dict[str, str] = {}
    kinds: dict[str, str] = {}
    for name, array in arrays.items():
        if not array.shape or array.shape[0] != count:
            _aside(name, array, count, about, problems)
            continue
        kind = _kind(name, array, found)
        if kind is None:
            problems.append(Problem(name, f"arrays of {array.dtype} have no tensor, and are left out", 0))
            continue
        names[name], kinds[name] = tensor_name(name, set(names.values())), kind
        tensors.append(_tensor(name, names[name], kind, array, found))
    if not tensors:
        raise IngestionError(f"{source.shown} has no arrays that can be imported: {problems[0].reason}")
    if not wanted:
        _check_sizes(source, [arrays[name] for name in names])
    step = _step(
        [_row_bytes(arrays[name]) for name in names], max(found.steps.get(name, 1) for name in names)
    )
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
    """Put what an exporter of lakebed laid in arrays together again, and take what lies beside them away."""
    arrays = dict(found.arrays)
    for name in found.arrays:
        one = stored_of(name, found.attributes.get(name) or {}, found.arrays.get)
        if one is not None:
            arrays[name] = one
            for beside in names_beside(name):
                arrays.pop(beside, None)
    return replace(found, arrays=arrays)


def arrays_of(found: Found, context: Context) -> dict[str, Array]:
    """Return the arrays that were planned; of what is stored with others beside it, all of them.

    Raises
    ------
    IngestionError
        If the file has changed.
    """
    arrays: dict[str, Array] = {}
    for name in context.tensors:
        array = found.arrays.get(name)
        if context.kinds[name] == "stored":
            array = stored_of(name, found.attributes.get(name) or {}, found.arrays.get)
        if array is None:
            raise IngestionError(f"{name} is no more what it was: the file has changed")
        arrays[name] = array
    return arrays


def made(arrays: Mapping[str, Array], block: Block, context: Context) -> Iterator[dict[str, Any]]:
    """Yield the columns of some rows.

    Raises
    ------
    IngestionError
        If an array has fewer rows than it says.
    """
    columns: dict[str, Any] = {}
    for name, called in context.tensors.items():
        values = arrays[name].read(block.start, block.stop)
        if len(values) != block.stop - block.start:
            raise IngestionError(f"{name} ends before {block}")
        columns[called] = converted(values, context.kinds[name])
    yield columns


def _check_sizes(source: Source, arrays: Sequence[Array]) -> None:
    """Refuse what would fill the disk: a small file that says it holds arrays of any size.

    Raises
    ------
    IngestionError
        If the arrays are two thousand times as large as their file, and of more than 1 GB.
    """
    size = sum(
        prod(part.shape) * max(1, part.dtype.itemsize)
        for array in arrays
        for part in (array.parts if isinstance(array, Stored) else (array,))
    )
    if size > max(_SMALL, _MOST_PER_BYTE * source.nbytes):
        raise IngestionError(
            f"{source.shown} says that its {source.nbytes:,} bytes hold arrays of {size:,}: if they are what they "
            "seem, name those that are wanted, arrays=[...] (--arrays)"
        )


def _length(arrays: Mapping[str, Array], rows: str | None) -> int | None:
    if rows is not None:
        return arrays[rows].shape[0] if arrays[rows].shape else None
    # Rows without bytes may be as many as a header says.
    lengths = Counter(array.shape[0] for array in arrays.values() if array.shape and 0 not in array.shape)
    if not lengths:
        return (
            0 if any(isinstance(array, Stored) and not array.shape[0] for array in arrays.values()) else None
        )
    return max(lengths, key=lambda length: (lengths[length], length))


def _aside(name: str, array: Array, count: int, about: dict[str, Any], problems: list[Problem]) -> None:
    """Keep what is no column of rows in the info, or tell that it is left out."""
    size = prod(array.shape) * max(1, array.dtype.itemsize)
    if array.dtype.kind in "biuf" and size <= _MOST_IN_INFO:
        whole = array.read(0, array.shape[0]) if array.shape else array.read(0, 1)
        about.setdefault("arrays", {})[name] = {
            "dtype": str(array.dtype.newbyteorder("=")),
            "shape": list(array.shape),
            "values": np.asarray(whole).tolist(),
        }
        return
    told = f"{array.shape[0]:,} rows" if array.shape else "no rows"
    problems.append(
        Problem(
            name, f"it has {told}, and others {count:,}: it is left out (import it alone, by its name)", 0
        )
    )


def _kind(name: str, array: Array, found: Found) -> str | None:
    if isinstance(array, Stored):
        return "stored"
    if name in found.kinds:
        return found.kinds[name]
    kind = array.dtype.kind
    if kind in _NUMBERS:
        return "numbers"
    if kind in "SU":
        return "text"
    if kind in "mM":
        return "times"
    return "json" if array.dtype.names else None


def _tensor(name: str, called: str, kind: str, array: Array, found: Found) -> TensorPlan:
    if isinstance(array, Stored):
        planned = array.plan
        return TensorPlan(called, planned.arguments, planned.info)
    info = dict(found.attributes.get(name) or {})
    if called != name:
        info["column"] = name
    if kind == "text" or kind == "json":
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


def _step(rows: Sequence[int], stored: int) -> int:
    """Return how many rows workers take at a time: whole pieces of what is stored together, about 16 MB."""
    step = max(1, _ITEM_BYTES // (1 + sum(rows)))
    return step if step <= stored else step - step % stored


def converted(values: Any, kind: str) -> Any:
    """Return rows of an array as its tensor takes them."""
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
    """Return the text of a value.

    Raises
    ------
    IngestionError
        If it is no UTF-8.
    """
    if value is None:
        return None
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise IngestionError(f"a text is no UTF-8: {error}") from error
    if isinstance(value, np.ndarray):
        raise IngestionError("arrays of texts have no tensor: a text for each row was expected")
    return str(value)


def _document(value: Any) -> Any:
    """Return what JSON can hold of a record."""
    names = getattr(getattr(value, "dtype", None), "names", None)
    if names:
        return {name: _document(value[name]) for name in names}
    if isinstance(value, bytes):
        return _text(value)
    if isinstance(value, np.ndarray):
        return [_document(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def attribute(value: Any) -> Any:
    """Return what JSON can hold of an attribute; its text where there is nothing better."""
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.generic):
        return attribute(value.item())
    if isinstance(value, np.ndarray):
        return [attribute(one) for one in value.tolist()] if value.nbytes <= _MOST_IN_INFO else str(value)
    if isinstance(value, list | tuple):
        return [attribute(one) for one in value]
    if isinstance(value, Mapping):
        return {str(key): attribute(one) for key, one in value.items()}
    return str(value)
