"""Lists and descriptions of commits in the form of the 3.x API."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lakebed.documents.version_tree import CommitNode, VersionTree
from lakebed.errors import CheckoutError, VersionNotFoundError
from lakebed.runtime import clock
from lakebed.session.session import Session
from lakebed.versions.opening import read_tree
from lakebed.versions.refs import resolve


def commit_entries(tree: VersionTree, version_id: str) -> list[dict[str, Any]]:
    """Return the commits from a version down to the root, newest first."""
    return [commit_entry(tree.commits[i]) for i in tree.ancestors(version_id) if tree.commits[i].is_committed]


def last_commit(tree: VersionTree, version_id: str) -> str | None:
    """Return a version if it is committed, else the last commit below it; None if no commit is below it."""
    return next((i for i in tree.ancestors(version_id) if tree.commits[i].is_committed), None)


def commit_entry(node: CommitNode) -> dict[str, Any]:
    """Return ``commit, author, time, message`` of a version; the time is UTC, or None if the version is no commit."""
    time = commit_time(node) if node.is_committed else None
    return {"commit": node.id, "author": node.user, "time": time, "message": node.message}


def commit_time(node: CommitNode) -> str:
    """Return the commit time of a version as ``YYYY-MM-DD hh:mm:ss`` in UTC."""
    return clock.utc(node.time or 0.0)


def commit_details(session: Session, address: str) -> dict[str, Any]:
    """Return ``commit, author, time, message`` of a version; see ``Dataset.get_commit_details``.

    Raises
    ------
    VersionNotFoundError
        If the version does not exist.
    """
    known = session.tree.commits.get(address)
    if known is not None and known.is_committed:
        return commit_entry(known)
    promised = session.known_as(address) == session.branch != address
    if known is None and (promised or address == session.structure().version_id):
        # A version that is not published has an id, but is not in the tree yet.
        return commit_entry(replace(session.tree.commits[session.snapshot.version_id], id=address))
    tree = read_tree(session.storage)  # another writer may have created or committed the version meanwhile
    try:
        found = tree.commits[resolve(session.storage, tree, address, session.branch)]
    except CheckoutError as error:
        if known is not None:
            return commit_entry(known)
        raise VersionNotFoundError(f"Commit {address} not found in dataset. {error}") from error
    is_here = found.id == session.snapshot.version_id and session.is_head
    return commit_entry(replace(found, id=session.pending_id) if is_here else found)
