"""Rows as Arrow, with Hugging Face's features in the metadata, and what lakebed says of each tensor.

images, audio, video      struct<bytes, path>: the files as they are stored, or, of links, their addresses
other files               binary
class_label               int64, or a list; the names are in the metadata
json, list, tag           text of JSON
arrays of one shape       lists; of two to five axes ``Array2D`` to ``Array5D``
sequences                 lists of what their items are
all else                  what the dataset hands out as Arrow
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import lakebed
from lakebed.described import KEY, Described
from lakebed.errors import ExportError, InvalidOperationError, LakebedError
from lakebed.exporters.arrays.layout import even_shape
from lakebed.exporters.core.media import extents, file_of, is_drawn
from lakebed.exporters.core.plan import Piece, tensor_of
from lakebed.htypes.base import Storing

if TYPE_CHECKING:
    import pyarrow as pa

FAILURES = (LakebedError, ValueError, TypeError, OSError)

_FILES: Mapping[str, str] = {
    "image": "Image",
    "image.rgb": "Image",
    "image.gray": "Image",
    "audio": "Audio",
    "video": "Video",
}
_BLOCK_BYTES = 16 << 20
_MOST_ROWS = 65_536
# Of the features Array2D to Array5D.
_FEWEST_AXES, _MOST_AXES = 2, 5


@dataclass(frozen=True)
class ArrowColumn:
    """A tensor as a column.

    Parameters
    ----------
    name
        Its name.
    how
        file, address, label, or plain.
    described
        The tensor.
    feature
        What Hugging Face calls it; None for what Arrow's type tells.
    shape
        Of arrays of two to five axes and one shape.
    """

    name: str
    how: str
    described: Described
    feature: Mapping[str, Any] | None = None
    shape: tuple[int, ...] = ()


def arrow_columns(
    ds: lakebed.Dataset, tensors: Sequence[str], problems: list[tuple[str, str]], *, links: bool
) -> list[ArrowColumn]:
    """Return the columns of tensors; of none, of all.

    Parameters
    ----------
    problems
        Where it is told what does not go along.
    links
        Write the addresses of links.
    """
    for name in tensors:
        tensor_of(ds, "tensors", name)
    found = [_column_of(ds[name], name, problems, links) for name in tensors or ds.tensors]
    kept = [one for one in found if one is not None]
    if not kept:
        raise ExportError("the dataset has no tensors" if not found else f"no tensor fits: {problems[0][1]}")
    return kept


def _column_of(
    tensor: lakebed.Tensor, name: str, problems: list[tuple[str, str]], links: bool
) -> ArrowColumn | None:
    described = Described.of(tensor)
    base, names = described.base, described.info.get("class_names")
    feature: dict[str, Any] | None = None
    if tensor.is_link:
        feature = {"_type": _FILES[base]} if base in _FILES else {"dtype": "binary", "_type": "Value"}
        if links and base in _FILES:
            return ArrowColumn(name, "address", described, feature)
        problems.append(
            (name, "the files that its links lead to are written, not the links (links=True, --links)")
        )
        return ArrowColumn(name, "file", described, feature)
    if described.is_file or is_drawn(tensor, described):
        feature = {"_type": _FILES[base]} if base in _FILES else {"dtype": "binary", "_type": "Value"}
        if described.is_chunked_file:
            return ArrowColumn(name, "file", described.decoded(), feature)
        return ArrowColumn(name, "file", replace(described, more={"shape": extents(tensor)}), feature)
    if described.dtype is not None and described.dtype.startswith("complex"):
        problems.append((name, "Arrow has no type for complex numbers: it is left out"))
        return None
    if described.is_chunked_file:
        described = described.decoded()
    described = replace(described, more={"shape": extents(tensor)})
    if base == "class_label" and not described.is_sequence:
        known = [str(one) for one in names] if isinstance(names, list) else []
        return ArrowColumn(name, "label", described, {"names": known, "_type": "ClassLabel"})
    is_array = described.storing is Storing.ARRAY and not described.is_sequence
    shape = (even_shape(tensor) if is_array else None) or ()
    if _FEWEST_AXES <= len(shape) <= _MOST_AXES:
        kind = f"Array{len(shape)}D"
        feature = {"shape": list(shape), "dtype": str(described.dtype), "_type": kind}
        return ArrowColumn(name, "plain", described, feature, shape)
    return ArrowColumn(name, "plain", described)


def rows_of_table(ds: lakebed.Dataset, columns: Sequence[ArrowColumn]) -> int:
    """Return how many rows are about 16 MB."""
    count = max(1, ds.min_len)
    row = 1.0 + ds[[one.name for one in columns]].size_approx() / count
    return int(min(_MOST_ROWS, max(1, _BLOCK_BYTES // row)))


def table_of(
    view: lakebed.Dataset, piece: Piece, columns: Sequence[ArrowColumn]
) -> tuple[pa.Table, list[tuple[int, str]]]:
    """Return some rows, without those that cannot be read; and (row, reason) of these."""
    import pyarrow as pa

    count = len(piece.rows)
    wrong: dict[int, str] = {}
    arrays: list[Any] = []
    for one in columns:
        try:
            array = _read(view, one, count)
        except FAILURES as error:
            if isinstance(error, InvalidOperationError):
                raise
            array = _one_by_one(view, one, count, wrong)
        arrays.append(array)
    table = pa.table(arrays, schema=_schema([array.type for array in arrays], columns))
    if wrong:
        table = table.take(pa.array([row for row in range(count) if row not in wrong], pa.int64()))
    return table, [(int(piece.rows[at]), reason) for at, reason in sorted(wrong.items())]


def empty_table(ds: lakebed.Dataset, columns: Sequence[ArrowColumn]) -> pa.Table:
    """Return the columns without rows."""
    import numpy as np

    return table_of(ds[0:0], Piece(0, "", np.zeros(0, np.int64), 0), columns)[0]


def _one_by_one(view: lakebed.Dataset, one: ArrowColumn, count: int, wrong: dict[int, str]) -> Any:
    import pyarrow as pa

    found: list[Any] = []
    for row in range(count):
        try:
            found.append(_read(view[row : row + 1], one, 1))
        except FAILURES as error:
            wrong.setdefault(row, f"{one.name}: {error}")
            found.append(None)
    kind = next((array.type for array in found if array is not None), pa.null())
    return pa.concat_arrays([pa.nulls(1, kind) if array is None else array for array in found])


def _read(view: lakebed.Dataset, one: ArrowColumn, count: int) -> Any:
    import pyarrow as pa

    tensor = view[one.name]
    if one.how in ("file", "address"):
        return _files(tensor, count, one)
    array = tensor.to_arrow(labels="numbers", files="arrays").combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.nulls(0, array.type)
    if one.how == "label":
        return array.cast(pa.list_(pa.int64()) if pa.types.is_nested(array.type) else pa.int64())
    return _as_lists(array, len(one.shape)) if one.shape else array


def _as_lists(array: Any, axes: int) -> Any:
    """Return lists of any length for those of a fixed one, as Hugging Face stores arrays."""
    import pyarrow as pa

    kind = array.type
    while pa.types.is_nested(kind):
        kind = kind.value_type
    for _ in range(axes):
        kind = pa.list_(kind)
    return array.cast(kind)


def _files(tensor: lakebed.Tensor, count: int, one: ArrowColumn) -> pa.Array:
    """Return files as Hugging Face stores them."""
    import pyarrow as pa

    is_struct = one.feature is not None and one.feature["_type"] != "Value"
    item: pa.DataType = (
        pa.struct([("bytes", pa.binary()), ("path", pa.string())]) if is_struct else pa.binary()
    )
    convert: Callable[[Any], Any] = (lambda data: {"bytes": data, "path": None}) if is_struct else bytes
    nulls = tensor.null_mask()
    rows: list[Any] = []
    if one.how == "address":
        for link in tensor.links():
            links = link if isinstance(link, list) else [link]
            told = [None if of is None else {"bytes": None, "path": str(of.path)} for of in links]
            rows.append(told if isinstance(link, list) else told[0])
    else:
        for row in range(count):
            sample = tensor[row]
            shape = sample.shape or (0,)
            if tensor.is_sequence:
                rows.append([convert(file_of(tensor[row, at])) for at in range(int(shape[0] or 0))])
            elif (nulls is not None and nulls[row]) or 0 in shape:
                rows.append(None)
            else:
                rows.append(convert(file_of(sample)))
    return pa.array(rows, pa.list_(item) if tensor.is_sequence else item)


def _schema(kinds: Sequence[pa.DataType], columns: Sequence[ArrowColumn]) -> pa.Schema:
    """Return the schema, with the features and descriptions of all columns."""
    import pyarrow as pa

    fields = [
        pa.field(one.name, kind, metadata=_extension(one)) for one, kind in zip(columns, kinds, strict=True)
    ]
    described = {one.name: one.described.to_dict() for one in columns}
    return pa.schema(
        fields,
        metadata={
            "huggingface": json.dumps({"info": {"features": features_of(kinds, columns)}}),
            KEY: json.dumps({"version": 1, "tensors": described}),
        },
    )


def _extension(one: ArrowColumn) -> dict[str, str] | None:
    """Return the type as which ``datasets`` stores an array, as the metadata of a field."""
    if not one.shape or one.feature is None:
        return None
    return {
        "ARROW:extension:name": f"datasets.features.features.{one.feature['_type']}ExtensionType",
        "ARROW:extension:metadata": json.dumps([list(one.shape), one.feature["dtype"]]),
    }


def features_of(kinds: Sequence[pa.DataType], columns: Sequence[ArrowColumn]) -> dict[str, Any]:
    """Return what ``datasets`` must know of columns that it would take for something else."""
    import pyarrow as pa

    found: dict[str, Any] = {}
    for one, kind in zip(columns, kinds, strict=True):
        if one.feature is None:
            found[one.name] = feature_of(kind)
        elif one.feature["_type"] in ("Image", "Audio", "Video", "ClassLabel", "Value") and pa.types.is_list(
            kind
        ):
            found[one.name] = {"feature": dict(one.feature), "_type": "List"}
        else:
            found[one.name] = dict(one.feature)
    return found


def feature_of(kind: pa.DataType) -> dict[str, Any]:
    """Return the feature that an Arrow type is."""
    import pyarrow as pa

    if pa.types.is_fixed_size_list(kind):
        return {"feature": feature_of(kind.value_type), "length": kind.list_size, "_type": "List"}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return {"feature": feature_of(kind.value_type), "_type": "List"}
    dtype = {"double": "float64", "float": "float32", "halffloat": "float16", "date32[day]": "date32",
             "date64[ms]": "date64"}.get(str(kind), str(kind))  # fmt: skip
    return {"dtype": dtype, "_type": "Value"}
