"""Digests: the version tree names the checksum of each version's manifest, and when that of a head was made.

Deep Lake 3.9.52 drops keys that it does not know when it rewrites ``version_control_info.json``: at a commit, at a new
branch, at the first ``ds.append``. So the digest of a committed version says that its manifest is right. An uncommitted
head it changes in place, and leaves the tree as it is (append, pop, update, info through a tensor): there the files
must be no younger than the digest, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from lakebed.documents.version_tree import OURS, VersionTree


class Digests(Mapping[str, str]):
    """Checksum of its manifest for each version that has one to be trusted; what is asked for is looked up then."""

    def __init__(self, tree: VersionTree) -> None:
        self._tree = tree

    def __getitem__(self, version: str) -> str:
        digest = self._tree.commits[version].digest
        if digest is None:
            raise KeyError(version)
        return digest

    def __iter__(self) -> Iterator[str]:
        return (version for version, node in self._tree.commits.items() if node.digest is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def digests_of(tree: VersionTree) -> Mapping[str, str]:
    """Return {version id: checksum of its manifest}; empty when 3.9.52 was the last writer."""
    return Digests(tree)


def digest_time(tree: VersionTree, version: str) -> int:
    """Return when the digest of a head was made, in nanoseconds since 1970; 0 if that is not known."""
    ours = tree.extra.get(OURS)
    times: Any = ours.get("times") if isinstance(ours, dict) else None
    found: Any = times.get(version) if isinstance(times, dict) else None
    return found if isinstance(found, int) else 0


def with_digests(tree: VersionTree, digests: Mapping[str, str], now: int) -> VersionTree:
    """Return the tree with digests made at a time in nanoseconds; those of versions that it lacks are dropped."""
    times = {
        head: now if head in digests else digest_time(tree, head)
        for head in sorted(set(tree.branches.values()))
        if head in digests or tree.commits[head].digest is not None
    }
    ours = tree.extra.get(OURS)
    other = dict(ours) if isinstance(ours, dict) else {}
    return replace(tree.with_digests(digests), extra={**tree.extra, OURS: {**other, "times": times}})
