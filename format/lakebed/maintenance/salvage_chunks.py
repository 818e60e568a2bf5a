"""Finding of a damaged tensor's remaining chunks: their folders, numbers of samples, and undamaged samples.

Files that lost samples are packed again into the folder of the new version.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import xxhash
from numpy.typing import NDArray

from lakebed.chunks.image_chunk import ChunkCodec, chunk_codec
from lakebed.chunks.pack import pack
from lakebed.codecs.registry import normalize
from lakebed.documents.indexes.chunk_ids import ChunkIds, chunk_name
from lakebed.documents.indexes.chunk_set import ChunkSet
from lakebed.documents.manifest import BLOCK, ChunkPlaces, block_sums
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.documents.version_tree import FIRST, CommitNode, VersionTree
from lakebed.errors import FormatError, KeyNotFound, UnsupportedCompressionError
from lakebed.maintenance.salvage_bytes import SalvagedSamples, nothing_left, salvage_samples
from lakebed.storage.base import Storage
from lakebed.versions.chunk_table import ArrayTable, ChunkTable, NewChunk, empty_table, folder_of
from lakebed.versions.opening import resolve_chunks
from lakebed.versions.state import TensorState

_MISSING = "is missing"

Place = tuple[str, str]
_Options = list[tuple[SalvagedSamples, Place | None]]


@dataclass(slots=True)
class SalvagedTensor:
    """The readable part of one tensor.

    Parameters
    ----------
    state
        The tensor with the samples of its chunks; lost samples are empty.
    lost
        Lost flat samples: bool, shape (samples,).
    reason
        Reason of the first loss.
    lost_bytes
        Bytes of the lost samples, as far as they are known.
    promised
        Number of samples according to metadata or index.
    files
        Chunk files that were packed again, by storage key.
    is_changed
        Whether anything differs from what was stored.
    has_diff
        Whether the diff to the parent version is sound.
    is_missing
        Whether chunk files are missing, not damaged.
    has_index
        Whether the chunk index is sound, or is absent because the tensor needs none.
    is_shrinking
        Whether a removal was interrupted: its settings, which 3.9.52 writes first, have fewer samples than its chunks.
    """

    state: TensorState
    lost: NDArray[np.bool_]
    reason: str = ""
    lost_bytes: int = 0
    promised: int = 0
    files: dict[str, tuple[bytes | memoryview, ...]] = field(default_factory=dict)
    is_changed: bool = False
    has_diff: bool = True
    is_missing: bool = False
    has_index: bool = True
    is_shrinking: bool = False


@dataclass(frozen=True, slots=True)
class ChunkSalvage:
    """A finder of the chunks of one damaged version.

    Parameters
    ----------
    node
        The version.
    new_id
        Id of the new version, whose folder receives new chunks.
    """

    storage: Storage
    tree: VersionTree
    node: CommitNode
    new_id: str

    def own_files(self, key: str) -> list[str]:
        """Return the names of the chunk files in the version's own folder."""
        return [
            name.rpartition("/")[2]
            for name, _ in self.storage.list(f"{folder_of(self.node.id)}{key}/chunks/")
        ]

    def table(self, old: ChunkTable, key: str, meta: TensorMeta) -> tuple[ChunkTable, SalvagedTensor]:
        """Return the tensor with its existing chunks, their numbers of samples, and the losses.

        Parameters
        ----------
        old
            The chunk index, and the expected folders of its chunks.
        """
        ids = old.ids
        found = SalvagedTensor(TensorState(key, meta, {}, old), np.zeros(0, np.bool_), promised=ids.count)
        own = set(self.own_files(key))
        steps: list[_Row | NewChunk] = []
        lost = [np.zeros(0, np.bool_)]
        options = [self._chunk(old, row, key, meta, own) for row in range(len(ids))]
        files, merged = _chosen(ids, options)
        start = 0
        while start < len(ids):
            stop = start + old.tiles_of(start)
            group = [] if start in merged else files[start:stop]
            if len(group) > 1 and any(left.kept != 1 for left, _ in group):
                left = next(left for left, _ in group if left.kept != 1)
                group = [(nothing_left(1, len(meta.max_shape) or None, left.reason, left.lost_bytes), None)]
            for number, (left, place) in enumerate(group):
                if place is not None:
                    count = 0 if number else left.count
                    steps.append(_Row(int(ids.ids[start + number]), count, place, old, start + number))
                elif left.count:
                    steps.append(self._packed(key, left, meta, found))
                if not number:
                    lost.append(left.lost)
                found.reason = found.reason or left.reason
                found.is_missing |= left.reason.endswith(_MISSING)
                found.lost_bytes += left.lost_bytes
            found.is_changed |= start in merged
            start = stop
        found.lost = np.concatenate(lost)
        found.is_changed |= any(isinstance(step, _Row) and step.is_changed for step in steps)
        return self._joined(steps, key), found

    def _chunk(self, table: ChunkTable, row: int, key: str, meta: TensorMeta, own: set[str]) -> _Options:
        """Examine all files that could be the chunk of a row of the index, in its possible folders.

        Returns
        -------
        The samples of the best file, and its folder if the file is undamaged. The best file is the nearest file that
        has the number of samples in the index, else the file with the largest number of undamaged samples.
        """
        ndim = len(meta.max_shape) or None
        expected = table.samples(row) or 1
        codec, problem = _codec(meta)
        if problem:
            return [(nothing_left(expected, ndim, problem), None)]
        found: _Options = []
        for place in self._candidates(table, row, key, own):
            commit, folder = place
            name = f"{folder_of(commit)}{folder}/chunks/{chunk_name(int(table.ids.ids[row]))}"
            try:
                data = self.storage.get(name)
            except KeyNotFound:
                continue
            sums = table.sums(row) if place == table.folder(row) else np.empty(0, np.uint64)
            left = salvage_samples(data, expected, ndim, codec, _bad_blocks(data, sums, table, row))
            is_whole = left.blocks is None
            left = replace(left, reason=f"{name}: {left.reason}") if left.reason else left
            found.append((left, place if is_whole else None))
            if is_whole and left.count == expected:
                break
        found.sort(key=lambda one: (one[1] is None or one[0].count != expected, -one[0].kept, one[1] is None))
        return found or [(nothing_left(expected, ndim, f"{table.key(row)} {_MISSING}"), None)]

    def _candidates(self, table: ChunkTable, row: int, key: str, own: set[str]) -> list[Place]:
        """Return the possible folders of the chunk of a row, the nearest version first."""
        name = chunk_name(int(table.ids.ids[row]))
        places = [(self.node.id, key)] if name in own else []
        places.append(table.folder(row))
        for node in self.tree.ancestors(self.node.id):
            entry = self._chunk_set(node, key).get(name) if node != FIRST else None
            places.append((node, key) if entry is None else (entry[0] or node, entry[1] or key))
        return list(dict.fromkeys(places))

    def _chunk_set(self, version_id: str, key: str) -> ChunkSet:
        try:
            return ChunkSet.from_bytes(self.storage.get(f"{folder_of(version_id)}{key}/chunk_set"))
        except (KeyNotFound, FormatError):
            return ChunkSet()

    def _packed(self, key: str, left: SalvagedSamples, meta: TensorMeta, found: SalvagedTensor) -> NewChunk:
        packed = pack(left.blocks or (), _codec(meta)[0])
        number = secrets.randbits(64) or 1
        found.files[f"{folder_of(self.new_id)}{key}/chunks/{chunk_name(number)}"] = packed.pieces
        found.is_changed = True
        return NewChunk(number, packed.count, packed.nbytes, block_sums(packed.pieces))

    def _joined(self, steps: list[_Row | NewChunk], key: str) -> ChunkTable:
        """Return a chunk table of rows of the index and new chunks, in order.

        The version's own chunk set names each chunk that the parent's chunk sets would locate in another folder.
        """
        if not steps:
            return empty_table()
        ids = ChunkIds.from_counts([step.id for step in steps], [step.count for step in steps])
        above = self.node.id if self.node.id == FIRST else str(self.node.parent)
        inherited: ChunkTable | None
        try:
            inherited = ArrayTable(ids, resolve_chunks(self.storage, self.tree, above, key, ids))
        except FormatError:
            inherited = None  # the chunk_set of this version then names all its chunks
        folders: dict[Place, int] = {}
        at, sizes, sums, own = [], [], [], []
        for row, step in enumerate(steps):
            place = (self.new_id, key) if isinstance(step, NewChunk) else step.place
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
        return ArrayTable(ids, places)


class _Row:
    """A row of the index whose chunk file stays in place."""

    def __init__(self, number: int, count: int, place: Place, old: ChunkTable, row: int) -> None:
        self.id = number
        self.count = count
        self.place = place
        is_known = place == old.folder(row)
        self.size = int(old.places.sizes[row]) if is_known else 0
        self.sums: list[int] = old.sums(row).tolist() if is_known else []
        self.is_changed = not is_known or count != old.samples(row)


def _chosen(ids: ChunkIds, options: Sequence[_Options]) -> tuple[_Options, set[int]]:
    """Choose a file for each row of the index.

    Returns
    -------
    The files, and the rows to drop because the chunk of a neighbouring row holds their samples, too: 3.9.52 had merged
    two chunks (format.md 6.4) and removed the smaller one, but had not updated the index yet.
    """
    counts = [int(count) for count in ids.counts]
    files = [found[0] for found in options]
    merged: set[int] = set()
    for row, (left, place) in enumerate(files):
        if place is not None or left.kept or not counts[row]:
            continue
        for other in (row - 1, row + 1):
            if not 0 <= other < len(files) or other in merged or not counts[other]:
                continue
            both = counts[row] + counts[other]
            whole = (one for one in options[other] if one[1] is not None)
            larger = next((one for one in whole if one[0].count == both), None)
            if larger is not None:
                files[other] = larger
                merged.add(row)
                break
    return files, merged


def _codec(meta: TensorMeta) -> tuple[ChunkCodec | None, str]:
    """Return the codec of a tensor's chunks, or the reason why it has none."""
    if meta.is_link or meta.sample_compression is not None:
        return None, ""
    try:
        return chunk_codec(normalize(meta.chunk_compression), meta.dtype), ""
    except UnsupportedCompressionError as error:
        return None, str(error)


def _bad_blocks(data: bytes, sums: NDArray[np.uint64], table: ChunkTable, row: int) -> list[tuple[int, int]]:
    """Return the ranges of a file with wrong checksums."""
    bad = []
    for number, expected in enumerate(sums.tolist()):
        block = data[number * BLOCK : (number + 1) * BLOCK]
        if xxhash.xxh3_64_intdigest(block) != expected and block:
            bad.append((number * BLOCK, number * BLOCK + len(block)))
    size = int(table.places.sizes[row]) if len(sums) else len(data)
    if size != len(data) and not bad:
        bad.append((min(size, len(data)), max(size, len(data))))
    return bad
