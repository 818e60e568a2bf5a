"""Tensors that an exporter of lakebed stored in arrays, as ``exporters/arrays/layout.py`` defines them.

    NAME                 numbers of shape (rows, ...), texts, JSON, or flat values of rows of any length
    NAME.null            True where a row is null
    NAME.shape           shape of each item
    NAME.offsets         if NAME is one flat array: start of the values of each item, and end of the last item
    NAME.rows            start of the items of each row, and end of the last row

All of these numbers are checked before use.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.registry import sniff
from lakebed.codecs.sample import Sample
from lakebed.dataset.described import KEY, Described
from lakebed.documents.json_style import decode_custom, load
from lakebed.errors import IngestionError
from lakebed.htypes.base import Storing
from lakebed.importers.core.plan import TensorPlan

LAYOUTS = ("array", "ragged", "text", "json", "file")

BESIDE = ("null", "shape", "offsets", "rows")
"""Suffixes of the arrays that belong to the array of values."""

# Limit of bytes per row, because a damaged file may claim any size.
_MOST_ROW_BYTES = 4 << 30
_SAMPLED = 16


class Array(Protocol):
    """An array of a file."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the array; ``object`` for texts and for arrays of varying length."""

    def read(self, start: int, stop: int) -> Any:
        """Return rows, as an array or a list of values."""


@dataclass(frozen=True)
class Stored:
    """A tensor that is stored in arrays.

    Parameters
    ----------
    name
        Name of the tensor.
    layout
        One of :data:`LAYOUTS`.
    described
        Description of the tensor.
    main
        Array of the values.
    beside
        Suffix -> array that belongs to `main`.
    kinds
        Kinds of the files in the tensor.
    """

    name: str
    layout: str
    described: Described
    main: Array
    beside: Mapping[str, Array]
    kinds: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows, and, for arrays, the shape of a row."""
        for of in ("rows", "offsets"):
            if of in self.beside:
                return (max(0, self.beside[of].shape[0] - 1),)
        return self.main.shape if self.layout == "array" else self.main.shape[:1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the values."""
        return self.main.dtype

    @property
    def parts(self) -> tuple[Array, ...]:
        """All arrays of the tensor."""
        return (self.main, *self.beside.values())

    @property
    def row_bytes(self) -> int:
        """Approximate size of a row in bytes, estimated from some rows."""
        count = self.shape[0]
        if self.layout == "array" and "rows" not in self.beside:
            return prod(self.shape[1:]) * self.dtype.itemsize
        return sampled_bytes(count, lambda row: size_of(self._values(*self._items(row, row + 1))))

    @property
    def plan(self) -> TensorPlan:
        """Plan of the tensor."""
        kind = self.described.sample_compression
        if self.layout == "file" and self.kinds and self.kinds != (kind,):
            images = self.described.base.startswith("image")
            kind = "png" if images and len(self.kinds) > 1 else self.kinds[0]
        return TensorPlan(self.name, self.described.arguments(kind), dict(self.described.info))

    def read(self, start: int, stop: int) -> Any:
        """Return rows; None for nulls, lists for sequences."""
        first, last = self._items(start, stop)
        values = self._made(first, last)
        nulls = self._nulls(start, stop)
        if "rows" in self.beside:
            offsets = self.beside["rows"].read(start, stop + 1) - first
            values = [list(values[a:b]) for a, b in pairwise(offsets.tolist())]
        if nulls is None or not nulls.any():
            return values
        return [None if null else value for value, null in zip(values, nulls, strict=True)]

    def _items(self, start: int, stop: int) -> tuple[int, int]:
        """Return the number of the first item of some rows, and the number after their last item.

        Raises
        ------
        IngestionError
            If the numbers of the file contradict each other.
        """
        if "rows" not in self.beside:
            return start, stop
        count = (self.beside["offsets"].shape[0] - 1) if "offsets" in self.beside else self.main.shape[0]
        offsets = _ascending(self.beside["rows"].read(start, stop + 1), count, f"{self.name}.rows")
        return int(offsets[0]), int(offsets[-1])

    def _nulls(self, start: int, stop: int) -> NDArray[np.bool_] | None:
        if "null" not in self.beside:
            return None
        return np.asarray(self.beside["null"].read(start, stop)).astype(np.bool_)

    def _made(self, first: int, last: int) -> Any:
        """Return items as values of the tensor."""
        if self.layout == "array":
            found = np.asarray(self.main.read(first, last))
            return found.astype(found.dtype.newbyteorder("="), copy=False)
        values = self._values(first, last)
        if self.layout == "text":
            return [text_of(value, self.name) for value in values]
        if self.layout == "json":
            return [_document(text_of(value, self.name), self.name) for value in values]
        if self.layout == "file":
            kind = self.kinds[0] if len(self.kinds) == 1 else None
            return [_file(np.asarray(one, np.uint8).tobytes(), kind) if len(one) else None for one in values]
        return list(self._ragged(values, first, last))

    def _values(self, first: int, last: int) -> Any:
        """Return the values of some items: all of main, or a flat array for each item."""
        if "offsets" not in self.beside:
            return self.main.read(first, last)
        offsets = _ascending(
            self.beside["offsets"].read(first, last + 1), self.main.shape[0], f"{self.name}.offsets"
        )
        flat = self.main.read(int(offsets[0]), int(offsets[-1]))
        bounds = (offsets - offsets[0]).tolist()
        return [flat[a:b] for a, b in pairwise(bounds)]

    def _ragged(self, values: Any, first: int, last: int) -> Iterator[NDArray[Any]]:
        shapes = np.asarray(self.beside["shape"].read(first, last)) if "shape" in self.beside else None
        for at, value in enumerate(values):
            flat = np.ascontiguousarray(value)
            if shapes is None:
                yield flat
                continue
            shape = tuple(int(extent) for extent in shapes[at])
            if any(extent < 0 for extent in shape) or prod(shape) != flat.size:
                raise IngestionError(f"{self.name}.shape gives the shape {shape} for {flat.size:,} values")
            yield flat.reshape(shape)


def stored_of(name: str, said: Mapping[str, Any], array_of: Callable[[str], Array | None]) -> Stored | None:
    """Return the tensor that an array stores; None if its description is missing or wrong.

    Parameters
    ----------
    said
        Attributes of the array.
    array_of
        Function that returns the array of a name; None if no array has this name.
    """
    described = Described.from_json(said.get(KEY)) if KEY in said else None
    main = array_of(name)
    if described is None or main is None or not main.shape:
        return None
    more = described.more
    layout, ndim = more.get("layout"), more.get("ndim")
    if layout not in LAYOUTS or not isinstance(ndim, int) or not 1 <= ndim <= 32:
        return None
    is_flat = layout in ("ragged", "file") and main.dtype.kind != "O"
    needed = {"rows": more.get("rows") is True, "shape": layout == "ragged" and ndim > 1, "offsets": is_flat}
    found = {of: array_of(f"{name}.{of}") for of in BESIDE if of == "null" or needed[of]}
    beside = {of: array for of, array in found.items() if array is not None}
    if len(beside) < len(found) - (found["null"] is None):
        return None
    if not _is_right(layout, ndim, main, beside, described):
        return None
    kinds = tuple(str(said.get("format", "")).split("/")) if layout == "file" else ()
    return Stored(name, layout, described, main, beside, kinds)


def _is_right(layout: str, ndim: int, main: Array, beside: Mapping[str, Array], described: Described) -> bool:
    """Return whether arrays have the dtypes and shapes of their layout."""
    storing = described.storing
    fits = {
        "array": storing is Storing.ARRAY and main.dtype.kind in "biufc",
        "ragged": storing in (Storing.ARRAY, Storing.POLYGON) and main.dtype.kind in "Obiufc",
        "text": storing is Storing.TEXT and main.dtype.kind in "OSUT",
        "json": main.dtype.kind in "OSUT",
        "file": main.dtype.kind in "Ou",
    }
    if not fits[layout] or (layout != "array" and len(main.shape) != 1):
        return False
    for of, array in beside.items():
        if len(array.shape) != (2 if of == "shape" else 1) or array.dtype.kind not in "biu":
            return False
    if any(of in beside and beside[of].shape[0] < 1 for of in ("rows", "offsets")):
        return False
    items = beside["offsets"].shape[0] - 1 if "offsets" in beside else main.shape[0]
    rows = beside["rows"].shape[0] - 1 if "rows" in beside else items
    return (
        ("null" not in beside or beside["null"].shape[0] == rows)
        and ("shape" not in beside or beside["shape"].shape == (items, ndim))
        and prod(main.shape[1:]) * max(1, main.dtype.itemsize) <= _MOST_ROW_BYTES
    )


def size_of(value: Any) -> int:
    """Return the approximate size of a value in bytes."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes) if value.dtype.kind != "O" else sum(map(size_of, value.ravel()))
    if isinstance(value, str | bytes | bytearray | memoryview):
        return len(value)
    if isinstance(value, Mapping):
        value = list(value.values())
    return sum(map(size_of, value)) if isinstance(value, list | tuple) else 8


def sampled_bytes(count: int, size_at: Callable[[int], int]) -> int:
    """Return the approximate size of a row, estimated from some rows.

    Stop at a damaged row; reading will report it.
    """
    found = [8]
    with contextlib.suppress(IngestionError):
        rows = {count * at // _SAMPLED for at in range(_SAMPLED)} if count else set()
        found += [size_at(row) for row in sorted(rows)]
    return max(8, sum(found) // len(found))


def _ascending(offsets: Any, most: int, name: str) -> NDArray[np.int64]:
    found = np.asarray(offsets).astype(np.int64)
    if not len(found) or found[0] < 0 or found[-1] > most or (np.diff(found) < 0).any():
        raise IngestionError(
            f"{name} must hold the starts of rows, but its numbers do not ascend to {most:,}"
        )
    return found


def text_of(value: Any, name: str) -> str:
    """Return a value as text.

    Raises
    ------
    IngestionError
        If the bytes are not UTF-8.
    """
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise IngestionError(f"a text of {name} is not UTF-8: {error}") from error
    return str(value)


def _document(text: str, name: str) -> Any:
    return decode_custom(load(text.encode("utf-8", "surrogatepass"), f"a value of {name}"))


def _file(data: bytes, kind: str | None) -> Sample:
    """Return a file as a sample; `kind` is the kind of files without a signature, such as TGA."""
    return Sample(buffer=data, compression=None if sniff(data) else kind)
