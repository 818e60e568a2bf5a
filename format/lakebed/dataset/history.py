"""The commits of one line of history, as the 3.x API lists them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from lakebed.documents.version_tree import CommitNode, VersionTree


def commit_entries(tree: VersionTree, version_id: str) -> list[dict[str, Any]]:
    """Return the commits from a version down to the root, newest first."""
    return [entry(tree.commits[i]) for i in tree.ancestors(version_id) if tree.commits[i].is_committed]


def entry(node: CommitNode) -> dict[str, Any]:
    """Return ``commit, author, time, message`` of a commit; the time is UTC."""
    return {"commit": node.id, "author": node.user, "time": when(node), "message": node.message}


def when(node: CommitNode) -> str:
    """Commit time as ``YYYY-MM-DD hh:mm:ss`` in UTC."""
    return datetime.fromtimestamp(node.time or 0.0, UTC).strftime("%Y-%m-%d %H:%M:%S")
