"""Arrow columns in readable form: class labels as names, files as bytes, links as addresses.

tensor                          column
class_label with names          dictionary of int32 -> string; lists of these if samples hold several labels
files: images, sound, ...       large_binary: the stored file
links                           string: the addresses in the links
all others                      the column that `reading.columns.arrow` makes

A label without a name is shown as its number, as text. Duplicate names become one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakebed.errors import InvalidOperationError
from lakebed.htypes.arrow import null_rows, numpy_dtype
from lakebed.reading.columns.arrow import arrow_column, arrow_type, number_array, taken_column
from lakebed.reading.columns.scan import ColumnScan

FILE_ROWS = 1024
"""Rows of a batch that holds files."""


@dataclass(frozen=True)
class Names:
    """Class names: `words` holds each name once; `places[i]` is the position in `words` of the name of label i."""

    words: tuple[str, ...]
    places: NDArray[np.int32]

    @classmethod
    def of(cls, class_names: Sequence[Any]) -> Names:
        """Return the names of an info's ``class_names``."""
        found: dict[str, int] = {}
        places = [found.setdefault(str(name), len(found)) for name in class_names]
        return cls(tuple(found), np.array(places, np.int32))

    def named(self, numbers: pa.Array) -> pa.Array:
        """Return an array of integers as a dictionary array."""
        gone, words = null_rows(numbers), self.words
        values = _integers(numbers)
        known = (values >= 0) & (values < len(self.places))
        at = np.zeros(len(values), np.int32)
        at[known] = self.places[values[known]]
        if gone is not None:
            known |= gone
        if not known.all():
            others, inverse = np.unique(values[~known], return_inverse=True)
            taken = {word: place for place, word in enumerate(words)}
            extra = [taken.setdefault(str(number), len(taken)) for number in others.tolist()]
            words, at[~known] = tuple(taken), np.array(extra, np.int32)[inverse]
        return pa.DictionaryArray.from_arrays(
            number_array(at, pa.int32(), gone), pa.array(words, pa.string())
        )


@dataclass(frozen=True)
class ShownColumn:
    """Reader of one tensor's rows as an Arrow column of type ``kind``."""

    scan: ColumnScan
    kind: pa.DataType
    stored: pa.DataType
    names: Names | None = None
    how: str = "values"

    @classmethod
    def of(cls, scan: ColumnScan, *, labels: bool = False, files: bool = False) -> ShownColumn:
        """Decide how a tensor is shown.

        Parameters
        ----------
        labels
            Show class labels by their names.
        files
            Show files as bytes and links as addresses.
        """
        reader = scan.reader
        meta = reader.state.meta
        if files and (reader.is_link or reader.decoder.files is not None):
            how = "links" if reader.is_link else "files"
            kind = pa.string() if reader.is_link else pa.large_binary()
            kind = kind if reader.state.sequence is None else pa.list_(kind)
            return cls(scan, kind, kind, how=how)
        kind = arrow_type(reader)
        names = reader.state.info.get("class_names") if labels and meta.htype == "class_label" else None
        if not isinstance(names, list | tuple) or not names or pa.types.is_null(kind):
            return cls(scan, kind, kind)
        return cls(scan, _renamed(kind), kind, Names.of(names))

    def column(self, start: int, stop: int) -> pa.Array:
        """Return rows ``start`` to ``stop``."""
        if self.how == "values":
            return self._named(arrow_column(self.scan, start, stop, self.stored))
        return pa.array(self._values(range(start, stop)), type=self.kind)

    def taken(self, rows: NDArray[np.int64]) -> pa.Array:
        """Return any rows, in the order given."""
        reader = self.scan.reader
        if self.how != "values":
            is_row = self.how == "files" and reader.state.sequence is None
            with reader.prefetch(rows) if is_row else nullcontext():
                return pa.array(self._values(rows.tolist()), type=self.kind)
        ascending, inverse = np.unique(rows, return_inverse=True)
        found = taken_column(self.scan, ascending, self.stored)
        if len(ascending) < len(rows) or not bool((rows[1:] > rows[:-1]).all()):
            found = found.take(number_array(inverse.astype(np.int64), pa.int64()))
        return self._named(found)

    def _named(self, array: pa.Array) -> pa.Array:
        return array if self.names is None else _with_names(array, self.names)

    # -- files and links -------------------------------------------------------------------------------------

    def _values(self, rows: Sequence[int]) -> list[Any]:
        reader, one = self.scan.reader, self._address if self.how == "links" else self._file
        sequence = reader.state.sequence
        gone = [self.scan.null_mask(row, row + 1) is not None for row in rows]
        if sequence is None:
            return [None if is_gone else one(row) for row, is_gone in zip(rows, gone, strict=True)]
        return [
            None if is_gone else [one(item) for item in range(*sequence.span(row))]
            for row, is_gone in zip(rows, gone, strict=True)
        ]

    def _address(self, row: int) -> str | None:
        links = self.scan.reader.links
        if links.is_grid(row):
            raise InvalidOperationError(
                f"sample {row} of tensor {self.scan.reader.name!r} consists of several linked files and has no "
                'single address; pass files="arrays", or leave it out with tensors=[...]'
            )
        return str(links.path(row)) or None

    def _file(self, row: int) -> bytes | None:
        reader = self.scan.reader
        if reader.is_tiled(row):
            raise InvalidOperationError(
                f"sample {row} of tensor {reader.name!r} is stored in tiles, not in one file; pass "
                'files="arrays", or leave it out with tensors=[...]'
            )
        return bytes(reader.raw(row, decompress=False)[0]) or None


def _renamed(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_renamed(kind.value_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_renamed(kind.value_type))  # DuckDB misreads dictionaries in lists of fixed size
    return pa.dictionary(pa.int32(), pa.string())


def _integers(array: pa.Array) -> NDArray[np.int64]:
    """Return the values of an array of integers from its buffer, including those under nulls; see `null_rows`."""
    if not len(array):
        return np.empty(0, np.int64)
    dtype: np.dtype[Any] = numpy_dtype(array.type)
    values = np.frombuffer(array.buffers()[1], dtype)[array.offset : array.offset + len(array)]
    return values.astype(np.int64)


def _with_names(array: pa.Array, names: Names) -> pa.Array:
    """Name the numbers in an array, or in lists at any depth; nulls stay."""
    if pa.types.is_list(array.type):
        ends = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
        first = int(ends[0]) if len(ends) else 0
        inner = _with_names(array.values.slice(first, int(ends[-1]) - first if len(ends) else 0), names)
        buffers = [_bits(array), pa.py_buffer((ends - first).astype(np.int32))]
        return pa.Array.from_buffers(_renamed(array.type), len(array), buffers, children=[inner])
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        inner = _with_names(array.values.slice(array.offset * size, len(array) * size), names)
        ends = np.arange(len(array) + 1, dtype=np.int32) * np.int32(size)
        buffers = [_bits(array), pa.py_buffer(ends)]
        return pa.Array.from_buffers(_renamed(array.type), len(array), buffers, children=[inner])
    return names.named(array)


def _bits(array: pa.Array) -> pa.Buffer | None:
    """Return Arrow's bitmap of the rows that are not null."""
    gone = null_rows(array)
    return None if gone is None else pa.py_buffer(np.packbits(~gone, bitorder="little"))
