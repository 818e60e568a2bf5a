"""Tables whose last column is the last index that a row covers (format.md 4.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from lakebed import limits
from lakebed.errors import FormatError, LimitError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Column: TypeAlias = "NDArray[np.uint64]"

LARGEST_INDEX = 2**62


def read(data: bytes | memoryview, offset: int, width: int, columns: int, what: str) -> list[Column]:
    """Return the columns of a table of `width`-byte unsigned little-endian numbers, which fills the rest of the bytes.

    Returns
    -------
    list of ndarray
        `columns` arrays of uint64, shape (rows,).

    Raises
    ------
    FormatError
        If the bytes are not a whole number of rows.
    LimitError
        If the table has more rows than this process allows.
    """
    limits.check("MAX_ENCODER_BYTES", len(data), what)
    size = len(data) - offset
    if size % (width * columns):
        raise FormatError(
            f"{what} has {size} bytes after its header, which is not a multiple of {width * columns}"
        )
    table = np.frombuffer(data, f"<u{width}", offset=offset).reshape(-1, columns)
    return [np.ascontiguousarray(table[:, i], np.uint64) for i in range(columns)]


def write(width: int, columns: list[Column], what: str) -> bytes:
    """Return the bytes of a table; the inverse of `read`.

    Raises
    ------
    LimitError
        If a number needs more than `width` bytes.
    """
    table = np.empty((len(columns[0]), len(columns)), f"<u{width}")
    for i, column in enumerate(columns):
        if width < 8 and len(column) and int(column.max()) >> (8 * width):
            raise LimitError(f"{what} cannot hold {int(column.max())}: the format has {width} bytes for it")
        table[:, i] = column
    return table.tobytes()


def check_last(last: Column, what: str, *, repeats: bool = False) -> None:
    """Refuse a last column that does not increase (with `repeats`: one that decreases).

    Raises
    ------
    FormatError
        If the column is not in order, or a number exceeds 2^62.
    """
    if not len(last):
        return
    before, after = last[:-1], last[1:]
    if len(after) and bool((after < before).any() if repeats else (after <= before).any()):
        raise FormatError(f"{what} is damaged: the last indices of its rows do not increase")
    if int(last[-1]) > LARGEST_INDEX:
        raise FormatError(f"{what}: the last index {int(last[-1])} is larger than the format allows")


def column(values: Any) -> Column:
    """Return a contiguous uint64 column."""
    return np.ascontiguousarray(values, np.uint64)


def rows_of(last: Column) -> Column:
    """Count the indices that each row covers, shape (rows,)."""
    return np.diff(last + np.uint64(1), prepend=np.uint64(0))
