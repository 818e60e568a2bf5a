"""Recovery of orphaned publishes: rows in a head of lakebed that a stale writer of Deep Lake 3.x displaced.

A 3.9.52 process may open a dataset before a publish of lakebed and append after its own lock has expired. It then makes
its own head the head of the branch again (its version file is a union of both trees). The head of lakebed, with folder
and manifest, stays in the tree as an uncommitted version beside the present head, but no branch names it. A recovery
appends the rows that the present head lacks, and removes the orphan from the tree in the same step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lakebed.documents import info as info_document
from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.documents.version_tree import VersionTree
from lakebed.errors import CorruptError, FormatError, KeyNotFound, LakebedError, LimitError
from lakebed.maintenance.plan import RepairReport, VersionSteps, orphaned, rows_beyond
from lakebed.reading.fetch import ChunkSource
from lakebed.reading.samples import SampleReader
from lakebed.session.changes.copy_samples import Source, columns
from lakebed.session.session import Session
from lakebed.storage.base import Storage
from lakebed.versions.chunk_table import folder_of
from lakebed.versions.manifests import load_manifest
from lakebed.versions.opening import manifest_key, open_version
from lakebed.versions.publish import publish
from lakebed.versions.state import Snapshot, TensorState
from lakebed.versions.swap import read_tree_at
from lakebed.versions.updates import DropVersion, NameVersion, SwapHead, Update
from lakebed.writing.encode.column import encode_column
from lakebed.writing.names import companion_key

_CACHE = 64_000_000
_META = "/tensor_meta.json"


def orphaned_publishes(storage: Storage, tree: VersionTree) -> list[str]:
    """Return the versions of lakebed that another writer displaced, oldest publish first."""
    found = {}
    for version in orphaned(tree):
        stat = storage.stat(manifest_key(version))
        if stat is not None and storage.stat(f"{folder_of(version)}dataset_meta.json") is not None:
            found[version] = stat.modified or stat.stored
    return sorted(found, key=lambda version: found[version])


def warning_of(storage: Storage, tree: VersionTree) -> str | None:
    """Return the warning for opening a dataset with orphaned publishes; None if it has none.

    Only a tree that 3.9.52 wrote last can have orphaned publishes.
    """
    lost = orphaned_publishes(storage, tree)
    if not lost:
        return None
    return (
        f"{storage.url}: a Deep Lake 3.x process that had opened it earlier displaced {len(lost)} versions that were "
        f"published after that ({', '.join(version[:12] for version in lost)}). `lakebed repair URL --plan` shows the "
        "rows, --apply appends them again."
    )


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of an orphaned tensor that the present head lacks, and the tensor's name in the present head."""

    name: str
    state: TensorState
    rows: Sequence[int]


@dataclass(frozen=True, slots=True)
class _ForkPoint:
    """A tensor at the moment when two heads diverged, and its changes since the last commit."""

    meta: TensorMeta
    info: Mapping[str, Any] = field(default_factory=dict)
    updated: frozenset[int] = frozenset()
    removed: frozenset[int] = frozenset()
    deleted: int = 0
    cleared: bool = False


def _tensors(files: Mapping[str, bytes]) -> list[str]:
    return [name.removesuffix(_META) for name in files if name.endswith(_META)]


def _fork_point(files: Mapping[str, bytes], key: str) -> _ForkPoint:
    data = files.get(f"{key}/commit_diff")
    diff = CommitDiff() if data is None else CommitDiff.from_bytes(data)
    return _ForkPoint(
        TensorMeta.from_bytes(files[key + _META]),
        _info(files, f"{key}/tensor_info.json"),
        frozenset(diff.updated.tolist()),
        frozenset(diff.deleted_ids.tolist()),
        len(diff.deleted),
        diff.cleared,
    )


def _info(files: Mapping[str, bytes], name: str) -> Mapping[str, Any]:
    return info_document.from_bytes(files[name]) if name in files else {}


def _without_names(info: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the info without the class names: new rows may add names, which is no change to report."""
    return {name: value for name, value in info.items() if name != "class_names"}


class OrphanRecovery:
    """The recovery of one orphaned version.

    Parameters
    ----------
    version
        Id of the version.
    report
        Receives the steps.
    """

    def __init__(self, storage: Storage, tree: VersionTree, version: str, report: RepairReport) -> None:
        self._storage = storage
        self._tree = tree
        self._node = tree.commits[version]
        self._source = ChunkSource(storage, _CACHE, {})
        self._name = f"displaced_{version[:8]}"
        # True if some changes of the version cannot be recovered, so that the version must be kept.
        self._is_left = False
        self._steps = VersionSteps(report, self._node.branch, version)

    def run(self, *, apply: bool) -> str | None:
        """Append the rows, or only report them; return the id of the branch's new head.

        Raises
        ------
        LockedException
            If another writer holds the branch.
        """
        branch = self._node.branch
        try:
            lost = open_version(self._storage, self._tree, self._node.id)
        except (CorruptError, LimitError) as error:
            self._steps.add("damage", f"not recovered: {error}")
            return None
        if branch not in self._tree.branches:
            self._tell(f"its branch no longer exists; the version becomes branch {self._name!r}")
            self._is_left = True
            if apply:
                publish(self._storage, read_tree_at(self._storage), [self._update()], [])
            return None
        if not apply:
            head = open_version(self._storage, self._tree, self._tree.branches[branch])
            self._found(lost, head)
            return None
        session = Session(self._storage, branch)
        session.hold()
        try:
            with session.mutex, session.writing() as draft:
                found = self._found(lost, session.snapshot)
                for one in found:
                    self._append(session, one, lost)
                if draft.dirty:
                    updates = [self._update(), SwapHead(branch, draft.version_id)]
                    session.publish(draft, updates, [draft.snapshot()])
                else:
                    publish(self._storage, read_tree_at(self._storage), [self._update()], [])
            return session.snapshot.version_id if found else None
        finally:
            session.close()

    def _update(self) -> Update:
        return NameVersion(self._node.id, self._name) if self._is_left else DropVersion(self._node.id)

    def _tell(self, message: str, tensor: str | None = None, rows: Sequence[int] = ()) -> None:
        self._steps.add("rebase", message, tensor, (rows[0], rows[-1]) if rows else None)

    def _leave(self, message: str, tensor: str | None = None, rows: Sequence[int] = ()) -> None:
        self._is_left = True
        self._tell(f"{message}: the version is kept as branch {self._name!r}; merge it by hand", tensor, rows)

    # -- missing rows ------------------------------------------------------------------------------------------

    def _found(self, lost: Snapshot, head: Snapshot) -> list[_Rows]:
        """Return the rows to append; report all other differences.

        Tensors are matched by their keys, which renaming does not change. Rows are appended to all tensors or to none,
        because incomplete rows are worse than missing rows.
        """
        files = self._fork_files()
        base = {key: _fork_point(files, key) for key in _tensors(files)}
        names = {key: name for name, key in head.meta.tensor_names.items()}
        found, is_blocked = [], False
        for name in lost.names():
            state = lost.tensor(name)
            rows = self._rows(state.key, lost, head, base.get(state.key))
            now = head.tensors.get(state.key)
            if now is None:
                self._leave("the present head lacks this tensor", name)
            elif now.meta.length and (now.meta.htype, now.meta.dtype) != (state.meta.htype, state.meta.dtype):
                self._leave("its rows do not fit the present type of the tensor", name)
                is_blocked |= bool(rows)
            elif rows:
                found.append(_Rows(names.get(state.key, state.key), state, rows))
            self._compare(name, state, base.get(state.key))
        known = set(base) & set(head.tensors)
        for key in sorted(known - set(lost.tensors) - set(head.meta.hidden_tensors)):
            self._leave("the displaced version deleted this tensor", names.get(key, key))
        if files and lost.info != _info(files, "dataset_info.json"):
            self._leave("the displaced version changed the info of the dataset")
        if found and is_blocked:
            self._leave("its new rows belong to tensors whose type has changed: no rows are appended")
            found = []
        for one in found:
            self._tell(f"{len(one.rows):,} displaced rows are appended again", one.name, one.rows)
        if not found and not self._is_left:
            self._tell("removed from the history: it has no rows that the present head lacks")
        return found

    def _compare(self, name: str, state: TensorState, base: _ForkPoint | None) -> None:
        """Report changes that are not new rows."""
        diff, before = state.diff, base or _ForkPoint(state.meta)
        if diff is not None:
            changed = sorted({int(row) for row in diff.updated} - before.updated)
            if changed:
                what = (
                    f"the displaced version changed {len(changed):,} rows, and the present head may have, too"
                )
                self._leave(what, name, changed)
            removed = (
                len(set(diff.deleted_ids.tolist()) - before.removed) or len(diff.deleted) - before.deleted
            )
            if removed > 0 or (diff.cleared and not before.cleared):
                self._leave("the displaced version removed rows", name)
        if base is not None and state.meta.name != base.meta.name:
            self._leave(f"the displaced version renamed the tensor from {base.meta.name!r}", name)
        if base is not None and _without_names(state.info) != _without_names(base.info):
            self._leave("the displaced version changed its info", name)

    def _fork_files(self) -> Mapping[str, bytes]:
        """Return the metadata files at the moment when the two heads diverged, or {} if they are unknown.

        They are in the manifest that lakebed had written for the other head.
        """
        siblings = self._tree.commits[str(self._node.parent)].children
        line = set(self._tree.ancestors(self._tree.branches[self._node.branch]))
        other = next((version for version in siblings if version in line), None)
        if other is None:
            return {}
        try:
            return load_manifest(self._storage, other).manifest.files
        except (KeyNotFound, FormatError, LimitError):
            return {}

    def _rows(self, key: str, lost: Snapshot, head: Snapshot, base: _ForkPoint | None) -> list[int]:
        """Return the rows of an orphaned tensor that the present head neither has nor removed."""
        state, now = lost.tensors[key], head.tensors.get(key)
        if now is None:
            return []
        here, there = self._ids(now, head), self._ids(state, lost)
        if here is not None and there is not None and len(there) == state.length:
            return rows_beyond(there, here, set(self._removed(key)))
        if base is not None and state.sequence is None:
            return list(range(min(base.meta.length, state.length), state.length))
        return list(range(self._common(state, now), state.length))

    def _ids(self, state: TensorState, snapshot: Snapshot) -> list[int] | None:
        links = state.meta.links.items()
        key = next((key for key, link in links if link.get("extend") == "extend_id"), None)
        if key is None or key not in snapshot.tensors:
            return None
        reader = SampleReader(key, snapshot.tensors[key], self._source)
        try:
            return [int(np.ravel(reader.value(row))[0]) for row in range(reader.state.meta.length)]
        except (LakebedError, IndexError):
            return None

    def _removed(self, key: str) -> list[int]:
        """Return the ids of samples that the present head, or an ancestor, has removed since the heads diverged."""
        found: list[int] = []
        for version in self._tree.ancestors(self._tree.branches[self._node.branch]):
            if version == self._node.parent:
                break
            state = open_version(self._storage, self._tree, version).tensors.get(key)
            found += [] if state is None or state.diff is None else state.diff.deleted_ids.tolist()
        return found

    def _common(self, ours: TensorState, theirs: TensorState) -> int:
        """Return the number of rows at the beginning that are equal byte for byte; used if sample ids are missing."""
        readers = [SampleReader(state.key, state, self._source) for state in (ours, theirs)]
        flat, shorter = 0, min(ours.meta.length, theirs.meta.length)
        while flat < shorter:
            (mine, my_shape), (other, other_shape) = (reader.raw(flat) for reader in readers)
            if bytes(mine) != bytes(other) or my_shape != other_shape:
                break
            flat += 1
        if ours.sequence is None:
            return flat
        return int(np.searchsorted(np.cumsum(ours.sequence.lengths), flat, side="right"))

    # -- appending -----------------------------------------------------------------------------------------------

    def _append(self, session: Session, found: _Rows, lost: Snapshot) -> None:
        target = session.schema().tensor(found.name)
        reader = SampleReader(found.name, found.state, self._source)
        with session.mutex, session.writing() as draft:
            names, known = (list(state.info.get("class_names") or ()) for state in (found.state, target))
            if names != known[: len(names)] and found.state.sequence is None:
                labels = [[names[int(i)] for i in np.ravel(reader.value(row))] for row in found.rows]
                column = encode_column(labels, target.meta, target.info, found.name)
                draft.rows.extend({target.key: column})
                return

            def companion(kind: str) -> SampleReader | None:
                key = companion_key(lost.meta, found.name, kind)
                return None if key is None else SampleReader(key, lost.tensors[key], self._source)

            for part in columns(Source(reader, companion), np.array(found.rows), target):
                draft.rows.extend({target.key: part})
