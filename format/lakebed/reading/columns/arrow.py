"""Tensors as Arrow columns: numbers and text straight from the chunk bytes, ragged arrays as lists, json as text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakebed.documents.json_style import encode_custom
from lakebed.errors import FormatError, InvalidOperationError
from lakebed.htypes.base import Storing
from lakebed.reading.columns.scan import ChunkRun, ColumnScan, expand_absent
from lakebed.reading.samples import SampleReader

BATCH_ROWS = 1 << 16

# Logical type in the info of a tensor -> Arrow type; the tensor stores such values as integers.
_LOGICAL: Mapping[str, pa.DataType] = {
    "date32[day]": pa.date32(),
    "date64[ms]": pa.date64(),
    **{f"time32[{u}]": pa.time32(u) for u in ("s", "ms")},
    **{f"time64[{u}]": pa.time64(u) for u in ("us", "ns")},
    **{f"duration[{u}]": pa.duration(u) for u in ("s", "ms", "us", "ns")},
}


# Encoded values of samples that have no bytes; the 3.x writer stores empty samples without bytes.
_EMPTY = {Storing.TEXT: b"", Storing.JSON: b"{}", Storing.LIST: b"[]"}


def logical_type(name: Any) -> pa.DataType | None:
    """Return the Arrow type that ``info["logical_type"]`` names, or None if it names none."""
    if not isinstance(name, str):
        return None
    if name.startswith("timestamp[") and name.endswith("]"):
        unit, _, zone = name[10:-1].partition(",")
        zone = zone.strip().removeprefix("tz=")
        return pa.timestamp(unit, zone or None) if unit in ("s", "ms", "us", "ns") else None
    return _LOGICAL.get(name)


def arrow_type(reader: SampleReader) -> pa.DataType:
    """Return the Arrow type of a tensor's column; sequences are lists of the type of their items.

    Raises
    ------
    InvalidOperationError
        If Arrow has no type for the tensor's numbers (complex numbers).
    """
    item = _item_type(reader)
    return item if reader.state.sequence is None else pa.list_(item)


def _item_type(reader: SampleReader) -> pa.DataType:
    if reader.storing in (Storing.TEXT, Storing.JSON, Storing.LIST):
        return pa.string()
    dtype = reader.decoder.dtype
    if dtype is None:
        return pa.null()
    meta = reader.state.meta
    try:
        value = pa.from_numpy_dtype(dtype)
    except pa.ArrowNotImplementedError as error:
        raise InvalidOperationError(
            f"tensor {reader.name!r} holds {dtype}, for which Arrow has no type; omit this tensor"
        ) from error
    if reader.storing is Storing.POLYGON:
        return pa.list_(pa.list_(pa.list_(value)))
    if len(meta.max_shape) == 0 or reader.is_scalar:
        logical = logical_type(reader.state.info.get("logical_type"))
        holds = logical is not None and dtype.kind in "iu" and logical.bit_width == dtype.itemsize * 8
        return logical if holds else value
    fixed = reader.is_fixed and reader.came_as_list != "list"
    for extent in reversed(meta.max_shape):
        value = pa.list_(value, int(extent)) if fixed else pa.list_(value)
    return value


def arrow_column(scan: ColumnScan, start: int, stop: int, kind: pa.DataType) -> pa.Array:
    """Return rows ``start`` to ``stop`` of one tensor as one Arrow array of type ``kind``."""
    reader = scan.reader
    if pa.types.is_null(kind):
        return pa.nulls(stop - start)
    if reader.state.meta.sample_compression or scan.is_special:
        return pa.array(_slow_values(scan, start, stop), type=kind)
    parts = []
    for run in scan.cursor.runs(start, stop):
        mask = scan.null_mask(run.row, run.row + run.count)
        try:
            parts.append(_run_array(reader, run, kind, mask))
        except FormatError as error:
            raise reader.located(error, run.row) from error
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts) if parts else pa.nulls(0, kind)


def taken_column(scan: ColumnScan, rows: NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    """Return rows, ascending, of one tensor as one Arrow array of type ``kind``; each chunk is read once."""
    from lakebed.reading.remote.prefetch import prefetch

    parts = []
    spans = list(_spans(scan, rows, kind))
    runs = [range(int(rows[first]), int(rows[stop - 1]) + 1) for first, stop in spans]
    is_far = scan.reader.source.remote is not None and not scan.reader.state.meta.sample_compression
    with prefetch(scan.wanted_chunks(runs) if is_far else []):
        for (first, stop), run in zip(spans, runs, strict=True):
            span = arrow_column(scan, run.start, run.stop, kind)
            if len(run) != stop - first:
                # `pa.array` would import pandas for a NumPy array, which takes half a second and 50 MB.
                span = span.take(number_array(rows[first:stop] - run.start, pa.int64()))
            parts.append(span)
    if not parts:
        return pa.nulls(0, arrow_type(scan.reader))
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _spans(scan: ColumnScan, rows: NDArray[np.int64], kind: pa.DataType) -> Iterator[tuple[int, int]]:
    """Yield (start, stop): ``rows[start:stop]`` are read at once.

    These are all requested rows of a chunk, or only adjacent rows if samples must be decoded.
    """
    reader = scan.reader
    if pa.types.is_null(kind):
        cuts = np.empty(0, np.int64)
    elif reader.state.meta.sample_compression or scan.is_special:
        cuts = np.flatnonzero(np.diff(rows) != 1) + 1
    else:
        cuts = np.flatnonzero(np.diff(reader.locate(rows)[0])) + 1
    if len(rows):
        yield from pairwise([0, *cuts.tolist(), len(rows)])


def _slow_values(scan: ColumnScan, start: int, stop: int) -> list[Any]:
    reader = scan.reader
    is_document = reader.storing in (Storing.JSON, Storing.LIST)
    if is_document and reader.state.sequence is None and not reader.is_link:
        mask = scan.null_mask(start, stop)
        return [
            None
            if mask is not None and mask[row - start]
            else (bytes(reader.raw(row)[0]) or _EMPTY[reader.storing]).decode()
            for row in range(start, stop)
        ]
    return [_plain(reader, value) for value in scan.column(start, stop)]


def _plain(reader: SampleReader, value: Any) -> Any:
    """Return a sample, or a sequence of samples, in a form that Arrow accepts."""
    if isinstance(value, np.ndarray):
        if reader.is_scalar:
            return value.reshape(-1)[0].item() if value.size else None
        return value.tolist()
    if reader.storing in (Storing.JSON, Storing.LIST) and value is not None:
        return [json.dumps(encode_custom(item)) for item in value]
    return [_plain(reader, item) for item in value] if isinstance(value, list) else value


def _run_array(
    reader: SampleReader, run: ChunkRun, kind: pa.DataType, mask: NDArray[np.bool_] | None
) -> pa.Array:
    if reader.storing is not Storing.ARRAY:
        return _text_array(run, mask, empty=_EMPTY[reader.storing])
    dtype = reader.known_dtype()
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return _list_array(run, kind, dtype, mask)
    chunk = run.chunk
    if chunk.uniform is not None and chunk.uniform[1] == dtype.itemsize:
        values = np.frombuffer(chunk.data, dtype=dtype)[run.start : run.stop]
        return number_array(values, kind, mask)
    if not reader.is_nullable and chunk.ndim is not None and list(reader.state.meta.max_shape) != [0]:
        raise FormatError("the shapes of the chunk's samples differ from the one in the tensor's metadata")
    spread, absent = expand_absent(chunk, dtype)
    gone = absent[run.start : run.stop]
    return number_array(spread[run.start : run.stop], kind, gone if mask is None else gone | mask)


def _validity(mask: NDArray[np.bool_] | None) -> pa.Buffer | None:
    if mask is None or not mask.any():
        return None
    return pa.py_buffer(np.packbits(~mask, bitorder="little"))


def number_array(values: NDArray[Any], kind: pa.DataType, mask: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return numbers as an Arrow array that shares their memory, except booleans and days; `mask` marks nulls."""
    if values.dtype == np.bool_:
        bits = pa.py_buffer(np.packbits(values, bitorder="little"))
        return pa.Array.from_buffers(pa.bool_(), len(values), [_validity(mask), bits])
    # Arrow counts days in 32 bits, and NumPy in 64.
    if values.dtype.kind == "M" and kind.bit_width < values.dtype.itemsize * 8:
        gone = np.isnat(values)
        mask = gone if mask is None else mask | gone
        values = values.view(np.int64).astype(np.int32)
    return pa.Array.from_buffers(kind, len(values), [_validity(mask), pa.py_buffer(values)])


def _text_array(run: ChunkRun, mask: NDArray[np.bool_] | None, empty: bytes) -> pa.Array:
    chunk = run.chunk
    offsets = chunk.offsets()[run.start : run.stop + 1]
    if empty and bool(np.any(offsets[1:] == offsets[:-1])):
        # The 3.x writer stores an empty json sample without bytes; it means {}.
        texts = [
            bytes(chunk.data[a:b]) or empty
            for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        ]
        return pa.array([t.decode() for t in texts], mask=mask)
    base = int(offsets[0])
    narrow = (offsets - base).astype(np.int32)
    data = pa.py_buffer(chunk.data[base : int(offsets[-1])])
    array = pa.Array.from_buffers(pa.string(), run.count, [_validity(mask), pa.py_buffer(narrow), data])
    array.validate(full=True)
    return array


def _list_array(
    run: ChunkRun, kind: pa.DataType, dtype: np.dtype[Any], mask: NDArray[np.bool_] | None
) -> pa.Array:
    chunk = run.chunk
    at = chunk.offsets()
    data = chunk.data[int(at[run.start]) : int(at[run.stop])]
    if chunk.is_unwritten:
        data = memoryview(bytes(dtype.itemsize * int(np.prod(chunk.shape(0))) * run.count))
    flat = np.frombuffer(data, dtype=dtype)
    values: pa.Array = number_array(flat, pa.from_numpy_dtype(dtype), None)
    shapes = chunk.shapes()[run.start : run.stop].astype(np.int64)
    if shapes.shape[1] == 0:
        return pa.array([None] * run.count, type=kind)
    if len(flat) != int(np.prod(shapes, axis=1).sum()):
        raise FormatError("the chunk's bytes do not match the shapes of its samples")
    if pa.types.is_fixed_size_list(kind):
        return _fixed_lists(values, kind, run.count, mask)
    return _nested_lists(values, shapes, mask)


def _fixed_lists(values: pa.Array, kind: pa.DataType, count: int, mask: NDArray[np.bool_] | None) -> pa.Array:
    """Wrap flat values into lists of one length, which may be 0."""
    if mask is not None:
        # In a fixed-size list, a null still has values: build the lists without nulls, then insert nulls by `take`.
        whole = _fixed_lists(values, kind, count, None)
        return whole.take(number_array(np.arange(count), pa.int64(), mask))
    inner = kind.value_type
    if pa.types.is_fixed_size_list(inner):
        values = _fixed_lists(values, inner, count * kind.list_size, None)
    return pa.Array.from_buffers(kind, count, [None], children=[values])


def _nested_lists(values: pa.Array, shapes: NDArray[np.int64], mask: NDArray[np.bool_] | None) -> pa.Array:
    """Wrap flat values into one list level per axis, innermost first."""
    ndim = shapes.shape[1]
    for axis in range(ndim - 1, -1, -1):
        outer = np.prod(shapes[:, :axis], axis=1, dtype=np.int64)
        lengths = np.repeat(shapes[:, axis], outer)
        offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
        np.cumsum(lengths, out=offsets[1:])
        kind = pa.list_(values.type)
        validity = _validity(mask) if axis == 0 else None
        values = pa.Array.from_buffers(
            kind, len(lengths), [validity, pa.py_buffer(offsets)], children=[values]
        )
    return values
