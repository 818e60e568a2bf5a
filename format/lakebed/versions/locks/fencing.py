"""Fences: a number per branch that grows whenever a writer takes over from one that may still live.

The version tree carries it, so a publish of the writer that was put out fails, however late it comes: it would have to
replace a tree that has another number than the one it knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lakebed.documents.version_tree import OURS, VersionTree


def fences_of(tree: VersionTree) -> Mapping[str, int]:
    """Return {branch: number}; branches that were never taken over are missing."""
    ours = tree.extra.get(OURS)
    found: Any = ours.get("fences") if isinstance(ours, dict) else None
    return {b: n for b, n in found.items() if type(n) is int} if isinstance(found, dict) else {}


def with_fence(tree: VersionTree, branch: str) -> VersionTree:
    """Return the tree with the next number for a branch; numbers of branches that are gone are dropped."""
    known = fences_of(tree)
    fences = {name: number for name, number in known.items() if name in tree.branches}
    fences[branch] = known.get(branch, 0) + 1
    ours = tree.extra.get(OURS)
    other = dict(ours) if isinstance(ours, dict) else {}
    return replace(tree, extra={**tree.extra, OURS: {**other, "fences": fences}})
