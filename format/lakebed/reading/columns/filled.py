"""Samples with nulls as one array: fill nulls with a value, mask them, or make them NaT among dates and times.

numpy(fill=x)          x in place of nulls; the dtype changes only if it cannot hold x exactly
numpy(masked=True)     a masked array; masked values are 0, "" or None
numpy(datetimes=True)  datetime64 for dates and timestamps, timedelta64 for durations and times of day; NaT for nulls
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import InvalidInputError, InvalidOperationError
from lakebed.htypes.base import Storing
from lakebed.reading.columns.scan import ColumnScan
from lakebed.reading.selection import Selection

UNFILLED: Any = object()
"""Default of a fill argument, since None is a valid fill."""

Mask = NDArray[np.bool_]


def moments_dtype(logical: Any) -> np.dtype[Any] | None:
    """Return NumPy's dtype for the type in ``info["logical_type"]``; None if that is not a date or time."""
    import pyarrow as pa

    from lakebed.reading.columns.arrow import logical_type

    kind = logical_type(logical)
    if kind is None:
        return None
    if pa.types.is_date32(kind):
        return np.dtype("M8[D]")
    unit = "ms" if pa.types.is_date64(kind) else kind.unit
    return np.dtype(f"{'M' if pa.types.is_timestamp(kind) or pa.types.is_date64(kind) else 'm'}8[{unit}]")


def as_moments(column: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Convert integers to dates and times; masked integers, and None in a list, become NaT."""
    if isinstance(column, list):
        gone = np.array([value is None for value in column], np.bool_)
        numbers = [0 if value is None else int(np.asarray(value).reshape(-1)[0]) for value in column]
        column = np.ma.MaskedArray(np.array(numbers, np.int64).reshape(-1, 1), mask=gone.reshape(-1, 1))
    found: NDArray[Any] = np.asarray(np.ma.getdata(column)).astype(np.int64).view(dtype)
    mask = np.ma.getmask(column)
    if mask is not np.ma.nomask:
        found[mask] = np.array("NaT", dtype)
    return found


def read(
    selection: Selection, *, fill: Any = UNFILLED, masked: bool = False, datetimes: bool = False
) -> NDArray[Any]:
    """Read a selection as one array; the start of this file describes the parameters.

    Raises
    ------
    InvalidInputError
        If both a fill and a mask are requested, or there is no dtype for the fill.
    InvalidOperationError
        If the tensor holds sequences or polygons, or if ``datetimes`` is true and it holds no dates and times.
    DynamicTensorNumpyError
        If samples that are not null differ in shape.
    """
    reader = selection.reader
    if masked and fill is not UNFILLED:
        raise InvalidInputError("fill and masked cannot be combined: nulls are either filled or masked")
    if reader.state.sequence is not None or reader.storing is Storing.POLYGON:
        what = "sequences" if reader.state.sequence is not None else "polygons"
        raise InvalidOperationError(
            f"tensor {reader.name!r} holds {what}, which cannot form one array: use values()"
        )
    moments = moments_dtype(reader.state.info.get("logical_type")) if datetimes else None
    if datetimes and moments is None:
        raise InvalidOperationError(
            f"tensor {reader.name!r} holds no dates or times: its info names no logical_type such as timestamp[us]"
        )
    found = _columns(selection)
    if found is None:
        values, mask = _listed(selection)
    else:
        values, mask = found
    if moments is not None:
        values = values.astype(np.int64).view(moments)
        if not masked and fill is UNFILLED:
            fill = np.array("NaT", moments)
    if fill is not UNFILLED:
        values = _filled(values, mask, fill, reader.name)
    whole = np.ma.MaskedArray(values, mask=_spread(mask, values.shape)) if masked else values
    return whole[0] if selection.is_single else whole


def _columns(selection: Selection) -> tuple[NDArray[Any], Mask] | None:
    """Read single numbers by chunks; None if the samples are not single numbers."""
    reader, rows = selection.reader, selection.rows()
    if selection.index.inside or not reader.is_scalar or not len(rows):
        return None
    if reader.state.meta.length <= int(np.max(rows)):
        return None  # some rows lie beyond the tensor's end and need padding
    scan = ColumnScan(reader, selection.companion("null"))
    if isinstance(rows, range) and rows.step == 1:
        column = scan.column(rows.start, rows.stop)
    else:
        wanted = np.asarray(rows, np.int64)
        column = scan.gathered(wanted)
    if not isinstance(column, np.ndarray):
        return None
    return np.asarray(np.ma.getdata(column)), np.ma.getmaskarray(column).reshape(len(rows), -1)[:, 0]


def _listed(selection: Selection) -> tuple[NDArray[Any], Mask]:
    """Read samples one by one; nulls become zeros of the shape that the other samples have."""
    reader, storing = selection.reader, selection.reader.storing
    samples = list(selection.values())
    mask = np.array([sample is None for sample in samples], np.bool_)
    if storing is Storing.TEXT:
        return np.array(["" if sample is None else sample for sample in samples]).reshape(-1, 1), mask
    if storing is not Storing.ARRAY:
        objects = np.empty((len(samples), 1), object)
        objects[:, 0] = samples
        return objects, mask
    there = [np.asarray(sample) for sample in samples if sample is not None]
    shapes = {sample.shape for sample in there}
    if len(shapes) > 1:
        raise reader.dynamic()
    known = tuple(reader.state.meta.max_shape)
    shape = shapes.pop() if shapes else (1,) if reader.dtype is None or not any(known) else known
    dtype = there[0].dtype if there else reader.dtype or np.dtype(np.float64)
    values = np.zeros((len(samples), *shape), dtype)
    if there:
        values[~mask] = np.stack(there)
    return values, mask


def _spread(mask: Mask, shape: tuple[int, ...]) -> Mask:
    return np.broadcast_to(mask.reshape(-1, *(1,) * (len(shape) - 1)), shape)


def _filled(values: NDArray[Any], mask: Mask, fill: Any, name: str) -> NDArray[Any]:
    if values.dtype == object:
        return np.where(mask.reshape(-1, 1), np.array([fill, None], object)[:1], values)
    given = np.asarray(fill)
    if values.dtype.kind == "U":
        if not isinstance(fill, str):
            raise InvalidInputError(
                f"tensor {name!r} holds text, so its nulls cannot be filled with {fill!r}"
            )
        return np.where(mask.reshape(-1, 1), given, values)
    dtype = _dtype_for(values, mask, given, name)
    out = values.astype(dtype)
    if mask.any():
        try:
            out[mask] = given.astype(dtype)
        except ValueError as error:
            raise InvalidInputError(
                f"fill has shape {given.shape}: give one number, or a sample of shape {values.shape[1:]}"
            ) from error
    return out


def _dtype_for(values: NDArray[Any], mask: Mask, fill: NDArray[Any], name: str) -> np.dtype[Any]:
    """Return the dtype of the values if it can hold the fill, else one that holds both without rounding."""
    dtype = values.dtype
    if dtype.kind in "mM":
        return dtype
    if fill.dtype.kind not in "biufc":
        raise InvalidInputError(
            f"tensor {name!r} holds {dtype}, so its nulls cannot be filled with {fill!s}, which is not a number"
        )
    with np.errstate(invalid="ignore", over="ignore"):
        back = fill.astype(dtype).astype(fill.dtype)
        if bool(np.all((back == fill) | (np.isnan(fill) if fill.dtype.kind in "fc" else False))) and not (
            fill.dtype.kind in "fc" and dtype.kind not in "fc" and bool(np.isnan(fill).any())
        ):
            return dtype
        wider = np.result_type(dtype, fill.dtype)
        there = values[~mask]
        changed = there.astype(wider).astype(dtype) != there
        if dtype.kind in "fc":
            changed &= ~np.isnan(there)
    if bool(changed.any()):
        raise InvalidInputError(
            f"{fill!s} does not fit {dtype}, and {wider} would round {there[changed].flat[0]!s} of tensor {name!r}: "
            "choose a fill that fits, or masked=True"
        )
    return wider
