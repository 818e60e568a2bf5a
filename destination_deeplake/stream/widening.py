"""Rewriting of a tensor as a wider type, published by the next flush; earlier commits are not changed."""

import numpy as np

import lakebed
from destination_deeplake.columns import Column, Kind
from destination_deeplake.stream.stored import StoredColumn
from destination_deeplake.tensors import TENSOR_TYPES
from lakebed.errors import InvalidOperationError
from lakebed.upserts.ndarrays import numbers_of, present

_DAY = 86_400_000_000
_MOST_DAYS = 2**63 // _DAY
_SLICE_ROWS = 1 << 18


def widen(dataset: lakebed.Dataset, column: StoredColumn) -> None:
    """Rewrite the rows of a column whose type becomes wider.

    If that would change a value (integers that floats round, days beyond the range of microseconds), the column becomes
    text instead.
    """
    before = column.before
    if before is None:
        return
    old, new, tensor = before.type, column.type, column.tensor
    is_number = new.htype == "generic"
    try:
        if is_number and old.logical_type != new.logical_type:
            _retime(dataset, tensor, before.column.kind, str(new.logical_type))
        else:
            dataset.change_type(tensor, htype=new.htype, dtype=new.dtype if is_number else None)
    except InvalidOperationError:
        if not is_number:
            raise
        kind = Kind.EXACT if before.column.kind is Kind.INT64 else Kind.TEXT
        column.column, column.type = Column(column.column.path, kind), TENSOR_TYPES[kind]
        dataset.change_type(tensor, htype="text")


def _retime(dataset: lakebed.Dataset, tensor: str, old: Kind, logical_type: str) -> None:
    """Convert dates to the first moment of their day, and times without a zone to UTC."""
    if old is Kind.DATE:
        if _largest(dataset, tensor) > _MOST_DAYS:
            raise InvalidOperationError(
                f"days of tensor {tensor!r} are too far from 1970 for a timestamp in microseconds"
            )
        # Remove the logical type first, because a date cannot have the wider dtype.
        dataset[tensor].info["logical_type"] = None
        dataset.change_type(tensor, dtype="int64")
        for start, stop in _slices(dataset, tensor):
            days = dataset.read_columns(start, stop, [tensor])[tensor]
            rows = np.flatnonzero(present(days))
            moments = numbers_of(days)[rows] * _DAY
            dataset.update_rows(rows + start, {tensor: moments})
    dataset[tensor].info["logical_type"] = logical_type


def _largest(dataset: lakebed.Dataset, tensor: str) -> int:
    """Return the largest magnitude of a tensor of dates."""
    largest = 0
    for start, stop in _slices(dataset, tensor):
        dates = dataset.read_columns(start, stop, [tensor])[tensor]
        days = numbers_of(dates.cast("int32"))[present(dates)].astype(np.int64)
        largest = max(largest, int(np.abs(days).max(initial=0)))
    return largest


def _slices(dataset: lakebed.Dataset, tensor: str) -> list[tuple[int, int]]:
    rows = len(dataset[tensor])
    return [(start, min(start + _SLICE_ROWS, rows)) for start in range(0, rows, _SLICE_ROWS)]
