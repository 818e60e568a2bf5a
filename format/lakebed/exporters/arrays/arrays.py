"""Datasets as arrays side by side, written in blocks of some megabytes: what HDF5 and Zarr have in common.

Rows stay in the order of the dataset; ``split`` is an array as any other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import lakebed
from lakebed.described import KEY
from lakebed.documents.json_style import encode_custom
from lakebed.errors import ExportError
from lakebed.exporters.arrays.layout import Column, Layout, columns_of, items_of, layout_of, rows_of_block
from lakebed.exporters.core.order import Order
from lakebed.exporters.core.plan import ExportPlan, Piece, Written, tensor_of
from lakebed.exporters.core.target import Target

# Of a chunk of an array; a row that is larger is cut.
CHUNK_BYTES = 1 << 20
_MOST_CHUNK_BYTES = 64 << 20
_MOST_CHUNK_ROWS = 65_536


class Sink(Protocol):
    """A file of arrays that grow along their first axis."""

    def numbers(self, name: str, values: NDArray[Any], *, classes: Sequence[str] = ()) -> None:
        """Append values to an array, which is made at first."""

    def texts(self, name: str, values: Sequence[str]) -> None:
        """Append texts."""

    def pieces(self, name: str, values: Sequence[NDArray[Any]], dtype: np.dtype[Any]) -> None:
        """Append arrays of one axis and any length."""

    def describe(self, name: str, attributes: Mapping[str, Any]) -> None:
        """Set attributes of an array; "" is the whole."""

    def close(self) -> None:
        """End the file."""


@dataclass
class Writing:
    """The file that is written, and what is known of it so far."""

    open: Callable[[Target], Sink]
    layouts: Sequence[Layout]
    about: Mapping[str, Any]
    order: Order = field(default_factory=Order)
    sink: Sink | None = None
    rows: int = 0
    items: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, set[str]] = field(default_factory=dict)
    with_nulls: set[str] = field(default_factory=set)


def planned(
    ds: lakebed.Dataset,
    open_sink: Callable[[Target], Sink],
    *,
    tensors: Sequence[str],
    decode: bool,
    links: bool,
    single_file: bool,
    ends_at_nul: bool,
) -> ExportPlan:
    """Plan an array for each tensor."""
    chosen = list(tensors) or list(ds.tensors)
    if not chosen:
        raise ExportError("the dataset has no tensors")
    problems: list[tuple[str, str]] = []
    for name in chosen:
        tensor_of(ds, "tensors", name)
    layouts = [layout_of(ds, name, problems, decode=decode, links=links) for name in chosen]
    layouts = [replace(one, ends_at_nul=ends_at_nul) for one in layouts]
    about = encode_custom(dict(ds.info))
    return ExportPlan(
        f"{ds.min_len:,} rows of {len(chosen)} arrays",
        {name: name for name in chosen},
        Writing(open_sink, layouts, about),
        piece_rows=rows_of_block(ds, layouts),
        problems=problems,
        single_file=single_file,
        is_ordered=True,
    )


def write(view: lakebed.Dataset, piece: Piece, context: Writing, target: Target) -> Written:
    """Read some rows, and write all blocks whose turn it is."""
    columns, skipped = columns_of(view, piece, context.layouts)
    count = len(piece.rows) - len(skipped)
    context.order.write(piece.number, lambda: _append(context, target, columns, count))
    return Written(rows=count, skipped=skipped)


def finish(results: Sequence[Any], context: Writing, target: Target) -> None:
    """Write what is said of the arrays, and end the file; without rows the arrays are empty."""
    del results
    if context.sink is None:
        nothing = np.zeros(0, np.bool_)
        empty: dict[str, Column] = {}
        for layout in context.layouts:
            is_array = layout.kind == "array" and not layout.has_rows
            empty[layout.name] = Column(
                np.zeros((0, *layout.shape), layout.dtype) if is_array else [], nothing
            )
        _append(context, target, empty, 0)
    sink = context.sink
    assert sink is not None  # noqa: S101 - made by the append
    for layout in context.layouts:
        if layout.name in context.with_nulls:
            _fill_nulls(sink, layout.name, context)
        told: dict[str, Any] = {KEY: layout.told, "htype": layout.described.htype}
        names = layout.described.info.get("class_names")
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            told["class_names"] = names
        if layout.kind == "file":
            kinds = context.kinds.get(layout.name) or {str(layout.described.sample_compression)}
            told["format"] = "/".join(sorted(kinds))
        sink.describe(layout.name, told)
    sink.describe("", {KEY: json.dumps({"version": 1, "rows": context.rows, "info": context.about})})
    sink.close()


def _append(context: Writing, target: Target, columns: Mapping[str, Column], count: int) -> None:
    if context.sink is None:
        context.sink = context.open(target)
    sink = context.sink
    for layout in context.layouts:
        column = columns[layout.name]
        name = layout.name
        values, counts = items_of(column, layout)
        if counts is not None:
            first = context.items.get(name)
            ends = (first or 0) + np.cumsum(counts)
            sink.numbers(f"{name}.rows", ends if first is not None else np.concatenate([[0], ends]))
            context.items[name] = int(ends[-1]) if len(ends) else (first or 0)
        _append_items(sink, layout, values, context)
        if column.nulls.any():
            if name not in context.with_nulls:
                context.with_nulls.add(name)
                sink.numbers(f"{name}.null", np.zeros(context.rows, np.bool_))
            else:
                _fill_nulls(sink, name, context)
            sink.numbers(f"{name}.null", column.nulls)
            context.items[f"{name}.null"] = context.rows + count
    context.rows += count


def _fill_nulls(sink: Sink, name: str, context: Writing) -> None:
    """Say of the rows since the last null that they are none."""
    missing = context.rows - context.items[f"{name}.null"]
    if missing:
        sink.numbers(f"{name}.null", np.zeros(missing, np.bool_))
        context.items[f"{name}.null"] = context.rows


def _append_items(sink: Sink, layout: Layout, values: Any, context: Writing) -> None:
    name = layout.name
    if layout.kind == "array":
        info = layout.described.info
        classes = info.get("class_names") if layout.described.base == "class_label" else None
        sink.numbers(name, values, classes=classes or ())
    elif layout.kind in ("text", "json"):
        sink.texts(name, values)
    elif layout.kind == "file":
        kinds = context.kinds.setdefault(name, set())
        if layout.may_differ:
            kinds |= {str(lakebed.read(data).compression) for data in values if data}
        sink.pieces(name, [np.frombuffer(data, np.uint8) for data in values], np.dtype("uint8"))
    else:
        dtype = layout.dtype if layout.dtype is not None else np.dtype("uint8")
        sink.pieces(name, [value.reshape(-1) for value in values], dtype)
        if layout.ndim > 1:
            shapes = np.array([value.shape for value in values], np.int64).reshape(len(values), layout.ndim)
            sink.numbers(f"{name}.shape", shapes)


def chunk_of(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the shape of a chunk for arrays whose rows have a shape: some rows, or part of a large one."""
    inner = [max(1, extent) for extent in shape]
    row = max(1, itemsize)
    for extent in inner:
        row *= extent
    while row > _MOST_CHUNK_BYTES:
        axis = inner.index(max(inner))
        inner[axis] = (inner[axis] + 1) // 2
        row = max(1, itemsize)
        for extent in inner:
            row *= extent
    return (min(_MOST_CHUNK_ROWS, max(1, CHUNK_BYTES // row)), *inner)
