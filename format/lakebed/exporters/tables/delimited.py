"""CSV and TSV: a file for each split. Nulls are empty fields, empty texts ``""``, lists JSON, classes their names."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from lakebed.exporters.core.media import MEDIA
from lakebed.exporters.core.plan import ExportPlan, Piece, Written, chosen_tensors, read_rows, without_splits
from lakebed.exporters.core.target import Target

if TYPE_CHECKING:
    from lakebed.dataset.dataset import Dataset
    from lakebed.dataset.tensor import Tensor

_ROWS = 16_384
_NO_TEXT = (*MEDIA, "binary_mask", "segment_mask", "instance_label")


class _Context(NamedTuple):
    tensors: Sequence[str]
    labels: Mapping[str, Sequence[str]]
    delimiter: str


def plan(ds: Dataset, *, tensors: Sequence[str] = (), delimiter: str = ",") -> ExportPlan:
    """Plan a column for each tensor that is not an image or other file.

    Parameters
    ----------
    ds
        The dataset.
    tensors
        Tensors that are written; by default all but files and masks.
    delimiter
        Separator of fields; a tab makes .tsv files.
    """
    found = planned(ds, tensors)
    names = found.context
    labels = {
        name: [str(one) for one in ds[name].info.get("class_names") or ()]
        for name in names
        if ds[name].htype == "class_label"
    }
    found.problems += [(name, told) for name in names if (told := _loss(ds[name]))]
    found.context = _Context(names, labels, delimiter)
    return found


def planned(ds: Dataset, tensors: Sequence[str]) -> ExportPlan:
    """Plan a column for each tensor that is named, or for all but files and masks.

    Raises
    ------
    ExportError
        If the dataset has no such tensor, or no column is left.
    """
    columns = columns_of(ds)
    otherwise = [name for name in without_splits(ds) if name in columns]
    chosen = chosen_tensors(ds, tensors, otherwise, "no columns for a table: its tensors are files and masks")
    problems = [(name, f"{ds[name].htype} has no text") for name in ds.tensors if name not in columns]
    found = f"{ds.min_len:,} rows of {len(chosen)} columns"
    return ExportPlan(found, {name: name for name in chosen}, chosen, piece_rows=_ROWS, problems=problems)


def write(view: Dataset, piece: Piece, context: _Context, target: Target) -> Written:
    """Make the lines of some rows; leave out those that cannot be read."""
    del target

    def read(some: Dataset, _: int) -> pa.Table:
        return some.to_arrow(list(context.tensors), labels="numbers", files="arrays")

    table, skipped = read_rows(view, piece, read)
    columns = [_texts(table.column(name), context.labels.get(name)) for name in context.tensors]
    out = io.StringIO()
    write_row = csv.writer(out, delimiter=context.delimiter, lineterminator="\n").writerow
    for row in zip(*columns, strict=True):
        if "" in row:  # csv.writer would not quote an empty text, and readers would take it for a null
            out.write(_line(row, context.delimiter))
        else:
            write_row(row)
    return Written(rows=len(table), skipped=skipped, result=out.getvalue().encode())


def finish(results: Sequence[tuple[Piece, bytes]], context: _Context, target: Target) -> None:
    """Write a file for each split."""
    suffix = ".tsv" if context.delimiter == "\t" else ".csv"
    write_files(results, suffix, target, _line(context.tensors, context.delimiter).encode())


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


def columns_of(ds: Dataset) -> list[str]:
    """Return the names of all tensors except files and masks."""
    return [name for name in ds.tensors if _base(str(ds[name].htype)) not in _NO_TEXT]


def _loss(tensor: Tensor) -> str | None:
    """Return what a tensor loses in a table of texts; None if it loses nothing."""
    is_one = len(tensor.meta.max_shape) <= 1 and max(tensor.meta.max_shape, default=0) <= 1
    if tensor.htype == "class_label" and is_one:
        return f"an import takes names of classes as texts, unless labels={tensor.key} is passed"
    is_number = (
        str(tensor.base_htype or "generic") == "generic" and max(tensor.meta.max_shape, default=0) <= 1
    )
    if tensor.htype == "text" or (is_number and not tensor.is_sequence):
        return None
    return f"{tensor.htype} is written as JSON, which an import takes as text"


def _base(htype: str) -> str:
    for wrapper in ("link[", "sequence["):
        htype = htype.removeprefix(wrapper).removesuffix("]") if htype.startswith(wrapper) else htype
    return htype


def _texts(column: pa.ChunkedArray, names: Sequence[str] | None) -> list[Any]:
    """Return the fields of a column; None is null."""
    kind = column.type
    if names is None and (pa.types.is_temporal(kind) or pa.types.is_boolean(kind)):
        column = column.cast(pa.string())
    values: list[Any] = column.to_pylist()
    if names is not None:
        return [None if value is None else _named(value, names) for value in values]
    if pa.types.is_nested(kind):
        return [None if value is None else json.dumps(value) for value in values]
    if pa.types.is_floating(kind):
        return [None if value is None else repr(value) for value in values]
    return values


def _named(value: Any, names: Sequence[str]) -> Any:
    if isinstance(value, list):
        return json.dumps([names[one] for one in value], ensure_ascii=False)
    return names[value] if value < len(names) else value


def _line(row: Sequence[Any], delimiter: str) -> str:
    return delimiter.join('""' if one == "" else _field(one, delimiter) for one in row) + "\n"


def _field(value: Any, delimiter: str) -> str:
    text = "" if value is None else str(value)
    if any(character in text for character in (delimiter, '"', "\n", "\r")):
        return '"' + text.replace('"', '""') + '"'
    return text
