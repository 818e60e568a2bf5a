"""Publishing of versions: first all files under new names, then one conditional replacement of the version tree.

Order of one publish (ARCHITECTURE section 3): the 3.x lock of the new head, chunks, the complete head folder, the
manifest, the parent's ``commit_info.json``, ``version_control_info.json``. Until the last step no reader sees any of
it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from lakebed.documents import info as info_document
from lakebed.documents.indexes.chunk_ids import chunk_name
from lakebed.documents.indexes.chunk_set import ChunkSet
from lakebed.documents.manifest import Manifest, digest_of
from lakebed.documents.version_tree import FIRST, VersionTree
from lakebed.errors import KeyNotFound
from lakebed.storage.base import Data, Storage, traits_of
from lakebed.storage.concurrently import concurrently
from lakebed.versions.chunk_table import INDEX, ChunkTable, folder_of
from lakebed.versions.locks.leases import Lease
from lakebed.versions.locks.marker import lock_file, released_file
from lakebed.versions.manifests import manifest_key, write_manifest
from lakebed.versions.state import Origin, Snapshot
from lakebed.versions.swap import TreeAt, node_files, swap
from lakebed.versions.updates import SetDigests, Updates, apply

if TYPE_CHECKING:
    from lakebed.versions.paged import PagedTable
    from lakebed.versions.write_pages import Done, Stored

PAGED_FROM = 4096
"""The chunk index of tensors with at least this many chunks is written in pages."""
COPY_BYTES = 65_536
"""Unchanged files of at least this many bytes are copied by the storage, which may share blocks and saves transfers."""


def metadata_files(snapshot: Snapshot) -> dict[str, bytes]:
    """Return the metadata files of a version by key relative to its folder (format.md 1.2, 1.3).

    The chunk indexes of tensors in pages are left out.
    """
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
        if len(tensor.table) and not _has_pages(tensor.table):
            files[f"{key}/{INDEX}"] = tensor.table.ids.to_bytes()
        if snapshot.version_id != FIRST and not tensor.table.has_stub:
            names = chunk_set(snapshot.version_id, key, tensor.table)
            if names:
                files[f"{key}/chunk_set"] = names.to_bytes()
        # A hidden tensor needs no record of changes, because the record of its owner covers it (format.md 15.3).
        if tensor.diff is not None and key not in hidden:
            files[f"{key}/commit_diff"] = tensor.diff.to_bytes()
        for name, data in tensor.encoders().items():
            files[f"{key}/{name}"] = data
    return files


def _has_pages(table: ChunkTable) -> bool:
    return len(table) >= PAGED_FROM or table.has_stub


def chunk_set(version_id: str, tensor: str, table: ChunkTable) -> ChunkSet:
    """Return the names of this version's chunks; names of chunks in folders of other versions include the folder."""
    entries: dict[str, tuple[str | None, str | None]] = {}
    for (commit, key), ids in table.named(own=True):
        place = (
            None if commit == version_id and key == tensor else commit,
            None if key == tensor else key,
        )
        entries.update((chunk_name(number), place) for number in ids.tolist())
    return ChunkSet(entries)


def publish(
    storage: Storage,
    at: TreeAt,
    updates: Updates,
    versions: Sequence[Snapshot],
    chunks: Iterable[tuple[str, Data]] = (),
    spilled: Sequence[str] = (),
    *,
    lease: Lease | None = None,
    leaving: bool = False,
) -> TreeAt:
    """Make new versions durable, then visible in one step.

    Parameters
    ----------
    at
        The tree as it was when the writer took its lock.
    updates
        Changes of the tree; they are applied to the tree that is stored when the version is published.
    versions
        The new versions, complete; their ids are not in the tree yet (or are the root of a new dataset).
    chunks, spilled
        Chunk files to write, and keys of chunk files that were written earlier but not synced.
    lease
        Lease of the branch whose head the last version becomes; None if no writer continues.
    leaving
        The lease is released afterwards.

    Raises
    ------
    CommitFailed
        If another writer changed the same branches; nothing was published.
    CommitStateUnknown
        If the store's answer was lost, and reading again does not tell the outcome.
    LockedException
        If a Deep Lake 3.x writer holds the branch.
    """
    tree = apply(at.tree, updates)
    new = _Files(storage)
    for version in versions:
        new.add(version, tree)
    new.items += node_files(at.tree, tree)
    heads = set(tree.branches.values())
    locked = [v.version_id for v in versions if v.version_id in heads]
    if traits_of(storage).system_locks:
        # Write the locks first: a garbage collector that finds the other files then sees that a writer is active.
        storage.put_many(chain(map(lock_file, locked), chunks, new.items), durable=True)
        storage.sync([*spilled, *new.copied()])
    else:
        _write_at_once(storage, new, chunks, locked, lease, leaving=leaving)
    digests = SetDigests(new.digests, time.time_ns())
    published = swap(storage, at, [*updates, digests], digests.apply(tree))
    new.swapped()
    return published


class _Files:
    """The files to write for some versions, and the files that the storage can copy from older versions."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._origin: Origin | None = None
        self.items: list[tuple[str, Data]] = []
        self.copies: list[tuple[str, str, Callable[[], bytes]]] = []
        self.digests: dict[str, str] = {}
        self._tables: list[tuple[Snapshot, dict[str, PagedTable]]] = []
        self._done: Done = []

    def add(self, version: Snapshot, tree: VersionTree) -> None:
        """Add the metadata files and the manifest of a version."""
        files = metadata_files(version)
        before = self._origin or version.origin
        folder = folder_of(version.version_id)
        for name, data in files.items():
            if before is not None and len(data) >= COPY_BYTES and before.files.get(name) == data:
                self.copies.append((folder_of(before.version_id) + name, folder + name, partial(bytes, data)))
            else:
                self.items.append((folder + name, data))
        paged = self._paged(version, before)
        places = {key: tensor.table.places for key, tensor in version.tensors.items() if key not in paged}
        manifest, self._origin = write_manifest(
            Manifest(version.version_id, files, places), before, tree, is_changed=version.has_changes
        )
        if paged:
            from lakebed.documents.indexes.pages import FOLDER, manifest_bytes

            manifest = manifest_bytes(manifest, {key: one.table.document() for key, one in paged.items()})
            tables = {key: stored.table for key, stored in paged.items()}
            self._tables.append((version, tables))
            written = (key for one in paged.values() for key, _ in one.items if key.startswith(FOLDER))
            trees = {key: table.tree for key, table in tables.items()}
            self._origin = replace(self._origin, trees=trees, written=frozenset(written))
        object.__setattr__(version, "origin", self._origin)
        self.items.append((manifest_key(version.version_id), manifest))
        self.digests[version.version_id] = digest_of(manifest)

    def _paged(self, version: Snapshot, before: Origin | None) -> dict[str, Stored]:
        """Add the pages of a version's large tensors, and their index files."""
        large = {key: state.table for key, state in version.tensors.items() if _has_pages(state.table)}
        if not large:
            return {}
        from lakebed.versions.write_pages import stored

        found = {}
        for key, table in large.items():
            place = version.version_id, key
            one = found[key] = stored(
                self._storage, table, before.trees.get(key) if before else None, place, self._done
            )
            self.items += one.items
            if one.copied is not None:
                self.copies.append((one.copied, one.table.index.key, one.table.index_bytes))
        return found

    def swapped(self) -> None:
        """Make the versions read their pages from storage, to which the pages have been written."""
        for version, tables in self._tables:
            changed = {key: replace(version.tensors[key], table=table) for key, table in tables.items()}
            object.__setattr__(version, "tensors", {**version.tensors, **changed})
            for table in tables.values():
                table.tree.store.written()

    def copied(self) -> list[str]:
        """Let the storage copy files from older versions; return the keys of the copies."""
        return [self.copy(*one) for one in self.copies]

    def copy(self, source: str, target: str, data: Callable[[], bytes]) -> str:
        """Let the storage copy ``source``, or write ``data()`` if it is missing; return the key of the new file."""
        try:
            self._storage.copy(source, target, durable=False)
        except KeyNotFound:
            self._storage.put_many([(target, data())], durable=False)
        return target


def _write_at_once(
    storage: Storage,
    new: _Files,
    chunks: Iterable[tuple[str, Data]],
    locked: Sequence[str],
    lease: Lease | None,
    *,
    leaving: bool,
) -> None:
    """Write all files in parallel, in any order, since a collector ignores young files.

    Files of versions of the same publish cannot be copied, because they are not stored yet; they are written.
    """
    mine = locked[-1] if lease is not None and locked else None
    calls: list[Callable[[], object]] = []
    items = [released_file(version, new.digests[version]) for version in locked if version != mine]
    fresh = tuple(folder_of(version) for version in new.digests if version != FIRST)
    for source, target, data in new.copies:
        if source.startswith(fresh):
            items.append((target, data()))
        else:
            calls.append(partial(new.copy, source, target, data))
    if lease is not None and mine is not None:
        calls.append(partial(lease.publish, mine, new.digests[mine], leaving=leaving))
    concurrently([*calls, lambda: storage.put_many(chain(chunks, new.items, items), durable=True)])
