"""Differences between versions, as a dictionary or printed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.version_tree import CommitNode, VersionTree
from lakebed.errors import CheckoutError, InvalidInputError, TensorModifiedError, VersionNotFoundError
from lakebed.history.commits import commit_time
from lakebed.history.squash_diffs import since_last_commit, squash_checkpoints
from lakebed.reading.samples import SampleReader
from lakebed.runtime.printable import printable
from lakebed.session.session import Session
from lakebed.versions.changes import Fork, Step, VersionChange, fork, modified_rows
from lakebed.versions.opening import read_tree
from lakebed.versions.refs import resolve
from lakebed.versions.state import Snapshot

_RULE = "-" * 120 + "\n"
_STARS = "*" * 80 + "\n"


def diff(session: Session, id_1: str | None, id_2: str | None, *, as_dict: bool) -> dict[str, Any] | None:
    """Print the differences and return None, or return them if ``as_dict``; see ``Dataset.diff``."""
    compared = compare(session, id_1, id_2)
    if as_dict:
        return compared.as_dict()
    print(compared.as_text(), end="")
    return None


# -- compared versions ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: the changes of its versions, newest first, and a title."""

    title: str
    changes: list[VersionChange]


@dataclass(frozen=True, slots=True)
class DiffResult:
    """The result of a comparison.

    It has one side, the changes of a version since its predecessor; or two sides, the changes of two versions since
    their common ancestor ``ancestor``. ``what`` names the two versions in the printed text.
    """

    sides: tuple[Side, ...]
    ancestor: str | None = None
    what: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return ``{"dataset": ..., "tensor": ...}``.

        Each value is a list with one item per version; with two sides, a pair of such lists.
        """
        schema = tuple([_schema_entry(change) for change in side.changes] for side in self.sides)
        tensors = tuple([_tensor_entry(change) for change in side.changes] for side in self.sides)
        if self.ancestor is None:
            return {"dataset": schema[0], "tensor": tensors[0]}
        return {"dataset": schema, "tensor": tensors}

    def as_text(self) -> str:
        """Return the changes as text, as Deep Lake 3.x prints them."""
        parts = ["\n## Deep Lake Diff\n"]
        if self.ancestor is not None:
            parts.append(
                "The 2 diffs are calculated relative to the most recent common ancestor "
                f"({printable(self.ancestor)}) of {self.what}.\n"
            )
        parts.append(_RULE)
        for side in self.sides:
            parts += [
                f"\x1b[94mDiff in {printable(side.title)}:\n\x1b[0m\n",
                *map(_version_text, side.changes),
            ]
            if not side.changes:
                parts.append("No changes were made.\n\n")
            parts.append(_RULE)
        return "".join(parts)


def compare(session: Session, id_1: str | None, id_2: str | None) -> DiffResult:
    """Compare versions; see ``Dataset.diff``.

    Raises
    ------
    ValueError
        If only ``id_2`` is given.
    VersionNotFoundError
        If one of the names does not exist.
    """
    if id_1 is None and id_2 is not None:
        raise InvalidInputError("Can't specify id_2 without specifying id_1")
    with session.mutex:
        lines = _Histories(session)
        here = lines.here
        title = f"{here.id} (current commit)" if here.is_committed else "HEAD"
        if id_1 is None:
            return DiffResult(
                (
                    Side(
                        f"{title} relative to the previous commit",
                        lines.changes(since_last_commit(lines.own())),
                    ),
                )
            )
        if id_2 is None:
            titles, what = (title, f"{id_1} (target id)"), "the current state and the commit passed"
            forked = fork(list(lines.own()), lines.of(id_1))
        else:
            titles, what = (f"{id_1} (target id 1)", f"{id_2} (target id 2)"), "the two commits passed"
            forked = fork(lines.of(id_1), lines.of(id_2))
        sides = (
            Side(titles[0], lines.changes(forked.left)),
            Side(titles[1], lines.changes(forked.right)),
        )
        return DiffResult(sides, forked.ancestor, what)


class _Histories:
    """Histories of versions: that of the checked-out version includes unpublished changes, others do not."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._snapshot = replace(session.schema(), version_id=session.pending_id)
        self._stored: VersionTree | None = None
        published = session.tree.commits[session.snapshot.version_id]
        self.here = replace(published, id=self._snapshot.version_id)

    def own(self) -> Iterator[CommitNode]:
        """Yield the nodes from the checked-out version back to the root."""
        session = self._session
        yield self.here
        for id_ in islice(session.tree.ancestors(session.snapshot.version_id), 1, None):
            yield session.tree.commits[id_]

    def of(self, address: str) -> list[CommitNode]:
        """Return the nodes from the version at an address back to the root."""
        session = self._session
        if self._stored is None:
            self._stored = read_tree(session.storage)
        try:
            found = resolve(session.storage, self._stored, session.known_as(address), session.branch)
        except CheckoutError as error:
            raise VersionNotFoundError(
                f"The commit/branch {address} does not exist in the dataset: {error}"
            ) from error
        if found == session.snapshot.version_id:
            return list(self.own())
        return [self._stored.commits[i] for i in self._stored.ancestors(found)]

    def snapshot(self, version_id: str) -> Snapshot:
        """Return the content of a version."""
        if version_id == self._snapshot.version_id:
            return self._snapshot
        tree = self._session.tree
        if version_id not in tree.commits and self._stored is not None:
            tree = self._stored
        return self._session.versions.get(tree, version_id)

    def changes(self, nodes: Iterable[CommitNode]) -> list[VersionChange]:
        """Return the recorded changes of each version; those of checkpoints are merged into the next version."""
        return squash_checkpoints([VersionChange.of(node, self.snapshot(node.id)) for node in nodes])


# -- rows of a tensor ----------------------------------------------------------------------------------------------


def modified(session: Session, key: str, target: str | None) -> list[int]:
    """Return the rows of a tensor that were added or replaced since a version; see ``Tensor.modified_samples``.

    Raises
    ------
    VersionNotFoundError
        If the version does not exist.
    TensorModifiedError
        If the version is not an ancestor of the checked-out version.
    """
    with session.mutex:
        lines = _Histories(session)
        since = since_last_commit(lines.own())
        base = since[-1].parent
        if target is not None:
            forked: Fork = fork(list(lines.own()), lines.of(target))
            if forked.right:
                raise TensorModifiedError(
                    "The target commit is not an ancestor of the current commit, modified can't be calculated: "
                    f"{target} is on another line of history"
                )
            since, base = forked.left, forked.ancestor
        snapshots = [None if base is None else lines.snapshot(base)]
        snapshots += [lines.snapshot(node.id) for node in reversed(since)]
        steps = [_step(session, key, old, new) for old, new in pairwise(snapshots) if new]
        return list(map(int, modified_rows(step for step in steps if step is not None)))


def _step(session: Session, key: str, old: Snapshot | None, new: Snapshot) -> Step | None:
    """Return the change of one tensor from a version to the next; None if the tensor does not exist."""
    state = new.tensors.get(key)
    if state is None:
        return None
    before = None if old is None else old.tensors.get(key)

    def ids() -> tuple[NDArray[np.uint64], NDArray[np.uint64]] | None:
        was, now = _ids(session, key, old), _ids(session, key, new)
        return None if was is None or now is None else (was, now)

    return Step.between(before, state, ids)


def _ids(session: Session, key: str, snapshot: Snapshot | None) -> NDArray[np.uint64] | None:
    """Read the sample ids of a tensor in a version: uint64, shape (rows,); None if the tensor has no ids."""
    ids = None if snapshot is None or key not in snapshot.tensors else snapshot.id_key(key)
    if snapshot is None or ids is None:
        return None
    state = snapshot.tensors[ids]
    is_pending = snapshot.version_id == session.pending_id
    reader = session.reader(ids, ids) if is_pending else SampleReader(ids, state, session.source)
    if not state.length:
        return np.empty(0, np.uint64)
    return reader.stacked(range(state.length)).reshape(-1).astype(np.uint64)


# -- the dictionary ------------------------------------------------------------------------------------------------


def _schema_entry(change: VersionChange) -> dict[str, Any]:
    node = change.node
    return {
        "commit_id": node.id,
        "author": node.user,
        "message": node.message,
        "date": commit_time(node) if node.is_committed else None,
        "info_updated": change.schema.info_updated,
        "renamed": dict(change.schema.renamed),
        "deleted": list(change.schema.deleted),
    }


def _tensor_entry(change: VersionChange) -> dict[str, Any]:
    return {"commit_id": change.node.id, **{name: _entry(diff) for name, diff in change.tensors.items()}}


def _entry(diff: CommitDiff) -> dict[str, Any]:
    return {
        "created": diff.created,
        "cleared": diff.cleared,
        "info_updated": diff.info_updated,
        "data_added": [diff.first, diff.last],
        "data_updated": set(diff.updated.tolist()),
        "data_deleted": set(diff.deleted.tolist()),
        "data_transformed_in_place": diff.data_transformed,
    }


# -- the printed form ----------------------------------------------------------------------------------------------


def _version_text(change: VersionChange) -> str:
    node = change.node
    name = node.id if node.is_committed else "UNCOMMITTED HEAD"
    date = commit_time(node) if node.is_committed else None
    user, message = printable(str(node.user)), printable(str(node.message), lines=True)
    head = f"{_STARS}\x1b[93mcommit {name}\x1b[0m\nAuthor: {user}\nDate: {date}\nMessage: {message}\n\n"
    body = _schema_text(change) + _tensors_text(change.tensors)
    return head + (body or "No changes were made in this commit.\n")


def _schema_text(change: VersionChange) -> str:
    schema = change.schema
    if schema.is_empty:
        return ""
    lines = ["- Updated dataset info \n\n"] if schema.info_updated else []
    lines += [f"- Deleted:\t{printable(name)}\n" for name in schema.deleted]
    lines += [f"- Renamed:\t{printable(old)} -> {printable(new)}\n" for old, new in schema.renamed]
    return "".join([*lines, "\n\n"])


def _tensors_text(tensors: Mapping[str, CommitDiff]) -> str:
    return "".join(
        f"{printable(name)}\n{text}\n"
        for name, diff in sorted(tensors.items())
        if (text := _tensor_text(diff))
    )


def _tensor_text(diff: CommitDiff) -> str:
    lines = []
    if diff.created:
        lines.append("Created tensor")
    if diff.cleared:
        lines.append("Cleared tensor")
    if diff.added:
        lines.append(f"Added {_samples(diff.added)}: [{diff.first}-{diff.last}]")
    for verb, rows in (("Updated", diff.updated), ("Deleted", diff.deleted)):
        if len(rows):
            lines.append(f"{verb} {_samples(len(rows))}: [{_ranges(rows)}]")
    if diff.info_updated:
        lines.append("Updated tensor info")
    return "".join(f"* {line}\n" for line in lines)


def _samples(count: int) -> str:
    return f"{count} sample" if count == 1 else f"{count} samples"


def _ranges(rows: NDArray[np.uint64]) -> str:
    """Return numbers as text in ascending order, runs of consecutive numbers as ``first-last``."""
    rows = np.unique(rows)
    cuts = np.flatnonzero(np.diff(rows) != 1) + 1
    runs = [(int(run[0]), int(run[-1])) for run in np.split(rows, cuts)]
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
