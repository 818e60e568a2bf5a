"""Read what is left of a damaged version: documents, with those of its parent where they fail, and whole samples.

Nothing is decoded here; chunk files that lost samples are packed anew, under the id of the version to come.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import xxhash
from numpy.typing import NDArray

from lakebed.chunks.canvas import ChunkCodec, chunk_codec
from lakebed.chunks.pack import pack
from lakebed.chunks.survivors import Survivors, nothing, survivors
from lakebed.codecs.registry import normalize
from lakebed.documents import info as info_document
from lakebed.documents.chunk_ids import ChunkIds, chunk_name
from lakebed.documents.chunk_set import ChunkSet
from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.creds_index import CredsIndex
from lakebed.documents.dataset_diff import DatasetDiff
from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.documents.manifest import BLOCK, ChunkPlaces, Manifest, block_sums
from lakebed.documents.pad_index import PadIndex
from lakebed.documents.sequence_index import SequenceIndex
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.documents.tile_index import TileIndex
from lakebed.documents.version_tree import FIRST, CommitNode, VersionTree
from lakebed.errors import FormatError, KeyNotFound, LakebedError, UnsupportedCompressionError
from lakebed.storage.base import Storage
from lakebed.versions.opening import resolve_chunks
from lakebed.versions.repair_plan import Kind, Step, fitted_tiles, guessed_dataset_meta, guessed_index
from lakebed.versions.state import (
    CREDS,
    PAD,
    SEQUENCE,
    TILES,
    ChunkTable,
    NewChunk,
    Snapshot,
    TensorState,
    empty_table,
    folder_of,
)

_IDS = "chunks_index/unsharded"
_META = "/tensor_meta.json"
_SMALLEST_INDEX = len(b"\x063.9.52\x08")

Place = tuple[str, str]
T = TypeVar("T")


@dataclass(slots=True)
class SalvagedTensor:
    """One tensor as far as it is left.

    Parameters
    ----------
    state
        With as many samples as its chunks hold; the lost ones among them are empty.
    lost
        Flat samples that are lost: bool, shape (samples,).
    reason
        Why, of the first of them.
    lost_bytes
        Bytes of the lost samples, as far as they are known.
    promised
        Samples that there should be, by metadata or index.
    files
        Chunk files that were packed anew, by storage key.
    is_changed
        Whether anything differs from what was stored.
    has_diff
        Whether the record of what changed since the parent version is sound.
    """

    state: TensorState
    lost: NDArray[np.bool_]
    reason: str = ""
    lost_bytes: int = 0
    promised: int = 0
    files: dict[str, tuple[bytes | memoryview, ...]] = field(default_factory=dict)
    is_changed: bool = False
    has_diff: bool = True


@dataclass(slots=True)
class SalvagedVersion:
    """One version as far as it is left; ``tensors`` by key, in the order of ``meta``."""

    meta: DatasetMeta
    info: Mapping[str, Any]
    diff: DatasetDiff | None
    tensors: dict[str, SalvagedTensor]
    steps: list[Step]


class Salvage:
    """Reads one uncommitted version.

    Parameters
    ----------
    node
        The version.
    parent
        What its parent holds; None if that can not be opened either, or there is none.
    manifest
        The version's manifest, if it still counts.
    new_id
        Id of the version to come, in whose folder new chunks lie.
    """

    def __init__(
        self,
        storage: Storage,
        tree: VersionTree,
        node: CommitNode,
        parent: Snapshot | None,
        manifest: Manifest | None,
        new_id: str,
    ) -> None:
        self._storage = storage
        self._tree = tree
        self._node = node
        self._parent = parent
        self._manifest = manifest
        self._new_id = new_id
        self._folder = folder_of(node.id)
        self._steps: list[Step] = []

    def read(self) -> SalvagedVersion:
        """Read everything."""
        meta = self._dataset_meta()
        info = self._info("dataset_info.json", None if self._parent is None else self._parent.info)
        diff = self._document("dataset_diff", DatasetDiff.from_bytes)
        names = {key: name for name, key in meta.tensor_names.items()}
        absent = [key for key in meta.tensors if self._get(key + _META) is None]
        tensors = {}
        for key in meta.tensors:
            name = names.get(key, key)
            settings = self._tensor_meta(key, name, is_folder_going=len(absent) > 1)
            if settings is not None:
                tensors[key] = self._tensor(key, name, settings)
        return SalvagedVersion(meta, info, diff, tensors, self._steps)

    # -- documents -------------------------------------------------------------------------------------------

    def _get(self, name: str) -> bytes | None:
        if self._manifest is not None:
            return self._manifest.files.get(name)
        try:
            return self._storage.get(self._folder + name)
        except KeyNotFound:
            return None

    def _document(self, name: str, parse: Callable[[bytes], T], tensor: str | None = None) -> T | None:
        """Read a document; None if it is absent, or damaged, which is a step then."""
        data = self._get(name)
        if data is None:
            return None
        try:
            return parse(data)
        except LakebedError as error:
            self._step("document", f"{self._folder}{name} is left out: {error}", tensor, lost_bytes=len(data))
            return None

    def _info(
        self, name: str, known: Mapping[str, Any] | None, tensor: str | None = None
    ) -> Mapping[str, Any]:
        """Read an info; a damaged one is the parent version's again."""
        if self._get(name) is None:
            return {}
        found = self._document(name, info_document.from_bytes, tensor)
        return (known or {}) if found is None else found

    def _step(
        self,
        kind: Kind,
        message: str,
        tensor: str | None = None,
        rows: tuple[int, int] | None = None,
        *,
        lost_rows: int = 0,
        lost_bytes: int = 0,
    ) -> None:
        node = self._node
        self._steps.append(Step(kind, message, node.branch, node.id, tensor, rows, lost_rows, lost_bytes))

    def _dataset_meta(self) -> DatasetMeta:
        meta = self._document("dataset_meta.json", DatasetMeta.from_bytes)
        if meta is not None:
            return meta
        metas = {}
        for key, _ in self._storage.list(self._folder):
            name = key.removeprefix(self._folder)
            if name.endswith(_META) and not name.startswith(("versions/", ".")):
                try:
                    metas[name.removesuffix(_META)] = TensorMeta.from_bytes(self._storage.get(key))
                except LakebedError:
                    continue
        if not metas and self._parent is not None:
            metas = {key: state.meta for key, state in self._parent.tensors.items()}
        self._step("document", f"{self._folder}dataset_meta.json is made anew from {len(metas)} tensors")
        return guessed_dataset_meta(metas, None if self._parent is None else self._parent.meta)

    def _tensor_meta(self, key: str, name: str, *, is_folder_going: bool) -> TensorMeta | None:
        """Read a tensor's settings; None if the tensor is to be dropped."""
        known = None if self._parent is None else self._parent.tensors.get(key)
        if self._get(key + _META) is None and not (is_folder_going and known is not None):
            self._drop(key, name, "its files are gone: a deletion, or its creation, was cut off")
            return None
        meta = self._document(key + _META, TensorMeta.from_bytes, name)
        if meta is None and known is not None:
            self._step("document", f"{self._folder}{key}{_META} is taken from the parent version", name)
            return known.meta
        if meta is None:
            self._drop(key, name, f"{self._folder}{key}{_META} is damaged, so that nobody knows its dtype")
        return meta

    def _drop(self, key: str, name: str, reason: str) -> None:
        files = list(self._storage.list(f"{self._folder}{key}/chunks/"))
        ids = self._index(key, None)
        rows = 0 if ids is None else ids.count
        self._step(
            "tensor",
            f"dropped: {reason}",
            name,
            lost_rows=rows,
            lost_bytes=sum(stat.size for _, stat in files),
        )

    # -- one tensor ------------------------------------------------------------------------------------------

    def _tensor(self, key: str, name: str, meta: TensorMeta) -> SalvagedTensor:
        known = None if self._parent is None else self._parent.tensors.get(key)
        info = self._info(f"{key}/tensor_info.json", None if known is None else known.info, name)
        table, found = self._table(key, name, meta, known)
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
        found.state = TensorState(
            key, meta.with_(length=table.count), info, table, diff, fitted, sequence, creds, pad
        )
        return found

    def _index(self, key: str, known: TensorState | None) -> ChunkIds | None:
        """Read the chunk index; of a damaged one the rows that are whole."""
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
        """Return the chunk index, or the best guess at a damaged one."""
        data, ids = self._get(f"{key}/{_IDS}"), self._index(key, known)
        if data is None and ids is None and not meta.length:
            return ChunkIds.empty()
        if data is not None and ids is not None and _is_whole(data):
            return ids
        if data is None and ids is not None:
            self._step("document", f"{self._folder}{key}/{_IDS} is taken from the parent version", name)
        files = [int(file, 16) for file in self._own_files(key) if _is_name(file)]
        inherited = None if known is None else known.table.ids
        order, rest = guessed_index(ids, inherited, files)
        if rest:
            self._step(
                "rows",
                f"{len(rest)} chunks are left out: {self._folder}{key}/{_IDS} is damaged, so that nobody knows their "
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

    def _own_files(self, key: str) -> list[str]:
        return [name.rpartition("/")[2] for name, _ in self._storage.list(f"{self._folder}{key}/chunks/")]

    def _size(self, key: str) -> int:
        stat = self._storage.stat(key)
        return 0 if stat is None else stat.size

    # -- chunks ----------------------------------------------------------------------------------------------

    def _table(
        self, key: str, name: str, meta: TensorMeta, known: TensorState | None
    ) -> tuple[ChunkTable, SalvagedTensor]:
        """Return the chunks that are there, with as many samples as they hold, and what is lost."""
        ids = self._rows(key, name, meta, known)
        old = ChunkTable(ids, self._places(key, ids))
        found = SalvagedTensor(TensorState(key, meta, {}, old), np.zeros(0, np.bool_), promised=ids.count)
        own = set(self._own_files(key))
        steps: list[_Row | NewChunk] = []
        lost = [np.zeros(0, np.bool_)]
        start = 0
        while start < len(ids):
            stop = start + old.tiles_of(start)
            group = [self._chunk(old, row, key, meta, own) for row in range(start, stop)]
            if len(group) > 1 and any(left.kept != 1 for left, _ in group):
                left = next(left for left, _ in group if left.kept != 1)
                group = [(nothing(1, len(meta.max_shape) or None, left.reason, left.lost_bytes), None)]
            for number, (left, place) in enumerate(group):
                if place is not None:
                    count = 0 if number else left.count
                    steps.append(_Row(int(ids.ids[start + number]), count, place, old, start + number))
                elif left.count:
                    steps.append(self._packed(key, left, meta, found))
                if not number:
                    lost.append(left.lost)
                found.reason = found.reason or left.reason
                found.lost_bytes += left.lost_bytes
            start = stop
        found.lost = np.concatenate(lost)
        found.is_changed |= any(isinstance(step, _Row) and step.is_changed for step in steps)
        return self._joined(steps, key), found

    def _places(self, key: str, ids: ChunkIds) -> ChunkPlaces:
        if self._manifest is not None:
            places = self._manifest.chunks.get(key)
            if places is not None and len(places.sizes) == len(ids):
                return places
        try:
            return resolve_chunks(self._storage, self._tree, self._node.id, key, ids)
        except FormatError as error:
            self._step("document", f"{self._folder}{key}/chunk_set is left out: {error}", key)
            parent = self._node.parent
            if parent is None:
                raise
            return resolve_chunks(self._storage, self._tree, parent, key, ids)

    def _chunk(
        self, table: ChunkTable, row: int, key: str, meta: TensorMeta, own: set[str]
    ) -> tuple[Survivors, Place | None]:
        """Examine the file of a row of the index; of several under its name the one with most whole samples counts.

        Returns
        -------
        What is left, and the folder of the file if that is whole.
        """
        ndim = len(meta.max_shape) or None
        expected = table.samples(row) or 1
        codec, problem = _codec(meta)
        if problem:
            return nothing(expected, ndim, problem), None
        best: tuple[Survivors, Place | None] | None = None
        for place in self._candidates(table, row, key, own):
            commit, folder = place
            name = f"{folder_of(commit)}{folder}/chunks/{chunk_name(int(table.ids.ids[row]))}"
            try:
                data = self._storage.get(name)
            except KeyNotFound:
                continue
            sums = table.sums(row) if place == table.folder(row) else np.empty(0, np.uint64)
            left = survivors(data, expected, ndim, codec, _bad_blocks(data, sums, table, row))
            if left.blocks is None and best is None:
                return left, place
            left = replace(left, reason=f"{name}: {left.reason}") if left.reason else left
            if best is None or (left.kept, left.blocks is None) > (best[0].kept, best[1] is not None):
                best = left, place if left.blocks is None else None
        return best or (nothing(expected, ndim, f"{table.key(row)} is missing"), None)

    def _candidates(self, table: ChunkTable, row: int, key: str, own: set[str]) -> list[Place]:
        """Return the folders in which the chunk of a row may lie, the nearest version first."""
        name = chunk_name(int(table.ids.ids[row]))
        places = [(self._node.id, key)] if name in own else []
        places.append(table.folder(row))
        for node in self._tree.ancestors(self._node.id):
            entry = self._chunk_set(node, key).get(name) if node != FIRST else None
            places.append((node, key) if entry is None else (entry[0] or node, entry[1] or key))
        return list(dict.fromkeys(places))

    def _chunk_set(self, version_id: str, key: str) -> ChunkSet:
        try:
            return ChunkSet.from_bytes(self._storage.get(f"{folder_of(version_id)}{key}/chunk_set"))
        except (KeyNotFound, FormatError):
            return ChunkSet()

    def _packed(self, key: str, left: Survivors, meta: TensorMeta, found: SalvagedTensor) -> NewChunk:
        packed = pack(left.blocks or (), _codec(meta)[0])
        number = secrets.randbits(64) or 1
        found.files[f"{folder_of(self._new_id)}{key}/chunks/{chunk_name(number)}"] = packed.pieces
        found.is_changed = True
        return NewChunk(number, packed.count, packed.nbytes, block_sums(packed.pieces))

    def _joined(self, steps: list[_Row | NewChunk], key: str) -> ChunkTable:
        """Put rows and new chunks together; every row that the parent would not resolve alike is the version's own."""
        if not steps:
            return empty_table()
        ids = ChunkIds.from_counts([step.id for step in steps], [step.count for step in steps])
        above = self._node.id if self._node.id == FIRST else str(self._node.parent)
        inherited: ChunkTable | None
        try:
            inherited = ChunkTable(ids, resolve_chunks(self._storage, self._tree, above, key, ids))
        except FormatError:
            inherited = None  # then this version names all its chunks itself
        folders: dict[Place, int] = {}
        at, sizes, sums, own = [], [], [], []
        for row, step in enumerate(steps):
            place = (self._new_id, key) if isinstance(step, NewChunk) else step.place
            at.append(folders.setdefault(place, len(folders)))
            sizes.append(step.size)
            sums += list(step.sums)
            is_inherited = inherited is not None and place == inherited.folder(row)
            own.append(isinstance(step, NewChunk) or not is_inherited)
        places = ChunkPlaces(
            tuple(folders),
            np.array(at, np.uint32),
            np.array(sizes, np.uint64),
            np.array(sums, np.uint64),
            np.array(own, np.bool_),
        )
        return ChunkTable(ids, places)


class _Row:
    """A row of the index whose file stays where it is."""

    def __init__(self, number: int, count: int, place: Place, old: ChunkTable, row: int) -> None:
        self.id = number
        self.count = count
        self.place = place
        is_known = place == old.folder(row)
        self.size = int(old.places.sizes[row]) if is_known else 0
        self.sums: list[int] = old.sums(row).tolist() if is_known else []
        self.is_changed = not is_known or count != old.samples(row)


def _codec(meta: TensorMeta) -> tuple[ChunkCodec | None, str]:
    """Return the codec of a tensor's chunks, or why there is none."""
    if meta.is_link or meta.sample_compression is not None:
        return None, ""
    try:
        return chunk_codec(normalize(meta.chunk_compression), meta.dtype), ""
    except UnsupportedCompressionError as error:
        return None, str(error)


def _bad_blocks(data: bytes, sums: NDArray[np.uint64], table: ChunkTable, row: int) -> list[tuple[int, int]]:
    """Return the ranges of a file whose checksum is wrong."""
    bad = []
    for number, expected in enumerate(sums.tolist()):
        block = data[number * BLOCK : (number + 1) * BLOCK]
        if xxhash.xxh3_64_intdigest(block) != expected and block:
            bad.append((number * BLOCK, number * BLOCK + len(block)))
    size = int(table.places.sizes[row]) if len(sums) else len(data)
    if size != len(data) and not bad:
        bad.append((min(size, len(data)), max(size, len(data))))
    return bad


def _is_whole(data: bytes) -> bool:
    try:
        ChunkIds.from_bytes(data)
    except LakebedError:
        return False
    return True


def _is_name(text: str) -> bool:
    return 0 < len(text) <= 16 and all(c in "0123456789abcdef" for c in text)
