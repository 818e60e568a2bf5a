"""Go back: drop what is uncommitted, or all history below one commit."""

from __future__ import annotations

from dataclasses import replace

from lakebed import clock, config
from lakebed.dataset.session import Session
from lakebed.documents.version_tree import VersionTree, new_id
from lakebed.errors import VersionControlError
from lakebed.versions.derive import as_commit, empty_snapshot, inherited
from lakebed.versions.opening import open_version
from lakebed.versions.refs import read_refs


def reset(session: Session, *, force: bool) -> None:
    """Drop everything since the last commit, unpublished changes included; one atomic step.

    Before the first commit nothing is left but an empty dataset, as in 3.x.
    """
    with session.mutex:
        if not session.is_head:
            print("You are not at the head node of the branch, cannot reset.")
            return
        session.discard()
        if session.read_only or not (session.snapshot.has_changes or force):
            print("There are no uncommitted changes on this branch.")
            return
        with session.writing() as draft:
            tree = session.tree
            parent = tree.commits[session.snapshot.version_id].parent
            if parent is None:
                head = empty_snapshot(new_id())
            else:
                head = inherited(open_version(session.storage, tree, parent), new_id())
            branch = session.branch

            def edit(tree: VersionTree) -> VersionTree:
                return tree.swap_head(branch, head.version_id)

            session.publish(draft, edit, [head])
            session.source.clear()
            session.flush()


def squash(session: Session, message: str) -> str:
    """Make the present state, unpublished changes included, the only commit; one atomic step.

    No chunk is copied: the commit names the folders in which they lie, and what nothing names any more is garbage.

    Raises
    ------
    VersionControlError
        If there are other branches, or tags, or this is not the head of the branch.
    """
    if not session.is_head:
        raise VersionControlError("squash works at the head of a branch; checkout the branch first")
    with session.writing() as draft:
        others = [name for name in session.tree.branches if name != session.branch]
        if others:
            raise VersionControlError(
                f"squash would lose the branches {', '.join(map(repr, others))}; merge or delete them first"
            )
        tags = read_refs(session.storage).tags
        if tags:
            raise VersionControlError(
                f"squash would lose the commits tagged {', '.join(map(repr, tags))}; delete the tags first"
            )
        commit = as_commit(draft.snapshot() if draft.dirty else session.snapshot, new_id())
        head = inherited(commit, new_id())
        branch, now, user = session.branch, clock.now(), config.author()

        def edit(tree: VersionTree) -> VersionTree:
            fresh = VersionTree.initial(commit.version_id, branch)
            return replace(fresh, extra=tree.extra).seal_head(branch, head.version_id, message, now, user)

        session.publish(draft, edit, [commit, head])
        session.flush()
        return commit.version_id
