"""One dataset opened at one version: its tree, the snapshot it reads, and the lease that keeps that from collection."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from lakebed import config
from lakebed.documents.version_tree import FIRST, MAIN, VersionTree
from lakebed.errors import DatasetCorruptError, VersionReplaced
from lakebed.reading.fetch import ChunkSource
from lakebed.reading.samples import SampleReader
from lakebed.runtime import process_hooks
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
    """Where a session is: the versions and branches that it knows, and the one of them that it reads.

    Parameters
    ----------
    lock
        The lock file of the version, as it was when that was opened.
    """

    tree: VersionTree
    snapshot: Snapshot
    branch: str
    lock: LockFile | None


class Checkout:
    """A version that is read, and the tree it was found in.

    Parameters
    ----------
    storage
        Where the dataset lies.
    ref
        Address of the version to open; None is ``main``.
    cache_bytes
        Bound of the cache of chunks; None is ``config.CACHE_BYTES``.
    as_of
        Open the newest commit of this time, in POSIX seconds, or before, on the line of that version.
    start
        The tree, and what the version holds, where both are known already.
    head_of
        Branch whose head the version was: it is opened even if another head has taken its place.
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
        self.known: TreeAt | None = None  # the tree as it was read last, or published
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
            pass  # another writer has replaced the version, and removed it, since the tree was read

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
        """Open a version that was the head of a branch, as long as its files are there.

        Raises
        ------
        VersionReplaced
            If another head has taken its place, and its files were removed.
        """
        self.known = read_tree_at(self.storage)
        tree = self.known.tree
        if version not in tree.commits:
            if branch not in tree.branches:
                raise VersionReplaced(
                    f"version {version} of {self.storage.url} was the head of branch {branch!r}, which is gone"
                )
            tree = tree.swap_head(branch, version)
        self.enter(version, tree=tree)

    # What belongs together is replaced together: no interrupt leaves one version's tree with another's content.

    @property
    def tree(self) -> VersionTree:
        """The versions and branches, as far as the session knows."""
        return self._position.tree

    @property
    def snapshot(self) -> Snapshot:
        """The version that is read."""
        return self._position.snapshot

    @property
    def branch(self) -> str:
        """Name of the branch that the version is on."""
        return self._position.branch

    @property
    def lock_seen(self) -> LockFile | None:
        """The lock file of the version, as it was when that was opened."""
        return self._position.lock

    def enter(
        self, version_id: str, snapshot: Snapshot | None = None, tree: VersionTree | None = None
    ) -> None:
        """Go to a version, and hold it: as long as it is read, it is not collected.

        After an error everything is as before: tree and version always belong together.

        Parameters
        ----------
        snapshot
            What it holds, if that is known already.
        tree
            A newer tree, in which the version is; None is the present one.
        """
        tree, before = tree or self.tree, self._collector.reading
        self._collector.enter(version_id)
        try:
            found = self._read(tree, version_id) if snapshot is None else Opening(snapshot)
        except BaseException:
            self._collector.reading = before
            raise
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
            # Where readers are not known to collectors, what was replaced long ago may be gone.
            if traits_of(self.storage).reader_leases or version_id in read_tree_at(self.storage).tree.commits:
                raise
            raise VersionReplaced(
                f"version {version_id} of {self.storage.url} was replaced and removed meanwhile; try again"
            ) from None

    def refresh(self) -> None:
        """See the branches and commits that there are now.

        A commit stays the same. A session at the tip of a branch goes to where that is now: another writer may have
        replaced the head, or committed it.
        """
        at = self.known = read_tree_at(self.storage)
        here, tip = self.snapshot.version_id, at.tree.branches.get(self.branch)
        is_there = here in at.tree.commits
        if tip is not None and tip != here and (self.is_head or not is_there):
            self.enter(tip, tree=at.tree)
        elif not is_there:
            return  # what is read is gone, and only the tree that had it knows where it came from
        self._position = self._position._replace(tree=at.tree)
        if self._at is not None and at.tree.branches.get(self.branch) == self.snapshot.version_id:
            self._at = at  # else the next publish finds out that another writer was here
        self.source.heads = frozenset(self.tree.branches.values())

    @property
    def is_head(self) -> bool:
        """Whether the session is at the tip of its branch, where writing is possible."""
        return self.tree.branches.get(self.branch) == self.snapshot.version_id


class _Kept(NamedTuple):
    """A version as it was in a tree."""

    snapshot: Snapshot
    is_commit: bool
    digest: str | None


class VersionCache:
    """Opens versions and remembers the last few: commits never change, and whether a head has changed can be seen.

    Callers from several threads hold a lock.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def get(self, tree: VersionTree, version_id: str) -> Snapshot:
        """Return what a version of a tree holds.

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
        """Remember a version that was read, or written, in a tree; a head only on a disk of this machine's.

        Elsewhere the look at a head takes as long as reading it.
        """
        version_id = snapshot.version_id
        node, digest = tree.commits.get(version_id), digests_of(tree).get(version_id)
        if node is None or (not node.is_committed and not self._can_look_at(snapshot, digest)):
            return
        self._kept[version_id] = _Kept(snapshot, node.is_committed, digest)
        self._kept.move_to_end(version_id)
        if len(self._kept) > _CACHED_VERSIONS:
            self._kept.popitem(last=False)

    def _can_look_at(self, head: Snapshot, digest: str | None) -> bool:
        return traits_of(self._storage).system_locks and head.origin is not None and digest is not None

    def kept(self, tree: VersionTree, version_id: str) -> Snapshot | None:
        """Return a version if it is remembered and, as far as it was no commit, has not been changed; else None."""
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
        """Remember none any more, as after a repair."""
        self._kept.clear()
