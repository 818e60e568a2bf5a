"""Values that did not fit: number, first record and reason by column.

Two places refuse values. The table refuses and counts values that are not of the column's kind; the tensor refuses
values beyond its type, row by row. Both become null, and are noted in the row's `_airbyte_meta`. If the user chose the
type and no value fits, the choice is wrong, and the sync must not continue with nulls.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from destination_deeplake import groups
from destination_deeplake.choices import ColumnChoice
from destination_deeplake.columns import Column, Kind, Refused, shape_text
from destination_deeplake.stream.samples import Rows
from destination_deeplake.tensors import TensorType
from lakebed.upserts.ndarrays import present

MOST_LEADING = 1_000
"""If this many first values of a chosen type do not fit, the sync fails."""

NO_REFUSED = Refused(0, 0)
"""Counts of a column without refused values."""

_OF_KIND = {
    Kind.TEXT: "that are not text of Unicode",
    Kind.INT64: "that are not whole numbers of 64 bits",
    Kind.FLOAT64: "that are not numbers of 64 bits",
    Kind.BOOL: "that are neither true nor false",
    Kind.TIMESTAMP_TZ: "that are not timestamps",
    Kind.TIMESTAMP: "that are not timestamps",
    Kind.DATE: "that are not dates",
    Kind.TIME_TZ: "that are not times of day",
    Kind.TIME: "that are not times of day",
    Kind.JSON: "that are not JSON of Unicode",
    Kind.EXACT: "that are not numbers",
    Kind.BYTES: "that are not base64",
    Kind.FLOATS: "that are not arrays of numbers",
}


@dataclass(frozen=True, slots=True)
class Misfit:
    """The values of one column that did not fit.

    Attributes
    ----------
    field : str
        The column, or the expected object.
    count : int
        Number of values that did not fit.
    values : int or None
        Number of all values except nulls; None if not counted.
    first : int
        Number of the first record with such a value, from 1.
    reason : str
        Reason, as the end of a sentence after `values`.
    """

    field: str
    count: int
    values: int | None
    first: int
    reason: str

    def __str__(self) -> str:
        of = "" if self.values is None else f" of {self.values:,}"
        return (
            f"column {self.field!r}: {self.count:,}{of} values {self.reason}, first at record {self.first:,}"
        )


class Tally:
    """Counts of the values of one column that fitted, and of the values that did not fit.

    Attributes
    ----------
    leading : int
        Number of values that did not fit before the first one that did.
    """

    def __init__(self) -> None:
        self.leading = 0
        self._has_fit = False
        self._taken = 0
        self._refused = NO_REFUSED
        self._by_tensor = 0
        self._first: int | None = None
        self._reason = ""

    def add(
        self, values: pa.Array, unfit: Rows, before: int, refused: Refused, native: Callable[[int], int]
    ) -> None:
        """Count the values of a batch.

        Parameters
        ----------
        values : pyarrow.Array
            The column as it was taken from the table.
        unfit : ndarray of int64
            Rows whose value the tensor refused.
        before : int
            Number of records of earlier batches.
        refused : Refused
            Values that the table has refused since the sync began.
        native : callable
            Returns the number of values that the table refused in the first rows of the batch; called at most once.
        """
        there = len(values) - values.null_count
        new = refused.count - self._refused.count
        if not self._has_fit:
            if there > len(unfit):
                fits = present(values)
                fits[unfit] = False
                row = int(np.argmax(fits))
                self.leading += int(np.searchsorted(unfit, row)) + (native(row) if new else 0)
                self._has_fit = True
            else:
                self.leading += new + len(unfit)
        self._taken += there
        self._refused = refused
        self._by_tensor += len(unfit)
        if len(unfit) and self._first is None:
            self._first = before + int(unfit[0]) + 1

    def misfit(self, column: Column, of_type: TensorType) -> Misfit | None:
        """Return the report on the column; None if all values fitted."""
        reasons, first = [], []
        if self._refused.count:
            reasons.append(_OF_KIND[column.kind] + _shaped(column))
            first.append(self._refused.first)
        if self._first is not None:
            reasons.append(_beyond(of_type))
            first.append(self._first)
        if not reasons:
            return None
        return Misfit(
            column.field,
            self._refused.count + self._by_tensor,
            self._taken + self._refused.count,
            min(first),
            " or ".join(reasons),
        )


def says_a_type(choice: ColumnChoice | None) -> bool:
    """Tell whether the user chose the type of a column."""
    return choice is not None and any((choice.htype, choice.dtype, choice.decoding, choice.shape))


def refused_before(meta: pa.Array, field: str) -> Callable[[int], int]:
    """Return a function that counts the values that the table refused in the first rows of a batch."""

    def count(rows: int) -> int:
        # Imported here, because that takes a tenth of a second, and nearly all columns fit.
        import pyarrow.compute as pc

        told = pc.match_substring(meta.storage.slice(0, rows), groups.change(field).decode())
        return int(pc.sum(told).as_py() or 0)

    return count


def _shaped(column: Column) -> str:
    return "" if column.shape is None else f" of shape {shape_text(column.shape)}"


def _beyond(of_type: TensorType) -> str:
    """Return the reason why a tensor of this type refuses values that the table accepted."""
    if of_type.is_link:
        return "that are not addresses of files"
    if of_type.takes_files:
        return f"that are not whole files of {of_type.sample_compression or of_type.htype}"
    if of_type.htype == "class_label":
        return "that are not an index of a label"
    if of_type.htype == "json":
        return "that are nested too deeply"
    return f"beyond {of_type.dtype}"
