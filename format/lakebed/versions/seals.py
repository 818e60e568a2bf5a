"""Seals: the version tree names the checksum of each version's manifest.

Deep Lake 3.9.52 rewrites ``version_control_info.json`` whenever it opens a dataset for writing, and drops keys that it
does not know. So a seal that is still there says that no such writer has touched the version since its manifest was
made. (Tested for append, extend, update, pop, info, create_tensor, rename, commit, and for a bare writing open.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lakebed.documents.version_tree import OURS, VersionTree


def seals_of(tree: VersionTree) -> Mapping[str, str]:
    """Return {version id: checksum of its manifest}; empty when 3.9.52 was the last writer."""
    ours = tree.extra.get(OURS)
    seals: Any = ours.get("seals") if isinstance(ours, dict) else None
    return seals if isinstance(seals, dict) else {}


def with_seals(tree: VersionTree, seals: Mapping[str, str]) -> VersionTree:
    """Return the tree with seals added; those of versions that left the tree are dropped."""
    kept = {version: seal for version, seal in {**seals_of(tree), **seals}.items() if version in tree.commits}
    ours = tree.extra.get(OURS)
    other = dict(ours) if isinstance(ours, dict) else {}
    return replace(tree, extra={**tree.extra, OURS: {**other, "seals": kept}})
