"""The layout of tensors as arrays side by side, for HDF5 and Zarr, and their values in blocks of rows.

    layout     array NAME                                beside it
    array      shape (rows, ...)                         -
    ragged     the values of each row, flat              NAME.shape: shape of each row, if rows have several axes
    text       UTF-8                                     -
    json       JSON                                      -
    file       the bytes of each file, as it is stored   -

    nulls      NAME.null: True where a row is null; only for tensors with nulls
    sequences  NAME holds the items of all rows; NAME.rows, shape (rows + 1,), the start of each row, and the end

No name of a tensor has a dot. Polygons are sequences of their points.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed.dataset.described import Described
from lakebed.documents.json_style import encode_custom
from lakebed.errors import ExportError
from lakebed.exporters.core.media import file_of, files_of, is_empty, links_followed
from lakebed.htypes.base import Storing

if TYPE_CHECKING:
    from lakebed.dataset.dataset import Dataset
    from lakebed.dataset.tensor import Tensor

_BLOCK_BYTES = 8 << 20
_MOST_ROWS = 65_536
# Files and compressed chunks take about this many times their size once they are decoded.
_GROWS = 4
_SHAPES_AT_ONCE = 1_000_000
_BYTES = np.dtype("uint8")


@dataclass(frozen=True)
class Layout:
    """The layout of a tensor.

    Parameters
    ----------
    name
        Name of the tensor.
    kind
        array, ragged, text, json or file.
    described
        Description of the tensor.
    shape
        Shape of an item of arrays; () for single numbers.
    dtype
        Dtype of numbers; uint8 for other kinds.
    ndim
        Axes of a ragged item.
    has_rows
        A row holds several items.
    is_address
        The addresses of links are written, not their files.
    may_differ
        Files may differ in kind from the tensor, because they are linked or put together from tiles.
    ends_at_nul
        Texts of the format end at a NUL.
    """

    name: str
    kind: str
    described: Described
    shape: tuple[int, ...] = ()
    dtype: np.dtype[Any] = _BYTES
    ndim: int = 1
    has_rows: bool = False
    is_address: bool = False
    may_differ: bool = False
    ends_at_nul: bool = False

    @property
    def told(self) -> str:
        """Description for importers, as JSON."""
        more = {"layout": self.kind, "ndim": self.ndim, "rows": self.has_rows}
        return replace(self.described, more=more).to_json()

    @property
    def is_array(self) -> bool:
        """True if the values of rows are one array."""
        return self.kind == "array" and not self.has_rows

    @property
    def nothing(self) -> Any:
        """The value that is written in place of a null."""
        if self.has_rows:
            return []
        if self.kind == "array":
            return np.full(self.shape, np.nan if self.dtype.kind in "fc" else 0, self.dtype)
        if self.kind == "ragged":
            return np.zeros((0,) * self.ndim, self.dtype)
        return {"text": "", "json": "null", "file": b""}[self.kind]

    def array(self, values: list[Any]) -> NDArray[Any]:
        """Return items as one array, which has no rows if no items are given."""
        return np.array(values, self.dtype).reshape(len(values), *self.shape)


@dataclass
class Column:
    """Values of a tensor for some rows: an array, or a list; for sequences a list of lists."""

    values: Any
    nulls: NDArray[np.bool_]

    def items(self, layout: Layout) -> tuple[Any, NDArray[np.int64] | None]:
        """Return all items, and, for sequences, their number in each row."""
        if not layout.has_rows:
            return self.values, None
        counts = np.array([len(items) for items in self.values], np.int64)
        flat: list[Any] = [item for items in self.values for item in items]
        return layout.array(flat) if layout.kind == "array" else flat, counts


def layout_of(
    ds: Dataset, name: str, problems: list[tuple[str, str]], *, decode: bool, links: bool
) -> Layout:
    """Return the layout of a tensor.

    Parameters
    ----------
    problems
        Receives (where, reason) of what the format cannot hold.
    decode
        Write pixels instead of files, if all have one shape.
    links
        Write the addresses of links.
    """
    tensor = ds[name]
    described = Described.of(tensor)
    has_rows = bool(tensor.is_sequence)
    storing = described.storing
    if tensor.is_link:
        if links:
            problems.append((name, "addresses are written, not the files; they come back as texts"))
            text = Described("text" if not has_rows else "json", "str", info=described.info)
            return Layout(name, "json" if has_rows else "text", text, is_address=True)
        problems.append(links_followed(name, " (links=True, --links)"))
        return Layout(name, "file", described, has_rows=has_rows, may_differ=True)
    if storing is Storing.TEXT:
        return Layout(name, "text", described, has_rows=has_rows)
    if storing is Storing.POLYGON and not has_rows:
        dtype = np.dtype(described.dtype or "float32")
        return Layout(name, "ragged", described, dtype=dtype, ndim=2, has_rows=True)
    if storing is not Storing.ARRAY:
        return Layout(name, "json", described)
    shape = even_shape(tensor) if decode or not described.is_file else None
    if described.is_file and shape is None:
        if decode:
            problems.append((name, "its samples differ in shape: files are written, not pixels"))
        return Layout(name, "file", described, has_rows=has_rows, may_differ=tensor.is_tiled)
    if described.is_file or described.is_chunked_file:
        described = described.decoded()
    dtype = np.dtype(described.dtype or "uint8")
    if shape is None:
        axes = max(1, len(tensor.meta.max_shape))
        return Layout(name, "ragged", described, dtype=dtype, ndim=axes, has_rows=has_rows)
    is_single = shape == (1,) and "list<" not in str(described.info.get("logical_type", ""))
    return Layout(name, "array", described, () if is_single else shape, dtype, has_rows=has_rows)


def even_shape(tensor: Tensor) -> tuple[int, ...] | None:
    """Return the shape of all samples that are not null; None if shapes differ, or samples have no values."""
    meta = tensor.meta
    if tensor.dtype is None or 0 in meta.max_shape:
        return None
    found = tuple(int(extent) for extent in meta.max_shape)
    if list(meta.min_shape) == list(meta.max_shape):
        return found
    if tensor.is_sequence:
        return None
    for start in range(0, len(tensor), _SHAPES_AT_ONCE):
        some = tensor[start : start + _SHAPES_AT_ONCE]
        shapes, nulls = some.shapes(), some.null_mask()
        if not isinstance(shapes, np.ndarray):
            return None
        if not ((shapes == found).all(axis=1) | (False if nulls is None else nulls)).all():
            return None
    return found


def rows_of_block(ds: Dataset, layouts: Sequence[Layout]) -> int:
    """Return the number of rows that take about 8 MB of memory."""
    row = 1.0
    count = max(1, ds.min_len)
    for layout in layouts:
        if layout.is_array:
            row += prod(layout.shape) * layout.dtype.itemsize
        else:
            row += _GROWS * ds[[layout.name]].size_approx() / count
    return int(min(_MOST_ROWS, max(1, _BLOCK_BYTES // row)))


def column_of(tensor: Tensor, count: int, layout: Layout) -> Column:
    """Return the values of some rows."""
    mask = tensor.null_mask()
    nulls = np.zeros(count, np.bool_) if mask is None else np.array(mask, np.bool_)
    if layout.is_address:
        return _addresses(tensor, nulls, layout)
    if layout.kind == "file":
        return _files(tensor, count, nulls, layout)
    if layout.is_array and not nulls.any() and count:
        return Column(np.asarray(tensor.numpy()).reshape(count, *layout.shape), nulls)
    values: list[Any] = []
    for value, is_null in zip(tensor.values(), nulls, strict=True):
        if is_null or (value is None and layout.kind != "json"):
            values.append(layout.nothing)
        elif layout.has_rows:
            values.append([_item(item, layout) for item in value])
        else:
            values.append(_item(value, layout))
    return Column(layout.array(values) if layout.is_array else values, nulls)


def _item(value: Any, layout: Layout) -> Any:
    """Return an item as it is written.

    Raises
    ------
    ExportError
        If the layout cannot hold it.
    """
    if layout.kind == "array":
        return np.asarray(value, layout.dtype).reshape(layout.shape)
    if layout.kind == "json":
        return json.dumps(encode_custom(value), ensure_ascii=False)
    if layout.kind == "text":
        text = str(value)
        if layout.ends_at_nul and "\0" in text:
            raise ExportError("a text has a NUL, which texts of the format cannot hold")
        return text
    found = np.asarray(value, layout.dtype)
    if found.ndim != layout.ndim and found.size:
        raise ExportError(
            f"the sample has {found.ndim} axes, but other samples of the tensor have {layout.ndim}"
        )
    return found if found.ndim == layout.ndim else found.reshape((0,) * layout.ndim)


def _files(tensor: Tensor, count: int, nulls: NDArray[np.bool_], layout: Layout) -> Column:
    values: list[Any] = []
    for row in range(count):
        if nulls[row]:
            values.append(layout.nothing)
            continue
        sample = tensor[row]
        if layout.has_rows:
            values.append(files_of(sample))
            continue
        nulls[row] = is_empty(sample)
        values.append(b"" if nulls[row] else file_of(sample))
    return Column(values, nulls)


def _addresses(tensor: Tensor, nulls: NDArray[np.bool_], layout: Layout) -> Column:
    values: list[Any] = []
    for row, link in enumerate(tensor.links()):
        nulls[row] |= link is None
        if layout.kind == "json":
            values.append(json.dumps([None if one is None else str(one.path) for one in link]))
        else:
            values.append("" if link is None else str(link.path))
    return Column(values, nulls)
