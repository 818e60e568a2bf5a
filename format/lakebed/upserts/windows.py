"""Columns of a dataset, window by window, as Arrow arrays."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakebed.dataset.dataset import Dataset
from lakebed.upserts.ndarrays import as_arrow

Columns = dict[str, pa.Array]
"""Tensor -> its values, all of one length."""

_ROWS = 1 << 16


def windows(dataset: Dataset, tensors: Sequence[str]) -> Iterator[tuple[int, Columns]]:
    """Read columns in windows, in the order of rows; yield the first row of each window, and its columns.

    Raises
    ------
    lakebed.errors.LakebedError, OSError
        If a column cannot be read.
    """
    names, first, rows = list(tensors), 0, dataset.max_len
    try:
        # An Arrow stream reads each chunk once and caches none. It returns class labels as names, but keys need
        # numbers, so tensors of class labels are read in windows.
        if all(dataset[name].htype != "class_label" for name in names):
            for batch in pa.RecordBatchReader.from_stream(dataset[names]):
                yield first, dict(zip(names, batch.columns, strict=True))
                first += batch.num_rows
            return
    except (OSError, pa.ArrowException):
        # An Arrow stream hides the original error: read the remaining rows in windows, which raises that error.
        pass
    for start in range(first, rows, _ROWS):
        yield start, dataset.read_columns(start, min(start + _ROWS, rows), names)


def whole(dataset: Dataset, tensor: str) -> pa.Array:
    """Read a whole column of a dataset that has rows."""
    return pa.concat_arrays([columns[tensor] for _, columns in windows(dataset, [tensor])])


def taken(columns: Mapping[str, pa.Array], rows: NDArray[np.int64]) -> Columns:
    """Return some rows of columns, in the order of `rows`; if they are consecutive, the result shares their memory."""
    first = int(rows[0]) if len(rows) else 0
    if np.array_equal(rows, np.arange(first, first + len(rows))):
        return {name: column.slice(first, len(rows)) for name, column in columns.items()}
    wanted = as_arrow(rows)
    return {name: column.take(wanted) for name, column in columns.items()}
