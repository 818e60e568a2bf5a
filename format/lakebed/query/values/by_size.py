"""Samples of many lengths, those of one length at a time: each answer is, to the last bit, that of the sample alone.

NumPy goes along the last axis of a matrix as it goes through one sample, so sums are rounded in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lakebed.query.values.columns import tick

_VALUES = 1 << 20
"""Values that are put together at a time; one sample may have more."""

Matrix = Callable[[NDArray[np.generic]], NDArray[np.generic]]


def by_size(
    flat: NDArray[np.generic], offsets: NDArray[np.int64], reduce: Matrix, empty: NDArray[np.generic]
) -> NDArray[np.generic]:
    """Reduce samples that lie one behind the other.

    Parameters
    ----------
    reduce
        Takes samples of one length, shape (samples, length), and returns a value for each.
    empty
        What becomes of a sample without values.

    Returns
    -------
    Shape (samples,), in a dtype that holds all values.
    """
    sizes = np.diff(offsets)
    found: NDArray[np.generic] | None = None
    for places, size in _alike(sizes):
        tick()
        if size:
            starts = offsets[:-1][places]
            if len(places) == 1:
                matrix = flat[starts[0] : starts[0] + size][None]
            else:
                matrix = flat[starts[:, None] + np.arange(size)]
            values = np.asarray(reduce(matrix))
        else:
            values = np.full(len(places), empty, empty.dtype)
        if found is None:
            found = np.zeros(len(sizes), values.dtype)
        elif found.dtype != values.dtype:
            found = found.astype(np.result_type(found.dtype, values.dtype))
        found[places] = values
    return np.zeros(0, empty.dtype) if found is None else found


def _alike(sizes: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Yield the samples of each length, and that length; of many samples, as many as are put together."""
    order = np.argsort(sizes, kind="stable")
    ordered = sizes[order]
    edges = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(ordered)]
    for start, stop in pairwise(edges if len(order) else [0]):
        size = int(ordered[start])
        step = max(1, _VALUES // max(1, size))
        for first in range(start, stop, step):
            yield order[first : min(stop, first + step)], size


def count_different(matrix: NDArray[np.generic]) -> NDArray[np.int64]:
    """Count the different values of each row of a matrix; all NaN are one."""
    ordered = np.sort(matrix, axis=1)
    found: NDArray[np.int64] = 1 + np.count_nonzero(ordered[:, 1:] != ordered[:, :-1], axis=1)
    if ordered.dtype.kind == "f":
        odd = np.count_nonzero(np.isnan(ordered), axis=1)
        found -= np.maximum(odd - 1, 0)
    return found
