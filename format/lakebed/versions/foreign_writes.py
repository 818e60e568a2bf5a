"""Whether Deep Lake 3.9.52, which changes uncommitted heads in place, has been in one since it was published."""

from __future__ import annotations

from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.documents.manifest import Manifest
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.documents.version_tree import VersionTree
from lakebed.errors import FormatError
from lakebed.storage.base import Storage, traits_of
from lakebed.versions.digests import digest_time, digests_of
from lakebed.versions.locks.marker import LockFile, read_lock
from lakebed.versions.state import TILES, Snapshot, folder_of


def has_lock_marker(storage: Storage, tree: VersionTree, version_id: str) -> bool:
    """Whether the lock file of a version tells that: it is a head, on a store without locks of its own."""
    return not traits_of(storage).system_locks and _is_open_head(tree, version_id)


def _is_open_head(tree: VersionTree, version_id: str) -> bool:
    node = tree.commits.get(version_id)
    return node is not None and not node.is_committed and version_id in tree.branches.values()


def is_unmodified(
    storage: Storage, tree: VersionTree, manifest: Manifest, lock: LockFile | None = None
) -> bool:
    """Whether 3.9.52 has not written into a version since its digest was made: it is a commit, or bears no trace.

    On a store without locks of its own, the lock file that comes with each head says so.

    Whatever 3.9.52 changes in a head, it makes the tile encoders that are missing there, but of tensors that it clears
    or deletes. (Tested for append, extend, update, pop, clear, info, create, rename, delete, groups.) A few younger
    files without that are damage, and the manifest has sound copies.

    Parameters
    ----------
    lock
        The lock file, if it has been read.
    """
    version_id = manifest.version_id
    if not _is_open_head(tree, version_id):
        return True
    if has_lock_marker(storage, tree, version_id):
        found = read_lock(storage, version_id) if lock is None else lock
        return found.digest != "" and found.digest == digests_of(tree).get(version_id)
    return _is_unmodified_folder(storage, tree, manifest)


def is_as_read(storage: Storage, tree: VersionTree, head: Snapshot, lock: LockFile) -> bool:
    """Whether a head still is what was read, or published, earlier: 3.9.52 does not always change the tree with it.

    Parameters
    ----------
    tree
        The tree as it is now.
    lock
        The lock file of the head, as it was before this process put its own there.
    """
    if head.origin is None:
        return False
    manifest = Manifest(head.version_id, head.origin.files, {})
    return is_unmodified(storage, tree, manifest, lock)


def _is_unmodified_folder(storage: Storage, tree: VersionTree, manifest: Manifest) -> bool:
    """Look at the files of a head, one of which says it."""
    version_id = manifest.version_id
    if "dataset_meta.json" not in manifest.files:
        return True  # and of no use, as will turn out
    since, folder = digest_time(tree, version_id), folder_of(version_id)
    meta = DatasetMeta.from_bytes(manifest.files["dataset_meta.json"])
    # A tile encoder that is there already it leaves alone.
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
