"""What is known of one version of a dataset, by any of its addresses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lakebed.errors import CheckoutError, VersionNotFoundError
from lakebed.history.commits import entry
from lakebed.session.session import Session
from lakebed.versions.opening import read_tree
from lakebed.versions.refs import resolve


def details(session: Session, address: str) -> dict[str, Any]:
    """Return ``commit, author, time, message`` of a version; see ``Dataset.get_commit_details``.

    Raises
    ------
    VersionNotFoundError
        If there is none.
    """
    known = session.tree.commits.get(address)
    if known is not None and known.is_committed:
        return entry(known)
    promised = session.known_as(address) == session.branch != address
    if known is None and (promised or address == session.structure().version_id):
        # What is not published yet has an id, and is in no tree.
        return entry(replace(session.tree.commits[session.snapshot.version_id], id=address))
    tree = read_tree(session.storage)  # somebody else may have made it, or committed it, since
    try:
        found = tree.commits[resolve(session.storage, tree, address, session.branch)]
    except CheckoutError as error:
        if known is not None:
            return entry(known)
        raise VersionNotFoundError(f"Commit {address} not found in dataset. {error}") from error
    is_here = found.id == session.snapshot.version_id and session.is_head
    return entry(replace(found, id=session.pending_id) if is_here else found)
