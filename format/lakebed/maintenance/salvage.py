"""Reading of a damaged version: undamaged samples and documents; damaged documents come from the parent version.

Nothing is decoded here; chunk files that lost samples are packed again into the folder of the new version.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from lakebed.documents import info as info_document
from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.dataset_diff import DatasetDiff
from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.documents.indexes.chunk_ids import ChunkIds, chunk_name
from lakebed.documents.indexes.creds_index import CredsIndex
from lakebed.documents.indexes.pad_index import PadIndex
from lakebed.documents.indexes.sequence_index import SequenceIndex
from lakebed.documents.indexes.tile_index import TileIndex
from lakebed.documents.manifest import ChunkPlaces, Manifest
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.documents.version_tree import FIRST, CommitNode, VersionTree
from lakebed.errors import FormatError, KeyNotFound, LakebedError
from lakebed.maintenance.plan import (
    COMPANIONS,
    VersionSteps,
    fitted_tiles,
    guessed_dataset_meta,
    guessed_index,
)
from lakebed.maintenance.salvage_chunks import ChunkSalvage, SalvagedTensor
from lakebed.storage.base import Storage
from lakebed.versions.chunk_table import ArrayTable, folder_of
from lakebed.versions.opening import resolve_chunks
from lakebed.versions.state import CREDS, PAD, SEQUENCE, TILES, Snapshot, TensorState

_IDS = "chunks_index/unsharded"
_META = "/tensor_meta.json"
_NAME = re.compile("[0-9a-f]{1,16}")
_SMALLEST_INDEX = len(b"\x063.9.52\x08")

T = TypeVar("T")


@dataclass(slots=True)
class SalvagedVersion:
    """The readable part of one version; ``tensors`` by key, in the order of ``meta``."""

    meta: DatasetMeta
    info: Mapping[str, Any]
    diff: DatasetDiff | None
    tensors: dict[str, SalvagedTensor]


@dataclass(eq=False)
class Salvage:
    """A reader of one damaged version.

    Parameters
    ----------
    node
        The version.
    parent
        Parent of the version; None if it has none, or its parent cannot be opened either.
    manifest
        The version's manifest, if it is still valid.
    new_id
        Id of the new version, whose folder receives new chunks.
    steps
        Receives steps about damaged documents.
    """

    storage: Storage
    tree: VersionTree
    node: CommitNode
    parent: Snapshot | None
    manifest: Manifest | None
    new_id: str
    steps: VersionSteps

    def __post_init__(self) -> None:
        self._folder = folder_of(self.node.id)
        self._chunks = ChunkSalvage(self.storage, self.tree, self.node, self.new_id)

    def read(self) -> SalvagedVersion:
        """Read everything."""
        meta = self._dataset_meta()
        info = self._info("dataset_info.json", None if self.parent is None else self.parent.info)
        diff = self._document("dataset_diff", DatasetDiff.from_bytes)
        names = {key: name for name, key in meta.tensor_names.items()}
        absent = [key for key in meta.tensors if self._get(key + _META) is None]
        tensors = {}
        for key in meta.tensors:
            name = names.get(key, key)
            settings = self._tensor_meta(key, name, is_folder_going=len(absent) > 1)
            if settings is not None:
                tensors[key] = self._tensor(key, name, settings)
        return SalvagedVersion(meta, info, diff, tensors)

    # -- documents -------------------------------------------------------------------------------------------

    def _get(self, name: str) -> bytes | None:
        if self.manifest is not None:
            return self.manifest.files.get(name)
        try:
            return self.storage.get(self._folder + name)
        except KeyNotFound:
            return None

    def _document(self, name: str, parse: Callable[[bytes], T], tensor: str | None = None) -> T | None:
        """Read a document; None if it is missing or damaged. Damage adds a step."""
        data = self._get(name)
        if data is None:
            return None
        try:
            return parse(data)
        except LakebedError as error:
            self.steps.add(
                "document", f"{self._folder}{name} is left out: {error}", tensor, lost_bytes=len(data)
            )
            return None

    def _info(
        self, name: str, known: Mapping[str, Any] | None, tensor: str | None = None
    ) -> Mapping[str, Any]:
        """Read an info; if it is damaged, return ``known``, the info in the parent version."""
        if self._get(name) is None:
            return {}
        found = self._document(name, info_document.from_bytes, tensor)
        return (known or {}) if found is None else found

    def _dataset_meta(self) -> DatasetMeta:
        meta = self._document("dataset_meta.json", DatasetMeta.from_bytes)
        if meta is not None:
            return meta
        metas = {}
        for key, _ in self.storage.list(self._folder):
            name = key.removeprefix(self._folder)
            if name.endswith(_META) and not name.startswith(("versions/", ".")):
                try:
                    metas[name.removesuffix(_META)] = TensorMeta.from_bytes(self.storage.get(key))
                except LakebedError:
                    continue
        if not metas and self.parent is not None:
            metas = {key: state.meta for key, state in self.parent.tensors.items()}
        self.steps.add("document", f"{self._folder}dataset_meta.json is rebuilt from {len(metas)} tensors")
        return guessed_dataset_meta(metas, None if self.parent is None else self.parent.meta)

    def _tensor_meta(self, key: str, name: str, *, is_folder_going: bool) -> TensorMeta | None:
        """Read a tensor's settings; return None if the tensor must be dropped."""
        known = None if self.parent is None else self.parent.tensors.get(key)
        if self._get(key + _META) is None and not (is_folder_going and known is not None):
            self._drop(key, name, "its files are missing: its creation or deletion was interrupted")
            return None
        meta = self._document(key + _META, TensorMeta.from_bytes, name)
        if meta is None and known is not None:
            self.steps.add("document", f"{self._folder}{key}{_META} is taken from the parent version", name)
            return known.meta
        kind = key.rpartition("_")[2]
        if meta is None and key.rpartition("/")[2].startswith("_") and kind in COMPANIONS:
            self.steps.add(
                "document", f"{self._folder}{key}{_META} is rewritten with its only possible content", name
            )
            return COMPANIONS[kind].with_(name=name)
        if meta is None:
            self._drop(key, name, f"{self._folder}{key}{_META} is damaged, so that its dtype is unknown")
        return meta

    def _drop(self, key: str, name: str, reason: str) -> None:
        files = list(self.storage.list(f"{self._folder}{key}/chunks/"))
        ids = self._index(key, None)
        rows = 0 if ids is None else ids.count
        self.steps.add(
            "tensor",
            f"dropped: {reason}",
            name,
            lost_rows=rows,
            lost_bytes=sum(stat.size for _, stat in files),
        )

    # -- one tensor ------------------------------------------------------------------------------------------

    def _tensor(self, key: str, name: str, meta: TensorMeta) -> SalvagedTensor:
        known = None if self.parent is None else self.parent.tensors.get(key)
        info = self._info(f"{key}/tensor_info.json", None if known is None else known.info, name)
        ids = self._rows(key, name, meta, known)
        table, found = self._chunks.table(ArrayTable(ids, self._places(key, ids)), key, meta)
        diff = self._document(f"{key}/commit_diff", CommitDiff.from_bytes, name)
        tiles = self._document(f"{key}/{TILES}", TileIndex.from_bytes, name) or TileIndex.empty()
        creds = self._document(f"{key}/{CREDS}", CredsIndex.from_bytes, name) if meta.is_link else None
        pad = self._document(f"{key}/{PAD}", PadIndex.from_bytes, name)
        sequence = None
        if meta.is_sequence:
            sequence = self._document(f"{key}/{SEQUENCE}", SequenceIndex.from_bytes, name)
            if sequence is None:
                sequence = None if known is None else known.sequence
            sequence = sequence or SequenceIndex.from_lengths([])
        last = table.ids.last
        ends, sizes = np.unique(last, return_counts=True)
        tiled = {int(i): int(n) for i, n in zip(ends, sizes, strict=True) if n > 1}
        fitted = fitted_tiles(tiles, tiled, table.count, links=meta.is_link)
        found.is_changed |= len(fitted) != len(tiles) or meta.length != table.count
        found.has_diff = diff is not None or self._get(f"{key}/commit_diff") is None
        found.promised = max(meta.length, found.promised)
        index = self._get(f"{key}/{_IDS}")
        found.has_index = _is_whole(index) if index is not None else self.node.id != FIRST and not len(table)
        found.is_shrinking = (
            meta.length < table.count and meta.length > 0 and (known is None or meta is not known.meta)
        )
        found.state = TensorState(
            key, meta.with_(length=table.count), info, table, diff, fitted, sequence, creds, pad
        )
        return found

    def _index(self, key: str, known: TensorState | None) -> ChunkIds | None:
        """Read the chunk index; if it is damaged, return its complete rows, and None if it has none.

        A missing index is that of ``known``, the tensor in the parent version.
        """
        data = self._get(f"{key}/{_IDS}")
        if data is None:
            return None if known is None else known.table.ids
        try:
            return ChunkIds.from_bytes(data)
        except LakebedError:
            whole = (len(data) - _SMALLEST_INDEX) // 16 * 16 + _SMALLEST_INDEX
        try:
            return ChunkIds.from_bytes(data[:whole])
        except LakebedError:
            return None

    def _rows(self, key: str, name: str, meta: TensorMeta, known: TensorState | None) -> ChunkIds:
        """Return the chunk index, or a guess if it is damaged."""
        data, ids = self._get(f"{key}/{_IDS}"), self._index(key, known)
        if data is None and not meta.length:
            return ChunkIds.empty()
        if data is not None and ids is not None and _is_whole(data):
            return ids
        if data is None and ids is not None:
            self.steps.add("document", f"{self._folder}{key}/{_IDS} is taken from the parent version", name)
        files = [int(file, 16) for file in self._chunks.own_files(key) if _NAME.fullmatch(file)]
        inherited = None if known is None else known.table.ids
        order, rest = guessed_index(ids, inherited, files)
        if rest:
            self.steps.add(
                "rows",
                f"{len(rest)} chunks are omitted: {self._folder}{key}/{_IDS} is damaged, and does not tell their "
                "order",
                name,
                lost_bytes=sum(
                    self._size(f"{self._folder}{key}/chunks/{chunk_name(number)}") for number in rest
                ),
            )
        counts = {} if ids is None else dict(zip(ids.ids.tolist(), ids.counts.tolist(), strict=True))
        if inherited is not None:
            counts = dict(zip(inherited.ids.tolist(), inherited.counts.tolist(), strict=True)) | counts
        return ChunkIds.from_counts(order, [counts.get(number, 1) for number in order])

    def _size(self, key: str) -> int:
        stat = self.storage.stat(key)
        return 0 if stat is None else stat.size

    def _places(self, key: str, ids: ChunkIds) -> ChunkPlaces:
        if self.manifest is not None:
            places = self.manifest.chunks.get(key)
            if places is not None and len(places.sizes) == len(ids):
                return places
        try:
            return resolve_chunks(self.storage, self.tree, self.node.id, key, ids)
        except FormatError as error:
            self.steps.add("document", f"{self._folder}{key}/chunk_set is left out: {error}", key)
            parent = self.node.parent
            if parent is None:
                raise
            return resolve_chunks(self.storage, self.tree, parent, key, ids)


def _is_whole(data: bytes) -> bool:
    try:
        ChunkIds.from_bytes(data)
    except LakebedError:
        return False
    return True
