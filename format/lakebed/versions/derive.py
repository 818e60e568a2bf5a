"""Versions derived from others: the start of a child, a child that replaces all content, an empty version. Pure."""

from __future__ import annotations

from dataclasses import replace

from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.dataset_diff import DatasetDiff
from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.versions.state import Snapshot


def inherited(snapshot: Snapshot, version_id: str) -> Snapshot:
    """Return a new child of a version: same content, no changes of its own (format.md 9.2)."""
    tensors = {
        key: state.with_(table=state.table.inherited(), diff=None, pad=None)
        for key, state in snapshot.tensors.items()
    }
    # Sort the names, because 3.x lists committed tensors in this order.
    names = dict(sorted(snapshot.meta.tensor_names.items()))
    meta = replace(snapshot.meta, tensor_names=names)
    return replace(snapshot, version_id=version_id, meta=meta, tensors=tensors, diff=None)


def replacing(parent: Snapshot, content: Snapshot, version_id: str) -> Snapshot:
    """Return ``content`` as a child of ``parent`` that inherits nothing.

    It names all its chunks itself; its records say that tensors of the parent were cleared or deleted, others created.
    """
    tensors = {}
    for key, state in content.tensors.items():
        known = key in parent.tensors
        diff = CommitDiff(
            created=not known, cleared=known, info_updated=True, first=0, last=state.meta.length
        )
        tensors[key] = replace(state, table=state.table.owned(), diff=diff)
    gone = [name for name in parent.names() if content.key_of(name) is None]
    return Snapshot(
        version_id, content.meta, content.info, tensors, DatasetDiff(info_updated=True, deleted=tuple(gone))
    )


def as_commit(snapshot: Snapshot, version_id: str) -> Snapshot:
    """Return the same content as the first version after an empty root: the version creates all tensors and chunks."""
    tensors = {}
    for key, state in snapshot.tensors.items():
        length = max(state.meta.length, state.length)
        diff = CommitDiff(created=True, info_updated=bool(state.info), first=0, last=length)
        tensors[key] = replace(state, table=state.table.owned(), diff=diff)
    return replace(
        snapshot, version_id=version_id, tensors=tensors, diff=DatasetDiff(info_updated=bool(snapshot.info))
    )


def own_chunks(snapshot: Snapshot) -> int:
    """Return the largest number of chunks of one tensor that a version names itself."""
    return max([t.table.own_count for t in snapshot.tensors.values()], default=0)


def empty_snapshot(version_id: str) -> Snapshot:
    """Return a version without tensors."""
    return Snapshot(version_id, DatasetMeta(), {}, {})
