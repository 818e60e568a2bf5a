"""A version in the making: the published head plus schema changes and samples that no reader sees yet.

Chunks that are full are written to storage at once under the draft's own folder, so memory stays bounded; nothing
refers to them until the publish.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.block import Block
from lakebed.documents.dataset_diff import DatasetDiff
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import InvalidOperationError
from lakebed.htypes.arrays import block_of_array
from lakebed.htypes.registry import htype_named
from lakebed.storage.base import Storage
from lakebed.versions.state import Snapshot
from lakebed.writing.coerce import Encoded
from lakebed.writing.names import companion, companion_key
from lakebed.writing.tensor_draft import Read, TensorDraft, id_block, new_tensor, null_block, shape_block

# Pending samples of all tensors together; beyond this the largest are written out.
SPILL_BYTES = 64_000_000


class Draft:
    """The next head of a branch.

    Parameters
    ----------
    base
        The published head.
    version_id
        Id (and folder) of the version in the making.
    storage
        Where full chunks go before the publish.
    read
        Reads a chunk file back, published or not.
    """

    def __init__(self, base: Snapshot, version_id: str, storage: Storage, read: Read) -> None:
        self.version_id = version_id
        self.meta = base.meta
        self.info: Mapping[str, Any] = base.info
        self.diff = base.diff
        self.dirty = False
        self.torn = False
        self.spilled: list[str] = []
        self.tensors = {key: TensorDraft(state, version_id) for key, state in base.tensors.items()}
        self._storage = storage
        self._read = read

    # -- schema and info ---------------------------------------------------------------------------------------

    def add_tensor(self, name: str, meta: TensorMeta, info: Mapping[str, Any], groups: Sequence[str]) -> None:
        """Add a tensor without samples; ``groups`` are the group entries that its name needs."""
        key = name if name not in self.tensors else _free_key(name, self.tensors)
        self.tensors[key] = TensorDraft(new_tensor(key, meta.with_(name=name), info), self.version_id)
        self.meta = replace(
            self.meta,
            tensors=(*self.meta.tensors, key),
            tensor_names={**self.meta.tensor_names, name: key},
            hidden_tensors=(*self.meta.hidden_tensors, key) if meta.hidden else self.meta.hidden_tensors,
        )
        self.add_groups(groups)

    def add_groups(self, groups: Sequence[str]) -> None:
        """Add group entries that are not there yet."""
        self.dirty = True
        new = tuple(g for g in groups if g not in self.meta.groups)
        self.meta = replace(self.meta, groups=(*self.meta.groups, *new))

    def set_info(self, info: Mapping[str, Any]) -> None:
        """Replace the dataset's info."""
        self.dirty = True
        self.info = dict(info)
        self.diff = replace(self.diff or DatasetDiff(), info_updated=True)

    def set_tensor_info(self, key: str, info: Mapping[str, Any]) -> None:
        """Replace a tensor's info."""
        self.dirty = True
        self.tensors[key].set_info(info)

    # -- samples -----------------------------------------------------------------------------------------------

    def extend(self, columns: Mapping[str, Sequence[Encoded]]) -> None:
        """Append encoded samples, by tensor key, to the tensors and their hidden companions.

        Whoever catches an error of this must drop the draft: some tensors may have their samples and others not.
        """
        if not any(column.block.count for encoded in columns.values() for column in encoded):
            return
        self.dirty = self.torn = True
        for key, encoded in columns.items():
            for column in encoded:
                self._extend_tensor(self.tensors[key], column)
        if sum(t.pending_bytes + t.sealed_bytes for t in self.tensors.values()) > SPILL_BYTES:
            for tensor in self.tensors.values():
                tensor.seal(self._read)
                self._spill(tensor)
        self.torn = False

    def _extend_tensor(self, tensor: TensorDraft, column: Encoded) -> None:
        before = tensor.meta.length
        tensor.append(column.block, column.meta, column.info)
        self._extend_links(tensor, column)
        self._extend_nulls(tensor, column.nulls, before)
        if tensor.pending_bytes >= tensor.chunk_limit:
            tensor.seal(self._read, full_only=True)
            self._spill(tensor)
        if not column.owned:
            tensor.own_last()

    def _extend_links(self, tensor: TensorDraft, column: Encoded) -> None:
        for key, link in tensor.meta.links.items():
            hidden = self.tensors.get(key)
            if hidden is None:
                continue
            if link.get("extend") == "extend_id":
                block = id_block(column.block.count)
                meta = hidden.meta.with_(htype="generic", dtype="uint64", typestr="<u8")
            else:
                block, meta = shape_block(column.block), hidden.meta
                if meta.max_shape and block.ndim != len(meta.max_shape):
                    block = _zero_shapes(block.count, len(meta.max_shape))
            hidden.append(block, meta, {})

    def _extend_nulls(self, tensor: TensorDraft, nulls: NDArray[np.bool_] | None, before: int) -> None:
        """Record nulls in the hidden companion, made when the first null arrives; its end may lag behind."""
        if nulls is None:
            return
        owner = tensor.meta.name or tensor.state.key
        name = companion(owner, "null")
        key = companion_key(self.meta, owner, "null")
        if key is None and name in self.meta.tensor_names:
            raise InvalidOperationError(
                f"nulls of tensor {owner!r} need the name {name!r}: rename that tensor first"
            )
        if key is None:
            meta = TensorMeta(htype="generic", dtype="bool", hidden=True)
            self.add_tensor(name, meta, htype_named("generic").info, ())
            key = self.meta.tensor_names[name]
        hidden = self.tensors[key]
        missing = before - hidden.meta.length
        mask = np.concatenate([np.zeros(missing, dtype=np.bool_), nulls]) if missing else nulls
        hidden.append(null_block(mask), hidden.meta, {})

    # -- chunks ------------------------------------------------------------------------------------------------

    def _spill(self, tensor: TensorDraft) -> None:
        self._storage.put_many(tensor.new_chunks.items(), durable=False)
        self.spilled.extend(tensor.new_chunks)
        tensor.new_chunks = {}
        tensor.sealed_bytes = 0

    def seal(self) -> None:
        """Turn all pending samples into chunks, so that a snapshot shows them."""
        for tensor in self.tensors.values():
            tensor.seal(self._read)

    def snapshot(self) -> Snapshot:
        """Return the state so far; pending samples are sealed first."""
        self.seal()
        tensors = {key: tensor.state for key, tensor in self.tensors.items()}
        return Snapshot(self.version_id, self.meta, self.info, tensors, self.diff)

    def new_chunks(self) -> dict[str, tuple[bytes | memoryview, ...]]:
        """Chunk files that are not in storage yet, by key."""
        return {key: pieces for tensor in self.tensors.values() for key, pieces in tensor.new_chunks.items()}


def _free_key(name: str, taken: Mapping[str, Any]) -> str:
    """Return another key for a name whose key an earlier rename left in use (FORMAT.md 1.4)."""
    number = 0
    while f"{name}_{number:04x}" in taken:
        number += 1
    return f"{name}_{number:04x}"


def _zero_shapes(count: int, ndim: int) -> Block:
    return block_of_array(np.zeros((count, ndim), dtype=np.int64))
