"""Hugging Face ``datasets``: the files that ``load_from_disk`` reads, written without their package.

    DEST/dataset_dict.json           names of the splits, a folder each; a dataset without splits is DEST itself
    DEST/train/dataset_info.json     features: images, sounds, class labels, arrays, lists
    DEST/train/state.json            names of the Arrow files
    DEST/train/data-00000.arrow      rows, as Arrow streams

``arrow_columns.py`` says what columns are. Pieces are made by several threads, and written in order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import lakebed
from lakebed.exporters.core.order import Order
from lakebed.exporters.core.plan import ExportPlan, Piece, Written, splits_of, without_splits
from lakebed.exporters.core.target import Target
from lakebed.exporters.tables.arrow_columns import (
    ArrowColumn,
    arrow_columns,
    empty_table,
    features_of,
    rows_of_table,
    table_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

# Of a file, about.
_FILE_BYTES = 500 << 20


@dataclass
class _Split:
    """Files of a split; the last one is open."""

    names: list[str] = field(default_factory=list)
    writer: Any = None
    nbytes: int = 0
    rows: int = 0
    schema: Any = None


@dataclass
class _Context:
    """The dataset, its columns, the folder of each split, and what is open."""

    ds: lakebed.Dataset
    columns: Sequence[ArrowColumn]
    folders: Mapping[str, str]
    order: Order = field(default_factory=Order)
    splits: dict[str, _Split] = field(default_factory=dict)


def recognise(ds: lakebed.Dataset) -> str | None:
    """Say how many rows and columns there are; None without tensors."""
    return f"{ds.min_len:,} rows of {len(ds.tensors)} columns" if ds.tensors else None


def plan(ds: lakebed.Dataset, *, tensors: Sequence[str] = (), links: bool = False) -> ExportPlan:
    """Plan a column for each tensor, and a dataset for each split.

    Parameters
    ----------
    ds
        The dataset.
    tensors
        Tensors that are written; left out, all.
    links
        Write addresses of linked files in place of the files.
    """
    problems: list[tuple[str, str]] = []
    splits = set(splits_of(ds)) - {""}
    columns = arrow_columns(ds, tensors or without_splits(ds), problems, links=links)
    return ExportPlan(
        f"{ds.min_len:,} rows of {len(columns)} columns",
        {one.name: one.name for one in columns},
        _Context(ds, columns, _folders(splits)),
        piece_rows=rows_of_table(ds, columns),
        problems=problems,
    )


def write(view: lakebed.Dataset, piece: Piece, context: _Context, target: Target) -> Written:
    """Make the columns of some rows, and write all pieces whose turn it is."""
    table, skipped = table_of(view, piece, context.columns)
    context.order.write(piece.number, lambda: _append(piece.split, table, context, target))
    return Written(rows=len(table), skipped=skipped)


def finish(results: Sequence[Any], context: _Context, target: Target) -> None:
    """Write what says that the files are a dataset."""
    del results
    if not context.splits:
        _append("", empty_table(context.ds, context.columns), context, target)
    for split, of in context.splits.items():
        folder = context.folders[split]
        of.writer.close()
        features = features_of(of.schema.types, context.columns)
        about = {"citation": "", "description": "", "features": features, "homepage": "", "license": ""}
        state: dict[str, Any] = {
            "_data_files": [{"filename": name.rpartition("/")[2]} for name in of.names],
            "_fingerprint": sha256(
                f"{context.ds.path}\0{split}\0{of.rows}\0{of.nbytes}".encode()
            ).hexdigest()[:16],
            "_format_columns": None,
            "_format_kwargs": {},
            "_format_type": None,
            "_output_all_columns": False,
            "_split": None,
        }
        target.write(f"{folder}dataset_info.json", json.dumps(about, indent=2).encode())
        target.write(f"{folder}state.json", json.dumps(state, indent=2).encode())
    if context.folders[""]:
        names = [context.folders[split].rstrip("/") for split in context.splits]
        target.write("dataset_dict.json", json.dumps({"splits": names}).encode())


def _append(split: str, table: pa.Table, context: _Context, target: Target) -> None:
    import pyarrow as pa

    of = context.splits.setdefault(split, _Split())
    if of.writer is None or of.nbytes >= _FILE_BYTES * len(of.names):
        if of.writer is not None:
            of.writer.close()
        of.names.append(f"{context.folders[split]}data-{len(of.names):05d}.arrow")
        of.writer = pa.ipc.new_stream(target.path(of.names[-1]), table.schema)
        of.schema = table.schema
    of.writer.write_table(table)
    of.nbytes += table.nbytes
    of.rows += len(table)


def _folders(splits: AbstractSet[str]) -> dict[str, str]:
    """Return the folder of each split, with its slash; without splits it is the root."""
    if not splits:
        return {"": ""}
    others = "rest"
    while others in splits:
        others = f"{others}_"
    return {**{split: f"{split}/" for split in splits}, "": f"{others}/"}
