"""Rows as Arrow tables, with the features of Hugging Face and the descriptions of the tensors in the metadata.

tensor                    column
images, audio, video      struct<bytes, path>: the files as they are stored; of links, their addresses
other files               binary
class_label               int64, or a list; the names are in the metadata
json, list, tag           text of JSON
arrays of one shape       lists; with two to five axes ``Array2D`` to ``Array5D``
sequences                 lists of items
others                    as :meth:`Tensor.to_arrow` returns them
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import numpy as np

from lakebed.dataset.described import KEY, Described
from lakebed.errors import ExportError
from lakebed.exporters.arrays.layout import even_shape
from lakebed.exporters.core.media import extents, file_of, files_of, is_drawn, is_empty, links_followed
from lakebed.exporters.core.plan import (
    ExportPlan,
    Piece,
    Written,
    chosen_tensors,
    read_columns,
    without_splits,
)
from lakebed.exporters.core.target import Target
from lakebed.htypes.base import Storing

if TYPE_CHECKING:
    import pyarrow as pa

    from lakebed.dataset.dataset import Dataset
    from lakebed.dataset.tensor import Tensor

_FILES: Mapping[str, str] = {
    "image": "Image",
    "image.rgb": "Image",
    "image.gray": "Image",
    "audio": "Audio",
    "video": "Video",
}
_BLOCK_BYTES = 16 << 20
_MOST_ROWS = 65_536
# Numbers of axes of the features Array2D to Array5D.
_FEWEST_AXES, _MOST_AXES = 2, 5


class TableOptions(TypedDict, total=False):
    """Options of exporters of tables."""

    tensors: Annotated[Sequence[str], "Tensors that are written; by default all."]
    links: Annotated[bool, "Write the addresses of linked files instead of the files."]


@dataclass
class Tables:
    """Files of tables that are being written.

    Parameters
    ----------
    ds, columns
        The dataset and its columns.
    """

    ds: Dataset
    columns: Sequence[ArrowColumn]


def planned(
    ds: Dataset,
    made: Callable[[list[ArrowColumn]], Tables],
    *,
    tensors: Sequence[str] = (),
    links: bool = False,
) -> ExportPlan:
    """Plan a column for each tensor; `made` returns the context of the plan."""
    problems: list[tuple[str, str]] = []
    chosen = chosen_tensors(ds, tensors, without_splits(ds))
    found = [_column_of(ds[name], name, problems, links) for name in chosen]
    columns = [one for one in found if one is not None]
    if not columns:
        raise ExportError(f"no tensor can be written: {problems[0][1]}")
    names = [one.name for one in columns]
    row = 1.0 + ds[names].size_approx() / max(1, ds.min_len)
    return ExportPlan(
        f"{ds.min_len:,} rows of {len(columns)} columns",
        {name: name for name in names},
        made(columns),
        piece_rows=int(min(_MOST_ROWS, max(1, _BLOCK_BYTES // row))),
        problems=problems,
    )


def write(view: Dataset, piece: Piece, context: Tables, target: Target) -> Written:
    """Make the columns of some rows."""
    del target
    table, skipped = table_of(view, piece, context.columns)
    return Written(rows=len(table), skipped=skipped, result=table)


def nothing(context: Tables) -> tuple[Piece, Written]:
    """Return a piece without rows, and its table, for the file of a dataset that has no rows."""
    piece = Piece(0, "", np.zeros(0, np.int64), 0)
    return piece, Written(result=table_of(context.ds[0:0], piece, context.columns)[0])


@dataclass(frozen=True)
class ArrowColumn:
    """A tensor as a column.

    Parameters
    ----------
    name
        Name of the column.
    how
        file, address, label, or plain.
    described
        Description of the tensor.
    feature
        Feature of the column for Hugging Face; None if that follows from the Arrow type.
    shape
        Shape of arrays of two to five axes; empty for others.
    """

    name: str
    how: str
    described: Described
    feature: Mapping[str, Any] | None = None
    shape: tuple[int, ...] = ()


def _column_of(tensor: Tensor, name: str, problems: list[tuple[str, str]], links: bool) -> ArrowColumn | None:
    described = Described.of(tensor)
    base, names = described.base, described.info.get("class_names")
    if tensor.is_link or described.is_file or is_drawn(tensor, described):
        feature: dict[str, Any] = {"dtype": "binary", "_type": "Value"}
        if base in _FILES:
            feature = {"_type": _FILES[base]}
        if tensor.is_link and links and base in _FILES:
            return ArrowColumn(name, "address", described, feature)
        if tensor.is_link:
            problems.append(links_followed(name, " (links=True, --links)"))
        elif described.is_chunked_file:
            described = described.decoded()
        else:
            described = replace(described, more={"shape": extents(tensor)})
        return ArrowColumn(name, "file", described, feature)
    if described.dtype is not None and described.dtype.startswith("complex"):
        problems.append((name, "the tensor is left out: Arrow has no type for complex numbers"))
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


def table_of(
    view: Dataset, piece: Piece, columns: Sequence[ArrowColumn]
) -> tuple[pa.Table, list[tuple[int, str]]]:
    """Return some rows, and (row, reason) of rows that cannot be read."""
    import pyarrow as pa

    arrays, skipped = read_columns(view, piece, columns, _read)
    return pa.table(arrays, schema=_schema([array.type for array in arrays], columns)), skipped


def _read(tensor: Tensor, count: int, one: ArrowColumn) -> Any:
    import pyarrow as pa

    if one.how in ("file", "address"):
        return _files(tensor, count, one)
    array = tensor.to_arrow(labels="numbers", files="arrays").combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.nulls(0, array.type)
    if one.how == "label":
        return array.cast(pa.list_(pa.int64()) if pa.types.is_nested(array.type) else pa.int64())
    return _as_lists(array, len(one.shape)) if one.shape else array


def _as_lists(array: Any, axes: int) -> Any:
    """Return fixed-size lists as lists of any length, as Hugging Face stores arrays."""
    import pyarrow as pa

    kind = array.type
    while pa.types.is_nested(kind):
        kind = kind.value_type
    for _ in range(axes):
        kind = pa.list_(kind)
    return array.cast(kind)


def _files(tensor: Tensor, count: int, one: ArrowColumn) -> pa.Array:
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
            if tensor.is_sequence:
                rows.append(list(map(convert, files_of(sample))))
            elif (nulls is not None and nulls[row]) or is_empty(sample):
                rows.append(None)
            else:
                rows.append(convert(file_of(sample)))
    return pa.array(rows, pa.list_(item) if tensor.is_sequence else item)


def _schema(kinds: Sequence[pa.DataType], columns: Sequence[ArrowColumn]) -> pa.Schema:
    """Return the schema, with features and descriptions in its metadata."""
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
    """Return the metadata by which ``datasets`` finds the extension type of an array; None for other columns."""
    if not one.shape or one.feature is None:
        return None
    return {
        "ARROW:extension:name": f"datasets.features.features.{one.feature['_type']}ExtensionType",
        "ARROW:extension:metadata": json.dumps([list(one.shape), one.feature["dtype"]]),
    }


def features_of(kinds: Sequence[pa.DataType], columns: Sequence[ArrowColumn]) -> dict[str, Any]:
    """Return the features of columns for ``datasets``."""
    import pyarrow as pa

    found: dict[str, Any] = {}
    for one, kind in zip(columns, kinds, strict=True):
        if one.feature is None:
            found[one.name] = feature_of(kind)
        elif not one.shape and pa.types.is_list(kind):
            found[one.name] = {"feature": dict(one.feature), "_type": "List"}
        else:
            found[one.name] = dict(one.feature)
    return found


def feature_of(kind: pa.DataType) -> dict[str, Any]:
    """Return the feature of an Arrow type."""
    import pyarrow as pa

    if pa.types.is_fixed_size_list(kind):
        return {"feature": feature_of(kind.value_type), "length": kind.list_size, "_type": "List"}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return {"feature": feature_of(kind.value_type), "_type": "List"}
    dtype = {"double": "float64", "float": "float32", "halffloat": "float16", "date32[day]": "date32",
             "date64[ms]": "date64"}.get(str(kind), str(kind))  # fmt: skip
    return {"dtype": dtype, "_type": "Value"}
