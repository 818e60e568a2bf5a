"""Publish versions: everything new under new names first, then one conditional replacement of the version tree.

Order of one publish (ARCHITECTURE section 3): chunks, the complete head folder, the parent's ``commit_info.json``, the
manifest, the 3.x lock of the new head, ``version_control_info.json``. Until the last step no reader sees any of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from lakebed.documents import info as info_document
from lakebed.documents.chunk_ids import chunk_name
from lakebed.documents.chunk_set import ChunkSet
from lakebed.documents.lock import DatasetLock, is_live_foreign
from lakebed.documents.manifest import Manifest, seal_of
from lakebed.documents.version_tree import FIRST, VersionTree
from lakebed.errors import (
    CommitFailed,
    CommitStateUnknown,
    KeyNotFound,
    LockedException,
    PreconditionFailed,
    StorageError,
)
from lakebed.storage.base import Data, Storage
from lakebed.versions.opening import TREE_KEY, manifest_key, read_tree
from lakebed.versions.seals import with_seals
from lakebed.versions.state import Snapshot, TensorState, folder_of

LOCK_NAME = "dataset_lock.lock"


@dataclass(frozen=True, slots=True)
class TreeAt:
    """The version tree and the identity of the stored object that it was read from."""

    tree: VersionTree
    etag: str | None


def read_tree_at(storage: Storage) -> TreeAt:
    """Read the tree for a later conditional put; the etag is taken first, so a race can only make that put fail."""
    stat = storage.stat(TREE_KEY)
    return TreeAt(read_tree(storage), None if stat is None else stat.etag)


def metadata_files(snapshot: Snapshot) -> dict[str, bytes]:
    """Return the metadata files of a version by key relative to its folder (FORMAT.md 1.2, 1.3)."""
    files = {"dataset_meta.json": snapshot.meta.to_bytes()}
    if snapshot.info:
        files["dataset_info.json"] = info_document.to_bytes(snapshot.info)
    if snapshot.diff is not None:
        files["dataset_diff"] = snapshot.diff.to_bytes()
    for key, tensor in snapshot.tensors.items():
        files[f"{key}/tensor_meta.json"] = tensor.meta.to_bytes()
        if tensor.info:
            files[f"{key}/tensor_info.json"] = info_document.to_bytes(tensor.info)
        if len(tensor.table):
            files[f"{key}/chunks_index/unsharded"] = tensor.table.ids.to_bytes()
        if snapshot.version_id != FIRST:
            chunk_set = _chunk_set(snapshot.version_id, tensor)
            if chunk_set:
                files[f"{key}/chunk_set"] = chunk_set.to_bytes()
        if tensor.diff is not None:
            files[f"{key}/commit_diff"] = tensor.diff.to_bytes()
        for name, data in tensor.encoders().items():
            files[f"{key}/{name}"] = data
    return files


def _chunk_set(version_id: str, tensor: TensorState) -> ChunkSet:
    """Name every chunk of this version: bare when it lies here, with its folder when it stays elsewhere."""
    table, entries = tensor.table, {}
    own = table.places.own.nonzero()[0].tolist()
    folders, folder_rows, ids = table.places.folders, table.places.folder_of, table.ids.ids
    for row in own:
        commit, key = folders[int(folder_rows[row])]
        entries[chunk_name(int(ids[row]))] = (
            None if commit == version_id and key == tensor.key else commit,
            None if key == tensor.key else key,
        )
    return ChunkSet(entries)


def publish(
    storage: Storage,
    at: TreeAt,
    edit: Callable[[VersionTree], VersionTree],
    versions: Sequence[Snapshot],
    chunks: Iterable[tuple[str, Data]] = (),
    spilled: Sequence[str] = (),
) -> TreeAt:
    """Make new versions durable, then visible in one step.

    Parameters
    ----------
    at
        The tree as read when the writer took its lock.
    edit
        What changes in the tree: pure, applied to the tree that is stored at the time.
    versions
        The new version folders, complete; their ids are not in the tree yet (or are the root of a new dataset).
    chunks, spilled
        Chunk files to write now, and keys of those that were written earlier without being synced.

    Raises
    ------
    CommitFailed
        If another writer changed what this one builds on; nothing was published.
    CommitStateUnknown
        If the store's answer was lost and can not be settled by reading again.
    LockedException
        If a Deep Lake 3.x writer holds the branch.
    """
    tree = edit(at.tree)
    seals = {}
    items: list[tuple[str, Data]] = []
    for version in versions:
        files = metadata_files(version)
        folder = folder_of(version.version_id)
        items += [(folder + name, data) for name, data in files.items()]
        places = {key: tensor.table.places for key, tensor in version.tensors.items()}
        manifest = Manifest(version.version_id, files, places).to_bytes()
        items.append((manifest_key(version.version_id), manifest))
        seals[version.version_id] = seal_of(manifest)
        if version.version_id in tree.branches.values():
            items.append((f"{folder}{LOCK_NAME}", DatasetLock.own(time.time()).to_bytes()))
    items += _node_files(at.tree, tree)
    storage.put_many(chain(chunks, items), durable=True)
    storage.sync(spilled)
    return _swap(storage, at, edit, with_seals(tree, seals), seals)


def _node_files(before: VersionTree, after: VersionTree) -> list[tuple[str, Data]]:
    """Return the ``commit_info.json`` of nodes with other children or a new commit time; heads need none."""
    heads = set(after.branches.values())
    changed = [i for i, node in after.commits.items() if i not in heads and before.commits.get(i) != node]
    return [(f"{folder_of(i)}commit_info.json", after.node_bytes(i)) for i in changed]


def _built_on(before: VersionTree, after: VersionTree) -> dict[str, str | None]:
    """Return the heads that a change replaces, adds or drops, as they were: what nobody else may have touched."""
    names = before.branches.keys() | after.branches.keys()
    return {n: before.branches.get(n) for n in names if before.branches.get(n) != after.branches.get(n)}


def _swap(
    storage: Storage,
    at: TreeAt,
    edit: Callable[[VersionTree], VersionTree],
    tree: VersionTree,
    seals: dict[str, str],
) -> TreeAt:
    """Replace the version tree; on a lost race try again if nobody touched what we build on."""
    for _ in range(5):
        try:
            etag = storage.put_if(TREE_KEY, tree.to_bytes(), at.etag)
            return TreeAt(tree, etag)
        except PreconditionFailed as error:
            now = read_tree_at(storage)
            if now.tree.branches == tree.branches:
                return now  # an earlier attempt, whose answer was lost, took effect after all
            if any(now.tree.branches.get(name) != head for name, head in _built_on(at.tree, tree).items()):
                raise CommitFailed(
                    f"another writer published to {storage.url} first; nothing of this publish is visible. "
                    "Open the dataset again and repeat the change."
                ) from error
            # Somebody published on another branch: the same change on top of that is still right.
            tree = with_seals(edit(now.tree), seals)
            storage.put_many(_node_files(now.tree, tree), durable=True)
            at = now
        except StorageError as error:
            _settle(storage, tree, error)
            return read_tree_at(storage)
    raise CommitFailed(f"{storage.url} is rewritten all the time by another process; nothing was published")


def _settle(storage: Storage, tree: VersionTree, error: StorageError) -> None:
    """Find out whether a put whose answer is an error took effect: re-raise if not (ARCHITECTURE section 3.3)."""
    try:
        stored = VersionTree.from_bytes(storage.get(TREE_KEY))
    except (StorageError, KeyNotFound) as again:
        raise CommitStateUnknown(
            f"the answer to a publish on {storage.url} was lost ({error}) and reading again failed ({again}); "
            "open the dataset to see whether the version is there before repeating the change"
        ) from error
    if stored.branches != tree.branches:
        raise error


def check_foreign_lock(storage: Storage, head: str) -> None:
    """Refuse to write while a Deep Lake 3.x process has the head open for writing (FORMAT.md 14).

    Raises
    ------
    LockedException
        If its lock is live.
    """
    key = f"{folder_of(head)}{LOCK_NAME}"
    try:
        data = storage.get(key)
    except KeyNotFound:
        return
    if is_live_foreign(data, time.time()) and not _owner_is_dead(data):
        raise LockedException(
            f"{storage.url} is open for writing by a Deep Lake 3.x process (lock file {key}); "
            "close it there, or wait until its lock runs out after at most 5 minutes"
        )


def _owner_is_dead(data: bytes) -> bool:
    """Whether the lock was left by a process of this machine that is gone, as a killed writer of ours leaves it."""
    lock, own = DatasetLock.from_bytes(data), DatasetLock.own(time.time())
    if lock.node != own.node:
        return False
    try:
        os.kill(lock.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def hold_lock(storage: Storage, head: str) -> None:
    """Write the 3.x lock of a head, so that a Deep Lake 3.x writer stays out (FORMAT.md 14)."""
    storage.put(f"{folder_of(head)}{LOCK_NAME}", DatasetLock.own(time.time()).to_bytes())


def release_lock(storage: Storage, head: str) -> None:
    """Remove the 3.x lock of a head."""
    storage.delete(f"{folder_of(head)}{LOCK_NAME}")
