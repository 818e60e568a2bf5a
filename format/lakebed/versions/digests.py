"""Seals: the version tree names the checksum of each version's manifest, and when that of a head was made.

Deep Lake 3.9.52 drops keys that it does not know when it rewrites ``version_control_info.json``: at a commit, at a new
branch, at the first ``ds.append``. So the seal of a committed version says that its manifest is right. An uncommitted
head it changes in place, and leaves the tree as it is (append, pop, update, info through a tensor): there the files
must be no younger than the seal, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from lakebed.documents.version_tree import OURS, VersionTree


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


def with_seals(tree: VersionTree, seals: Mapping[str, str], now: int) -> VersionTree:
    """Return the tree with seals added, made at a time in nanoseconds; those of versions that it lacks are dropped."""
    times = {
        head: now if head in seals else sealed_at(tree, head)
        for head in sorted(set(tree.branches.values()))
        if head in seals or tree.commits[head].seal is not None
    }
    ours = tree.extra.get(OURS)
    other = dict(ours) if isinstance(ours, dict) else {}
    return replace(tree.with_seals(seals), extra={**tree.extra, OURS: {**other, "times": times}})
