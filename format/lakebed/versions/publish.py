"""Publish versions: everything new under new names first, then one conditional replacement of the version tree.

Order of one publish (ARCHITECTURE section 3): the 3.x lock of the new head, chunks, the complete head folder, the
manifest, the parent's ``commit_info.json``, ``version_control_info.json``. Until the last step no reader sees any of
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from lakebed.documents import info as info_document
from lakebed.documents.chunk_ids import chunk_name
from lakebed.documents.chunk_set import ChunkSet
from lakebed.documents.manifest import Manifest, seal_of
from lakebed.documents.version_tree import FIRST, VersionTree
from lakebed.errors import KeyNotFound
from lakebed.storage.base import Data, Storage
from lakebed.versions.leases import lock_file
from lakebed.versions.manifests import manifest_key, write_manifest
from lakebed.versions.seals import with_seals
from lakebed.versions.state import Origin, Snapshot, TensorState, folder_of
from lakebed.versions.swap import TreeAt, node_files, swap

COPY_BYTES = 65_536
"""From this length on, files that did not change are copied by the storage: blocks are shared, or bytes stay there."""


def metadata_files(snapshot: Snapshot) -> dict[str, bytes]:
    """Return the metadata files of a version by key relative to its folder (FORMAT.md 1.2, 1.3)."""
    files = {"dataset_meta.json": snapshot.meta.to_bytes()}
    if snapshot.info:
        files["dataset_info.json"] = info_document.to_bytes(snapshot.info)
    if snapshot.diff is not None:
        files["dataset_diff"] = snapshot.diff.to_bytes()
    hidden = set(snapshot.meta.hidden_tensors)
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
        # Nobody asks what changed in a hidden tensor: what changed in its owner says it (FORMAT.md 15.3).
        if tensor.diff is not None and key not in hidden:
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
    copies: list[tuple[str, str, bytes]] = []
    origin: Origin | None = None
    for version in versions:
        files = metadata_files(version)
        before = origin or version.origin
        folder = folder_of(version.version_id)
        for name, data in files.items():
            if before is not None and len(data) >= COPY_BYTES and before.files.get(name) == data:
                copies.append((folder_of(before.version_id) + name, folder + name, data))
            else:
                items.append((folder + name, data))
        places = {key: tensor.table.places for key, tensor in version.tensors.items()}
        manifest, origin = write_manifest(
            Manifest(version.version_id, files, places), before, tree, is_changed=version.has_changes
        )
        object.__setattr__(version, "origin", origin)
        items.append((manifest_key(version.version_id), manifest))
        seals[version.version_id] = seal_of(manifest)
    items += node_files(at.tree, tree)
    # The locks first: a collector that meets anything else in those folders finds somebody at work there.
    heads = set(tree.branches.values())
    locks = [lock_file(v.version_id) for v in versions if v.version_id in heads]
    storage.put_many(chain(locks, chunks, items), durable=True)
    storage.sync([*spilled, *_copied(storage, copies)])
    return swap(storage, at, edit, with_seals(tree, seals), seals)


def _copied(storage: Storage, copies: Iterable[tuple[str, str, bytes]]) -> list[str]:
    """Let the storage copy files from older versions, and write those that are not there; return their keys."""
    made = []
    for source, target, data in copies:
        try:
            storage.copy(source, target, durable=False)
        except KeyNotFound:
            storage.put_many([(target, data)], durable=False)
        made.append(target)
    return made
