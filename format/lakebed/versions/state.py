"""The content of one version: tensors with their metadata, chunk index and chunk places. Plain frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.documents.frozen import changed
from lakebed.documents.indexes.tile_index import TileIndex
from lakebed.documents.manifest_delta import Whole
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import TensorDoesNotExistError

if TYPE_CHECKING:
    from lakebed.documents.commit_diff import CommitDiff
    from lakebed.documents.dataset_diff import DatasetDiff
    from lakebed.documents.indexes.creds_index import CredsIndex
    from lakebed.documents.indexes.pad_index import PadIndex
    from lakebed.documents.indexes.sequence_index import SequenceIndex
    from lakebed.versions.page_tree import PageTree

from lakebed.versions.chunk_table import ChunkTable

# Files with the other encoders of a tensor, beside its chunk index (format.md 4.3 to 4.6).
TILES, SEQUENCE, CREDS, PAD = (f"{name}_index/unsharded" for name in ("tiles", "sequence", "creds", "pad"))


@dataclass(frozen=True)
class TensorState:
    """One tensor in one version.

    Parameters
    ----------
    table
        Chunks of the flat samples.
    tiles
        Shapes of the samples that are cut into tiles, by flat index.
    sequence
        Flat samples of each row; None unless the tensor holds sequences.
    creds
        Codes of credentials by flat index; None unless the tensor holds links.
    pad
        Rows that sparse assignment filled in; None if no rows were filled in.
    """

    key: str
    meta: TensorMeta
    info: Mapping[str, Any]
    table: ChunkTable
    diff: CommitDiff | None = None
    tiles: TileIndex = field(default_factory=TileIndex.empty)
    sequence: SequenceIndex | None = None
    creds: CredsIndex | None = None
    pad: PadIndex | None = None

    @property
    def length(self) -> int:
        """Number of samples as users count them: each sequence counts as one."""
        return self.meta.length if self.sequence is None else self.sequence.count

    def with_(self, **changes: Any) -> TensorState:
        """Return a copy with some members changed."""
        return changed(self, **changes)

    def encoders(self) -> dict[str, bytes]:
        """Return the encoder files beside the chunk index, by key below the tensor's folder."""
        files = {}
        if len(self.tiles.indices):
            files[TILES] = self.tiles.to_bytes()
        if self.sequence is not None:
            files[SEQUENCE] = self.sequence.to_bytes()
        if self.creds is not None:
            files[CREDS] = self.creds.to_bytes()
        if self.pad is not None and len(self.pad.bounds):
            files[PAD] = self.pad.to_bytes()
        return files


@dataclass(frozen=True, slots=True)
class Origin:
    """The stored version from which others are made; files that are unchanged need not be written again.

    Parameters
    ----------
    files
        Metadata files in the version's folder, by relative key.
    wholes
        Whole manifests that may serve as a base once their versions are committed, the newest first.
    spent
        Bytes of the manifests written since the oldest whole one.
    trees
        Pages of large tensors by key; their chunk index is not among the files.
    written
        Keys of the pages and lists that were written with this version; empty if it was opened.
    """

    version_id: str
    files: Mapping[str, bytes]
    wholes: tuple[Whole, ...] = ()
    spent: int = 0
    trees: Mapping[str, PageTree] = field(default_factory=dict)
    written: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version: its schema, the info of the dataset, and its tensors by key."""

    version_id: str
    meta: DatasetMeta
    info: Mapping[str, Any]
    tensors: Mapping[str, TensorState]
    diff: DatasetDiff | None = None
    origin: Origin | None = field(default=None, compare=False, repr=False)
    """The stored version from which this version is made; this version itself if it is stored; None if unknown."""

    def key_of(self, name: str) -> str | None:
        """Return the key of the tensor with that name, or None."""
        key = self.meta.tensor_names.get(name) if self.meta.tensor_names else name
        return key if key in self.tensors else None

    def find(self, name: str) -> TensorState | None:
        """Return the tensor of that name, or None."""
        names = self.meta.tensor_names
        key = names.get(name) if names else name
        return None if key is None else self.tensors.get(key)

    def tensor(self, name: str) -> TensorState:
        """Return the tensor of that name.

        Raises
        ------
        TensorDoesNotExistError
            If no tensor has that name.
        """
        key = self.key_of(name)
        if key is None:
            raise TensorDoesNotExistError.among(name, self.names())
        return self.tensors[key]

    def id_key(self, key: str) -> str | None:
        """Return the key of the hidden tensor that holds the ids of a tensor's rows."""
        for hidden, link in self.tensors[key].meta.links.items():
            if link.get("extend") == "extend_id" and hidden in self.tensors:
                return hidden
        return None

    def stored_name(self, name: str) -> str:
        """Return the name of the tensor that an import made of a column of this name; the name itself if none was made.

        Some names of columns are not allowed for tensors (:mod:`lakebed.writing.names`).
        """
        if self.key_of(name) is not None or name in self.meta.groups:
            return name
        told = (other for other in self.names() if self.tensor(other).info.get("column") == name)
        return next(told, name)

    def names(self, *, hidden: bool = False) -> list[str]:
        """Return the names of the visible tensors (or of all), in creation order."""
        # When 3.9.52 merges a branch that has a renamed tensor under its old name, it lists the key of the tensor
        # under both names.
        names: dict[str, list[str]] = {}
        for name, key in self.meta.tensor_names.items():
            names.setdefault(key, []).append(name)
        skip = () if hidden else set(self.meta.hidden_tensors)
        keys = [key for key in dict.fromkeys(self.meta.tensors) if key not in skip]
        return [name for key in keys for name in names.get(key, (key,))]

    @property
    def has_changes(self) -> bool:
        """Return whether this uncommitted version differs from its parent (format.md 10.1)."""
        return self.diff is not None or any(t.diff is not None for t in self.tensors.values())


def contradiction(snapshot: Snapshot) -> str | None:
    """Return a description of lengths that contradict each other; None if all agree (format.md 15.2)."""
    for key, state in snapshot.tensors.items():
        if state.meta.length != state.table.count:
            return f"tensor {key!r} has {state.meta.length:,} samples, its chunk index {state.table.count:,}"
        if state.sequence is not None and state.sequence.total != state.meta.length:
            return f"tensor {key!r} has {state.meta.length:,} items, its sequences {state.sequence.total:,}"
        for link, settings in state.meta.links.items():
            other = snapshot.tensors.get(link)
            wanted = state.meta.length if settings.get("flatten_sequence") else state.length
            if other is None or other.meta.length != wanted:
                found = (
                    "is missing" if other is None else f"has {other.meta.length:,} samples, not {wanted:,}"
                )
                return f"hidden tensor {link!r} of tensor {key!r} {found}"
    return None
