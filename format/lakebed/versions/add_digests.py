"""Give checksums to versions that Deep Lake 3.x wrote: each gets a manifest, whose digest the tree names."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from lakebed.documents.indexes.pages import manifest_bytes
from lakebed.documents.manifest import BLOCK, ChunkPlaces, Manifest, block_sums, digest_of
from lakebed.documents.version_tree import VersionTree
from lakebed.errors import CorruptError, FormatError, KeyNotFound, PreconditionFailed
from lakebed.storage.base import Storage
from lakebed.versions.chunk_table import INDEX, ChunkTable, folder_of
from lakebed.versions.foreign_writes import has_lock_marker
from lakebed.versions.locks.marker import LockFile, live_owner, read_lock, released_file
from lakebed.versions.manifests import digests_of
from lakebed.versions.opening import TREE_KEY, manifest_key, open_files, open_version
from lakebed.versions.paged import PagedTable
from lakebed.versions.state import CREDS, PAD, SEQUENCE, TILES, Snapshot
from lakebed.versions.swap import TreeAt
from lakebed.versions.updates import SetDigests

_DATASET_FILES = ("dataset_meta.json", "dataset_info.json", "dataset_diff")
_TENSOR_FILES = ("tensor_meta.json", "tensor_info.json", INDEX, "chunk_set", "commit_diff")


def add_digests(
    storage: Storage, at: TreeAt, known_sums: Mapping[str, tuple[int, Sequence[int]]] | None = None
) -> VersionTree:
    """Write missing manifests, and a version tree that names them; return the tree.

    Every chunk of versions without a manifest is read once. Versions that cannot be opened, or whose metadata
    contradicts itself, stay unchanged. No other program may write the dataset meanwhile.

    Parameters
    ----------
    known_sums
        Sizes and block checksums of chunks that need not be read, by key.

    Raises
    ------
    PreconditionFailed
        If the version tree was replaced meanwhile; the manifests are ignored then.
    """
    tree, known = at.tree, digests_of(at.tree)
    heads = set(tree.branches.values())
    return renew_digests(
        storage,
        at,
        [i for i, node in tree.commits.items() if i not in known and (node.is_committed or i in heads)],
        known_sums,
    )


def renew_digests(
    storage: Storage,
    at: TreeAt,
    versions: Sequence[str],
    known_sums: Mapping[str, tuple[int, Sequence[int]]] | None = None,
) -> VersionTree:
    """Rewrite the manifests of some versions from their files; otherwise as :func:`add_digests`."""
    tree, digests = at.tree, {}
    sums = _Sums(storage, known_sums or {})
    for version_id in versions:
        has_marker = has_lock_marker(storage, tree, version_id)
        found = read_lock(storage, version_id) if has_marker else LockFile()
        try:
            snapshot = _opened(storage, tree, version_id)
        except FormatError:
            continue
        if not tree.commits[version_id].is_committed:
            _drop_empty_tile_encoders(storage, snapshot)
        data = _manifest(storage, snapshot, sums)
        if data is not None:
            storage.put_many([(manifest_key(version_id), data)], durable=True)
            if not has_marker or _confirm_digest(storage, version_id, digest_of(data), found):
                digests[version_id] = digest_of(data)
    if not digests:
        return tree
    after = SetDigests(digests, time.time_ns()).apply(tree)
    storage.put_if(TREE_KEY, after.to_bytes(), at.etag)
    return after


def _opened(storage: Storage, tree: VersionTree, version_id: str) -> Snapshot:
    """Read a version; if pages of its manifest are damaged, read its metadata files instead.

    Raises
    ------
    CorruptError
        If pages of a tensor with a stub are damaged, which nothing else describes.
    """
    try:
        snapshot = open_version(storage, tree, version_id)
        for state in snapshot.tensors.values():
            if not isinstance(state.table, PagedTable) or not state.table.index.is_stub:
                _ = state.table.places
    except CorruptError:
        return open_files(storage, tree, version_id)
    return snapshot


def _confirm_digest(storage: Storage, version_id: str, digest: str, found: LockFile) -> bool:
    """Record the manifest's digest in the lock file of a head, unless that file was written since it was ``found``."""
    if live_owner(storage, version_id, found) is not None:
        return False
    try:
        storage.put_if(*released_file(version_id, digest), found.etag)
    except PreconditionFailed:
        return False
    return True


def _drop_empty_tile_encoders(storage: Storage, snapshot: Snapshot) -> None:
    """Create the files that 3.9.52 creates at any change, so that a later change by 3.9.52 is noticed."""
    for key, state in snapshot.tensors.items():
        if not len(state.tiles):
            storage.delete(f"{folder_of(snapshot.version_id)}{key}/{TILES}")


def _manifest(storage: Storage, snapshot: Snapshot, sums: _Sums) -> bytes | None:
    files = dict(_files(storage, snapshot))
    chunks, paged = {}, {}
    for key, state in snapshot.tensors.items():
        if state.meta.length != state.table.count or f"{key}/tensor_meta.json" not in files:
            return None
        if isinstance(state.table, PagedTable) and state.table.index.is_stub:
            del files[f"{key}/{INDEX}"]
            paged[key] = state.table.document()
        else:
            chunks[key] = sums.of(state.table)
    data = Manifest(snapshot.version_id, files, chunks).to_bytes()
    return manifest_bytes(data, paged) if paged else data


def _files(storage: Storage, snapshot: Snapshot) -> Mapping[str, bytes]:
    names = [*_DATASET_FILES]
    for key in snapshot.tensors:
        names += [f"{key}/{name}" for name in (*_TENSOR_FILES, TILES, SEQUENCE, CREDS, PAD)]
    found = {}
    for name in names:
        try:
            found[name] = storage.get(folder_of(snapshot.version_id) + name)
        except KeyNotFound:
            continue
    return found


class _Sums:
    """Sizes and checksums of chunk files, each read once."""

    def __init__(self, storage: Storage, known: Mapping[str, tuple[int, Sequence[int]]]) -> None:
        self._storage = storage
        self._known: dict[str, tuple[int, Sequence[int]]] = dict(known)

    def of(self, table: ChunkTable) -> ChunkPlaces:
        """Return the places of a table's chunks with sizes and checksums; missing chunks have neither."""
        found = [self._file(table.key(row)) for row in range(len(table))]
        places = table.places
        return ChunkPlaces(
            places.folders,
            places.folder_of,
            np.array([size for size, _ in found], dtype=np.uint64),
            np.array([value for _, values in found for value in values], dtype=np.uint64),
            places.own,
        )

    def _file(self, key: str) -> tuple[int, Sequence[int]]:
        if key not in self._known:
            try:
                data = self._storage.get(key)
            except KeyNotFound:
                return 0, []
            pieces = tuple(memoryview(data)[at : at + BLOCK] for at in range(0, len(data), BLOCK))
            self._known[key] = len(data), block_sums(pieces)
        return self._known[key]
