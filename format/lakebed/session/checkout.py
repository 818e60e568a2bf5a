"""One dataset opened at one version: its tree, its snapshot, and the lease that prevents collection."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from lakebed import config
from lakebed.documents.version_tree import FIRST, MAIN, VersionTree
from lakebed.errors import DatasetCorruptError, VersionReplaced
from lakebed.reading.fetch import ChunkSource
from lakebed.reading.samples import SampleReader
from lakebed.runtime import process_hooks
from lakebed.runtime.failures import OnFailure
from lakebed.storage.base import Storage, traits_of
from lakebed.versions.foreign_writes import is_as_read
from lakebed.versions.gc.collect import Collector
from lakebed.versions.locks.marker import LockFile
from lakebed.versions.manifests import digests_of
from lakebed.versions.opening import Opening, open_version, read_version
from lakebed.versions.refs import commit_as_of, resolve
from lakebed.versions.state import Snapshot, TensorState
from lakebed.versions.tree_file import TreeAt, read_tree_at
from lakebed.writing.draft.unpublished import Unpublished

_CACHED_VERSIONS = 16


class Position(NamedTuple):
    """Position of a session: the version tree that the session knows, and the version in this tree that it reads.

    Parameters
    ----------
    lock
        Lock file of the version as it was when the version was opened.
    """

    tree: VersionTree
    snapshot: Snapshot
    branch: str
    lock: LockFile | None


class Checkout:
    """The version that a session reads, and the tree that contains this version.

    Parameters
    ----------
    storage
        Storage of the dataset.
    ref
        Address of the version to open; None is ``main``.
    cache_bytes
        Bound of the chunk cache; None is ``config.CACHE_BYTES``.
    as_of
        Time in POSIX seconds: open the newest commit in the history of that version made at or before this time.
    start
        Tree and content of the version, if the caller has already read both.
    head_of
        Branch whose head the version was; the version is opened even if another head has replaced it.
    """

    def __init__(
        self,
        storage: Storage,
        ref: str | None,
        *,
        cache_bytes: int | None,
        as_of: float | None,
        start: tuple[TreeAt, Snapshot] | None = None,
        head_of: str | None = None,
    ) -> None:
        process_hooks.start()
        self.storage = storage
        self.versions = VersionCache(storage)
        self._unpublished = Unpublished()
        self.source = ChunkSource(
            storage, config.CACHE_BYTES if cache_bytes is None else cache_bytes, self._unpublished
        )
        self._position: Position
        self.known: TreeAt | None = None  # the tree that was last read or published
        self._at: TreeAt | None = None
        self._readers: dict[str, tuple[TensorState, SampleReader]] = {}
        self._collector = Collector(storage)
        if start is not None:
            at, snapshot = start
            self.known = at
            self.enter(snapshot.version_id, snapshot, at.tree)
            return
        if ref is not None and head_of is not None:
            self._open_head(ref, head_of)
            return
        while not self._open(ref, as_of):
            pass  # another writer has replaced and removed the version since the tree was read

    def _open(self, ref: str | None, as_of: float | None) -> bool:
        self.known = read_tree_at(self.storage)
        tree = self.known.tree
        is_bare = ref is None and MAIN not in tree.branches
        version = FIRST if is_bare else resolve(self.storage, tree, ref or MAIN)
        try:
            self.enter(version if as_of is None else commit_as_of(tree, version, as_of), tree=tree)
        except VersionReplaced:
            return False
        return True

    def _open_head(self, version: str, branch: str) -> None:
        """Open a version that was the head of a branch; its files may already be removed.

        Raises
        ------
        VersionReplaced
            If another head has replaced the version, and its files were removed.
        """
        self.known = read_tree_at(self.storage)
        tree = self.known.tree
        if version not in tree.commits:
            if branch not in tree.branches:
                raise VersionReplaced(
                    f"version {version} of {self.storage.url} was the head of branch {branch!r}, which was deleted"
                )
            tree = tree.swap_head(branch, version)
        self.enter(version, tree=tree)

    # These properties read `_position`, which `enter` replaces in one assignment: an interrupt never leaves the tree of
    # one version with the content of another.

    @property
    def tree(self) -> VersionTree:
        """Version tree as last read or published: versions and branches."""
        return self._position.tree

    @property
    def snapshot(self) -> Snapshot:
        """Version that the session reads."""
        return self._position.snapshot

    @property
    def branch(self) -> str:
        """Name of the branch of the version."""
        return self._position.branch

    @property
    def lock_seen(self) -> LockFile | None:
        """Lock file of the version as it was when the version was opened."""
        return self._position.lock

    def enter(
        self, version_id: str, snapshot: Snapshot | None = None, tree: VersionTree | None = None
    ) -> None:
        """Open a version and protect it from garbage collection; after an error, the previous version is still open.

        Parameters
        ----------
        snapshot
            Content of the version, if known.
        tree
            A newer tree that contains the version; None keeps the session's tree.
        """
        tree, before = tree or self.tree, self._collector.reading
        self._collector.enter(version_id)
        with OnFailure(setattr, self._collector, "reading", before):
            found = self._read(tree, version_id) if snapshot is None else Opening(snapshot)
        self._position = Position(tree, found.snapshot, tree.commits[version_id].branch, found.lock)
        self.source.heads = frozenset(tree.branches.values())
        self._readers.clear()

    def _read(self, tree: VersionTree, version_id: str) -> Opening:
        kept = self.versions.kept(tree, version_id)
        if kept is not None:
            return Opening(kept)
        try:
            return read_version(self.storage, tree, version_id)
        except DatasetCorruptError:
            # If the storage has no leases of readers, files of a replaced version may have been garbage-collected.
            if traits_of(self.storage).reader_leases or version_id in read_tree_at(self.storage).tree.commits:
                raise
            raise VersionReplaced(
                f"version {version_id} of {self.storage.url} was replaced and removed meanwhile; try again"
            ) from None

    def refresh(self) -> None:
        """Update the session's branches and commits from storage.

        A session at a commit stays there. A session at the tip of a branch follows it: another writer may have replaced
        or committed the head.
        """
        at = self.known = read_tree_at(self.storage)
        here, tip = self.snapshot.version_id, at.tree.branches.get(self.branch)
        is_there = here in at.tree.commits
        if tip is not None and tip != here and (self.is_head or not is_there):
            self.enter(tip, tree=at.tree)
        elif not is_there:
            return  # the version was removed, and only the old tree contains its history
        self._position = self._position._replace(tree=at.tree)
        if self._at is not None and at.tree.branches.get(self.branch) == self.snapshot.version_id:
            self._at = at  # with the old value, the next publish would report another writer
        self.source.heads = frozenset(self.tree.branches.values())

    @property
    def is_head(self) -> bool:
        """True if the session is at the tip of its branch, where it may write."""
        return self.tree.branches.get(self.branch) == self.snapshot.version_id


class _Kept(NamedTuple):
    """A remembered version, and its digest in the tree."""

    snapshot: Snapshot
    is_commit: bool
    digest: str | None


class VersionCache:
    """Cache of the last few opened versions: commits never change, and a changed head is detected by its digest.

    Callers from several threads must hold a lock.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def get(self, tree: VersionTree, version_id: str) -> Snapshot:
        """Return a version of a tree.

        Raises
        ------
        DatasetCorruptError
            If its metadata is missing or damaged.
        """
        snapshot = self.kept(tree, version_id)
        if snapshot is None:
            snapshot = open_version(self._storage, tree, version_id)
            self.keep(tree, snapshot)
        return snapshot

    def keep(self, tree: VersionTree, snapshot: Snapshot) -> None:
        """Remember a version that was read or written; a head is remembered only if the storage is a local disk.

        On other storages, checking whether a head has changed takes as long as reading the head.
        """
        version_id = snapshot.version_id
        node, digest = tree.commits.get(version_id), digests_of(tree).get(version_id)
        can_check = (
            traits_of(self._storage).system_locks and snapshot.origin is not None and digest is not None
        )
        if node is None or not (node.is_committed or can_check):
            return
        self._kept[version_id] = _Kept(snapshot, node.is_committed, digest)
        self._kept.move_to_end(version_id)
        if len(self._kept) > _CACHED_VERSIONS:
            self._kept.popitem(last=False)

    def kept(self, tree: VersionTree, version_id: str) -> Snapshot | None:
        """Return a remembered version; None if it is not remembered, or is a head that has changed."""
        known, node = self._kept.get(version_id), tree.commits.get(version_id)
        if known is None or node is None:
            return None
        if not known.is_commit and (
            digests_of(tree).get(version_id) != known.digest
            or not (node.is_committed or is_as_read(self._storage, tree, known.snapshot, LockFile()))
        ):
            del self._kept[version_id]
            return None
        self._kept.move_to_end(version_id)
        return known.snapshot

    def forget(self) -> None:
        """Forget all versions, as after a repair."""
        self._kept.clear()
