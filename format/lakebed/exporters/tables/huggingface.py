"""Hugging Face ``datasets``: the files that ``load_from_disk`` reads, written without its package.

    DEST/dataset_dict.json           names of the splits, a folder each; a dataset without splits is DEST itself
    DEST/train/dataset_info.json     features: images, sounds, class labels, arrays, lists
    DEST/train/state.json            names of the Arrow files
    DEST/train/data-00000.arrow      rows, as Arrow streams

:mod:`arrow_columns` defines the columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Unpack

from lakebed.exporters.core.plan import ExportPlan, Piece, Written, splits_of
from lakebed.exporters.core.target import Target
from lakebed.exporters.tables.arrow_columns import TableOptions, Tables, features_of, nothing, planned, write

if TYPE_CHECKING:
    from lakebed.dataset.dataset import Dataset

__all__ = ["append", "finish", "plan", "write"]

# Approximate size of a file in bytes.
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
class _Folders(Tables):
    """A folder of files for each split."""

    folders: Mapping[str, str] = field(default_factory=dict)
    splits: dict[str, _Split] = field(default_factory=dict)


def plan(ds: Dataset, **options: Unpack[TableOptions]) -> ExportPlan:
    """Plan a column for each tensor, and a dataset for each split.

    Parameters
    ----------
    ds
        The dataset.
    options
        Options ``tensors`` and ``links``; see :class:`TableOptions`.
    """
    folders = _folders(set(splits_of(ds)) - {""})
    return planned(ds, lambda columns: _Folders(ds, columns, folders=folders), **options)


def append(piece: Piece, done: Written, context: _Folders, target: Target) -> None:
    """Write the rows of a piece."""
    import pyarrow as pa

    of, table = context.splits.setdefault(piece.split, _Split()), done.result
    if of.writer is None or of.nbytes >= _FILE_BYTES * len(of.names):
        if of.writer is not None:
            of.writer.close()
        of.names.append(f"{context.folders[piece.split]}data-{len(of.names):05d}.arrow")
        of.writer = pa.ipc.new_stream(target.path(of.names[-1]), table.schema)
        of.schema = table.schema
    of.writer.write_table(table)
    of.nbytes += table.nbytes
    of.rows += len(table)


def finish(results: Sequence[Any], context: _Folders, target: Target) -> None:
    """Write the documents that make the files a dataset."""
    del results
    if not context.splits:
        append(*nothing(context), context, target)
    for split, of in context.splits.items():
        folder = context.folders[split]
        of.writer.close()
        features = features_of(of.schema.types, context.columns)
        about = {"citation": "", "description": "", "features": features, "homepage": "", "license": ""}
        key = f"{context.ds.path}\0{split}\0{of.rows}\0{of.nbytes}"
        state: dict[str, Any] = {
            "_data_files": [{"filename": name.rpartition("/")[2]} for name in of.names],
            "_fingerprint": sha256(key.encode()).hexdigest()[:16],
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


def _folders(splits: AbstractSet[str]) -> dict[str, str]:
    """Return the folder of each split, with its slash; the root if the rows have no splits."""
    if not splits:
        return {"": ""}
    others = "rest"
    while others in splits:
        others = f"{others}_"
    return {**{split: f"{split}/" for split in splits}, "": f"{others}/"}
