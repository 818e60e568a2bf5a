"""Open one version: from its manifest when that can be trusted, else from the metadata files (FORMAT.md 9.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

import numpy as np

from lakebed.chunks.probe import described
from lakebed.documents import info as info_document
from lakebed.documents.chunk_ids import ChunkIds, chunk_name
from lakebed.documents.chunk_set import ChunkSet
from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.commits import ColdNodes, Commits
from lakebed.documents.creds_index import CredsIndex
from lakebed.documents.dataset_diff import DatasetDiff
from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.documents.manifest import ChunkPlaces, Manifest
from lakebed.documents.manifest_delta import Read
from lakebed.documents.pad_index import PadIndex
from lakebed.documents.sequence_index import SequenceIndex
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.documents.tile_index import TileIndex
from lakebed.documents.version_tree import FIRST, VersionTree, tail_begins
from lakebed.errors import (
    DatasetCorruptError,
    DatasetNotFoundError,
    FormatError,
    HistoryMissingError,
    KeyNotFound,
    LimitError,
)
from lakebed.storage.base import Storage
from lakebed.versions.manifests import load_manifest, manifest_key, origin_of
from lakebed.versions.rebuild import is_dataset
from lakebed.versions.repair_plan import kept_sequences
from lakebed.versions.seals import sealed_at, seals_of
from lakebed.versions.state import (
    CREDS,
    PAD,
    SEQUENCE,
    TILES,
    ChunkTable,
    Snapshot,
    TensorState,
    folder_of,
)

__all__ = [
    "TREE_KEY",
    "TreeAt",
    "manifest_key",
    "open_version",
    "read_tree",
    "read_tree_at",
    "remembered",
    "untouched",
]

TREE_KEY = "version_control_info.json"

_ADVICE = "`lakebed repair URL --plan` shows what can be saved"

_TAIL_BYTES = 16_384
"""Enough for the end of a history of some forty branches."""


_older: WeakValueDictionary[str, ColdNodes] = WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class TreeAt:
    """The version tree and the identity of the stored object that it was read from."""

    tree: VersionTree
    etag: str | None


_SOMETIMES = (
    *("chunk_set", "commit_diff", "tensor_info.json", "tiles_index/unsharded"),
    *("sequence_index/unsharded", "creds_index/unsharded", "pad_index/unsharded"),
)
"""Files of a tensor that come into being only when there is something to write."""


def read_tree(storage: Storage) -> VersionTree:
    """Read the version tree; see :func:`read_tree_at`."""
    return read_tree_at(storage).tree


def read_tree_at(storage: Storage) -> TreeAt:
    """Read the version tree, and what the object is that it was read from.

    However long the history, one read gets all that opening and publishing need: the end of the file. The rest is read
    when somebody asks for an older version.

    Raises
    ------
    DatasetNotFoundError
        If there is no dataset.
    DatasetCorruptError
        If the file can not be parsed.
    """
    with _reading(storage):
        part = storage.get_tail(TREE_KEY, _TAIL_BYTES)
        begins = tail_begins(part.data)
        while len(part.data) < part.stat.size - (begins or 0):
            part = storage.get_tail(TREE_KEY, part.stat.size - (begins or 0))
            begins = tail_begins(part.data)
        tree = VersionTree.from_tail(part.data, part.stat.size, lambda: _get_tree(storage))
        if tree is None:
            tree = VersionTree.from_bytes(part.data)
    known = _older.get(storage.url)
    if known is not None:
        tree = replace(tree, commits=Commits.of(tree.commits).sharing(known))
    return TreeAt(remembered(storage, tree), part.stat.etag)


def remembered(storage: Storage, tree: VersionTree) -> VersionTree:
    """Remember the older versions of a dataset, for as long as anybody has this tree, and return it."""
    _older[storage.url] = Commits.of(tree.commits).cold
    return tree


def _get_tree(storage: Storage) -> bytes:
    with _reading(storage):
        return storage.get(TREE_KEY)


@contextmanager
def _reading(storage: Storage) -> Iterator[None]:
    """Say of which dataset the version tree is missing or damaged."""
    try:
        yield
    except KeyNotFound:
        if is_dataset(storage):
            raise HistoryMissingError(
                f"{TREE_KEY} of {storage.url} is missing, though versions of a dataset are there; {_ADVICE}",
                dataset=storage.url,
            ) from None
        raise DatasetNotFoundError(
            f"A dataset does not exist at {storage.url}. Check the path, or create one with lakebed.empty()."
        ) from None
    except FormatError as error:
        raise DatasetCorruptError(
            f"{TREE_KEY} of {storage.url} is damaged: {error}; {_ADVICE}", dataset=storage.url
        ) from error
    except LimitError as error:
        raise _located(error, f"{TREE_KEY} of {storage.url}", storage.url) from error


def _located(error: LimitError, where: str, url: str) -> LimitError:
    return LimitError(f"{where} can not be opened: {error}", limit=error.limit, dataset=url)


def open_version(storage: Storage, tree: VersionTree, version_id: str) -> Snapshot:
    """Read what a version holds.

    Two reads serve a dataset that lakebed wrote last: the version tree and the manifest; three a large one, whose
    manifest may build on another. Where the tree lacks the
    manifest's seal, or a file of an uncommitted head is younger than it, as after Deep Lake 3.9.52 had the dataset
    open for writing, the manifest counts only if every file in it still reads back the same, and then not for chunks
    that 3.9.52 may have rewritten in place.

    Raises
    ------
    DatasetCorruptError
        If metadata that the version needs is missing or damaged.
    """
    try:
        found: Read | None = load_manifest(storage, version_id)
    except (KeyNotFound, FormatError, LimitError):
        found = None
    try:
        if found is not None and found.manifest.version_id == version_id:
            manifest = found.manifest
            if seals_of(tree).get(version_id) == found.seal and untouched(storage, tree, manifest):
                opened = _assemble(version_id, manifest.files, manifest.chunks, keep=True)
                return replace(opened, origin=origin_of(found))
            if _still_true(storage, manifest):
                chunks = {key: _distrusting(places, version_id) for key, places in manifest.chunks.items()}
                return _assemble(version_id, manifest.files, chunks)
        return _open_files(storage, tree, version_id)
    except FormatError as error:
        raise DatasetCorruptError(
            f"version {version_id} of {storage.url} can not be opened: {error}; {_ADVICE}",
            dataset=storage.url,
        ) from error
    except LimitError as error:
        raise _located(error, f"version {version_id} of {storage.url}", storage.url) from error


def untouched(storage: Storage, tree: VersionTree, manifest: Manifest) -> bool:
    """Whether nobody has written into the version since it was sealed: it is committed, or 3.9.52 left no trace.

    Whatever 3.9.52 changes in a head, it makes the tile encoders that are missing there, but of tensors that it clears
    or deletes. (Tested for append, extend, update, pop, clear, info, create, rename, delete, groups.) A few younger
    files without that are damage, and the manifest has sound copies.
    """
    version_id = manifest.version_id
    node = tree.commits.get(version_id)
    if node is None or node.is_committed or version_id not in tree.branches.values():
        return True
    if "dataset_meta.json" not in manifest.files:
        return True  # and of no use, as will turn out
    sealed, folder = sealed_at(tree, version_id), folder_of(version_id)
    meta = DatasetMeta.from_bytes(manifest.files["dataset_meta.json"])
    # A tile encoder that is there already it leaves alone.
    bare = [key for key in meta.tensors if f"{key}/{TILES}" not in manifest.files]
    telling = [key for key in bare if key not in meta.hidden_tensors] or bare

    def is_younger(name: str, *, missing: bool = False) -> bool:
        found = storage.stat(folder + name)
        return missing if found is None else not 0 < found.modified <= sealed

    def is_gone(key: str) -> bool:
        name = f"{key}/tensor_meta.json"
        if not is_younger(name, missing=True):
            return False
        if storage.stat(folder + name) is None:
            return True
        data = storage.get(folder + name)
        return _is_empty(data) and _is_other(data, manifest.files.get(name, b""))

    def is_changed(name: str) -> bool:
        return is_younger(name) and _is_other(storage.get(folder + name), manifest.files.get(name, b""))

    told = False
    for key in telling:
        if is_younger(f"{key}/{TILES}"):
            told = True
        elif not _is_empty(manifest.files.get(f"{key}/tensor_meta.json", b"")):  # which need not have one
            if not is_gone(key):
                return True
            told = True
    if told:
        return False
    names = ["dataset_meta.json", "dataset_info.json", "dataset_diff"]
    names += [f"{key}/{name}" for key in meta.tensors for name in ("tensor_meta.json", "commit_diff")]
    return not any(map(is_changed, names))


def _is_other(data: bytes, expected: bytes) -> bool:
    """Whether a file differs from what was written in more than one byte."""
    return len(data) != len(expected) or sum(a != b for a, b in zip(data, expected, strict=True)) > 1


def _is_empty(data: bytes) -> bool:
    try:
        return TensorMeta.from_bytes(data).length == 0
    except FormatError:
        return False


def _still_true(storage: Storage, manifest: Manifest) -> bool:
    folder, files = folder_of(manifest.version_id), manifest.files
    names = ["dataset_info.json", "dataset_diff"]
    names += [f"{key}/{name}" for key in manifest.chunks for name in _SOMETIMES]
    try:
        if any(storage.get(folder + key) != data for key, data in files.items()):
            return False
    except KeyNotFound:
        return False
    return all(storage.stat(folder + name) is None for name in names if name not in files)


def _distrusting(places: ChunkPlaces, version_id: str) -> ChunkPlaces:
    """Forget sizes and checksums of chunks in the version's own folder."""
    mine = np.array([commit == version_id for commit, _ in places.folders], dtype=np.bool_)
    doubtful = mine[places.folder_of] if len(mine) else np.zeros(len(places.sizes), np.bool_)
    sums = places.sums[np.repeat(~doubtful, places.sum_counts())]
    sizes = np.where(doubtful, np.uint64(0), places.sizes)
    return ChunkPlaces(places.folders, places.folder_of, sizes, sums, places.own)


def _assemble(
    version_id: str, files: Mapping[str, bytes], chunks: Mapping[str, ChunkPlaces], *, keep: bool = False
) -> Snapshot:
    try:
        meta = DatasetMeta.from_bytes(files["dataset_meta.json"])
        tensors = {key: _tensor(key, files, chunks[key], keep=keep) for key in meta.tensors}
    except KeyError as error:
        raise FormatError(f"the manifest lacks {error}") from error
    return _snapshot(version_id, meta, files, tensors)


def _snapshot(
    version_id: str, meta: DatasetMeta, files: Mapping[str, bytes], tensors: Mapping[str, TensorState]
) -> Snapshot:
    info = info_document.from_bytes(files["dataset_info.json"]) if "dataset_info.json" in files else {}
    diff = DatasetDiff.from_bytes(files["dataset_diff"]) if "dataset_diff" in files else None
    return Snapshot(version_id, meta, info, tensors, diff)


def _tensor(key: str, files: Mapping[str, bytes], places: ChunkPlaces, *, keep: bool = False) -> TensorState:
    """Read a tensor; ``keep`` the bytes of what does not change, to write them again."""
    meta = TensorMeta.from_bytes(files[f"{key}/tensor_meta.json"], keep=keep)
    ids = _chunk_ids(files.get(f"{key}/chunks_index/unsharded"), keep=keep)
    if len(ids) != len(places.sizes):
        raise FormatError(f"{key}: {len(places.sizes)} places are known of {len(ids)} chunks")
    info = files.get(f"{key}/tensor_info.json")
    diff = files.get(f"{key}/commit_diff")
    return TensorState(
        key,
        meta,
        info_document.from_bytes(info) if info is not None else {},
        ChunkTable(ids, places),
        None if diff is None else CommitDiff.from_bytes(diff),
        TileIndex.from_bytes(files[f"{key}/{TILES}"]) if f"{key}/{TILES}" in files else TileIndex.empty(),
        _sequence(key, meta, files),
        _creds(key, meta, files),
        PadIndex.from_bytes(files[f"{key}/{PAD}"]) if f"{key}/{PAD}" in files else None,
    )


def _sequence(key: str, meta: TensorMeta, files: Mapping[str, bytes]) -> SequenceIndex | None:
    if not meta.is_sequence:
        return None
    data = files.get(f"{key}/{SEQUENCE}")
    if data is None and meta.length:
        raise FormatError(f"{key}/{SEQUENCE} is missing")
    return SequenceIndex.from_lengths([]) if data is None else SequenceIndex.from_bytes(data)


def _creds(key: str, meta: TensorMeta, files: Mapping[str, bytes]) -> CredsIndex | None:
    if not meta.is_link:
        return None
    data = files.get(f"{key}/{CREDS}")
    return (
        CredsIndex.from_codes(np.zeros(meta.length, np.uint64))
        if data is None
        else CredsIndex.from_bytes(data)
    )


def _chunk_ids(data: bytes | None, *, keep: bool = False) -> ChunkIds:
    return ChunkIds.empty() if data is None else ChunkIds.from_bytes(data, keep=keep)


def _open_files(storage: Storage, tree: VersionTree, version_id: str) -> Snapshot:
    """Read a version from its metadata files, as any reader of the format would."""
    folder = folder_of(version_id)
    files: dict[str, bytes] = {}

    def fetch(name: str, *, required: bool = False) -> bytes | None:
        try:
            files[name] = storage.get(folder + name)
        except KeyNotFound:
            if required:
                raise FormatError(f"{folder}{name} is missing") from None
        return files.get(name)

    meta = DatasetMeta.from_bytes(fetch("dataset_meta.json", required=True) or b"")
    fetch("dataset_info.json")
    fetch("dataset_diff")
    tensors = {}
    for key in meta.tensors:
        fetch(f"{key}/tensor_meta.json", required=True)
        for name in (
            "tensor_info.json",
            "chunks_index/unsharded",
            "commit_diff",
            TILES,
            SEQUENCE,
            CREDS,
            PAD,
        ):
            fetch(f"{key}/{name}")
        ids = _chunk_ids(files.get(f"{key}/chunks_index/unsharded"))
        state = _tensor(key, files, resolve_chunks(storage, tree, version_id, key, ids))
        if not tree.commits[version_id].is_committed:
            state = _without_unwritten(storage, state)
        tensors[key] = _shortened(state)
    return _snapshot(version_id, meta, files, tensors)


def _without_unwritten(storage: Storage, state: TensorState) -> TensorState:
    """Leave out samples at the end of an index that a killed 3.9.52 wrote before their chunk (FORMAT.md 15.5)."""
    table = state.table
    if not len(table) or not table.samples(len(table) - 1) or table.tiles_of(len(table) - 1) > 1:
        return state
    key = table.key(len(table) - 1)
    stat = storage.stat(key)
    try:
        held = described(lambda at, length: storage.get_range(key, at, length), stat.size) if stat else 0
    except FormatError:
        return state  # whoever reads it hears of it
    missing = table.samples(len(table) - 1) - held
    if not held or missing <= 0:
        return state
    last = table.ids.last.copy()
    last[-1] -= np.uint64(missing)
    return replace(state, table=replace(table, ids=replace(table.ids, last=last)))


def _shortened(state: TensorState) -> TensorState:
    """Believe the shorter of metadata and index, which a killed 3.9.52 leaves unequal (FORMAT.md 15.5)."""
    length, sequence = min(state.meta.length, state.table.count), state.sequence
    if length == state.meta.length:
        return state
    if sequence is not None:
        sequence = kept_sequences(sequence, length)
    return replace(state, meta=state.meta.with_(length=length), sequence=sequence)


def resolve_chunks(
    storage: Storage, tree: VersionTree, version_id: str, key: str, ids: ChunkIds
) -> ChunkPlaces:
    """Find the folder of every chunk by walking the chunk_sets from a version to the root (FORMAT.md 9.3)."""
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
