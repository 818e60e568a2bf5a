"""A new dataset: the root version as an empty parent and a head below it, so that even the first write is atomic."""

from __future__ import annotations

from lakebed.documents.version_tree import FIRST, MAIN, VersionTree, new_id
from lakebed.storage.base import Storage
from lakebed.versions.derive import empty_snapshot
from lakebed.versions.locks.marker import release_lock
from lakebed.versions.publish import publish
from lakebed.versions.state import Snapshot
from lakebed.versions.swap import TreeAt
from lakebed.versions.updates import ReplaceHistory


def create(storage: Storage, filled: Snapshot | None = None) -> tuple[TreeAt, Snapshot]:
    """Write a new dataset in one atomic step; return its tree and its head.

    Parameters
    ----------
    filled
        The head, if it is not empty: its chunks are stored already.

    Raises
    ------
    CommitFailed
        If another process has just created a dataset there.
    """
    head, root = empty_snapshot(new_id()) if filled is None else filled, empty_snapshot(FIRST)
    updates = [ReplaceHistory(MAIN, head.version_id)]
    at = publish(storage, TreeAt(VersionTree({}, {}), None), updates, [root, head])
    release_lock(storage, head.version_id)
    return at, head
