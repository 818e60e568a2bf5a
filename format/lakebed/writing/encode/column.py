"""Values of any accepted kind -> encoded samples of one tensor, and the resulting changes of its settings.

This module finds out the kind of a column, and calls the module that encodes it; none of these calls back:

    arrow       Arrow arrays, directly or as Python values
    links       links to files elsewhere
    rows        flat samples, by how the htype stores them: arrays, files (with tiles), functions of `lakebed.htypes`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, time, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.sample import Sample
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import (
    InvalidInputError,
    InvalidKeyTypeError,
    LakebedError,
    SampleAppendError,
    TensorDtypeMismatchError,
)
from lakebed.htypes.base import Storing
from lakebed.htypes.images import pads_rank
from lakebed.htypes.registry import htype_named
from lakebed.writing.encode.arrow import arrow_links, arrow_lists, encode_arrow_rows, is_arrow
from lakebed.writing.encode.encoded import Column, Samples
from lakebed.writing.encode.links import Linking, encode_links
from lakebed.writing.encode.missing_values import (
    missing_rows,
    plain_column,
    plain_rows,
    plain_sample,
    with_nulls,
)
from lakebed.writing.encode.rows import encode_rows, infer_htype

_OF_TIMES = ("s", "ms", "us", "ns")
_OF_DATES = ("Y", "M", "W", "D")
_FINER = ("ps", "fs", "as")
_MOMENTS = (date, time, timedelta, np.datetime64, np.timedelta64)


def encode_column(
    values: Any, meta: TensorMeta, info: Mapping[str, Any], name: str, linking: Linking | None = None
) -> Column:
    """Encode a column of samples: an ndarray, an Arrow array, or any iterable of samples.

    Parameters
    ----------
    meta, info
        Metadata and info of the tensor.
    name
        The tensor's name, for messages.
    linking
        Credentials and limits for appending links.

    Raises
    ------
    SampleAppendError
        If a value does not fit the tensor; the cause says why.
    """
    try:
        return _column(values, meta, info, linking)
    except SampleAppendError:
        raise
    except (LakebedError, TypeError, ValueError, OverflowError, ArithmeticError, OSError) as error:
        raise SampleAppendError(f"Failed to append to the tensor {name!r}: {error}") from error


def encode_one(
    value: Any, meta: TensorMeta, info: Mapping[str, Any], name: str, linking: Linking | None = None
) -> Column:
    """Encode one sample.

    Raises
    ------
    SampleAppendError
        If the sample does not fit the tensor; the cause says why.
    """
    htype = htype_named(meta.htype)
    value = plain_sample(value)
    if (
        isinstance(value, np.ndarray)
        and value.size > 1
        and htype.storing is Storing.ARRAY
        and not meta.is_link
    ):
        rows = value[np.newaxis]
        return encode_column(rows if meta.is_sequence else ranked(rows, meta), meta, info, name, linking)
    return encode_column([value], meta, info, name, linking)


def ranked(samples: NDArray[Any], meta: TensorMeta) -> NDArray[Any]:
    """Return an array with the axes that its samples get when encoded singly: (rows, H, W) becomes (rows, H, W, 1)."""
    return samples[..., np.newaxis] if samples.ndim == 3 and pads_rank(meta) else samples


def _column(values: Any, meta: TensorMeta, info: Mapping[str, Any], linking: Linking | None) -> Column:
    values = plain_column(values)
    if is_arrow(values) and not meta.is_link:
        if meta.is_sequence:
            values = arrow_lists(values, meta)
        else:
            return Column(list(encode_arrow_rows(values, meta, info)))
    elif is_arrow(values) and not meta.is_sequence:
        values = arrow_links(values)
        linking = None if linking is None else linking.of_others()
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
        raise InvalidKeyTypeError(
            f"a column of samples must be an array or a list, not a single {type(values).__name__}"
        )
    rows: Samples = values if isinstance(values, np.ndarray | list | tuple) else list(values)
    if isinstance(rows, np.ndarray) and rows.ndim == 0:
        raise InvalidInputError("a column of samples needs a first axis, over the samples")
    rows, kinds = plain_rows(rows)
    if _are_moments(rows, kinds, meta):
        import pyarrow as pa

        return Column(list(encode_arrow_rows(pa.array(_in_arrow_units(rows)), meta, info)))
    items = None
    if meta.is_sequence:
        rows, items = flattened(rows)
        kinds = None
    nulls, logical = missing_rows(rows, kinds), info.get("logical_type")
    if meta.is_link:
        return Column(with_nulls(encode_links(rows, meta, linking), nulls, logical), items)
    return Column(with_nulls(encode_rows(rows, infer_htype(meta, rows), info, kinds), nulls, logical), items)


def flattened(rows: Samples) -> tuple[Samples, NDArray[np.int64]]:
    """Put the items of all sequences into one column.

    Parameters
    ----------
    rows
        Array of shape (rows, items, ...), or sequences: lists, tuples or arrays of items; None is an empty sequence.

    Returns
    -------
    The items, and their number per row: int64, shape (rows,).

    Raises
    ------
    TensorDtypeMismatchError
        If a row is not a sequence.
    """
    if isinstance(rows, np.ndarray) and rows.dtype != object:
        if rows.ndim < 2:
            raise TensorDtypeMismatchError(
                "a row of a sequence tensor must be a list or an array of items, not a number"
            )
        counts = np.full(len(rows), rows.shape[1], dtype=np.int64)
        return rows.reshape(-1, *rows.shape[2:]), counts
    lists = [_items(row) for row in rows]
    counts = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    filled = [items for items in lists if len(items)]
    arrays = [items for items in filled if isinstance(items, np.ndarray) and items.dtype.kind != "O"]
    if arrays and len(arrays) == len(filled):
        first = arrays[0]
        if all(a.dtype == first.dtype and a.shape[1:] == first.shape[1:] for a in arrays):
            return np.concatenate(arrays), counts
    return [item for items in lists for item in items], counts


def _items(row: Any) -> Sequence[Any] | NDArray[Any]:
    if row is None:
        return ()
    if isinstance(row, np.ndarray) and row.ndim:
        return row
    if isinstance(row, list | tuple):
        return row
    if isinstance(row, str | bytes | Mapping | Sample) or not hasattr(row, "__len__"):
        raise TensorDtypeMismatchError(
            f"a row of a sequence tensor must be a list or an array of items, not {type(row).__name__}: {row!r:.60}"
        )
    array = getattr(row, "__array__", None)
    return list(row) if array is None else np.asarray(row)


def _are_moments(rows: Samples, kinds: set[type] | None, meta: TensorMeta) -> bool:
    """Return whether samples are dates, times or durations of Python or NumPy: such values are stored as in Arrow."""
    if meta.is_sequence or meta.is_link or htype_named(meta.htype).name != "generic":
        return False
    # These tensors store the integers of datetime64 and timedelta64.
    if meta.dtype is not None and np.dtype(meta.dtype).kind in "mM":
        return False
    if kinds is None:
        return isinstance(rows, np.ndarray) and rows.ndim == 1 and rows.dtype.kind in "mM"
    return any(issubclass(kind, _MOMENTS) for kind in kinds)


def _in_arrow_units(rows: Samples) -> Samples:
    """Return dates and times of NumPy in units of Arrow: days (as dates), seconds and their fractions."""
    if isinstance(rows, np.ndarray) and rows.dtype.kind in "mM":
        unit = np.datetime_data(rows.dtype)[0]
        is_date = rows.dtype.kind == "M" and unit in _OF_DATES
        return rows if unit in _OF_TIMES else rows.astype("M8[D]") if is_date else _exactly(rows)
    return [in_arrow_unit(value) if isinstance(value, np.generic) else value for value in rows]


def in_arrow_unit(value: Any) -> Any:
    """Convert a date or time of NumPy to a unit of Arrow, days to a date, NaT to None; other values stay."""
    if not isinstance(value, np.datetime64 | np.timedelta64):
        return value
    if np.isnat(value):
        return None
    unit = np.datetime_data(value.dtype)[0]
    if unit in _OF_TIMES:
        return value
    if value.dtype.kind == "M" and unit in _OF_DATES:
        return value.astype("M8[D]").item()
    return _exactly(value)


def _exactly(moments: Any) -> Any:
    """Convert dates and times of other units to seconds, or of finer units to nanoseconds.

    Raises
    ------
    InvalidInputError
        If this would change a value: months and years have no fixed length, and nanoseconds are the finest unit.
    """
    unit = np.datetime_data(moments.dtype)[0]
    found = moments.astype(f"{moments.dtype.kind}8[{'ns' if unit in _FINER else 's'}]")
    is_length = moments.dtype.kind == "m" and unit in ("Y", "M")
    if is_length or not np.all((found.astype(moments.dtype) == moments) | np.isnat(moments)):
        raise InvalidInputError(
            f"{moments.dtype} cannot be converted exactly to seconds or nanoseconds: choose a unit, as "
            "in values.astype('timedelta64[D]') or values.astype('datetime64[ns]')"
        )
    return found


__all__ = ["encode_column", "encode_one", "in_arrow_unit", "is_arrow", "ranked"]
