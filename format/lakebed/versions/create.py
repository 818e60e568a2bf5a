"""A new dataset: the root version as an empty parent and a head below it, so that even the first write is atomic."""

from __future__ import annotations

from lakebed.documents.version_tree import FIRST, VersionTree, new_id
from lakebed.storage.base import Storage
from lakebed.versions.derive import empty_snapshot
from lakebed.versions.leases import release_lock
from lakebed.versions.publish import publish
from lakebed.versions.swap import TreeAt


def create(storage: Storage) -> None:
    """Write a new dataset in one atomic step.

    Raises
    ------
    CommitFailed
        If another process has just created one there.
    """
    head, root = empty_snapshot(new_id()), empty_snapshot(FIRST)
    tree = VersionTree.initial(head.version_id)
    publish(storage, TreeAt(VersionTree({}, {}), None), lambda _: tree, [root, head])
    release_lock(storage, head.version_id)
