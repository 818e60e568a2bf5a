"""Branches of one open dataset: commit, checkout, drop, adopt, delete."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace

from lakebed import config
from lakebed.documents.version_tree import FIRST, MAIN, VersionTree, new_id
from lakebed.errors import (
    BranchExistsError,
    CheckoutError,
    DatasetCorruptError,
    EmptyCommitError,
    KeyNotFound,
    LockedException,
    ReadOnlyModeError,
    VersionControlError,
)
from lakebed.runtime import clock
from lakebed.session.process.open_sessions import flush_open
from lakebed.session.session import Session
from lakebed.storage.base import Storage
from lakebed.storage.concurrently import together
from lakebed.versions.derive import inherited, replacing
from lakebed.versions.locks.leases import Lease
from lakebed.versions.opening import open_version, read_tree
from lakebed.versions.publish import publish
from lakebed.versions.refs import HEAD, read_refs, resolve
from lakebed.versions.state import Snapshot
from lakebed.versions.swap import read_tree_at
from lakebed.versions.updates import CommitHead, DropBranch, SwapHead, Update

# Minimum number of seconds that a commit waits for another writer of the branch. The rows to commit may already be
# published, so an early error would leave them without a commit.
_PATIENCE = 10.0

_NO_CHANGES = "There are no changes, commit is not done. Try again with allow_empty=True."


def commit(session: Session, message: str | None, *, allow_empty: bool, processed: int | None = None) -> str:
    """Commit the head with all unpublished changes, start a new head above the commit, and return the commit's id.

    Parameters
    ----------
    processed
        Number of input samples, if the commit is a checkpoint of a transform.

    Raises
    ------
    EmptyCommitError
        If nothing changed since the last commit.
    LockedException
        If another writer holds the branch for more than about ten seconds; published rows stay, without a commit.
    """
    if not allow_empty and not session.is_head:
        raise EmptyCommitError(_NO_CHANGES)  # raise before a branch is created for the commit
    with session.mutex:
        arrived = session.resolve_unknown_commit()
        session.store_held_infos()
    if arrived and session.tree.commits[arrived[0].version_id].message == message:
        session.flush()
        return arrived[0].version_id  # an earlier attempt succeeded, but its answer was lost
    with session.mutex:
        try:
            session.acquire_lock(_PATIENCE)
        except LockedException as error:
            raise LockedException(
                f"{error}. Rows that were published before are there, only the commit is missing: call commit() again, "
                "and do not add them again; lock_timeout= of lakebed.load waits longer"
            ) from error
    with session.mutex, session.writing() as draft:
        committed = session.packed(draft) if draft.dirty else session.snapshot
        if not allow_empty and not is_changed(session, committed):
            raise EmptyCommitError(_NO_CHANGES)
        promised = session.pop_promised_id()
        if promised is not None:
            committed = replace(committed, version_id=promised)
        head = inherited(committed, new_id())
        branch, is_new, now = session.branch, committed.version_id != session.snapshot.version_id, clock.now()
        text, user = None if message is None else str(message), config.author()

        updates: list[Update] = [CommitHead(branch, head.version_id, text, now, user, processed)]
        if is_new:
            updates.insert(0, SwapHead(branch, committed.version_id))
        session.publish(draft, updates, [committed, head] if is_new else [head], leaving=True)
        session.flush()
        return committed.version_id


def checkout(
    session: Session, address: str, *, create: bool, repair: Callable[[], None] | None = None
) -> None:
    """Check out a branch or commit; ``create`` first commits changes of the head and starts a new branch there.

    Parameters
    ----------
    repair
        Called before an existing version is entered.

    Raises
    ------
    CheckoutError
        If the address does not exist, or the branch to create exists already.
    """
    with session.mutex:
        if create:
            _check_new(session, address, ())
        session.flush()
        session.versions.keep(session.tree, session.snapshot)
        if repair is not None and not create:
            repair()
            session.versions.forget()
        tree, target = session.tree, None
        if create:
            _check_new(session, address, _refresh_with_tags(session))
        else:
            tree = read_tree(session.storage)
            target = resolve(session.storage, tree, session.known_as(address), session.branch)
        if create and session.is_head and is_changed(session, session.snapshot) and not session.read_only:
            commit(session, f"auto commit before checkout to {address}", allow_empty=False)
        session.unlock()  # a lock belongs to one branch
        if target is None:
            session.create_branch(address)
        else:
            session.enter(target, tree=tree)
        if session.is_held and session.is_head and not session.read_only:
            session.acquire_lock()


def is_changed(session: Session, head: Snapshot) -> bool:
    """Return whether a head differs from the commit below it; True before the first commit (format.md 9.4)."""
    parent = session.tree.commits[session.snapshot.version_id].parent
    return head.has_changes or parent is None or not session.tree.commits[parent].is_committed


def _check_new(session: Session, name: str, tags: Collection[str]) -> None:
    """Raise an error if a branch, a commit or a tag already has the name for a new branch."""
    if name in session.tree.branches:
        raise BranchExistsError(f"Can't create new branch, {name!r} already exists.")
    if name in session.tree.commits:
        raise BranchExistsError(f"Can't create new branch, commit {name!r} already exists.")
    if name == HEAD:
        raise CheckoutError(
            f"Can't create new branch {HEAD!r}: it stands for the branch that is checked out."
        )
    if name in tags:
        raise BranchExistsError(f"Can't create new branch, there is a tag {name!r}.")


def _refresh_with_tags(session: Session) -> Collection[str]:
    """Update the session's branches and commits from storage, and return the names of the tags."""
    found: set[str] = set()

    def read() -> None:
        with suppress(DatasetCorruptError):  # without tags, a branch can still be created
            found.update(read_refs(session.storage).tags)

    together(session.storage, [session.refresh, read])
    return found


def drop_branch(session: Session, name: str) -> None:
    """Remove a branch from the tree; the folders of its versions become garbage."""
    with session.mutex:
        publish(session.storage, read_tree_at(session.storage), [DropBranch(name)], [])
        session.refresh()


def adopt(session: Session, name: str) -> None:
    """Replace the content of this branch by that of branch ``name``, and drop branch ``name``, in one atomic step."""
    flush_open(session.storage)  # other datasets of this process may have changes of branch `name`
    with session.mutex, session.writing() as draft:
        session.refresh()  # if the lock was held before, the session's tree may be older than branch `name`
        at = session.tree_at()
        side = open_version(session.storage, at.tree, at.tree.head(name).id)
        parent_id = at.tree.commits[session.snapshot.version_id].parent or FIRST
        parent = open_version(session.storage, at.tree, parent_id)
        head = replacing(parent, side, new_id())
        updates = [SwapHead(session.branch, head.version_id), DropBranch(name)]
        session.publish(draft, updates, [head], leaving=True)
        session.flush()


def delete_branch(session: Session, name: str, *, force: bool) -> None:
    """Remove a branch that nothing needs; see ``Dataset.delete_branch``.

    Raises
    ------
    VersionControlError
        If the branch is the main branch, is checked out, or is needed by another branch, a merge or a tag.
    """
    if session.read_only:
        raise ReadOnlyModeError(f"{session.storage.url} was opened read-only; a branch can not be deleted")
    flush_open(session.storage)
    with session.mutex:
        tree = read_tree(session.storage)
        _check_deletable(session, tree, name, force=force)
        lease = Lease(session.storage, name)
        try:
            at = lease.acquire(session.lock_timeout)
            publish(session.storage, at, [DropBranch(name)], [])
        finally:
            lease.release()
        session.refresh()


def _check_deletable(session: Session, tree: VersionTree, name: str, *, force: bool) -> None:
    if name not in tree.branches:
        raise VersionControlError(f"Branch {name} does not exist")
    if name == session.branch:
        raise VersionControlError(f"Cannot delete the currently checked out branch: {name}")
    if name == MAIN:
        raise VersionControlError("Cannot delete the main branch")
    gone = {version for version, node in tree.commits.items() if node.branch == name}
    if any(node.parent in gone and node.branch != name for node in tree.commits.values()):
        raise VersionControlError(f"Cannot delete branch {name} because it has sub-branches")
    refs = read_refs(session.storage)
    tags = [tag.name for tag in refs.tags.values() if tag.commit in gone]
    if tags:
        raise VersionControlError(
            f"Cannot delete branch {name} because of the tags {', '.join(map(repr, tags))}; delete them first"
        )
    views = views_of(session.storage, gone)
    if views:
        raise VersionControlError(
            f"Cannot delete branch {name} because of the saved views {', '.join(map(repr, views))}; delete or optimize "
            "them first"
        )
    if force:
        return
    for merge, parents in refs.merges.items():
        if merge in tree.commits and merge not in gone and not gone.isdisjoint(parents):
            raise _merged(name, tree.commits[merge].branch)
    for other, head in tree.branches.items():
        tensors = open_version(session.storage, tree, head).tensors.values() if other != name else ()
        if any(commit in gone for tensor in tensors for commit, _ in tensor.table.places.folders):
            raise _merged(name, other)


def views_of(storage: Storage, commits: Collection[str]) -> list[str]:
    """Return the ids of the saved views that refer to rows of the given commits instead of holding copies."""
    from lakebed.documents.saved_views import FILE, SavedViews

    try:
        views = SavedViews.from_bytes(storage.get(FILE))
    except KeyNotFound:
        return []
    return [view.id for view in views if view.is_virtual and view.version in commits]


def _merged(name: str, other: str) -> VersionControlError:
    return VersionControlError(
        f"Cannot delete branch {name} because it has been previously merged into {other}; "
        "force=True removes its name and its commits, and what was merged stays"
    )
