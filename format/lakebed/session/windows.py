"""Tables cut into windows of rows, which other processes read separately."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from lakebed.errors import InvalidInputError
from lakebed.htypes.base import Storing
from lakebed.session.table import Table

WINDOW_BYTES = 64_000_000  # limit of the values that one process holds at a time, in bytes
WINDOW_ROWS = 1024  # limit of rows whose values are Python objects
_UNKNOWN_BYTES = 100.0  # number of bytes assumed for a value of unknown size


def even(table: Table) -> Table:
    """Return the table if all its columns have the selected rows, so that no shorter column hides rows.

    Raises
    ------
    InvalidInputError
        If a column has fewer of the selected rows than another; the message names it.
    """
    lengths = {name: state.length for name, state in table.states().items()}
    if len(set(lengths.values())) < 2:
        return table
    short, long = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
    found, wanted = len(table.index.rows(lengths[short])), len(table.index.rows(lengths[long]))
    if found == wanted:
        return table
    shared = f"take the rows that all have, as ds[:{found}], " if found else ""
    raise InvalidInputError(
        f"tensor {short!r} has {found:,} of the rows and {long!r} has {wanted:,}: name only tensors that have them, as "
        f"tensors=[{long!r}], {shared}or fill {short!r} up, with None where a value is missing"
    )


def windows(table: Table, count: int) -> list[tuple[int, int]]:
    """Return about ``count`` windows (start, stop) of the selected rows, cut at chunk boundaries that are near.

    Examples
    --------
    >>> import lakebed
    >>> ds = lakebed.empty("mem://windows-example")
    >>> _ = ds.create_tensor("x", dtype="int64")
    >>> ds.extend({"x": list(range(10))})
    >>> windows(ds._table(), 2)
    [(0, 5), (5, 10)]
    """
    length = len(table)
    size = -(-length // max(1, count))
    ends = _chunk_ends(table, length)
    found, at = [], 0
    while at < length:
        stop = min(length, at + size)
        near = [end for end in ends[max(0, bisect_left(ends, stop) - 1) :][:2] if at < end]
        if near and stop < length:
            nearest = min(near, key=lambda end: abs(end - stop))
            stop = nearest if abs(nearest - stop) <= size // 2 else stop
        found.append((at, stop))
        at = stop
    return found


def _chunk_ends(table: Table, length: int) -> list[int]:
    """Return the ends of the chunks of the column with the most chunks; an empty list if rows are not consecutive."""
    rows = table.rows()
    states = [state for state in table.states().values() if state.sequence is None]
    if not states or not isinstance(rows, range) or rows.step != 1 or not length:
        return []
    largest = max(states, key=lambda state: len(state.table))
    ends = np.unique(largest.table.ids.last.astype(np.int64)) + 1 - rows.start
    found: list[int] = ends[(ends > 0) & (ends <= length)].tolist()
    return found


def has_arrays(table: Table, name: str) -> bool:
    """Return whether the samples of a column are arrays of one rank, none of which is null."""
    reader = table.reader(name)
    rank = len(reader.state.meta.max_shape)
    return (
        reader.storing is Storing.ARRAY
        and reader.state.sequence is None
        and reader.decoder.dtype is not None
        and rank > 0
        and not reader.is_scalar
        and table.companion(name, "null") is None
    )


def bytes_of_row(table: Table) -> float:
    """Estimate the number of bytes of memory that the values of a row need."""
    total = 0.0
    for name, state in table.states().items():
        reader = table.reader(name)
        stored = state.table.places.sizes
        mean = float(stored.sum()) / max(1, state.length) if len(stored) and stored.all() else _UNKNOWN_BYTES
        if reader.storing is Storing.ARRAY and reader.decoder.dtype is not None:
            low, high = np.array(state.meta.min_shape, float), np.array(state.meta.max_shape, float)
            mean = max(mean, float(np.prod((low + high) / 2)) * reader.decoder.dtype.itemsize)
        total += mean
    return total
