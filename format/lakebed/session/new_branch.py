"""New branches: an old commit, or what is checked out, goes on under a name of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakebed.documents.version_tree import FIRST, new_id
from lakebed.errors import ReadOnlyModeError
from lakebed.storage.lock import WriterLock
from lakebed.versions.derive import inherited
from lakebed.versions.locks.marker import release_lock
from lakebed.versions.publish import publish
from lakebed.versions.swap import read_tree_at
from lakebed.versions.updates import AddBranch

if TYPE_CHECKING:
    from lakebed.session.writer import Writer
    from lakebed.versions.state import Snapshot


def create_branch(session: Writer, name: str) -> None:
    """Start a branch at the version of a session, or at the commit below an unchanged head, and go there."""
    if session.read_only:
        raise ReadOnlyModeError(f"{session.storage.url} was opened read-only; a branch can not be created")
    here = session.snapshot.version_id
    node = session.tree.commits[here]
    base = here if node.is_committed else node.parent or FIRST
    start = session.snapshot
    # An unchanged head holds what the commit below it does, if 3.9.52 has not been in it.
    if not node.is_committed and (start.has_changes or start.origin is None):
        start = session.versions.get(session.tree, base)
    start_branch(session, name, base, inherited(start, new_id()))


def start_branch(session: Writer, name: str, base: str, head: Snapshot) -> None:
    """Publish a new branch below ``base`` whose head holds what ``head`` says, and go there."""
    updates = [AddBranch(name, head.version_id, base)]
    lock = WriterLock(session.storage, name)
    try:
        lock.acquire()
        at = publish(session.storage, session.known or read_tree_at(session.storage), updates, [head])
        release_lock(session.storage, head.version_id)
        session.known = at
    finally:
        lock.release()
    session.enter(head.version_id, head, at.tree)
