"""All parents of every version: those in the tree, and those that merges added. Pure.

The tree keeps one parent per version (format.md 9.1). lakebed records merged versions in a side file. Merges by Deep
Lake 3.9.52 are known only from the message: ``Merge <version> into <branch>``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lakebed.documents.version_tree import VersionTree

_MERGE = re.compile(r"Merge ([0-9a-z]{40}) into ")


def merge_message(target: str, branch: str) -> str:
    """Return the message of the commit that brings a version into a branch."""
    return f"Merge {target} into {branch}"


class Ancestry:
    """The descent of versions, merges included.

    Parameters
    ----------
    tree
        The versions.
    merges
        Further parents of merge commits, by id; versions that are not in the tree are ignored. None ignores all merges.
    """

    def __init__(self, tree: VersionTree, merges: Mapping[str, tuple[str, ...]] | None) -> None:
        self._commits = tree.commits
        self._merges = merges
        self._parents: dict[str, tuple[str, ...]] = {}

    def parents(self, version_id: str) -> tuple[str, ...]:
        """Return the parents of a version, first the parent in the tree."""
        known = self._parents.get(version_id)
        if known is None:
            known = self._parents[version_id] = self._find_parents(version_id)
        return known

    def _find_parents(self, version_id: str) -> tuple[str, ...]:
        node = self._commits[version_id]
        # A head cannot be the result of a merge. If a merge is recorded for it, that merge was never completed.
        others = self._merges.get(version_id) if self._merges is not None and node.is_committed else ()
        if others is None:
            found = _MERGE.match(node.message or "")
            others = () if found is None else (found[1],)
        known = [other for other in others if other in self._commits and other != version_id]
        first = () if node.parent is None else (node.parent,)
        return tuple(dict.fromkeys([*first, *known]))

    def of(self, version_id: str) -> set[str]:
        """Return a version and all its ancestors."""
        seen = {version_id}
        pending = [version_id]
        while pending:
            for parent in self.parents(pending.pop()):
                if parent not in seen:
                    seen.add(parent)
                    pending.append(parent)
        return seen

    def bases(self, one: str, other: str) -> list[str]:
        """Return the common ancestors that no other common ancestor descends from, newest first.

        Two branches that were merged into each other can have several.
        """
        common = self.of(one) & self.of(other)
        best = common - {parent for version in common for parent in self.parents(version)}
        return sorted(best, key=lambda version: (self._commits[version].time or 0.0, version), reverse=True)
