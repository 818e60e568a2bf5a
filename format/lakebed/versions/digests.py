"""Seals: the version tree names the checksum of each version's manifest, and when that of a head was made.

Deep Lake 3.9.52 drops keys that it does not know when it rewrites ``version_control_info.json``: at a commit, at a new
branch, at the first ``ds.append``. So the seal of a committed version says that its manifest is right. An uncommitted
head it changes in place, and leaves the tree as it is (append, pop, update, info through a tensor): there the files
must be no younger than the seal, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from lakebed.documents.commits import Commits
from lakebed.documents.version_tree import OURS, VersionTree
from lakebed.versions.state import Snapshot


class Seals(Mapping[str, str]):
    """Checksum of its manifest for each version that has one to be trusted; what is asked for is looked up then."""

    def __init__(self, tree: VersionTree) -> None:
        self._tree = tree

    def __getitem__(self, version: str) -> str:
        seal = self._tree.commits[version].seal
        if seal is None:
            raise KeyError(version)
        return seal

    def __iter__(self) -> Iterator[str]:
        return (version for version, node in self._tree.commits.items() if node.seal is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def seals_of(tree: VersionTree) -> Mapping[str, str]:
    """Return {version id: checksum of its manifest}; empty when 3.9.52 was the last writer."""
    return Seals(tree)


def sealed_at(tree: VersionTree, version: str) -> int:
    """Return when a head was sealed, in nanoseconds since 1970; 0 if that is not known."""
    ours = tree.extra.get(OURS)
    times: Any = ours.get("times") if isinstance(ours, dict) else None
    found: Any = times.get(version) if isinstance(times, dict) else None
    return found if isinstance(found, int) else 0


def with_seals(tree: VersionTree, seals: Mapping[str, str]) -> VersionTree:
    """Return the tree with seals added, made now; those of versions that it lacks are dropped."""
    now = time.time_ns()
    times = {
        head: now if head in seals else sealed_at(tree, head)
        for head in sorted(set(tree.branches.values()))
        if head in seals or tree.commits[head].seal is not None
    }
    ours = tree.extra.get(OURS)
    other = dict(ours) if isinstance(ours, dict) else {}
    return replace(tree.with_seals(seals), extra={**tree.extra, OURS: {**other, "times": times}})


def without_doubtful(
    edit: Callable[[VersionTree], VersionTree], head: Snapshot
) -> Callable[[VersionTree], VersionTree]:
    """Return an edit that also drops the seal of a head that stays in the tree, unless it was read from its manifest.

    Deep Lake 3.9.52 may have changed the head in place. As a commit it would be taken for what its manifest says.
    """
    if head.origin is not None:
        return edit

    def edited(tree: VersionTree) -> VersionTree:
        after = edit(tree)
        node = after.commits.get(head.version_id)
        if node is None or node.seal is None or head.version_id in after.branches.values():
            return after
        return replace(after, commits=Commits.of(after.commits).edited([], [replace(node, seal=None)]))

    return edited
