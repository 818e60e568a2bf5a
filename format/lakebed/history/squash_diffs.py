"""Merging of the changes of checkpoints into the changes of the next version. Pure.

Checkpoints divide a long series of uncommitted changes: they are neither commits nor heads, and the head inherits their
content. Users see only a single version with all changes since the last commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import takewhile

import numpy as np

from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.dataset_diff import DatasetDiff
from lakebed.documents.version_tree import CommitNode
from lakebed.versions.changes import VersionChange
from lakebed.writing import diffs


def is_checkpoint(node: CommitNode) -> bool:
    """Return whether a version is neither a commit nor a head, and so is hidden from users."""
    return not node.is_committed and node.parent is not None and bool(node.children)


def since_last_commit(line: Iterable[CommitNode]) -> list[CommitNode]:
    """Return the first of some versions, newest first, and the checkpoints between it and the last commit."""
    nodes = iter(line)
    return [next(nodes), *takewhile(is_checkpoint, nodes)]


def squash_checkpoints(changes: Sequence[VersionChange]) -> list[VersionChange]:
    """Return changes, newest first, with the changes of checkpoints merged into the next version."""
    found: list[VersionChange] = []
    for change in changes:
        if found and is_checkpoint(change.node):
            found[-1] = squash_pair(change, found[-1])
        else:
            found.append(change)
    return found


def squash_pair(older: VersionChange, newer: VersionChange) -> VersionChange:
    """Return the changes of two consecutive versions as changes of the second one."""
    before = {new: old for old, new in newer.schema.renamed}
    tensors = {}
    for name, diff in newer.tensors.items():
        earlier = older.tensors.get(before.get(name, name))
        tensors[name] = diff if earlier is None else squash_diff(earlier, diff)
    return VersionChange(newer.node, _squash_schema(older, newer.schema), tensors)


def squash_diff(older: CommitDiff, newer: CommitDiff) -> CommitDiff:
    """Return the records of two consecutive versions of a tensor as one record (format.md 10.2)."""
    if newer.created:
        return newer
    info = older.info_updated or newer.info_updated
    transformed = older.data_transformed or newer.data_transformed
    if newer.cleared:
        return replace(newer, created=older.created, info_updated=info, data_transformed=transformed)
    diff = older
    if len(newer.deleted):
        rows, at = np.unique(newer.deleted, return_index=True)
        has_ids = len(newer.deleted_ids) == len(newer.deleted)
        diff = diffs.with_removed(diff, rows.tolist(), newer.deleted_ids[at] if has_ids else None)
    diff = diffs.with_updated(diff, newer.updated.tolist())
    diff = diffs.with_added(diff, newer.added)
    return replace(diff, info_updated=info, data_transformed=transformed)


def _squash_schema(older: VersionChange, newer: DatasetDiff) -> DatasetDiff:
    schema = older.schema
    first = {new: old for old, new in schema.renamed}
    renamed = dict(schema.renamed)
    for old, new in newer.renamed:
        origin = first.get(old, old)
        renamed[origin] = new
        if origin == new or (old in older.tensors and older.tensors[old].created):
            del renamed[origin]  # the tensor has its first name again, or was created by the older changes
    deleted = list(schema.deleted)
    for name in newer.deleted:
        renamed.pop(first.get(name, name), None)
        if name not in older.tensors or not older.tensors[name].created:
            deleted.append(first.get(name, name))
    return DatasetDiff(schema.info_updated or newer.info_updated, tuple(renamed.items()), tuple(deleted))
