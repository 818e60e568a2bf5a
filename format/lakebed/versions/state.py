"""What one version holds: tensors with their metadata, chunk index and chunk places. Plain frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.documents.chunk_ids import ChunkIds, chunk_name
from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.dataset_diff import DatasetDiff
from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.documents.manifest import ChunkPlaces
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.documents.version_tree import FIRST
from lakebed.errors import TensorDoesNotExistError

# Per-tensor encoders that are carried from version to version as they are.
CARRIED = (
    "tiles_index/unsharded",
    "sequence_index/unsharded",
    "creds_index/unsharded",
    "pad_index/unsharded",
)


def folder_of(version_id: str) -> str:
    """Return the key prefix of a version's files: "" for the root version (FORMAT.md 1.1)."""
    return "" if version_id == FIRST else f"versions/{version_id}/"


@dataclass(frozen=True, slots=True)
class ChunkTable:
    """Chunk index of one tensor joined with the places of its chunks; row r covers samples up to ``ids.last[r]``."""

    ids: ChunkIds
    places: ChunkPlaces

    def __len__(self) -> int:
        return len(self.ids.ids)

    @property
    def count(self) -> int:
        """Samples covered."""
        return self.ids.count

    def folder(self, row: int) -> tuple[str, str]:
        """Version id and tensor key of the folder that holds the chunk of a row."""
        return self.places.folders[int(self.places.folder_of[row])]

    def key(self, row: int) -> str:
        """Storage key of the chunk file of a row."""
        commit, tensor = self.folder(row)
        return f"{folder_of(commit)}{tensor}/chunks/{chunk_name(int(self.ids.ids[row]))}"

    def first(self, row: int) -> int:
        """Index of the first sample of a row."""
        return int(self.ids.last[row - 1]) + 1 if row else 0

    def samples(self, row: int) -> int:
        """Count the samples in the chunk of a row (0 for a further tile of the same sample)."""
        return int(self.ids.last[row]) - self.first(row) + 1

    def sums(self, row: int) -> NDArray[np.uint64]:
        """Block checksums of the chunk of a row; empty when they are not known."""
        ends = np.cumsum(self.places.sum_counts()[: row + 1])
        stop = int(ends[row])
        start = int(ends[row - 1]) if row else 0
        return self.places.sums[start:stop]

    def keep(self, rows: int) -> ChunkTable:
        """Return the first ``rows`` rows."""
        if rows == len(self):
            return self
        p = self.places
        sums = int(p.sum_counts()[:rows].sum())
        places = ChunkPlaces(p.folders, p.folder_of[:rows], p.sizes[:rows], p.sums[:sums], p.own[:rows])
        return ChunkTable(ChunkIds(self.ids.ids[:rows], self.ids.last[:rows]), places)

    def extended(self, added: list[NewChunk], folder: tuple[str, str]) -> ChunkTable:
        """Return the table with new chunks of one folder at its end."""
        if not added:
            return self
        p = self.places
        folders = p.folders if folder in p.folders else (*p.folders, folder)
        at = folders.index(folder)
        counts = np.array([c.count for c in added], dtype=np.uint64)
        last = np.cumsum(counts) + np.uint64(self.count) - np.uint64(1)
        n = len(added)
        places = ChunkPlaces(
            folders,
            np.concatenate([p.folder_of, np.full(n, at, dtype=np.uint32)]),
            np.concatenate([p.sizes, np.array([c.size for c in added], dtype=np.uint64)]),
            np.concatenate([p.sums, *[np.array(c.sums, dtype=np.uint64) for c in added]]),
            np.concatenate([p.own, np.ones(n, dtype=np.bool_)]),
        )
        ids = np.concatenate([self.ids.ids, np.array([c.id for c in added], dtype=np.uint64)])
        return ChunkTable(ChunkIds(ids, np.concatenate([self.ids.last, last])), places)

    def inherited(self) -> ChunkTable:
        """Return the table as the next version sees it: no chunk is its own."""
        return replace(self, places=replace(self.places, own=np.zeros(len(self), dtype=np.bool_)))


@dataclass(frozen=True, slots=True)
class NewChunk:
    """A chunk about to enter a table."""

    id: int
    count: int
    size: int
    sums: list[int]


def empty_table() -> ChunkTable:
    """Return a table without chunks."""
    u64 = np.empty(0, dtype=np.uint64)
    places = ChunkPlaces((), np.empty(0, dtype=np.uint32), u64, u64, np.empty(0, dtype=np.bool_))
    return ChunkTable(ChunkIds.empty(), places)


@dataclass(frozen=True, slots=True)
class TensorState:
    """One tensor in one version."""

    key: str
    meta: TensorMeta
    info: Mapping[str, Any]
    table: ChunkTable
    diff: CommitDiff | None = None
    carried: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def length(self) -> int:
        """Samples as the user counts them; sequences count as one each."""
        return self.meta.length


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version: schema, infos, tensors. ``name_of`` and ``tensors`` are keyed by tensor key."""

    version_id: str
    meta: DatasetMeta
    info: Mapping[str, Any]
    tensors: Mapping[str, TensorState]
    diff: DatasetDiff | None = None

    def key_of(self, name: str) -> str | None:
        """Key of the tensor with that name, or None."""
        key = self.meta.tensor_names.get(name) if self.meta.tensor_names else name
        return key if key in self.tensors else None

    def tensor(self, name: str) -> TensorState:
        """Return the tensor of that name.

        Raises
        ------
        TensorDoesNotExistError
            If there is none.
        """
        key = self.key_of(name)
        if key is None:
            raise TensorDoesNotExistError(f"Tensor {name!r} does not exist.")
        return self.tensors[key]

    def names(self, *, hidden: bool = False) -> list[str]:
        """Names of the visible tensors (or of all), in creation order."""
        name_of = {key: name for name, key in self.meta.tensor_names.items()}
        skip = () if hidden else set(self.meta.hidden_tensors)
        return [name_of.get(key, key) for key in self.meta.tensors if key not in skip]

    @property
    def has_changes(self) -> bool:
        """Whether this uncommitted version differs from its parent (FORMAT.md 10.1)."""
        return self.diff is not None or any(t.diff is not None for t in self.tensors.values())
