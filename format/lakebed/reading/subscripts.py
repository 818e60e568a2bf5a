"""The indexing grammar: which rows, then which part of each sample (API.md 2, 3)."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import reduce
from types import EllipsisType
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import InvalidKeyTypeError

RowSelector = int | slice | tuple[int, ...] | NDArray[np.bool_] | NDArray[np.int64]
Rows = range | NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """A chain of row selectors, then subscripts for the axes of a sample.

    The chain is resolved against a length only when data is read, so one index serves tensors of different lengths.
    Once a selector is an int, the sample axis is removed, and further subscripts apply to the sample.
    """

    chain: tuple[RowSelector, ...] = ()
    inside: tuple[Any, ...] = ()

    @property
    def is_trivial(self) -> bool:
        return not self.chain and not self.inside

    @property
    def is_whole(self) -> bool:
        """Return whether everything is selected, possibly by ``[:]``."""
        return not self.inside and all(isinstance(s, slice) and s == slice(None) for s in self.chain)

    @property
    def is_single(self) -> bool:
        """Return whether a single row is selected, without the sample axis."""
        return bool(self.chain) and isinstance(self.chain[-1], int)

    @property
    def is_basic(self) -> bool:
        """Return whether subscripts inside samples are only ints and slices, which keep the order of axes."""
        return all(isinstance(i, int | slice | EllipsisType) for subscript in self.inside for i in subscript)

    def __getitem__(self, item: Any) -> Index:
        """Add a subscript.

        Raises
        ------
        InvalidKeyTypeError
            If an item cannot select rows or a part of a sample.
        """
        items = item if isinstance(item, tuple) else (item,)
        items = _without_ellipsis(items)
        if not items:
            return self
        if self.is_single:
            return Index(self.chain, (*self.inside, tuple(_inner(i) for i in items)))
        chain = (*self.chain, _selector(items[0]))
        inside = self.inside
        if len(items) > 1:
            inside = (*inside, tuple(_inner(i) for i in items[1:]))
        return Index(chain, inside)

    def rows(self, length: int) -> Rows:
        """Return the selected row numbers of a tensor of that length (one row for a single index).

        Raises
        ------
        IndexError
            If an int or a list names a row that does not exist.
        """
        rows: Rows = range(length)
        for selector in self.chain:
            rows = _apply(rows, selector)
        return rows

    def padded_rows(self, length: int) -> Rows:
        """Return the row numbers as :meth:`rows` does, but an int or a list may name rows beyond the last."""
        named = self.chain[0] if self.chain else None
        if isinstance(named, int | tuple) or (named is not None and _is_numbers(named)):
            length = max(length, int(np.max(named, initial=-1)) + 1)
        return self.rows(length)

    def __eq__(self, other: object) -> bool:
        """Return whether both indexes select the same rows of tensors of any length."""
        if not isinstance(other, Index):
            return NotImplemented
        if self.is_whole and other.is_whole:
            return True
        return (
            len(self.chain) == len(other.chain)
            and all(np.array_equal(a, b) for a, b in zip(self.chain, other.chain, strict=True))  # type: ignore[arg-type]
            and repr(self.inside) == repr(other.inside)
        )

    __hash__ = None  # type: ignore[assignment]

    def part(self, sample: Any) -> Any:
        """Apply the subscripts inside a sample."""
        for subscript in self.inside:
            sample = sample[subscript]
        return sample

    def __repr__(self) -> str:
        return f"Index([{', '.join(map(repr, self._shown()))}])"

    def _shown(self) -> list[Any]:
        """Return one entry per axis if the chain can be combined without knowing a length, else the whole chain."""
        try:
            chain = [tuple(s.tolist()) if _is_numbers(s) else s for s in self.chain]
            axes = [reduce(_composed, chain)] if chain else [slice(None)] if self.inside else []
            for subscript in self.inside:
                free = [i for i, entry in enumerate(axes) if i and not isinstance(entry, int)]
                for at, item in enumerate(subscript):
                    if at < len(free):
                        axes[free[at]] = _composed(axes[free[at]], item)
                    else:
                        axes.append(item)
        except _NotComposable:
            axes = [*self.chain, *[item for subscript in self.inside for item in subscript]]
        return [tuple(np.asarray(e).tolist()) if isinstance(e, list | np.ndarray) else e for e in axes]


class _NotComposable(Exception):
    """Raised if the combination of two selectors depends on the length."""


def _composed(first: Any, second: Any) -> Any:
    """Combine two successive selectors into one."""
    if isinstance(first, slice) and first == slice(None):
        return second
    if isinstance(second, slice) and second == slice(None):
        return first
    if isinstance(first, list | tuple) and not isinstance(second, np.ndarray):
        if isinstance(second, slice):
            return tuple(first[second])
        return first[second] if isinstance(second, int) else tuple(first[i] for i in second)
    if not isinstance(first, slice) or isinstance(second, np.ndarray) or second is Ellipsis:
        raise _NotComposable
    start, step = first.start or 0, first.step or 1
    ends = second if isinstance(second, list | tuple) else (second,)
    ends = (second.start or 0, second.stop or 0) if isinstance(second, slice) else ends
    if start < 0 or step < 0 or min(ends, default=0) < 0:
        raise _NotComposable
    if isinstance(second, slice):
        stops = [first.stop, None if second.stop is None else start + second.stop * step]
        known = [stop for stop in stops if stop is not None]
        if any(stop < 0 for stop in known):
            raise _NotComposable
        stop = min(known, default=None)
        return slice(start + (second.start or 0) * step, stop, step * (second.step or 1))
    picked = tuple(start + i * step for i in ends)
    return picked[0] if isinstance(second, int) else picked


def _apply(rows: Rows, selector: RowSelector) -> Rows:
    if isinstance(selector, int):
        if not -len(rows) <= selector < len(rows):
            raise IndexError(f"Index ({selector},) is out of range for tensors with length {len(rows)}")
        at = selector % len(rows)
        return rows[at : at + 1]
    if isinstance(selector, slice):
        return rows[selector]
    if isinstance(selector, np.ndarray) and not _is_numbers(selector):
        if len(selector) != len(rows):
            raise IndexError(f"a mask of {len(selector)} booleans can not select from {len(rows)} rows")
        return np.asarray(rows, dtype=np.int64)[selector]
    wanted = np.asarray(selector, dtype=np.int64)
    low = int(wanted.min()) if len(wanted) else 0
    if len(wanted) and (low < -len(rows) or wanted.max() >= len(rows)):
        bad = (wanted < -len(rows)) | (wanted >= len(rows))
        raise IndexError(
            f"Index ({int(wanted[bad][0])},) is out of range for tensors with length {len(rows)}"
        )
    if isinstance(rows, np.ndarray):
        return rows[wanted]
    if low < 0:
        wanted = np.where(wanted < 0, wanted + len(rows), wanted)
    return rows.start + (wanted if rows.step == 1 else rows.step * wanted)


def _without_ellipsis(items: tuple[Any, ...]) -> tuple[Any, ...]:
    if items and items[0] is Ellipsis:
        return (slice(None), *items) if len(items) > 1 else ()
    return items


def _selector(item: Any) -> RowSelector:
    if isinstance(item, bool):
        raise InvalidKeyTypeError(
            "a single boolean selects nothing; use a list of booleans as long as the dataset"
        )
    if isinstance(item, slice):
        return item
    if isinstance(item, list | tuple | np.ndarray | range):
        array = np.asarray(item)
        if array.ndim == 1 and array.dtype == np.bool_:
            return array
        if array.ndim == 1 and (array.dtype.kind in "iu" or array.size == 0):
            return _numbers(array) if isinstance(item, np.ndarray) else tuple(array.tolist())
        if array.ndim == 0 and array.dtype.kind in "iu":
            return int(array)
    try:
        return operator.index(item)
    except TypeError:
        raise not_a_key(item) from None


def not_a_key(item: object) -> InvalidKeyTypeError:
    """Return the error for an item that selects nothing."""
    return InvalidKeyTypeError(
        f"Item {item!r} of type {type(item).__name__!r} is not a valid key: rows are selected by a number, a slice, a "
        "list or array of whole numbers or booleans, or a condition; a column by its name, before its rows, as in "
        "ds['age'][0:3]"
    )


def _numbers(given: NDArray[Any]) -> NDArray[np.int64]:
    """Return a read-only copy of row numbers, since the caller may change the array later."""
    if given.dtype.kind == "u" and given.size and given.max() > np.iinfo(np.int64).max:
        raise IndexError(f"row {given.max()} is larger than the largest possible row number")
    numbers = given.astype(np.int64)
    numbers.flags.writeable = False
    return numbers


def _is_numbers(selector: RowSelector) -> TypeGuard[NDArray[np.int64]]:
    return isinstance(selector, np.ndarray) and selector.dtype != np.bool_


def _inner(item: Any) -> Any:
    if item is None or isinstance(item, str | float | dict):
        raise not_a_key(item)
    return item
