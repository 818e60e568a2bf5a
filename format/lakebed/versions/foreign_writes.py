"""Detection of changes by Deep Lake 3.9.52, which writes uncommitted heads in place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

import numpy as np

from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.documents.indexes.chunk_ids import ChunkIds, chunk_name
from lakebed.documents.manifest import Manifest
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.documents.version_tree import FIRST, VersionTree
from lakebed.errors import FormatError, StorageError
from lakebed.storage.base import Stat, Storage, traits_of
from lakebed.versions.chunk_table import folder_of
from lakebed.versions.locks.marker import LOCK_NAME, LockFile, read_lock
from lakebed.versions.manifests import digest_time, digests_of
from lakebed.versions.state import TILES, Snapshot

# Maximum number of files of a head that are listed; most stores return this many in two requests.
_MOST_LISTED = 2_000
_MD5 = "[0-9a-f]{32}"


def has_lock_marker(storage: Storage, tree: VersionTree, version_id: str) -> bool:
    """Return whether a version's lock file shows if 3.9.52 has changed it: true for heads on stores without locks."""
    return not traits_of(storage).system_locks and _is_open_head(tree, version_id)


def _is_open_head(tree: VersionTree, version_id: str) -> bool:
    node = tree.commits.get(version_id)
    return node is not None and not node.is_committed and version_id in tree.branches.values()


def is_unmodified(
    storage: Storage,
    tree: VersionTree,
    manifest: Manifest,
    lock: LockFile | None = None,
    meta: DatasetMeta | None = None,
) -> bool:
    """Return whether 3.9.52 has not changed a version since its digest was made.

    Commits never change. On a store without locks of its own, a head's lock file shows whether 3.9.52 has changed it.

    With any change of a head, 3.9.52 creates its missing tile encoders, except those of tensors that it clears or
    deletes. (Tested for append, extend, update, pop, clear, info, create, rename, delete, groups.) If it has created
    none, files that are younger than the digest are damaged, and the manifest has undamaged copies.

    Parameters
    ----------
    lock
        The lock file, if it has been read.
    meta
        The manifest's `dataset_meta.json`, if that is known.
    """
    version_id = manifest.version_id
    if not _is_open_head(tree, version_id):
        return True
    if has_lock_marker(storage, tree, version_id):
        found = read_lock(storage, version_id) if lock is None else lock
        return found.digest != "" and found.digest == digests_of(tree).get(version_id)
    return _is_unmodified_folder(storage, tree, manifest, meta)


def would_tell(manifest: Manifest) -> bool:
    """Return whether 3.9.52 cannot have opened a head for writing if the head's files are exactly a manifest's files.

    3.9.52 first creates the missing tile encoders of all tensors, before any change. (Tested for append, extend,
    update, pop, clear, info, create, rename, delete, flush and nothing at all, with its lock and without.) If it clears
    or deletes a tensor later, it removes the encoder again, and changes or removes the other files.
    """
    files = manifest.files
    return any(
        f"{key}/{TILES}" not in files and not _is_empty(files.get(f"{key}/tensor_meta.json", b""))
        for key in manifest.chunks
    )


def is_whole_copy(storage: Storage, manifest: Manifest) -> bool:
    """Return whether the listing of a head's folder matches the manifest exactly.

    A head has no lock file if another program copied it to the store, or if 3.9.52 has closed it. The listing tells
    them apart: 3.9.52 leaves tile encoders (:func:`would_tell`), other sizes, more chunks. Where etags are the MD5 of
    the content, as on S3, those of the metadata must match, too.

    Returns
    -------
    False also if the store cannot list, or if the head is so large that listing it would take many requests.
    """
    if manifest.version_id == FIRST or not would_tell(manifest):
        return False
    folder, files = folder_of(manifest.version_id), manifest.files
    if len(files) + sum(len(_own_rows(manifest, tensor)) for tensor in manifest.chunks) > _MOST_LISTED:
        return False
    try:
        chunks = dict(_own_chunks(manifest))
        left: dict[str, Stat] = {}
        for key, stat in storage.list(folder):
            name = key[len(folder) :]
            if name in files or name in chunks:
                left[name] = stat
            elif name != LOCK_NAME and name and not name.endswith("/"):
                return False
    except (FormatError, StorageError):
        return False
    if left.keys() != files.keys() | chunks.keys():
        return False
    if any(left[name].size != size for name, size in chunks.items() if size):
        return False
    return all(left[name].size == len(data) for name, data in files.items()) and _has_etags_of(files, left)


def _own_rows(manifest: Manifest, tensor: str) -> list[int]:
    """Return the rows of a tensor's chunk table whose chunks are in the version's own folder."""
    places = manifest.chunks[tensor]
    own = [place for place, (commit, _) in enumerate(places.folders) if commit == manifest.version_id]
    rows: list[int] = np.flatnonzero(np.isin(places.folder_of, own)).tolist()
    return rows


def _own_chunks(manifest: Manifest) -> Iterator[tuple[str, int]]:
    """Yield name and size of the chunks in the version's folder."""
    for tensor, places in manifest.chunks.items():
        rows = _own_rows(manifest, tensor)
        if not rows:
            continue
        names = ChunkIds.from_bytes(manifest.files.get(f"{tensor}/chunks_index/unsharded", b"")).ids
        if len(names) != len(places.sizes):
            raise FormatError(
                f"{tensor}: the manifest has the places of {len(places.sizes)} chunks, but the tensor has "
                f"{len(names)} chunks"
            )
        for row in rows:
            _, key = places.folders[int(places.folder_of[row])]
            yield f"{key}/chunks/{chunk_name(int(names[row]))}", int(places.sizes[row])


def _has_etags_of(files: Mapping[str, bytes], found: Mapping[str, Stat]) -> bool:
    """Return whether etags agree with the files: either all etags that look like an MD5 match, or none does.

    Etags of objects uploaded in parts do not look like an MD5. Etags of encrypted objects look like one, but are not.
    """
    import hashlib

    told = [
        found[name].etag == hashlib.md5(data, usedforsecurity=False).hexdigest()
        for name, data in files.items()
        if re.fullmatch(_MD5, found[name].etag)
    ]
    return all(told) or not any(told)


def is_as_read(storage: Storage, tree: VersionTree, head: Snapshot, lock: LockFile) -> bool:
    """Return whether a head is unchanged since it was read or published; 3.9.52 changes files, not the tree.

    Parameters
    ----------
    tree
        The current tree.
    lock
        The lock file of the head before this process replaced it.
    """
    if head.origin is None:
        return False
    manifest = Manifest(head.version_id, head.origin.files, {})
    return is_unmodified(storage, tree, manifest, lock, head.meta)


def _is_unmodified_folder(
    storage: Storage, tree: VersionTree, manifest: Manifest, meta: DatasetMeta | None
) -> bool:
    """Return whether the files of a head are unchanged."""
    version_id = manifest.version_id
    if "dataset_meta.json" not in manifest.files:
        return True  # no file can be compared; opening the version from this manifest raises FormatError
    since, folder = digest_time(tree, version_id), folder_of(version_id)
    meta = meta or DatasetMeta.from_bytes(manifest.files["dataset_meta.json"])
    # 3.9.52 does not write an existing tile encoder again, so only tensors without a tile encoder can show its writes.
    bare = [key for key in meta.tensors if f"{key}/{TILES}" not in manifest.files]
    telling = [key for key in bare if key not in meta.hidden_tensors] or bare

    def is_younger(name: str, *, missing: bool = False) -> bool:
        found = storage.stat(folder + name)
        return missing if found is None else not 0 < found.modified <= since

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
        # An empty tensor may lack this file.
        elif not _is_empty(manifest.files.get(f"{key}/tensor_meta.json", b"")):
            if not is_gone(key):
                return True
            told = True
    if told:
        return False
    names = ["dataset_meta.json", "dataset_info.json", "dataset_diff"]
    names += [f"{key}/{name}" for key in meta.tensors for name in ("tensor_meta.json", "commit_diff")]
    return not any(map(is_changed, names))


def _is_other(data: bytes, expected: bytes) -> bool:
    """Return whether a file differs from the expected content in more than one byte."""
    return len(data) != len(expected) or sum(a != b for a, b in zip(data, expected, strict=True)) > 1


@lru_cache(maxsize=256)  # cached, because a writer reads the same file twice
def _is_empty(data: bytes) -> bool:
    try:
        return TensorMeta.from_bytes(data).length == 0
    except FormatError:
        return False
