"""The state of a dataset for a backup: one version tree, and every file that belongs to it.

Files of published versions do not change, so the tree determines the state. Files to which the tree does not lead are
unfinished or abandoned, and are not backed up. Deep Lake 3.9.52 changes uncommitted versions in place, so their files
are compared again at the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np

from lakebed.copying.deepcopy import own_objects
from lakebed.copying.transfer import Sums, recorded_sums
from lakebed.documents import json_style
from lakebed.documents.backup import FileList
from lakebed.documents.indexes.pages import FOLDER as PAGES
from lakebed.documents.version_tree import FIRST, VersionTree
from lakebed.errors import (
    CommitFailed,
    CorruptError,
    DatasetCorruptError,
    DatasetNotFoundError,
    FormatError,
    KeyNotFound,
    VersionReplaced,
)
from lakebed.runtime import clock
from lakebed.session import credentials
from lakebed.storage.base import Stat, Storage
from lakebed.storage.concurrently import together
from lakebed.versions.chunk_table import folder_of, split_chunk
from lakebed.versions.gc.mark import VIEWS_KEY, LiveChunks, mark_outside, versions_of_views
from lakebed.versions.manifests import manifest_key
from lakebed.versions.opening import TREE_KEY, lease_version, open_version
from lakebed.versions.paged import PagedTable, readable
from lakebed.versions.refs import REFS_KEY, read_refs
from lakebed.versions.state import Snapshot

# Files beside the version tree that writers always replace as a whole. A backup contains their content at the time
# when the tree was read.
_BESIDE = (REFS_KEY, VIEWS_KEY, credentials.KEY)
_MANIFESTS = manifest_key("")
_COMMIT_INFO = "commit_info.json"
# Prefixes of temporary objects, such as probes of a store's clock and conditions; they are not backed up.
_FLEETING = (".lakebed/clock", ".lakebed/probe-", ".lakebed/copy/")
# Maximum number of versions in memory at the same time.
_AT_ONCE = 16
_TRIES = 50
# Coarsest resolution of modification times on any file system, in seconds: a second change within it may keep the
# time.
_COARSEST_CLOCK = 2.0


@dataclass(frozen=True)
class State:
    """A state of a dataset.

    Parameters
    ----------
    tree
        The version tree.
    time
        Time at which the tree was read, in POSIX seconds.
    documents
        Contents of the tree and the documents beside it, by key.
    objects
        Every other object that belongs to the state, by key.
    undated
        Objects that may be changed again without getting another etag.
    refs
        Keys of each version's own chunks.
    sums
        Recorded checksums of the chunks of those versions that had to be opened.
    trusted
        Heads with valid manifests.
    damaged
        Description of each damage, by key.
    """

    tree: VersionTree
    time: float
    documents: Mapping[str, bytes]
    objects: Mapping[str, Stat]
    undated: frozenset[str]
    refs: Mapping[str, tuple[str, ...]]
    sums: Mapping[str, Sums]
    trusted: tuple[str, ...]
    damaged: dict[str, str]


@contextmanager
def state_of(source: Storage, before: FileList | None) -> Iterator[State]:
    """Determine the state of a dataset, and protect its files from garbage collection as far as a reader can.

    Parameters
    ----------
    before
        The previous backup of the same place: commits that did not change since are not opened again.

    Raises
    ------
    DatasetNotFoundError, DatasetCorruptError
        If no dataset exists, or its version tree, tags or views cannot be read.
    CommitFailed
        If the dataset is written too fast to be read.
    """
    for _ in range(_TRIES):
        documents, tree, now = _documents(source)
        with ExitStack() as leases:
            try:
                for head in tree.branches.values():
                    lease = lease_version(source, head)
                    if lease is not None:
                        leases.callback(lease.release)
            except VersionReplaced:
                continue
            yield _Survey(source, tree, before).state(documents, now)
        return
    raise CommitFailed(
        f"{source.url} is written faster than it can be read: stop its writers, and repeat the backup"
    )


def _documents(source: Storage) -> tuple[dict[str, bytes], VersionTree, float]:
    """Read the tree and the documents beside it; start again if the tree changed meanwhile."""
    beside = _beside(source)
    for _ in range(_TRIES):
        now = clock.now()
        try:
            data = source.get(TREE_KEY)
        except KeyNotFound:
            raise DatasetNotFoundError(f"there is no dataset at {source.url}: check the address") from None
        again = _beside(source)
        if again == beside:
            try:
                return {**beside, TREE_KEY: data}, VersionTree.from_bytes(data), now
            except FormatError as error:
                raise DatasetCorruptError(
                    f"{TREE_KEY} of {source.url} is damaged: {error}; `lakebed repair` shows what can be saved",
                    dataset=source.url,
                ) from error
        beside = again
    raise CommitFailed(
        f"{source.url} is written faster than it can be read: stop its writers, and repeat the backup"
    )


def _beside(source: Storage) -> dict[str, bytes]:
    def fetch(key: str) -> bytes | None:
        try:
            return source.get(key)
        except KeyNotFound:
            return None

    found = together(source, [partial(fetch, key) for key in _BESIDE])
    return {key: data for key, data in zip(_BESIDE, found, strict=True) if data is not None}


def changed_since(source: Storage, state: State) -> bool:
    """Tell whether Deep Lake 3.9.52 has changed files of uncommitted versions in place."""
    versions = [i for i, node in state.tree.commits.items() if not node.is_committed]
    folders = [folder_of(i) for i in versions if i != FIRST]
    if _is_head(state.tree, FIRST):
        folders.append("")  # list all files, because the root version has no folder of its own
    for folder in folders:
        for key, stat in source.list(folder):
            known = state.objects.get(key)
            if known is not None and known.etag != stat.etag and not _is_node(key):
                return True
    return False


def reconciled(source: Storage, state: State, key: str, data: bytes) -> bytes:
    """Return the content that a file had when the tree was read, if it was replaced meanwhile.

    Only files ``commit_info.json`` can have been replaced: before each publish replaces the tree, it rewrites this file
    of the parent version, because the file lists the parent's children. The old content follows from the tree.
    """
    if not _is_node(key):
        return data
    version = key.split("/")[1] if key.startswith("versions/") else FIRST
    node = state.tree.commits.get(version)
    if node is None:
        return data
    try:
        children = json_style.load_object(data, key).get("children")
    except FormatError:
        return data
    same = isinstance(children, list) and {str(child) for child in children} == set(node.children)
    if same or source.get(TREE_KEY) == state.documents[TREE_KEY]:
        return data
    return state.tree.node_bytes(version)


def _is_node(key: str) -> bool:
    parts = key.split("/")
    return parts[-1] == _COMMIT_INFO and (len(parts) == 1 or (len(parts) == 3 and parts[0] == "versions"))


def _is_head(tree: VersionTree, version: str) -> bool:
    return version in tree.branches.values()


class _Survey:
    """Search for the files that belong to a tree."""

    def __init__(self, source: Storage, tree: VersionTree, before: FileList | None) -> None:
        self._source, self._tree, self._before = source, tree, before
        self._listed = {
            key: stat
            for key, stat in own_objects(source).items()
            if key not in _BESIDE and not key.startswith(_FLEETING)
        }
        self._by_version: dict[str, list[str]] = {}
        for key in self._listed:
            self._by_version.setdefault(_version(key), []).append(key)
        self._sums: dict[str, Sums] = {}
        self._damaged: dict[str, str] = {}
        self._trusted: list[str] = []
        self._pages: set[str] = set()

    def state(self, documents: Mapping[str, bytes], now: float) -> State:
        tree = self._tree
        refs: dict[str, tuple[str, ...]] = {}
        unknown = []
        for version in tree.commits:
            known = self._known(version)
            if known is None:
                unknown.append(version)
            else:
                refs[version] = known
        for first in range(0, len(unknown), _AT_ONCE):
            some = unknown[first : first + _AT_ONCE]
            opened = together(self._source, [partial(self._opened, version) for version in some])
            refs.update((v, keys) for v, keys in zip(some, opened, strict=True) if keys is not None)
        wanted = {key for keys in refs.values() for key in keys}
        for key in wanted.difference(self._listed):
            self._damaged[key] = "it is missing"
        outside = self._outside()
        objects = {
            key: stat for key, stat in self._listed.items() if key in wanted or self._belongs(key, outside)
        }
        return State(
            tree,
            now,
            documents,
            objects,
            frozenset(key for key, stat in objects.items() if self._is_undated(key, stat)),
            refs,
            self._sums,
            tuple(sorted(self._trusted)),
            self._damaged,
        )

    def _known(self, version: str) -> tuple[str, ...] | None:
        """Return the chunks of a version that did not change since the previous backup; None for others and heads."""
        before = self._before
        if before is None or version not in before.refs or _is_head(self._tree, version):
            return None
        keys = before.refs[version]
        others = [key for key in self._by_version.get(version, ()) if not _is_node(key)]
        for key in (*keys, *others):
            stored, stat = before.files.get(key), self._listed.get(key)
            if stored is None or stat is None or stored.etag != stat.etag:
                return None
        return keys

    def _opened(self, version: str) -> tuple[str, ...] | None:
        """Open a version; return its chunks, and collect their recorded checksums."""
        node = self._tree.commits[version]
        try:
            snapshot = open_version(self._source, self._tree, version)
        except CorruptError as error:
            # The empty root version, or a version of a failed publish, may not open; that is not damage.
            if node.is_committed or _is_head(self._tree, version) or (node.children and version != FIRST):
                key = f"{folder_of(version)}dataset_meta.json"
                self._damaged[key] = f"this version does not open: {error}"
            return None
        for state in snapshot.tensors.values():
            if isinstance(state.table, PagedTable):
                state.table.tree.keys(self._pages, damaged=True)
        if snapshot.origin is not None and _is_head(self._tree, version):
            self._trusted.append(version)
        return tuple(self._chunks(snapshot))

    def _chunks(self, snapshot: Snapshot) -> Iterator[str]:
        tables = [table for s in snapshot.tensors.values() for table in readable(s.table, self._damaged)]
        for table in tables:
            places = table.places
            rows = np.arange(len(table)) if snapshot.version_id == FIRST else np.flatnonzero(places.own)
            sums = recorded_sums(places)
            for row in rows.tolist():
                key = table.key(row)
                if places.sizes[row]:
                    self._sums[key] = sums(row)
                yield key

    def _outside(self) -> LiveChunks:
        """Find the chunks of tags and saved views outside of the tree."""
        try:
            named = versions_of_views(self._source)
        except FormatError as error:
            raise DatasetCorruptError(f"{error} ({self._source.url})", dataset=self._source.url) from error
        named |= {tag.commit for tag in read_refs(self._source).tags.values()}
        live = LiveChunks()
        pending = [version for version in named if self._is_outside(version)]
        while pending:
            version = pending.pop()
            files = self._by_version[version]
            others = mark_outside(self._source, version, files, live)
            pending += [other for other in others if self._is_outside(other) and other not in live.versions]
        if live.unknown is not None:
            raise live.unknown
        return live

    def _is_outside(self, version: str) -> bool:
        return version not in self._tree.commits and version in self._by_version

    def _belongs(self, key: str, outside: LiveChunks) -> bool:
        """Tell whether an object belongs to the state, apart from chunks of versions in the tree."""
        if key.startswith(PAGES):
            # Pages of versions that are not opened again are in the previous backup.
            return key in self._pages or key in outside.pages or key in getattr(self._before, "files", ())
        version = key[len(_MANIFESTS) :] if key.startswith(_MANIFESTS) else _version(key)
        if version in self._tree.commits or version in outside.versions or version == FIRST:
            return True
        chunk = split_chunk(version, key) if key.startswith("versions/") else None
        return chunk is not None and outside.holds(version, *chunk)

    def _is_undated(self, key: str, stat: Stat) -> bool:
        node = self._tree.commits.get(_version(key))
        if node is None or node.is_committed or not stat.modified:
            return False
        return abs(clock.now() - stat.modified / 1e9) < _COARSEST_CLOCK


def _version(key: str) -> str:
    """Return the version whose folder contains an object."""
    parts = key.split("/", 2)
    return parts[1] if len(parts) == 3 and parts[0] == "versions" else FIRST


def common_versions(tree: VersionTree, refs: Collection[str]) -> bool:
    """Tell whether a dataset and a backup share a version."""
    return any(version != FIRST and version in refs for version in tree.commits)
