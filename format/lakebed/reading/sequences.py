"""Sequences of flat samples: find the items that a subscript picks, and the subscript that remains for the items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed import limits
from lakebed.documents.indexes.sequence_index import SequenceIndex
from lakebed.reading.parts import Subscript
from lakebed.reading.subscripts import Rows


@dataclass(frozen=True, slots=True)
class Pick:
    """Items of one sequence.

    Parameters
    ----------
    items
        Flat rows of the items; only one, without the axis of items, if ``is_single``.
    inside
        Remaining subscripts for each item.
    """

    items: Sequence[int]
    is_single: bool
    inside: tuple[Subscript, ...]


def pick(first: int, stop: int, inside: tuple[Subscript, ...]) -> Pick:
    """Apply subscripts to a sequence with flat rows ``first`` to ``stop`` as NumPy would to its first axis.

    Raises
    ------
    IndexError
        If an item does not exist.
    """
    items: Sequence[int] = range(first, stop)
    left: list[Subscript] = []
    for n, subscript in enumerate(inside):
        head, rest = subscript[0], subscript[1:]
        if head is Ellipsis:
            head, rest = slice(None), subscript if len(subscript) > 1 else ()
        items = _chosen(items, head)
        if isinstance(items, int):
            tail = (rest,) if rest else ()
            return Pick([items], True, (*left, *tail, *inside[n + 1 :]))
        if rest:
            left.append(rest)
    return Pick(items, False, tuple(left))


def _chosen(items: Sequence[int], head: Any) -> Any:
    if isinstance(head, slice):
        return items[head]
    array = np.asarray(head)
    if array.ndim == 0 and array.dtype.kind in "iu":
        at = int(array)
        if not -len(items) <= at < len(items):
            raise IndexError(f"index {at} is out of range for a sequence of {len(items)} items")
        return items[at]
    if array.dtype == np.bool_ and len(array) != len(items):
        raise IndexError(
            f"a mask of {len(array)} booleans can not select from a sequence of {len(items)} items"
        )
    chosen: list[int] = np.asarray(items, dtype=np.int64)[
        array if array.size else array.astype(np.int64)
    ].tolist()
    return chosen


class Spans:
    """Flat rows of each sequence."""

    def __init__(self, index: SequenceIndex) -> None:
        self._index = index

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        starts = np.zeros(self._index.count + 1, dtype=np.int64)
        np.cumsum(self._index.lengths, out=starts[1:])
        return starts

    def span(self, row: int) -> tuple[int, int]:
        """Return the first flat row of a sequence and the row after its last; equal numbers if no sequence exists."""
        if row >= self._index.count:
            return self._index.total, self._index.total
        return self._index.span(row)

    def spans(self, rows: Rows) -> list[tuple[int, int]]:
        """Return the span of each of many sequences."""
        if len(rows) < 4:
            return [self.span(int(row)) for row in rows]
        limits.check("MAX_TABLE_ROWS", len(rows), "sequences to read at once")
        wanted = np.minimum(np.asarray(rows, dtype=np.int64), self._index.count)
        starts = self._starts
        stops = starts[np.minimum(wanted + 1, self._index.count)]
        return list(zip(starts[wanted].tolist(), stops.tolist(), strict=True))
