"""Hashes of keys: equal for rows of the same key.

A key is the values of its columns in their order. All nulls are equal, all NaNs are equal, and `-0.0` equals `0.0`. If
a column would round a number, its exact text counts instead. Two keys with the same hash of 122 bits count as the same
key. The seed of the hash is random in every process and never stored, so that nobody can construct keys with equal
hashes.
"""

import secrets
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakebed.native import keys as native
from lakebed.native.keys import BloomFilter, KeyTable, Values

Hashes = NDArray[np.uint64]
"""One row of two words per key."""

_POINTS = (2 + secrets.randbelow(2**61 - 3), 2 + secrets.randbelow(2**61 - 3))

_LAYOUTS = {
    pa.int64(): native.LAYOUT_INT64,
    pa.uint64(): native.LAYOUT_UINT64,
    pa.float64(): native.LAYOUT_FLOAT64,
    pa.bool_(): native.LAYOUT_BOOL,
    pa.string(): native.LAYOUT_BYTES,
    pa.binary(): native.LAYOUT_BYTES,
    pa.large_string(): native.LAYOUT_WIDE_BYTES,
    pa.large_binary(): native.LAYOUT_WIDE_BYTES,
}
_TEXTS = (native.LAYOUT_BYTES, native.LAYOUT_WIDE_BYTES)


def plain(array: pa.Array) -> pa.Array:
    """Convert a column of numbers, moments, booleans or texts to a type that `values` accepts.

    Raises
    ------
    TypeError
        If the column holds anything else.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if kind in _LAYOUTS:
        return array
    if pa.types.is_null(kind) or pa.types.is_integer(kind):
        return array.cast(pa.int64())
    if pa.types.is_floating(kind):
        return array.cast(pa.float64())
    if pa.types.is_temporal(kind) and kind.bit_width in (32, 64):
        return array.view(f"int{kind.bit_width}").cast(pa.int64())
    if pa.types.is_fixed_size_binary(kind):
        return array.cast(pa.binary())
    raise TypeError(f"a column of type {kind} can be neither key nor cursor")


def values(array: pa.Array) -> Values:
    """Return a column in the form that the compiled module reads.

    Raises
    ------
    TypeError
        As in `plain`.
    """
    array = plain(array)
    layout = _LAYOUTS[array.type]
    validity, *others = array.buffers()
    offsets, data = others if layout in _TEXTS else (None, others[0])
    if array.null_count == 0:
        validity = None
    return Values(layout, len(array), array.offset, validity, offsets, data)


def hash_keys(columns: Sequence[pa.Array], numbers: Sequence[pa.Array | None] | None = None) -> Hashes:
    """Return the hash of every row over the columns of a key.

    Parameters
    ----------
    columns : sequence of pyarrow.Array
        Columns of one length.
    numbers : sequence of pyarrow.Array or None, optional
        For each column, exact numbers as texts (`numerals`), which replace the cells where they are not null.

    Raises
    ------
    TypeError
        If a column cannot be part of a key.
    ValueError
        If there is no column, or they differ in length.
    """
    exact = None if numbers is None else [None if texts is None else values(texts) for texts in numbers]
    return native.hash_rows([values(column) for column in columns], _POINTS, exact)


class KeyFilter:
    """Bloom filter of known keys: a key that it does not contain is certainly new. It grows as keys are added.

    Parameters
    ----------
    expected
        Number of keys that will certainly be added.
    """

    SMALLEST = 32_000
    """Capacity of the first part, in keys, at two bytes per key; small, since each of many streams has a filter."""
    LARGEST = 16_000_000
    """Capacity of the largest part that is added."""

    def __init__(self, expected: int = 0) -> None:
        self._parts = [BloomFilter(max(expected + expected // 8, self.SMALLEST))]
        self._last = 0
        self._held = 0

    @property
    def nbytes(self) -> int:
        """Memory of the filter in bytes."""
        return sum(part.nbytes for part in self._parts)

    def __len__(self) -> int:
        """Return the number of keys that were added; a key that was added twice counts twice."""
        return self._held

    def add(self, hashes: Hashes) -> None:
        """Add keys to the filter."""
        if self._last and self._last + len(hashes) > self._parts[-1].capacity:
            # Each lookup searches every part, so make few large parts; but limit the size of a new part to a multiple
            # of the existing ones.
            room = min(3 * sum(part.capacity for part in self._parts), self.LARGEST)
            self._parts.append(BloomFilter(max(room, len(hashes))))
            self._last = 0
        self._parts[-1].add(hashes)
        self._last += len(hashes)
        self._held += len(hashes)

    def may_hold(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Return for each key whether it may have been added; False means that it certainly was not."""
        found = self._parts[-1].may_hold(hashes)
        for part in self._parts[:-1]:
            found |= part.may_hold(hashes)
        return found


__all__ = ["Hashes", "KeyFilter", "KeyTable", "hash_keys", "plain", "values"]
