"""Lines of history as one open dataset moves along them: commit, checkout, drop, adopt."""

from __future__ import annotations

from lakebed import clock, config
from lakebed.dataset.session import Session, flush_open
from lakebed.documents.version_tree import FIRST, VersionTree, new_id
from lakebed.errors import CheckoutError, EmptyCommitError
from lakebed.versions.derive import inherited, replacing
from lakebed.versions.opening import open_version, read_tree
from lakebed.versions.publish import publish
from lakebed.versions.swap import read_tree_at


def commit(session: Session, message: str | None, *, allow_empty: bool) -> str:
    """Seal the head and start a new one below it; one atomic step together with what is unpublished.

    Raises
    ------
    EmptyCommitError
        If nothing changed since the last commit.
    """
    with session.writing() as draft:
        sealed = draft.snapshot() if draft.dirty else session.snapshot
        if not sealed.has_changes and not allow_empty:
            raise EmptyCommitError(
                "There are no changes, commit is not done. Try again with allow_empty=True."
            )
        head = inherited(sealed, new_id())
        branch, dirty, now = session.branch, draft.dirty, clock.now()
        user = config.author()

        def edit(tree: VersionTree) -> VersionTree:
            if dirty:
                tree = tree.swap_head(branch, sealed.version_id)
            return tree.seal_head(branch, head.version_id, message, now, user)

        session.publish(draft, edit, [sealed, head] if dirty else [head])
        session.flush()
        return sealed.version_id


def checkout(session: Session, address: str, *, create: bool) -> None:
    """Go to a branch or commit; ``create`` starts a branch here. Own changes on a head are committed first.

    Raises
    ------
    CheckoutError
        If there is no such address, or the branch to create exists.
    """
    with session.mutex:
        if create and address in session.tree.branches:
            raise CheckoutError(f"Can't create new branch, {address!r} already exists.")
        session.flush()
        tree = read_tree(session.storage)
        if not create:
            _must_resolve(tree, address)
        session.tree = tree
        if session.snapshot.version_id not in tree.commits and session.branch in tree.branches:
            session.enter(tree.branches[session.branch])  # another writer has replaced the head meanwhile
        if create and session.is_head and session.snapshot.has_changes and not session.read_only:
            commit(session, f"auto commit before checkout to {address}", allow_empty=False)
        session.unlock()  # the lock is that of a branch
        if create:
            session.create_branch(address)
        else:
            session.enter(_must_resolve(session.tree, address))
        if session.is_held and session.is_head and not session.read_only:
            session.take_lock()


def drop_branch(session: Session, name: str) -> None:
    """Remove a branch from the tree; its folders become garbage."""
    with session.mutex:
        publish(session.storage, read_tree_at(session.storage), lambda tree: tree.drop_branch(name), [])
        session.tree = read_tree(session.storage)


def adopt(session: Session, name: str) -> None:
    """Let this branch's head hold what branch ``name`` holds, and drop that branch: one atomic step."""
    flush_open(session.storage.url)  # also what another dataset of this process has for the side branch
    with session.writing() as draft:
        at = session.tree_at()
        side = open_version(session.storage, at.tree, at.tree.head(name).id)
        parent_id = at.tree.commits[session.snapshot.version_id].parent or FIRST
        parent = open_version(session.storage, at.tree, parent_id)
        head, branch = replacing(parent, side, new_id()), session.branch

        def edit(tree: VersionTree) -> VersionTree:
            return tree.swap_head(branch, head.version_id).drop_branch(name)

        session.publish(draft, edit, [head])
        session.flush()


def _must_resolve(tree: VersionTree, address: str) -> str:
    try:
        return tree.resolve(address)
    except CheckoutError:
        raise CheckoutError(
            f"Address {address} not found. If you want to create a new branch, use checkout with create=True"
        ) from None


def delete_branch(session: Session, name: str) -> None:
    """Remove a branch; see ``Dataset.delete_branch``."""
    raise NotImplementedError
