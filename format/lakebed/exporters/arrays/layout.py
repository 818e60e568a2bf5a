"""How tensors lie in arrays side by side, as HDF5 and Zarr have them; and their values, in blocks of rows.

    layout     array NAME                                beside it
    array      shape (rows, ...)                         -
    ragged     the values of each row, flat              NAME.shape: shape of each, where there are several axes
    text       UTF-8                                     -
    json       JSON                                      -
    file       the bytes of each file, as it is stored   -

    of all     NAME.null: True where a row is null, only if there are nulls
    sequences  NAME holds the items of all rows; NAME.rows, of rows + 1, says where those of each begin

No name of a tensor has a dot. Polygons are sequences of their points.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import lakebed
from lakebed.described import Described
from lakebed.documents.json_style import encode_custom
from lakebed.errors import ExportError, LakebedError
from lakebed.exporters.core.media import file_of
from lakebed.htypes.base import Storing

if TYPE_CHECKING:
    from lakebed.exporters.core.plan import Piece

FAILURES = (LakebedError, ValueError, TypeError, OSError)

_BLOCK_BYTES = 8 << 20
_MOST_ROWS = 65_536
# Files and compressed chunks become larger when they are read.
_GROWS = 4
_SHAPES_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class Layout:
    """How a tensor lies.

    Parameters
    ----------
    name
        Its name.
    kind
        array, ragged, text, json or file.
    shape
        Of arrays, that of an item; () of single numbers.
    dtype
        Of arrays and ragged ones.
    ndim
        Axes of an item that is ragged.
    has_rows
        Whether a row holds several items.
    described
        The tensor.
    is_address
        Whether the addresses of links are written, and not their files.
    may_differ
        Whether files may be of other kinds than the tensor says: what links lead to, and tiles put together.
    ends_at_nul
        Whether texts of the format end at a NUL.
    """

    name: str
    kind: str
    described: Described
    shape: tuple[int, ...] = ()
    dtype: np.dtype[Any] | None = None
    ndim: int = 1
    has_rows: bool = False
    is_address: bool = False
    may_differ: bool = False
    ends_at_nul: bool = False

    @property
    def told(self) -> str:
        """What importers are told, as JSON."""
        more = {"layout": self.kind, "ndim": self.ndim, "rows": self.has_rows}
        return replace(self.described, more=more).to_json()


@dataclass
class Column:
    """Values of a tensor for some rows: an array, or a list; of sequences a list of lists."""

    values: Any
    nulls: NDArray[np.bool_]

    def only(self, rows: NDArray[np.int64]) -> Column:
        """Return some rows."""
        values = self.values
        taken = values[rows] if isinstance(values, np.ndarray) else [values[row] for row in rows]
        return Column(taken, self.nulls[rows])


def layout_of(
    ds: lakebed.Dataset, name: str, problems: list[tuple[str, str]], *, decode: bool, links: bool
) -> Layout:
    """Return how a tensor will lie.

    Parameters
    ----------
    problems
        Where it is told what does not go along.
    decode
        Write pixels in place of files where all are of one shape.
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
        problems.append(
            (name, "the files that its links lead to are written, not the links (links=True, --links)")
        )
        return Layout(name, "file", described, has_rows=has_rows, may_differ=True)
    if storing is Storing.TEXT:
        return Layout(name, "text", described, has_rows=has_rows)
    if storing is Storing.POLYGON and not has_rows:
        dtype = np.dtype(described.dtype or "float32")
        return Layout(name, "ragged", described, dtype=dtype, ndim=2, has_rows=True)
    if storing is not Storing.ARRAY:
        return Layout(name, "json", described)
    if described.is_file or described.is_chunked_file:
        if not decode and described.is_file:
            return Layout(name, "file", described, has_rows=has_rows, may_differ=tensor.is_tiled)
        shape = even_shape(tensor)
        if shape is None and described.is_file:
            problems.append((name, "its samples differ in shape: files are written, not pixels"))
            return Layout(name, "file", described, has_rows=has_rows, may_differ=tensor.is_tiled)
        described = described.decoded()
    dtype = np.dtype(described.dtype or "uint8")
    shape = even_shape(tensor)
    if shape is None:
        axes = tensor.meta.max_shape
        return Layout(name, "ragged", described, dtype=dtype, ndim=max(1, len(axes)), has_rows=has_rows)
    came_as_list = "list<" in str(described.info.get("logical_type", ""))
    is_single = shape == (1,) and not came_as_list
    return Layout(name, "array", described, () if is_single else shape, dtype, has_rows=has_rows)


def even_shape(tensor: lakebed.Tensor) -> tuple[int, ...] | None:
    """Return the shape that all samples have but nulls; None if they differ, or have no values."""
    meta = tensor.meta
    if tensor.dtype is None or 0 in meta.max_shape:
        return None
    if list(meta.min_shape) == list(meta.max_shape):
        return tuple(int(extent) for extent in meta.max_shape)
    if tensor.is_sequence:
        return None
    found = tuple(int(extent) for extent in meta.max_shape)
    for start in range(0, len(tensor), _SHAPES_AT_ONCE):
        some = tensor[start : start + _SHAPES_AT_ONCE]
        shapes, nulls = some.shapes(), some.null_mask()
        if not isinstance(shapes, np.ndarray):
            return None
        if not ((shapes == found).all(axis=1) | (False if nulls is None else nulls)).all():
            return None
    return found


def rows_of_block(ds: lakebed.Dataset, layouts: Sequence[Layout]) -> int:
    """Return how many rows are about 8 MB in memory."""
    row = 1.0
    count = max(1, ds.min_len)
    for layout in layouts:
        if layout.kind == "array" and layout.dtype is not None and not layout.has_rows:
            row += prod(layout.shape) * layout.dtype.itemsize
        else:
            row += _GROWS * ds[[layout.name]].size_approx() / count
    return int(min(_MOST_ROWS, max(1, _BLOCK_BYTES // row)))


def columns_of(
    view: lakebed.Dataset, piece: Piece, layouts: Sequence[Layout]
) -> tuple[dict[str, Column], list[tuple[int, str]]]:
    """Return the values of some rows, without those that cannot be read; and (row, reason) of these."""
    count = len(piece.rows)
    wrong: dict[int, str] = {}
    found: dict[str, Column] = {}
    for layout in layouts:
        try:
            found[layout.name] = _column(view[layout.name], count, layout)
        except FAILURES:
            found[layout.name] = _one_by_one(view[layout.name], count, layout, wrong)
    if wrong:
        kept = np.array([row for row in range(count) if row not in wrong], np.int64)
        found = {name: column.only(kept) for name, column in found.items()}
    return found, [(int(piece.rows[at]), reason) for at, reason in sorted(wrong.items())]


def _one_by_one(tensor: lakebed.Tensor, count: int, layout: Layout, wrong: dict[int, str]) -> Column:
    """Read rows apart, and note those that cannot be read."""
    values: list[Any] = []
    nulls = np.zeros(count, np.bool_)
    for row in range(count):
        try:
            one = _column(tensor[row : row + 1], 1, layout)
        except FAILURES as error:
            wrong.setdefault(row, f"{layout.name}: {error}")
            values.append(_nothing(layout))
        else:
            values.append(one.values[0])
            nulls[row] = one.nulls[0]
    return Column(np.array(values, layout.dtype) if _is_array(layout) else values, nulls)


def _is_array(layout: Layout) -> bool:
    return layout.kind == "array" and not layout.has_rows


def _column(tensor: lakebed.Tensor, count: int, layout: Layout) -> Column:
    mask = tensor.null_mask()
    nulls = np.zeros(count, np.bool_) if mask is None else np.array(mask, np.bool_)
    if layout.is_address:
        return _addresses(tensor, nulls, layout)
    if layout.kind == "file":
        return _files(tensor, count, nulls, layout)
    if _is_array(layout) and not nulls.any() and count:
        return Column(np.asarray(tensor.numpy()).reshape(count, *layout.shape), nulls)
    convert = _CONVERTERS[layout.kind]
    values: list[Any] = []
    for value, is_null in zip(tensor.values(), nulls, strict=True):
        if is_null or (value is None and layout.kind != "json"):
            values.append(_nothing(layout))
        elif layout.has_rows:
            values.append([convert(item, layout) for item in value])
        else:
            values.append(convert(value, layout))
    if _is_array(layout):
        return Column(np.array(values, layout.dtype).reshape(len(values), *layout.shape), nulls)
    return Column(values, nulls)


def _nothing(layout: Layout) -> Any:
    """Return what is written for a null."""
    if layout.has_rows:
        return []
    if layout.kind == "text":
        return ""
    if layout.kind == "json":
        return "null"
    if layout.kind == "file":
        return b""
    dtype = layout.dtype if layout.dtype is not None else np.dtype("uint8")
    if layout.kind == "array":
        return np.full(layout.shape, np.nan if dtype.kind in "fc" else 0, dtype)
    return np.zeros((0,) * layout.ndim, dtype)


def _as_array(value: Any, layout: Layout) -> Any:
    return np.asarray(value, layout.dtype).reshape(layout.shape)


def _as_ragged(value: Any, layout: Layout) -> Any:
    found = np.asarray(value, layout.dtype)
    if found.ndim == layout.ndim:
        return found
    if found.size:
        raise ExportError(f"a sample of {found.ndim} axes among those of {layout.ndim}")
    return found.reshape((0,) * layout.ndim)


def _as_text(value: Any, layout: Layout) -> str:
    text = str(value)
    if layout.ends_at_nul and "\0" in text:
        raise ExportError("a text with a NUL, which texts of the format cannot hold")
    return text


def _as_json(value: Any, layout: Layout) -> str:
    del layout
    return json.dumps(encode_custom(value), ensure_ascii=False)


_CONVERTERS: dict[str, Callable[[Any, Layout], Any]] = {
    "array": _as_array,
    "ragged": _as_ragged,
    "text": _as_text,
    "json": _as_json,
}


def _files(tensor: lakebed.Tensor, count: int, nulls: NDArray[np.bool_], layout: Layout) -> Column:
    values: list[Any] = []
    for row in range(count):
        if nulls[row]:
            values.append(_nothing(layout))
            continue
        sample = tensor[row]
        if layout.has_rows:
            values.append([file_of(tensor[row, at]) for at in range(int((sample.shape or (0,))[0] or 0))])
            continue
        is_empty = 0 in (sample.shape or (0,))
        nulls[row] |= is_empty
        values.append(b"" if is_empty else file_of(sample))
    return Column(values, nulls)


def _addresses(tensor: lakebed.Tensor, nulls: NDArray[np.bool_], layout: Layout) -> Column:
    values: list[Any] = []
    for row, link in enumerate(tensor.links()):
        nulls[row] |= link is None
        if layout.kind == "json":
            values.append(json.dumps([None if one is None else str(one.path) for one in link]))
        else:
            values.append("" if link is None else str(link.path))
    return Column(values, nulls)


def items_of(column: Column, layout: Layout) -> tuple[Any, NDArray[np.int64] | None]:
    """Return all items, and, of sequences, how many each row has."""
    if not layout.has_rows:
        return column.values, None
    counts = np.array([len(items) for items in column.values], np.int64)
    flat: list[Any] = [item for items in column.values for item in items]
    if layout.kind == "array":
        return np.array(flat, layout.dtype).reshape(len(flat), *layout.shape), counts
    return flat, counts


def beside(name: str) -> Iterator[str]:
    """Yield the names of what may lie beside an array."""
    for more in ("null", "shape", "rows", "offsets"):
        yield f"{name}.{more}"
