"""Datasets as arrays side by side, written in blocks of some megabytes: the part that HDF5 and Zarr share.

Rows stay in the order of the dataset; ``split`` is an array like any other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypedDict

import numpy as np
from numpy.typing import NDArray

from lakebed.dataset.described import KEY
from lakebed.documents.json_style import encode_custom
from lakebed.exporters.arrays.layout import Column, Layout, column_of, layout_of, rows_of_block
from lakebed.exporters.core.plan import ExportPlan, Piece, Written, chosen_tensors, read_columns
from lakebed.exporters.core.target import Target
from lakebed.links.read import read

if TYPE_CHECKING:
    from lakebed.dataset.dataset import Dataset

# Size of a chunk in bytes; a larger row is cut into several chunks.
CHUNK_BYTES = 1 << 20
_MOST_CHUNK_BYTES = 64 << 20
_MOST_CHUNK_ROWS = 65_536


class ArrayOptions(TypedDict, total=False):
    """Options of exporters of arrays."""

    tensors: Annotated[Sequence[str], "Tensors that are written; by default all."]
    decode: Annotated[bool, "Write pixels and sounds instead of files, if all have one shape."]
    links: Annotated[bool, "Write the addresses of linked files instead of the files."]


class Sink(Protocol):
    """A file of arrays that grow along their first axis."""

    def numbers(self, name: str, values: NDArray[Any], *, classes: Sequence[str] = ()) -> None:
        """Append values to an array, which the first call creates."""

    def texts(self, name: str, values: Sequence[str]) -> None:
        """Append texts."""

    def pieces(self, name: str, values: Sequence[NDArray[Any]], dtype: np.dtype[Any]) -> None:
        """Append arrays of one axis and any length."""

    def describe(self, name: str, attributes: Mapping[str, Any]) -> None:
        """Set attributes of an array; "" is the whole file."""

    def close(self) -> None:
        """Close the file."""


@dataclass
class Writing:
    """A file that is being written.

    Parameters
    ----------
    open
        Function that opens the file; called for the first rows.
    layouts, about
        Layouts of the tensors, and the info of the dataset.
    rows, items
        Number of rows so far, and number of items so far of each tensor of sequences.
    kinds, nulls
        For each tensor, the kinds of its files, and the number of rows whose nulls are written.
    """

    open: Callable[[Target], Sink]
    layouts: Sequence[Layout]
    about: Mapping[str, Any]
    sink: Sink | None = None
    rows: int = 0
    items: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, set[str]] = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)

    def opened(self, target: Target) -> Sink:
        """Return the file, opened by the first call."""
        self.sink = self.sink or self.open(target)
        return self.sink

    def append(self, target: Target, columns: Mapping[str, Column], count: int) -> None:
        """Append rows."""
        sink = self.opened(target)
        for layout in self.layouts:
            name, column = layout.name, columns[layout.name]
            values, counts = column.items(layout)
            if counts is not None:
                first = self.items.get(name)
                ends = (first or 0) + np.cumsum(counts)
                sink.numbers(f"{name}.rows", ends if first is not None else np.concatenate([[0], ends]))
                self.items[name] = int(ends[-1]) if len(ends) else (first or 0)
            self._append_items(sink, layout, values)
            if column.nulls.any():
                self.fill_nulls(sink, name)
                sink.numbers(f"{name}.null", column.nulls)
                self.nulls[name] = self.rows + count
        self.rows += count

    def fill_nulls(self, sink: Sink, name: str) -> None:
        """Write that the rows since the last null are not nulls."""
        missing = self.rows - self.nulls.get(name, 0)
        if missing or name not in self.nulls:
            sink.numbers(f"{name}.null", np.zeros(missing, np.bool_))
        self.nulls[name] = self.rows

    def _append_items(self, sink: Sink, layout: Layout, values: Any) -> None:
        name = layout.name
        if layout.kind == "array":
            info = layout.described.info
            classes = info.get("class_names") if layout.described.base == "class_label" else None
            sink.numbers(name, values, classes=classes or ())
        elif layout.kind in ("text", "json"):
            sink.texts(name, values)
        elif layout.kind == "file":
            kinds = self.kinds.setdefault(name, set())
            if layout.may_differ:
                kinds |= {str(read(data).compression) for data in values if data}
            sink.pieces(name, [np.frombuffer(data, np.uint8) for data in values], layout.dtype)
        else:
            sink.pieces(name, [value.reshape(-1) for value in values], layout.dtype)
            if layout.ndim > 1:
                shapes = np.array([value.shape for value in values], np.int64)
                sink.numbers(f"{name}.shape", shapes.reshape(len(values), layout.ndim))


def planned(
    ds: Dataset,
    open_sink: Callable[[Target], Sink],
    *,
    single_file: bool,
    ends_at_nul: bool,
    tensors: Sequence[str] = (),
    decode: bool = False,
    links: bool = False,
) -> ExportPlan:
    """Plan an array for each tensor."""
    chosen = chosen_tensors(ds, tensors, list(ds.tensors))
    problems: list[tuple[str, str]] = []
    layouts = [layout_of(ds, name, problems, decode=decode, links=links) for name in chosen]
    layouts = [replace(one, ends_at_nul=ends_at_nul) for one in layouts]
    return ExportPlan(
        f"{ds.min_len:,} rows of {len(chosen)} arrays",
        {name: name for name in chosen},
        Writing(open_sink, layouts, encode_custom(dict(ds.info))),
        piece_rows=rows_of_block(ds, layouts),
        problems=problems,
        single_file=single_file,
        is_ordered=True,
    )


def write(view: Dataset, piece: Piece, context: Writing, target: Target) -> Written:
    """Read some rows."""
    del target
    found, skipped = read_columns(view, piece, context.layouts, column_of)
    columns = {layout.name: column for layout, column in zip(context.layouts, found, strict=True)}
    return Written(rows=len(piece.rows) - len(skipped), skipped=skipped, result=columns)


def append(piece: Piece, done: Written, context: Writing, target: Target) -> None:
    """Write the rows of a piece behind those of the pieces before it."""
    del piece
    context.append(target, done.result, done.rows)


def finish(results: Sequence[Any], context: Writing, target: Target) -> None:
    """Describe the arrays and close the file."""
    del results
    if context.sink is None:  # no rows: empty arrays
        nothing = np.zeros(0, np.bool_)
        empty = {one.name: Column(one.array([]) if one.is_array else [], nothing) for one in context.layouts}
        context.append(target, empty, 0)
    sink = context.opened(target)
    for layout in context.layouts:
        if layout.name in context.nulls:
            context.fill_nulls(sink, layout.name)
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


def chunk_of(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the shape of a chunk for rows of a shape: some rows, or a part of a large one."""
    inner, size = [max(1, extent) for extent in shape], max(1, itemsize)
    while size * prod(inner) > _MOST_CHUNK_BYTES:
        axis = inner.index(max(inner))
        inner[axis] = (inner[axis] + 1) // 2
    return (min(_MOST_CHUNK_ROWS, max(1, CHUNK_BYTES // (size * prod(inner)))), *inner)
