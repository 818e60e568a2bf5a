"""The commits of a dataset for its log: parents, names and changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.version_tree import CommitNode
from lakebed.history.commits import commit_entry, last_commit
from lakebed.history.squash_diffs import since_last_commit, squash_checkpoints
from lakebed.session.session import Session
from lakebed.versions.ancestry import Ancestry
from lakebed.versions.changes import VersionChange
from lakebed.versions.graph import newest_first
from lakebed.versions.opening import open_version
from lakebed.versions.refs import HEAD, Refs


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One commit: its node, its parents that are commits, and the names that refer to it.

    Parameters
    ----------
    names
        ``HEAD`` for the last commit of the checked-out branch, branches whose last commit this is, and ``tag: name``.
    """

    node: CommitNode
    parents: tuple[str, ...]
    names: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the commit as plain data for JSON."""
        return {
            **commit_entry(self.node),
            "branch": self.node.branch,
            "parents": list(self.parents),
            "names": list(self.names),
        }


class Log:
    """The history of a dataset, with merges and tags."""

    def __init__(self, session: Session, refs: Refs) -> None:
        self._session = session
        self._tree = session.tree
        self._refs = refs
        self._ancestry = Ancestry(self._tree, refs.merges)
        self._names = self._named()

    def _named(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}

        def add(commit: str | None, name: str) -> None:
            if commit is not None:
                found.setdefault(commit, []).append(name)

        add(last_commit(self._tree, self._session.snapshot.version_id), HEAD)
        for branch, head in self._tree.branches.items():
            add(last_commit(self._tree, head), branch)
        for tag in sorted(self._refs.tags.values(), key=lambda tag: tag.name):
            add(tag.commit, f"tag: {tag.name}")
        return found

    def _parents(self, commit: str) -> tuple[str, ...]:
        """Return a commit's parents, its parent in the version tree first; a head is replaced by its last commit."""
        found = (last_commit(self._tree, parent) for parent in self._ancestry.parents(commit))
        return tuple(parent for parent in dict.fromkeys(found) if parent is not None)

    def _entry(self, commit: str) -> LogEntry:
        return LogEntry(self._tree.commits[commit], self._parents(commit), tuple(self._names.get(commit, ())))

    def first_parents(self) -> Iterator[LogEntry]:
        """Iterate over the commits from the checked-out version back along first parents, newest first."""
        for version in self._tree.ancestors(self._session.snapshot.version_id):
            if self._tree.commits[version].is_committed:
                yield self._entry(version)

    def all_commits(self, version: str | None = None) -> Iterator[LogEntry]:
        """Iterate over all commits, or a version's ancestors, newest first; each commit comes before its parents."""
        starts = list(self._tree.branches.values()) if version is None else [version]
        if version is None:
            starts += [tag.commit for tag in self._refs.tags.values() if tag.commit in self._tree.commits]
        pending = [commit for commit in (last_commit(self._tree, start) for start in starts) if commit]
        parents: dict[str, tuple[str, ...]] = {}
        while pending:
            commit = pending.pop()
            if commit not in parents:
                parents[commit] = self._parents(commit)
                pending += parents[commit]
        # If two commits have the same time, the one that is later in the tree counts as newer.
        ordered = {name: parents[name] for name in self._tree.commits if name in parents}
        times = {name: self._tree.commits[name].time or 0.0 for name in ordered}
        return map(self._entry, newest_first(ordered, times))

    def changes(self, commit: str) -> dict[str, Any]:
        """Return the changes of a commit, from its metadata alone.

        Returns
        -------
        ``info_updated``, ``renamed`` (old name to new name), ``deleted`` (names), and ``tensors``: for each changed
        tensor, the flags ``created``, ``cleared``, ``transformed`` and ``info_updated``, and the numbers of rows
        ``added``, ``updated`` and ``deleted``.

        Raises
        ------
        DatasetCorruptError
            If the metadata of the commit is damaged.
        """
        storage, tree = self._session.storage, self._tree
        nodes = since_last_commit(tree.commits[version] for version in tree.ancestors(commit))
        (change,) = squash_checkpoints(
            [VersionChange.of(n, open_version(storage, tree, n.id)) for n in nodes]
        )
        return {
            "info_updated": change.schema.info_updated,
            "renamed": dict(change.schema.renamed),
            "deleted": list(change.schema.deleted),
            "tensors": {name: _counts(diff) for name, diff in change.tensors.items() if not diff.is_empty},
        }


def _counts(diff: CommitDiff) -> dict[str, Any]:
    return {
        "created": diff.created,
        "cleared": diff.cleared,
        "transformed": diff.data_transformed,
        "info_updated": diff.info_updated,
        "added": diff.added,
        "updated": len(diff.updated),
        "deleted": len(diff.deleted),
    }
