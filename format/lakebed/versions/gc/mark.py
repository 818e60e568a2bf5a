"""The chunks that are referred to, which a collector must leave alone (format.md 9.3).

Only own chunks of versions are marked, because a version inherits all others. A version that is kept outside of the
tree counts with all its chunks, because the version from which it inherits is unknown.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.documents.indexes.chunk_ids import STUB, ChunkIds
from lakebed.documents.indexes.chunk_set import ChunkSet
from lakebed.documents.manifest import Manifest
from lakebed.documents.manifest_delta import Read
from lakebed.documents.version_tree import FIRST, VersionTree
from lakebed.errors import CorruptError, FormatError, KeyNotFound, LimitError
from lakebed.storage.base import Storage
from lakebed.versions.chunk_table import INDEX, ArrayTable, ChunkTable, folder_of
from lakebed.versions.manifests import digests_of, load_manifest, tables_of
from lakebed.versions.paged import PagedTable, table_of_stub

VIEWS_KEY = "queries.json"
_NONE = np.zeros(0, np.uint64)


class LiveChunks:
    """Chunks that are referred to, by folder; memory holds eight bytes of each.

    Attributes
    ----------
    unknown
        Error of a page of a chunk index that nothing else describes: any chunk or page may be referred to. None if all
        pages could be read.
    """

    def __init__(self) -> None:
        # Sorted ids, and ids that are not sorted in yet.
        self._ids: dict[tuple[str, str], NDArray[np.uint64]] = {}
        self._added: dict[tuple[str, str], list[NDArray[np.uint64]]] = {}
        self._whole: set[str] = set()  # pages all of whose chunks were added
        self._mutex = threading.Lock()
        self.versions: set[str] = set()
        self.pages: set[str] = set()
        self.unknown: CorruptError | None = None

    def holds(self, version: str, key: str, name: str) -> bool:
        """Return whether a chunk is referred to; true for names that cannot be names of chunks."""
        number = chunk_number(name)
        return number is None or bool(self.has(version, key, np.array([number], np.uint64))[0])

    def has(self, version: str, key: str, numbers: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return which of some chunks are referred to, or may be."""
        if self.unknown is not None:
            return np.ones(len(numbers), np.bool_)
        with self._mutex:
            folder = version, key
            added = self._added.pop(folder, [])
            if added:
                self._ids[folder] = np.unique(np.concatenate([*added, self._ids.get(folder, _NONE)]))
            ids = self._ids.get(folder, _NONE)
        at = np.minimum(np.searchsorted(ids, numbers), max(0, len(ids) - 1))
        return ids[at] == numbers if len(ids) else np.zeros(len(numbers), np.bool_)

    def tensors(self) -> set[str]:
        """Return the keys of the tensors that have chunks."""
        return {key for _, key in (*self._ids, *self._added)}

    def has_page(self, key: str) -> bool:
        """Return whether a page is referred to, or may be."""
        return self.unknown is not None or key in self.pages

    def _add(self, folder: tuple[str, str], numbers: NDArray[np.uint64]) -> None:
        with self._mutex:
            self._added.setdefault(folder, []).append(numbers)

    def add_manifest(self, found: Read, *, own: bool) -> None:
        """Add the chunks and pages that a manifest names; ``own`` omits inherited chunks."""
        manifest, tables = found.manifest, tables_of(found)
        for key in manifest.chunks:
            table = tables.get(key) or ArrayTable(_index(manifest, key), manifest.chunks[key])
            self.add_table(table, own=own)

    def add_table(self, table: ChunkTable, *, own: bool) -> None:
        """Add the chunks and pages of a tensor.

        Raises
        ------
        CorruptError
            If a page is damaged that can be written again from the chunk index.
        """
        if not isinstance(table, PagedTable):
            for folder, numbers in table.named(own=own):
                self._add(folder, numbers)
            return
        try:
            table.tree.keys(self.pages)
            for folder, numbers in table.named(own=own, known=self._whole):
                self._add(folder, numbers)
        except CorruptError as error:
            if not table.index.is_stub:
                raise
            self.unknown = error

    def add_chunk_set(self, version: str, key: str, entries: ChunkSet) -> None:
        """Add the chunks of a ``chunk_set`` file."""
        found: dict[tuple[str, str], list[int]] = {}
        for name, (commit, other) in entries.items():
            if (number := chunk_number(name)) is not None:
                found.setdefault((commit or version, other or key), []).append(number)
        for folder, numbers in found.items():
            self._add(folder, np.array(numbers, np.uint64))


def chunk_number(name: str) -> int | None:
    """Return the id of a chunk, given the name of its file; None if that is no name that a writer gives."""
    try:
        number = int(name, 16)
    except ValueError:
        return None
    return number if f"{number:x}" == name and not number >> 64 else None


def read_manifest(storage: Storage, version: str, sealed: str | None = None) -> Read | None:
    """Return the manifest of a version, even if the tree does not confirm it; None if it is missing or damaged."""
    try:
        found = load_manifest(storage, version, sealed)
    except (KeyNotFound, FormatError, LimitError):
        return None
    return found if found.manifest.version_id == version else None


def _index(manifest: Manifest, key: str) -> ChunkIds:
    data = manifest.files.get(f"{key}/{INDEX}")
    return ChunkIds.empty() if data is None else ChunkIds.from_bytes(data)


def mark(storage: Storage, tree: VersionTree, version: str, files: Iterable[str], live: LiveChunks) -> None:
    """Add the chunks to which a version of the tree refers.

    Parameters
    ----------
    files
        Keys of the files in its folder.

    Raises
    ------
    FormatError
        If its chunks cannot be determined.
    """
    live.versions.add(version)
    if version == FIRST:
        return  # chunks of the root version are never garbage-collected
    digest = digests_of(tree).get(version)
    node, found = tree.commits[version], read_manifest(storage, version, digest)
    is_known = found is not None and digest == found.digest
    if found is not None:
        live.add_manifest(found, own=True)
    if not (is_known and node.is_committed):
        # 3.9.52 may have changed a head in place, so also mark the chunks that the files of the head refer to.
        _mark_files(storage, version, files, live, stubs=found is None)


def _mark_files(
    storage: Storage, version: str, files: Iterable[str], live: LiveChunks, *, stubs: bool
) -> None:
    """Add the chunks that the files of a version name; stubs name what its manifest would name."""
    folder = folder_of(version)
    for name in files:
        with suppress(KeyNotFound):
            if name.endswith("/chunk_set"):
                key = name[len(folder) : -len("/chunk_set")]
                live.add_chunk_set(version, key, ChunkSet.from_bytes(storage.get(name)))
            elif stubs and name.endswith(f"/{INDEX}") and (data := storage.get(name)).startswith(STUB):
                key = name[len(folder) : -len(f"/{INDEX}")]
                live.add_table(table_of_stub(storage, version, key, data), own=False)


def mark_outside(storage: Storage, version: str, files: Iterable[str], live: LiveChunks) -> list[str]:
    """Add everything to which a version outside of the tree refers; return the versions that it needs."""
    live.versions.add(version)
    found = read_manifest(storage, version)
    if found is not None:
        live.add_manifest(found, own=False)
        return [found.base.manifest.version_id]
    _mark_files(storage, version, files, live, stubs=True)
    try:
        doc = json.loads(storage.get(f"{folder_of(version)}commit_info.json"))
    except (KeyNotFound, ValueError, RecursionError):
        return []
    parent = doc.get("parent") if isinstance(doc, dict) else None
    return [parent] if isinstance(parent, str) else []


def versions_of_views(storage: Storage) -> set[str]:
    """Return the versions that saved views refer to (format.md 12).

    Raises
    ------
    FormatError
        If the list of views cannot be read.
    """
    try:
        docs: Any = json.loads(storage.get(VIEWS_KEY))
    except KeyNotFound:
        return set()
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{VIEWS_KEY} is damaged: {error}") from error
    return set(_versions(docs if isinstance(docs, list) else []))


def _versions(docs: Iterable[Any]) -> Iterator[str]:
    for doc in docs:
        version = doc.get("source-dataset-version") if isinstance(doc, Mapping) else None
        if isinstance(version, str):
            yield version
