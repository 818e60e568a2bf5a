"""CSV and TSV: a file for each split. Nulls are empty fields, empty texts ``""``, lists JSON, classes their names."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import lakebed
from lakebed.errors import ExportError
from lakebed.exporters.core.plan import ExportPlan, Piece, Written, without_splits
from lakebed.exporters.core.target import Target

_ROWS = 16_384
_MEDIA = ("image", "image.rgb", "image.gray", "audio", "video", "dicom", "nifti", "point_cloud", "mesh", "binary_mask",
          "segment_mask", "instance_label")  # fmt: skip


@dataclass(frozen=True)
class _Context:
    tensors: Sequence[str]
    labels: Mapping[str, Sequence[str]]
    delimiter: str
    suffix: str


def recognise(ds: lakebed.Dataset) -> str | None:
    """Say how many columns there are; None without any."""
    found = columns_of(ds)
    return f"{ds.min_len:,} rows of {len(found)} columns" if found else None


def plan(ds: lakebed.Dataset, *, tensors: Sequence[str] = (), delimiter: str = ",") -> ExportPlan:
    """Plan a column for each tensor that is no image or other file.

    Parameters
    ----------
    ds
        The dataset.
    tensors
        Tensors that are written; left out, all but files and masks.
    delimiter
        What is between fields; a tab makes .tsv files.
    """
    problems: list[tuple[str, str]] = []
    chosen = chosen_columns(ds, tensors, problems)
    labels = {
        name: [str(one) for one in ds[name].info.get("class_names") or ()]
        for name in chosen
        if ds[name].htype == "class_label"
    }
    problems += [(name, told) for name in chosen if (told := _loss(ds[name]))]
    context = _Context(chosen, labels, delimiter, ".tsv" if delimiter == "\t" else ".csv")
    found = f"{ds.min_len:,} rows of {len(chosen)} columns"
    return ExportPlan(found, {name: name for name in chosen}, context, piece_rows=_ROWS, problems=problems)


def write(view: lakebed.Dataset, piece: Piece, context: _Context, target: Target) -> Written:
    """Make the lines of some rows."""
    del target
    table = view.to_arrow(list(context.tensors), labels="numbers", files="arrays")
    columns = [_texts(table.column(name), context.labels.get(name)) for name in context.tensors]
    out = io.StringIO()
    write_row = csv.writer(
        out, delimiter=context.delimiter, lineterminator="\n", quoting=csv.QUOTE_MINIMAL
    ).writerow
    for row in zip(*columns, strict=True):
        if "" in row:
            # The writer quotes no empty text, which would then be a null.
            out.write(
                context.delimiter.join('""' if one == "" else _field(one, context.delimiter) for one in row)
                + "\n"
            )
        else:
            write_row(row)
    return Written(rows=len(piece.rows), result=out.getvalue().encode())


def finish(results: Sequence[tuple[Piece, bytes]], context: _Context, target: Target) -> None:
    """Write a file for each split."""
    head = context.delimiter.join(_field(name, context.delimiter) for name in context.tensors) + "\n"
    write_files(results, context.suffix, target, head.encode())


def write_files(
    results: Sequence[tuple[Piece, bytes]], suffix: str, target: Target, head: bytes = b""
) -> None:
    """Write the lines of the pieces, a file for each split."""
    for split in dict.fromkeys(piece.split for piece, _ in results) or [""]:
        with target.open(f"{split or 'data'}{suffix}") as file:
            file.write(head)
            for piece, lines in results:
                if piece.split == split:
                    file.write(lines)


def chosen_columns(ds: lakebed.Dataset, tensors: Sequence[str], problems: list[tuple[str, str]]) -> list[str]:
    """Return the names of the tensors that are columns: those that are named, or all but files and masks.

    Raises
    ------
    ExportError
        If there is no such tensor, or none is left.
    """
    columns = columns_of(ds)
    chosen = list(tensors) or [name for name in without_splits(ds) if name in columns]
    for name in chosen:
        if name not in ds.tensors:
            raise ExportError(f"the dataset has no tensor {name!r}: {', '.join(ds.tensors)}")
    if not chosen:
        raise ExportError("the dataset has no columns for a table: its tensors are files and masks")
    problems += [(name, f"{ds[name].htype} has no text") for name in ds.tensors if name not in columns]
    return chosen


def columns_of(ds: lakebed.Dataset) -> list[str]:
    """Return the names of the tensors that are no files and masks."""
    return [name for name in ds.tensors if _base(str(ds[name].htype)) not in _MEDIA]


def _loss(tensor: lakebed.Tensor) -> str | None:
    """Return what of a tensor does not come back from a table of texts."""
    if (
        tensor.htype == "class_label"
        and len(tensor.meta.max_shape) <= 1
        and max(tensor.meta.max_shape, default=0) <= 1
    ):
        return f"names of classes are texts when they come back, unless they are said to be (labels={tensor.key})"
    is_number = (
        str(tensor.base_htype or "generic") == "generic" and max(tensor.meta.max_shape, default=0) <= 1
    )
    if tensor.htype == "text" or (is_number and not tensor.is_sequence):
        return None
    return f"{tensor.htype} is written as JSON, which comes back as text"


def _base(htype: str) -> str:
    for wrapper in ("link[", "sequence["):
        htype = htype.removeprefix(wrapper).removesuffix("]") if htype.startswith(wrapper) else htype
    return htype


def _texts(column: pa.ChunkedArray, names: Sequence[str] | None) -> list[Any]:
    """Return the fields of a column; None is null."""
    if names is not None:
        return [_named(value, names) for value in column.to_pylist()]
    kind = column.type
    if pa.types.is_temporal(kind) or pa.types.is_boolean(kind):
        texts: list[Any] = column.cast(pa.string()).to_pylist()
        return texts
    values = column.to_pylist()
    if pa.types.is_nested(kind):
        return [None if value is None else json.dumps(value) for value in values]
    if pa.types.is_floating(kind):
        return [None if value is None else repr(value) for value in values]
    return list(values)


def _named(value: Any, names: Sequence[str]) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return json.dumps([names[one] for one in value], ensure_ascii=False)
    return names[value] if value < len(names) else value


def _field(value: Any, delimiter: str) -> str:
    text = "" if value is None else str(value)
    if any(character in text for character in (delimiter, '"', "\n", "\r")):
        return '"' + text.replace('"', '""') + '"'
    return text
