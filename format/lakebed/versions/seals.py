"""Seals: the version tree names the checksum of each version's manifest, and when it was made.

Deep Lake 3.9.52 drops keys that it does not know when it rewrites ``version_control_info.json``: at a commit, at a new
branch, at the first ``ds.append``. So the seal of a committed version says that its manifest is right. An uncommitted
head it changes in place, and leaves the tree as it is (append, pop, update, info through a tensor): there the files
must be no younger than the seal, too.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lakebed.documents.version_tree import OURS, VersionTree


def seals_of(tree: VersionTree) -> Mapping[str, str]:
    """Return {version id: checksum of its manifest}; empty when 3.9.52 was the last writer."""
    ours = tree.extra.get(OURS)
    seals: Any = ours.get("seals") if isinstance(ours, dict) else None
    return seals if isinstance(seals, dict) else {}


def sealed_at(tree: VersionTree, version: str) -> int:
    """Return when a version was sealed, in nanoseconds since 1970; 0 if that is not known."""
    ours = tree.extra.get(OURS)
    times: Any = ours.get("times") if isinstance(ours, dict) else None
    found: Any = times.get(version) if isinstance(times, dict) else None
    return found if isinstance(found, int) else 0


def with_seals(tree: VersionTree, seals: Mapping[str, str]) -> VersionTree:
    """Return the tree with seals added, made now; those of versions that left the tree are dropped."""
    kept = {version: seal for version, seal in {**seals_of(tree), **seals}.items() if version in tree.commits}
    now = time.time_ns()
    heads = set(tree.branches.values()) & kept.keys()
    times = {version: now if version in seals else sealed_at(tree, version) for version in sorted(heads)}
    ours = tree.extra.get(OURS)
    other = dict(ours) if isinstance(ours, dict) else {}
    return replace(tree, extra={**tree.extra, OURS: {**other, "seals": kept, "times": times}})
