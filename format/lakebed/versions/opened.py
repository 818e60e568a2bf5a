"""A few versions that were opened lately, for whoever compares versions."""

from __future__ import annotations

from collections import OrderedDict

from lakebed.documents.version_tree import VersionTree
from lakebed.storage.base import Storage
from lakebed.versions.opening import open_version
from lakebed.versions.state import Snapshot

_MOST = 16


class OpenedVersions:
    """Opens versions and remembers the last few commits among them, which never change.

    Whoever calls this from several threads holds a lock.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._kept: OrderedDict[str, Snapshot] = OrderedDict()

    def get(self, tree: VersionTree, version_id: str) -> Snapshot:
        """Return what a version of a tree holds.

        Raises
        ------
        DatasetCorruptError
            If its metadata is missing or damaged.
        """
        if version_id in self._kept:
            self._kept.move_to_end(version_id)
            return self._kept[version_id]
        snapshot = open_version(self._storage, tree, version_id)
        if tree.commits[version_id].is_committed:
            self._kept[version_id] = snapshot
            if len(self._kept) > _MOST:
                self._kept.popitem(last=False)
        return snapshot
