"""Files of a view that stores row numbers: a dataset of one tensor, `VDS_INDEX` (format.md 12). Pure.

file                              content
version_control_info.json         the root version only
dataset_meta.json                 the tensor
dataset_info.json                 the entry of the view in the list
dataset_diff                      records that the info changed
VDS_INDEX/tensor_meta.json        uint64, one number for each row of the view
VDS_INDEX/commit_diff             records that the tensor was created
VDS_INDEX/chunks_index/unsharded  chunks
VDS_INDEX/tiles_index/unsharded   no tiles
VDS_INDEX/chunks/<id>             the row numbers, in the order of the view
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.chunks.pack import pack
from lakebed.codecs.block import Block
from lakebed.documents import info, json_style
from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.dataset_diff import DatasetDiff
from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.documents.indexes.chunk_ids import ChunkIds, chunk_name
from lakebed.documents.indexes.tile_index import TileIndex
from lakebed.documents.tensor_meta import MAX_CHUNK_SIZE, TensorMeta
from lakebed.documents.version_tree import FIRST, MAIN

INDEX = "VDS_INDEX"
"""Name of the tensor with the row numbers."""

TREE = "version_control_info.json"

_IN_CHUNK = MAX_CHUNK_SIZE // 2 // 8
_NODE: dict[str, Any] = {
    "branch": MAIN,
    "parent": None,
    "children": [],
    "commit_message": None,
    "commit_time": None,
    "commit_user_name": None,
    "is_checkpoint": False,
    "total_samples_processed": 0,
}


def index_meta(*, hidden: bool, length: int = 0) -> TensorMeta:
    """Return the metadata of the tensor with the row numbers."""
    shape = (1,) if length else ()
    return TensorMeta(
        length=length, name=INDEX, htype="generic", dtype="uint64", min_shape=shape, max_shape=shape, hidden=hidden
    )  # fmt: skip


def index_block(rows: NDArray[np.uint64]) -> Block:
    """Return row numbers as samples."""
    return Block(memoryview(np.ascontiguousarray(rows, "<u8").tobytes()), len(rows), 8, (1,))


def files_of(rows: NDArray[np.uint64], entry: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the files of a view by key, the version tree first.

    Parameters
    ----------
    rows
        Row numbers, shape (rows,).
    entry
        Entry of the view in the list.
    """
    parts = [rows[at : at + _IN_CHUNK] for at in range(0, len(rows), _IN_CHUNK)]
    ids = [int.from_bytes(os.urandom(8), "little") or 1 for _ in parts]
    chunks = ChunkIds.from_counts(ids, [len(part) for part in parts])
    found = {
        TREE: json_style.dump_compact({"commits": {FIRST: _NODE}, "branches": {MAIN: FIRST}}),
        "dataset_meta.json": DatasetMeta(tensors=(INDEX,), tensor_names={INDEX: INDEX}).to_bytes(),
        "dataset_info.json": info.to_bytes(entry),
        "dataset_diff": DatasetDiff(info_updated=True).to_bytes(),
        f"{INDEX}/tensor_meta.json": index_meta(hidden=False, length=len(rows)).to_bytes(),
        f"{INDEX}/commit_diff": CommitDiff(created=True, last=len(rows)).to_bytes(),
        f"{INDEX}/chunks_index/unsharded": chunks.to_bytes(),
        f"{INDEX}/tiles_index/unsharded": TileIndex.empty().to_bytes(),
    }
    for number, part in zip(ids, parts, strict=True):
        found[f"{INDEX}/chunks/{chunk_name(number)}"] = b"".join(pack([index_block(part)]).pieces)
    return found
