"""Leases of readers: a lock on one file of a version, which is always there, keeps the version from collection."""

from __future__ import annotations

from lakebed.documents.version_tree import FIRST
from lakebed.errors import KeyNotFound, VersionReplaced
from lakebed.storage.base import Storage
from lakebed.storage.reader_locks import Lease, share
from lakebed.versions.opening import read_tree
from lakebed.versions.state import folder_of

_FILE = "dataset_meta.json"


def reader_lease_key(version: str) -> str:
    """Return the storage key of the file that readers of a version lock, and that is removed first of all."""
    return f"{folder_of(version)}{_FILE}"


def lease_version(storage: Storage, version: str) -> Lease | None:
    """Become a reader of a version, before anything of it is read; None where that is impossible or of no use.

    Raises
    ------
    VersionReplaced
        If it left the tree since that was read, and was collected: read the tree again.
    """
    if version == FIRST:
        return None
    try:
        return share(storage, reader_lease_key(version))
    except KeyNotFound:
        if version in read_tree(storage).commits:
            return None  # the file is damage, which opening the version tells better
        raise VersionReplaced(
            f"version {version} of {storage.url} was replaced and removed while it was being opened; try again"
        ) from None
