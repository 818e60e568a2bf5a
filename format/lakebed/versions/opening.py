"""Opening of one version: from its manifest if that is valid, else from the metadata files (format.md 9.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from lakebed.chunks.probe import described
from lakebed.documents import info as info_document
from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.documents.frozen import OnDemand
from lakebed.documents.indexes.chunk_ids import STUB, ChunkIds, chunk_name
from lakebed.documents.indexes.tile_index import TileIndex
from lakebed.documents.manifest import ChunkPlaces, Manifest
from lakebed.documents.manifest_delta import Read
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.documents.version_tree import FIRST, VersionTree
from lakebed.errors import (
    DatasetCorruptError,
    FormatError,
    KeyNotFound,
    LakebedError,
    LimitError,
    VersionReplaced,
)
from lakebed.storage.base import Storage, is_cache, traits_of
from lakebed.storage.reader_locks import Lease, share
from lakebed.versions.chunk_table import INDEX, ArrayTable, ChunkTable, folder_of
from lakebed.versions.foreign_writes import has_lock_marker, is_unmodified, is_whole_copy, would_tell
from lakebed.versions.locks.marker import LockFile, read_lock
from lakebed.versions.manifests import digests_of, load_manifest, manifest_key, origin_of, tables_of
from lakebed.versions.state import CREDS, PAD, SEQUENCE, TILES, Snapshot, TensorState
from lakebed.versions.tree_file import (
    ADVICE,
    TREE_KEY,
    TreeAt,
    located,
    read_tree,
    read_tree_at,
    remembered,
)

__all__ = [
    "TREE_KEY",
    "Opening",
    "TreeAt",
    "is_unmodified",
    "manifest_key",
    "open_version",
    "read_tree",
    "read_tree_at",
    "read_version",
    "remembered",
]

_SOMETIMES = (
    *("chunk_set", "commit_diff", "tensor_info.json", "tiles_index/unsharded"),
    *("sequence_index/unsharded", "creds_index/unsharded", "pad_index/unsharded"),
)
"""Files of a tensor that exist only if they have content."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The content of a version, and its lock file if that had to be read."""

    snapshot: Snapshot
    lock: LockFile | None = None


def open_version(storage: Storage, tree: VersionTree, version_id: str) -> Snapshot:
    """Read the content of a version; see :func:`read_version`."""
    return read_version(storage, tree, version_id).snapshot


def read_version(storage: Storage, tree: VersionTree, version_id: str) -> Opening:
    """Read the content of a version.

    If lakebed wrote the dataset last, two reads are enough, the version tree and the manifest; a large one takes three,
    because its manifest may have a base. On a store without locks of its own, the lock file of a head is read at the
    same time as the manifest; if it is missing, as in a head that another program copied, the folder is listed. If the
    tree lacks the manifest's digest, or Deep Lake 3.9.52 has opened an uncommitted head for writing since, the manifest
    is used only if every file in it is still the same, and never for chunks that 3.9.52 may have rewritten in place.

    Raises
    ------
    DatasetCorruptError
        If metadata that the version needs is missing or damaged.
    """
    try:
        digest = digests_of(tree).get(version_id)
        found, lock = _read_manifest(storage, tree, version_id, digest)
        if found is not None and found.manifest.version_id == version_id:
            manifest = found.manifest
            meta = _meta_of(found) if digest == found.digest else None
            # The lock file is missing: another program has copied the head without it, or 3.9.52 has removed it.
            tables = tables_of(found)
            is_doubtful = digest == found.digest and lock is not None and lock.etag is None
            if (digest == found.digest and is_unmodified(storage, tree, manifest, lock, meta)) or (
                is_doubtful and not tables and is_whole_copy(storage, manifest)
            ):
                return _as_described(storage, found, meta or _meta_of(found), lock)
            if _matches_files(storage, manifest):
                if is_doubtful and would_tell(manifest):
                    return _as_described(storage, found, meta or _meta_of(found), lock)
                # 3.9.52 cannot have changed a tensor with a stub.
                known = {key: table for key, table in tables.items() if table.index.is_stub}
                return Opening(_assemble(version_id, manifest, known), lock)
        return Opening(open_files(storage, tree, version_id), lock)
    except (FormatError, LimitError) as error:
        raise _not_opened(storage, version_id, error) from error


def _not_opened(storage: Storage, version_id: str, error: FormatError | LimitError) -> LakebedError:
    """Return the error for a version whose metadata is damaged or exceeds a limit."""
    if isinstance(error, LimitError):
        return located(error, f"version {version_id} of {storage.url}", storage.url)
    return DatasetCorruptError(
        f"version {version_id} of {storage.url} can not be opened: {error}; {ADVICE}", dataset=storage.url
    )


def _as_described(storage: Storage, found: Read, meta: DatasetMeta, lock: LockFile | None) -> Opening:
    """Return the version that a manifest describes, checksums of its chunks included.

    The checksum confirms the manifest, so its tensors are parsed on access, once for all openings of the same manifest.
    """
    manifest = found.manifest
    version_id, files, chunks = manifest.version_id, manifest.files, manifest.chunks
    for key in meta.tensors:
        if f"{key}/tensor_meta.json" not in files or key not in chunks:
            raise FormatError(f"the manifest lacks tensor {key!r}")
    shared: OnDemand[TensorState] = found.made.setdefault(
        "tensors", OnDemand(meta.tensors, lambda key: _tensor(key, files, _table(key, found), keep=True))
    )

    def tensor(key: str) -> TensorState:
        try:
            return shared[key]
        except (FormatError, LimitError) as error:
            raise _not_opened(storage, version_id, error) from error

    opened = _snapshot(version_id, meta, files, OnDemand(meta.tensors, tensor))
    return Opening(replace(opened, origin=origin_of(found)), lock)


def _read_manifest(
    storage: Storage, tree: VersionTree, version_id: str, digest: str | None
) -> tuple[Read | None, LockFile | None]:
    """Return a version's manifest, None if it is not valid; and its lock file, None if the check did not need it."""
    if not has_lock_marker(storage, tree, version_id):
        return _load(storage, version_id, digest), None
    from lakebed.storage.concurrently import concurrently

    manifests: list[Read | None] = []
    locks: list[LockFile] = []
    concurrently(
        [
            lambda: manifests.append(_load(storage, version_id, digest)),
            lambda: locks.append(read_lock(storage, version_id)),
        ]
    )
    return manifests[0], locks[0]


def _load(storage: Storage, version_id: str, digest: str | None) -> Read | None:
    if is_cache(storage):
        with suppress(KeyNotFound, FormatError, LimitError):
            kept = load_manifest(storage.trusted, version_id, digest)
            if kept.digest == digest:
                return kept
        storage.forget(manifest_key(version_id))
        storage = storage.origin
    try:
        return load_manifest(storage, version_id, digest)
    except (KeyNotFound, FormatError, LimitError):
        return None


def _matches_files(storage: Storage, manifest: Manifest) -> bool:
    folder, files = folder_of(manifest.version_id), manifest.files
    names = ["dataset_info.json", "dataset_diff"]
    names += [f"{key}/{name}" for key in manifest.chunks for name in _SOMETIMES]
    absent = [name for name in names if name not in files]
    if not traits_of(storage).local:
        found = _fetched(storage, folder, [*files, *absent])
        return found == dict(files)
    try:
        if any(storage.get(folder + key) != data for key, data in files.items()):
            return False
    except KeyNotFound:
        return False
    return all(storage.stat(folder + name) is None for name in absent)


def _fetched(storage: Storage, folder: str, names: Sequence[str]) -> dict[str, bytes]:
    """Read files of a folder, in parallel over a network; missing files are omitted."""
    from lakebed.storage.concurrently import together

    def fetch(name: str) -> bytes | None:
        try:
            return storage.get(folder + name)
        except KeyNotFound:
            return None

    found = together(storage, [partial(fetch, name) for name in names])
    return {name: data for name, data in zip(names, found, strict=True) if data is not None}


def _without_own_checksums(places: ChunkPlaces, version_id: str) -> ChunkPlaces:
    """Forget sizes, checksums and layouts of chunks in the version's own folder."""
    mine = np.array([commit == version_id for commit, _ in places.folders], dtype=np.bool_)
    mine = mine[places.folder_of] if len(mine) else np.zeros(len(places.sizes), np.bool_)
    sums = places.sums[np.repeat(~mine, places.sum_counts())]
    sizes = np.where(mine, np.uint64(0), places.sizes)
    layouts = None if places.known_layouts is None else places.known_layouts.without(mine)
    return ChunkPlaces(places.folders, places.folder_of, sizes, sums, places.own, layouts)


def _assemble(version_id: str, manifest: Manifest, known: Mapping[str, ChunkTable]) -> Snapshot:
    """Return a version whose chunks 3.9.52 may have rewritten, apart from those of tables that are known."""
    files = manifest.files
    meta = _meta(files)

    def table(key: str) -> ChunkTable:
        places = _without_own_checksums(manifest.chunks[key], version_id)
        return _array_table(key, files, places)

    try:
        tensors = {key: _tensor(key, files, known.get(key) or table(key)) for key in meta.tensors}
    except KeyError as error:
        raise FormatError(f"the manifest lacks {error}") from error
    return _snapshot(version_id, meta, files, tensors)


def _meta_of(found: Read) -> DatasetMeta:
    meta: DatasetMeta | None = found.made.get("meta")
    if meta is None:
        meta = found.made.setdefault("meta", _meta(found.manifest.files))
    return meta


def _meta(files: Mapping[str, bytes]) -> DatasetMeta:
    if "dataset_meta.json" not in files:
        raise FormatError("the manifest lacks 'dataset_meta.json'")
    return DatasetMeta.from_bytes(files["dataset_meta.json"])


def _snapshot(
    version_id: str, meta: DatasetMeta, files: Mapping[str, bytes], tensors: Mapping[str, TensorState]
) -> Snapshot:
    info = info_document.from_bytes(files["dataset_info.json"]) if "dataset_info.json" in files else {}
    diff = None
    if "dataset_diff" in files:
        from lakebed.documents.dataset_diff import DatasetDiff

        diff = DatasetDiff.from_bytes(files["dataset_diff"])
    return Snapshot(version_id, meta, info, tensors, diff)


def _table(key: str, found: Read) -> ChunkTable:
    """Return the chunks of a tensor that a manifest describes."""
    paged = tables_of(found).get(key)
    manifest = found.manifest
    return _array_table(key, manifest.files, manifest.chunks[key], keep=True) if paged is None else paged


def _array_table(
    key: str, files: Mapping[str, bytes], places: ChunkPlaces, *, keep: bool = False
) -> ChunkTable:
    ids = _chunk_ids(files.get(f"{key}/{INDEX}"), keep=keep)
    if len(ids) != len(places.sizes):
        raise FormatError(
            f"{key}: the manifest has the places of {len(places.sizes)} chunks, but the tensor has {len(ids)} "
            "chunks"
        )
    return ArrayTable(ids, places)


def _tensor(key: str, files: Mapping[str, bytes], table: ChunkTable, *, keep: bool = False) -> TensorState:
    """Read a tensor; with ``keep``, its documents remember their bytes, which are written again if unchanged."""
    meta = TensorMeta.from_bytes(files[f"{key}/tensor_meta.json"], keep=keep)
    info = files.get(f"{key}/tensor_info.json")
    return TensorState(
        key,
        meta,
        info_document.from_bytes(info, keep=keep) if info is not None else {},
        table,
        tiles=TileIndex.from_bytes(files[f"{key}/{TILES}"])
        if f"{key}/{TILES}" in files
        else TileIndex.empty(),
        **_rare(key, meta, files),
    )


def _rare(key: str, meta: TensorMeta, files: Mapping[str, bytes]) -> dict[str, Any]:
    """Read the documents that few tensors have; their modules are imported only if a tensor has them."""
    found: dict[str, Any] = {}
    if (diff := files.get(f"{key}/commit_diff")) is not None:
        from lakebed.documents.commit_diff import CommitDiff

        found["diff"] = CommitDiff.from_bytes(diff)
    if (pad := files.get(f"{key}/{PAD}")) is not None:
        from lakebed.documents.indexes.pad_index import PadIndex

        found["pad"] = PadIndex.from_bytes(pad)
    if meta.is_sequence:
        from lakebed.documents.indexes.sequence_index import SequenceIndex

        data = files.get(f"{key}/{SEQUENCE}")
        if data is None and meta.length:
            raise FormatError(f"{key}/{SEQUENCE} is missing")
        found["sequence"] = SequenceIndex.from_lengths([]) if data is None else SequenceIndex.from_bytes(data)
    if meta.is_link:
        from lakebed.documents.indexes.creds_index import CredsIndex

        codes, none = files.get(f"{key}/{CREDS}"), np.zeros(meta.length, np.uint64)
        found["creds"] = CredsIndex.from_codes(none) if codes is None else CredsIndex.from_bytes(codes)
    return found


def _chunk_ids(data: bytes | None, *, keep: bool = False) -> ChunkIds:
    return ChunkIds.empty() if data is None else ChunkIds.from_bytes(data, keep=keep)


_TENSOR_FILES = (
    *("tensor_meta.json", "tensor_info.json", INDEX, "commit_diff"),
    *(TILES, SEQUENCE, CREDS, PAD),
)


def open_files(storage: Storage, tree: VersionTree, version_id: str) -> Snapshot:
    """Read a version from its metadata files alone."""
    from lakebed.storage.concurrently import together

    folder = folder_of(version_id)
    files = _fetched(storage, folder, ["dataset_meta.json", "dataset_info.json", "dataset_diff"])
    if "dataset_meta.json" not in files:
        raise FormatError(f"{folder}dataset_meta.json is missing")
    meta = DatasetMeta.from_bytes(files["dataset_meta.json"])
    files |= _fetched(storage, folder, [f"{key}/{name}" for key in meta.tensors for name in _TENSOR_FILES])

    def tensor(key: str) -> TensorState:
        if f"{key}/tensor_meta.json" not in files:
            raise FormatError(f"{folder}{key}/tensor_meta.json is missing")
        index = files.get(f"{key}/{INDEX}")
        if index is not None and index.startswith(STUB):
            from lakebed.versions.paged import table_of_stub

            return _tensor(key, files, table_of_stub(storage, version_id, key, index))
        ids = _chunk_ids(index)
        table = ArrayTable(ids, resolve_chunks(storage, tree, version_id, key, ids))
        state = _tensor(key, files, table)
        if not tree.commits[version_id].is_committed:
            state = _without_unwritten(storage, state)
        return _shortened(state)

    states = together(storage, [partial(tensor, key) for key in meta.tensors])
    return _snapshot(version_id, meta, files, dict(zip(meta.tensors, states, strict=True)))


def _without_unwritten(storage: Storage, state: TensorState) -> TensorState:
    """Leave out samples at the end of an index that a killed 3.9.52 wrote before their chunk (format.md 15.5)."""
    table = state.table
    if not len(table) or not table.samples(len(table) - 1) or table.tiles_of(len(table) - 1) > 1:
        return state
    key = table.key(len(table) - 1)
    stat = storage.stat(key)
    try:
        held = described(lambda at, length: storage.get_range(key, at, length), stat.size) if stat else 0
    except FormatError:
        return state  # reading the chunk raises the error
    missing = table.samples(len(table) - 1) - held
    if not held or missing <= 0:
        return state
    last = table.ids.last.copy()
    last[-1] -= np.uint64(missing)
    return replace(state, table=ArrayTable(replace(table.ids, last=last), table.places))


def _shortened(state: TensorState) -> TensorState:
    """Cut metadata and index to the smaller of their lengths; a killed 3.9.52 leaves them unequal (format.md 15.5)."""
    length, sequence = min(state.meta.length, state.table.count), state.sequence
    if length == state.meta.length:
        return state
    if sequence is not None:
        sequence = sequence.within(length)
    return replace(state, meta=state.meta.with_(length=length), sequence=sequence)


def resolve_chunks(
    storage: Storage, tree: VersionTree, version_id: str, key: str, ids: ChunkIds
) -> ChunkPlaces:
    """Find the folder of every chunk by walking the chunk_sets from a version to the root (format.md 9.3)."""
    from lakebed.documents.indexes.chunk_set import ChunkSet

    names = [chunk_name(int(i)) for i in ids.ids]
    unresolved: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        unresolved.setdefault(name, []).append(row)
    folders: dict[tuple[str, str], int] = {}
    folder_rows = np.zeros(len(names), dtype=np.uint32)
    own = np.zeros(len(names), dtype=np.bool_)
    for node in tree.ancestors(version_id):
        if not unresolved or node == FIRST:
            break
        try:
            entries = ChunkSet.from_bytes(storage.get(f"{folder_of(node)}{key}/chunk_set"))
        except KeyNotFound:
            continue
        for name in [n for n in unresolved if n in entries]:
            commit, other = entries[name]
            rows = unresolved.pop(name)
            folder_rows[rows] = folders.setdefault((commit or node, other or key), len(folders))
            own[rows] = node == version_id
    for rows in unresolved.values():
        folder_rows[rows] = folders.setdefault((FIRST, key), len(folders))
    sizes = np.zeros(len(names), dtype=np.uint64)
    return ChunkPlaces(tuple(folders), folder_rows, sizes, np.empty(0, np.uint64), own)


# -- readers ----------------------------------------------------------------------------------------------------------


def reader_lease_key(version: str) -> str:
    """Return the storage key of the file that readers of a version lock, and that a collector removes first."""
    return f"{folder_of(version)}dataset_meta.json"


def lease_version(storage: Storage, version: str) -> Lease | None:
    """Lease a version before it is read; return None if that is impossible or useless.

    Raises
    ------
    VersionReplaced
        If the version has left the tree and was collected meanwhile; the caller must read the tree again.
    """
    if version == FIRST:
        return None
    try:
        return share(storage, reader_lease_key(version))
    except KeyNotFound:
        if version in read_tree(storage).commits:
            return None  # the file is missing, and opening the version raises an error that says more
        raise VersionReplaced(
            f"version {version} of {storage.url} was replaced and removed while it was being opened; try again"
        ) from None
