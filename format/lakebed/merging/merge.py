"""Merge a commit or branch into the checked-out branch, as one atomic step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal

from lakebed import config
from lakebed.documents.version_tree import new_id
from lakebed.errors import (
    CheckoutError,
    CommitFailed,
    DatasetCorruptError,
    MergeConflictError,
    NotFoundError,
    ReadOnlyModeError,
    VersionNotFoundError,
)
from lakebed.merging.content import Merger
from lakebed.merging.plan import Conflict
from lakebed.runtime import clock
from lakebed.session.process.open_sessions import flush_open
from lakebed.session.session import Session
from lakebed.versions.ancestry import Ancestry, merge_message
from lakebed.versions.derive import inherited
from lakebed.versions.locks.leases import Lease
from lakebed.versions.refs import read_refs, record_merge, resolve
from lakebed.versions.state import Snapshot
from lakebed.versions.updates import CommitHead, HeadIs, Requirement, SwapHead, Update, drop_unverified
from lakebed.writing.draft.draft import Draft

Resolution = Literal["ours", "theirs"] | Callable[[str, Any, Any], Any] | None

_NEEDLESS = "No merge needed, target id is an ancestor of the current commit"
_MOST_ROWS = 20


def merge(
    session: Session, target: str, resolution: Resolution, *, delete_removed_tensors: bool, force: bool
) -> None:
    """Merge; see ``Dataset.merge``."""
    if resolution not in (None, "ours", "theirs") and not callable(resolution):
        raise ValueError(
            f"conflict_resolution must be None, 'ours', 'theirs', or a function. Got {resolution}"
        )
    if session.read_only:
        raise ReadOnlyModeError(
            f"{session.storage.url} was opened read-only; open it with read_only=False to merge into it"
        )
    options = _Options(resolution, delete_removed_tensors, force)
    with session.mutex:
        session.flush()
        flush_open(session.storage)
        session.refresh()
        found = _Target.find(session, target)
        if found is None:
            if not (delete_removed_tensors and _delete_removed(session, target)):
                print(_NEEDLESS)
            return
        if not session.is_head:
            _merger(session, found, options)  # raises an error of the merge before a branch is created
        _merge(session, target, options)


class _Options:
    """Options of a merge."""

    def __init__(self, resolution: Resolution, delete_removed: bool, force: bool) -> None:
        self.resolution = resolution
        self.delete_removed = delete_removed
        self.force = force


class _Target:
    """The version to merge.

    Parameters
    ----------
    version_id
        Id of a commit, or of a head with uncommitted changes, which is committed before the merge.
    branch
        The branch of this head; None for a commit.
    """

    def __init__(self, version_id: str, branch: str | None, ancestry: Ancestry) -> None:
        self.version_id = version_id
        self.branch = branch
        self.ancestry = ancestry

    @classmethod
    def find(cls, session: Session, address: str) -> _Target | None:
        """Return the version at an address; None if the checked-out version already contains its changes.

        Raises
        ------
        VersionNotFoundError
            If the version does not exist.
        """
        tree, ancestry = session.tree, Ancestry(session.tree, _merges(session))
        try:
            version_id = resolve(session.storage, tree, str(address), session.branch)
        except (CheckoutError, NotFoundError) as error:
            raise VersionNotFoundError(
                f"The commit/branch {address} does not exist in the dataset."
            ) from error
        known = ancestry.of(session.snapshot.version_id)
        node = tree.commits[version_id]
        if version_id in known:
            return None
        if node.is_committed:
            return cls(version_id, None, ancestry)
        if tree.branches.get(node.branch) != version_id:
            raise VersionNotFoundError(
                f"version {version_id} is neither a commit nor the head of a branch; merge one of those"
            )
        parent = node.parent
        if not session.versions.get(tree, version_id).has_changes and parent is not None:
            if parent in known:
                return None
            if tree.commits[parent].is_committed:
                return cls(parent, None, ancestry)
        return cls(version_id, node.branch, ancestry)


def _merges(session: Session) -> dict[str, tuple[str, ...]]:
    try:
        return dict(read_refs(session.storage).merges)
    except DatasetCorruptError:  # the commit messages record merges, too
        return {}


def _merger(session: Session, target: _Target, options: _Options) -> Merger:
    """Plan the merge.

    Raises
    ------
    MergeConflictError, MergeMismatchError, MergeNotSupportedError
        If the versions cannot be merged.
    """
    merger = Merger(session, target.version_id, target.ancestry)
    merger.plan(delete_removed=options.delete_removed, force=options.force)
    if options.resolution is None and merger.conflicts:
        raise _conflict(session, target, merger.conflicts)
    merger.decide(options.resolution)
    if not options.force:
        merger.check_in_step()
    return merger


def _conflict(session: Session, target: _Target, found: tuple[Conflict, ...]) -> MergeConflictError:
    names = dict.fromkeys(conflict.tensor for conflict in found)
    text = "; ".join(_rows_text(name, [c for c in found if c.tensor == name]) for name in names)
    return MergeConflictError(
        f"Unable to merge {target.version_id} into {session.branch}: both changed the same rows: {text}. Nothing "
        "was changed. Use conflict_resolution='ours', 'theirs', or a function that chooses.",
        conflicts=tuple((c.tensor, c.ours, c.theirs) for c in found),
    )


def _rows_text(name: str, found: list[Conflict]) -> str:
    rows = [
        f"{c.ours} (deleted there)"
        if c.theirs is None
        else f"{c.theirs} there (deleted here)"
        if c.ours is None
        else f"{c.ours}"
        if c.ours == c.theirs
        else f"{c.ours} ({c.theirs} there)"
        for c in found[:_MOST_ROWS]
    ]
    more = f" and {len(found) - _MOST_ROWS} more" if len(found) > _MOST_ROWS else ""
    return f"tensor {name!r}, row{'s' if len(found) > 1 else ''} {', '.join(rows)}{more}"


def _merge(session: Session, address: str, options: _Options) -> None:
    """Merge while holding the writer's lock of both branches."""
    with session.mutex, session.writing() as draft:
        found = _Target.find(session, address)
        if found is None:  # another writer has merged the branch in the meantime
            session.flush()
            print(_NEEDLESS)
            return
        with _locked(session, found.branch) as lease:
            if lease is not None:
                session.refresh()
                _check_still(session, found)
            _merger(session, found, options).apply(draft)
            _publish(session, draft, found, lease)
        session.flush()


def _delete_removed(session: Session, address: str) -> bool:
    """Delete the tensors that an already merged version lacks; return whether any were deleted."""
    version_id = resolve(session.storage, session.tree, str(address), session.branch)
    node = session.tree.commits[version_id]
    if not node.is_committed and node.parent is not None:
        version_id = node.parent
    ancestry = Ancestry(session.tree, None)
    if version_id in ancestry.of(session.snapshot.version_id):
        return False  # the version is an ancestor without any merge
    if not Merger(session, version_id, ancestry).plan_deletions():
        return False
    with session.mutex, session.writing() as draft:
        merger = Merger(session, version_id, ancestry)
        if merger.plan_deletions():
            merger.apply_deletions(draft)
            _publish(session, draft, _Target(version_id, None, ancestry), None)
        session.flush()
    return True


@contextmanager
def _locked(session: Session, branch: str | None) -> Iterator[Lease | None]:
    """Hold the lock of the branch whose head will be committed, and yield its lease; None if ``branch`` is None."""
    if branch is None:
        yield None
        return
    lease = Lease(session.storage, branch)
    try:
        lease.acquire(session.lock_timeout)
        yield lease
    finally:
        lease.release()


def _check_still(session: Session, target: _Target) -> None:
    head = session.tree.branches.get(target.branch or "")
    if head != target.version_id:
        raise CommitFailed(
            f"branch {target.branch!r} of {session.storage.url} was changed by another writer just now; nothing was "
            "merged: merge again"
        )


def _publish(session: Session, draft: Draft, target: _Target, lease: Lease | None) -> None:
    """Publish the merged head, its commit, and the commit of the other branch in one step."""
    branch, now, user = session.branch, clock.now(), config.author()
    # Record the merge before publishing it, under the id of the commit that the merge will make. This id must be new,
    # even if the content stays the same: with the id of the existing head, an interrupted merge would count as
    # completed.
    draft.tensors.mark_changed()
    merged = draft.snapshot()
    head = inherited(merged, new_id())
    versions: list[Snapshot] = [merged, head]
    side = None
    message = merge_message(target.version_id, branch)
    updates: list[Update | Requirement] = [
        SwapHead(branch, merged.version_id),
        CommitHead(branch, head.version_id, message, now, user),
    ]
    if target.branch is not None:
        other = session.versions.get(session.tree, target.version_id)
        side = inherited(other, new_id())
        versions.insert(0, side)
        failure = f"branch {target.branch!r} was changed while it was merged; merge again"
        text = f"Auto commit before merging into {branch}"
        updates = [
            HeadIs(target.branch, target.version_id, failure),
            CommitHead(target.branch, side.version_id, text, now, user),
            *updates,
            *drop_unverified(other),
        ]
    with suppress(DatasetCorruptError):  # the commit message records the merge, too
        record_merge(session.storage, merged.version_id, (target.version_id,))
    session.publish(draft, updates, versions, leaving=True)
    if lease is not None and side is not None:
        lease.moved(side.version_id)
