"""Parquet: a file for each split, with Hugging Face's metadata, so that ``datasets`` shows images and class labels.

    images, audio, video      struct<bytes, path>: the files as they are stored, or, of links, their addresses
    class_label               int64, or a list; the names are in the metadata
    json                      text of JSON
    all else                  what the dataset hands out as Arrow

A row group is a piece of rows. Pieces are made by several threads, and written in order.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import lakebed
from lakebed.errors import ExportError
from lakebed.exporters.media import file_of
from lakebed.exporters.plan import ExportPlan, Piece, Written
from lakebed.exporters.target import Target
from lakebed.session.columns import arrow_stream

if TYPE_CHECKING:
    import pyarrow as pa

_FILES = {
    "image": "Image",
    "image.rgb": "Image",
    "image.gray": "Image",
    "audio": "Audio",
    "video": "Video",
}
_ROWS = 1_000
_ROWS_OF_NUMBERS = 65_536


@dataclass
class _Writers:
    """Files that are being written, and pieces that wait for those before them."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    tables: dict[int, tuple[str, Any]] = field(default_factory=dict)
    done: int = 0
    open: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Context:
    tensors: Sequence[str]
    files: Mapping[str, str]
    labels: Mapping[str, Sequence[str]]
    links: bool
    compression: str
    writers: _Writers = field(default_factory=_Writers)


def recognise(ds: lakebed.Dataset) -> str | None:
    """Say how many rows and columns there are; None without tensors."""
    return f"{len(ds):,} rows of {len(ds.tensors)} columns" if ds.tensors else None


def plan(
    ds: lakebed.Dataset, *, tensors: Sequence[str] = (), links: bool = False, compression: str = "zstd"
) -> ExportPlan:
    """Plan a column for each tensor.

    Parameters
    ----------
    ds
        The dataset.
    tensors
        Tensors that are written; left out, all.
    links
        Write addresses of linked files in place of the files.
    compression
        Compression of the columns: zstd, snappy, lz4, gzip or none.
    """
    chosen = list(tensors) or list(ds.tensors)
    if not chosen:
        raise ExportError("the dataset has no tensors")
    for name in chosen:
        if name not in ds.tensors:
            raise ExportError(f"the dataset has no tensor {name!r}: {', '.join(ds.tensors)}")
    files: dict[str, str] = {}
    labels: dict[str, list[str]] = {}
    for name in chosen:
        htype = str(ds[name].htype)
        base = htype[5:-1] if htype.startswith("link[") else htype
        if base in _FILES:
            files[name] = base
        elif htype == "class_label":
            labels[name] = [str(one) for one in ds[name].info.get("class_names") or ()]
    found = f"{len(ds):,} rows of {len(chosen)} columns"
    context = _Context(chosen, files, labels, links, compression)
    rows = _ROWS if files else _ROWS_OF_NUMBERS
    return ExportPlan(found, {name: name for name in chosen}, context, piece_rows=rows)


def write(view: lakebed.Dataset, piece: Piece, context: _Context, target: Target) -> Written:
    """Make the columns of some rows, and write all pieces whose turn it is."""
    table = _table(view, len(piece.rows), context)
    writers = context.writers
    with writers.lock:
        writers.tables[piece.number] = (piece.split, table)
        while writers.done in writers.tables:
            split, ready = writers.tables.pop(writers.done)
            _writer(split, ready.schema, context, target).write_table(
                ready, row_group_size=max(1, len(ready))
            )
            writers.done += 1
    return Written(rows=len(piece.rows))


def finish(results: Sequence[Any], context: _Context, target: Target) -> None:
    """End the files; of a dataset without rows, one with the columns alone."""
    del results
    if not context.writers.open:
        raise ExportError("the dataset has no rows to write")
    for writer in context.writers.open.values():
        writer.close()
    del target


def _writer(split: str, schema: pa.Schema, context: _Context, target: Target) -> Any:
    import pyarrow.parquet as pq

    name = f"{split or 'data'}.parquet"
    if name not in context.writers.open:
        path = target.path(name)
        context.writers.open[name] = pq.ParquetWriter(path, schema, compression=context.compression)
    return context.writers.open[name]


def _table(view: lakebed.Dataset, count: int, context: _Context) -> pa.Table:
    import pyarrow as pa

    plain = [name for name in context.tensors if name not in context.files]
    read = pa.table(arrow_stream(view._table(plain))) if plain else None  # noqa: SLF001 - some of its tensors
    arrays: list[Any] = []
    fields: list[pa.Field] = []
    for name in context.tensors:
        if name in context.files:
            array: Any = _files(view[name], count, context)
        else:
            array = read.column(name) if read is not None else None
            if name in context.labels:
                array = _as_labels(array)
        arrays.append(array)
        fields.append(pa.field(name, array.type))
    schema = pa.schema(
        fields, metadata={"huggingface": json.dumps({"info": {"features": _features(fields, context)}})}
    )
    return pa.table(arrays, schema=schema)


def _as_labels(array: Any) -> Any:
    import pyarrow as pa

    return array.cast(pa.list_(pa.int64()) if pa.types.is_nested(array.type) else pa.int64())


def _files(tensor: lakebed.Tensor, count: int, context: _Context) -> pa.Array:
    """Return files as Hugging Face stores them."""
    import pyarrow as pa

    is_link = str(tensor.htype).startswith("link[")
    rows: list[dict[str, Any] | None] = []
    nulls = tensor.null_mask()
    for row in range(count):
        sample = tensor[row]
        if (nulls is not None and nulls[row]) or 0 in (sample.shape or (0,)):
            rows.append(None)
        elif is_link and context.links:
            rows.append({"bytes": None, "path": sample.path})
        else:
            rows.append({"bytes": file_of(sample), "path": None})
    return pa.array(rows, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))


def _features(fields: Sequence[pa.Field], context: _Context) -> dict[str, Any]:
    """Return what ``datasets`` must know of columns that it would take for something else."""
    import pyarrow as pa

    found: dict[str, Any] = {}
    for one in fields:
        if one.name in context.files:
            found[one.name] = {"_type": _FILES[context.files[one.name]]}
        elif one.name in context.labels:
            label = {"names": list(context.labels[one.name]), "_type": "ClassLabel"}
            found[one.name] = {"feature": label, "_type": "List"} if pa.types.is_nested(one.type) else label
        else:
            found[one.name] = _feature(one.type)
    return found


def _feature(kind: pa.DataType) -> dict[str, Any]:
    import pyarrow as pa

    if pa.types.is_fixed_size_list(kind):
        return {"feature": _feature(kind.value_type), "length": kind.list_size, "_type": "List"}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return {"feature": _feature(kind.value_type), "_type": "List"}
    dtype = {"double": "float64", "float": "float32", "halffloat": "float16"}.get(str(kind), str(kind))
    return {"dtype": dtype, "_type": "Value"}
