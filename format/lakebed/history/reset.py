"""Removal of uncommitted changes, or of the whole history."""

from __future__ import annotations

from lakebed import config
from lakebed.documents.version_tree import VersionTree, new_id
from lakebed.errors import VersionControlError
from lakebed.history.squash_diffs import is_checkpoint
from lakebed.runtime import clock
from lakebed.session.branches import is_changed, views_of
from lakebed.session.session import Session
from lakebed.versions.derive import as_commit, empty_snapshot, inherited
from lakebed.versions.opening import open_version
from lakebed.versions.refs import read_refs
from lakebed.versions.updates import CommitHead, ReplaceHistory, RewindHead


def reset(session: Session, *, force: bool) -> None:
    """Drop all changes since the last commit, unpublished changes included, in one atomic step.

    Before the first commit, the result is an empty dataset, as in 3.x.
    """
    with session.mutex:
        if not session.is_head:
            print("You are not at the head node of the branch, cannot reset.")
            return
        had_unpublished = session.has_unpublished
        session.discard()
        for live in session.held_infos.values():
            live.forget()
        if session.read_only or not (force or is_changed(session, session.snapshot)):
            if not had_unpublished:
                print("There are no uncommitted changes on this branch.")
            return
        with session.mutex, session.writing(sound=False) as draft:
            tree = session.tree
            parent = _last_visible(tree, session.snapshot.version_id)
            if parent is None:
                head = empty_snapshot(new_id())
            else:
                head = inherited(open_version(session.storage, tree, parent), new_id())
            session.publish(draft, [RewindHead(session.branch, head.version_id)], [head], leaving=True)
            session.source.clear()
            session.flush()


def _last_visible(tree: VersionTree, head: str) -> str | None:
    """Return the nearest version below a head that is not a checkpoint; None if no such version exists."""
    _, *above = tree.ancestors(head)
    return next((i for i in above if not is_checkpoint(tree.commits[i])), None)


def squash(session: Session, message: str) -> str:
    """Make the present state, unpublished changes included, the only commit, in one atomic step.

    No chunk is copied: the commit names the folders of its chunks, and all other version folders become garbage.

    Raises
    ------
    VersionControlError
        If the dataset has other branches, tags or saved views, or the open version is not the head of the branch.
    """
    if not session.is_head:
        raise VersionControlError("squash works at the head of a branch; checkout the branch first")
    with session.mutex, session.writing() as draft:
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
        views = views_of(session.storage, session.tree.commits)
        if views:
            raise VersionControlError(
                f"squash would lose the commits that the views {', '.join(map(repr, views))} show; delete or optimize "
                "them first"
            )
        commit = as_commit(draft.snapshot() if draft.dirty else session.snapshot, new_id())
        head = inherited(commit, new_id())
        branch = session.branch
        updates = [
            ReplaceHistory(branch, commit.version_id),
            CommitHead(branch, head.version_id, message, clock.now(), config.author()),
        ]
        session.publish(draft, updates, [commit, head], leaving=True)
        session.flush()
        return commit.version_id
