"""Commits as the 3.x API lists them."""

from __future__ import annotations

from typing import Any

from lakebed import clock
from lakebed.documents.version_tree import CommitNode, VersionTree


def commit_entries(tree: VersionTree, version_id: str) -> list[dict[str, Any]]:
    """Return the commits from a version down to the root, newest first."""
    return [entry(tree.commits[i]) for i in tree.ancestors(version_id) if tree.commits[i].is_committed]


def last_commit(tree: VersionTree, version_id: str) -> str | None:
    """Return a version if it is committed, else the last commit below it; None if there is none."""
    return next((i for i in tree.ancestors(version_id) if tree.commits[i].is_committed), None)


def entry(node: CommitNode) -> dict[str, Any]:
    """Return ``commit, author, time, message`` of a version; the time is UTC, and None while it is uncommitted."""
    time = when(node) if node.is_committed else None
    return {"commit": node.id, "author": node.user, "time": time, "message": node.message}


def when(node: CommitNode) -> str:
    """Commit time as ``YYYY-MM-DD hh:mm:ss`` in UTC."""
    return clock.utc(node.time or 0.0)
