"""The commit point of every publish: conditional replacement of the version tree, repeated where that is safe."""

from __future__ import annotations

import sys

from lakebed.documents.version_tree import VersionTree
from lakebed.errors import (
    CommitFailed,
    CommitStateUnknown,
    DatasetNotFoundError,
    FormatError,
    LeaseLost,
    PreconditionFailed,
    StorageError,
)
from lakebed.runtime import clock
from lakebed.storage.base import Data, Storage
from lakebed.versions.chunk_table import folder_of
from lakebed.versions.gc.tombstones import with_tombstones
from lakebed.versions.opening import TREE_KEY, TreeAt, read_tree_at, remembered
from lakebed.versions.updates import FenceIs, Updates, apply, changed_branches, describe, reported, required

__all__ = ["TreeAt", "node_files", "read_tree_at", "swap"]


# Number of lost races in a row after which a publish fails.
_ATTEMPTS = 50

# Seconds between attempts to read the tree after a lost answer.
_PAUSES = (0.02, 0.2)


def node_files(before: VersionTree, after: VersionTree) -> list[tuple[str, Data]]:
    """Return the ``commit_info.json`` of nodes with other children or a new commit time; heads need none."""
    heads = set(after.branches.values())
    changed = (i for i in after.changed_since(before) if i not in heads)
    return [(f"{folder_of(i)}commit_info.json", after.node_bytes(i)) for i in changed]


def swap(storage: Storage, at: TreeAt, updates: Updates, tree: VersionTree) -> TreeAt:
    """Replace the version tree by ``tree``, which is ``at.tree`` with the updates.

    If a publish to another branch was faster, the updates are applied to the new tree. After an error the tree is read
    again: if it has the new versions, the put succeeded, and only its answer was lost.

    Raises
    ------
    CommitFailed
        If another writer changed the same branches. Nothing of the updates is visible.
    CommitStateUnknown
        If neither the put nor the read afterwards was answered, or the disk failed to sync the new tree.
    """
    _note("%s: %s", storage.url, updates)
    with reported(updates):
        return _swap(storage, at, updates, tree)


def _note(text: str, url: str, updates: Updates) -> None:
    """Log the updates if the program has imported logging; importing it takes as long as writing three files."""
    if "logging" in sys.modules:
        import logging

        logging.getLogger(__name__).debug(text, url, _Line(updates))


class _Line:
    """Updates as a line of text, which is formatted only if it is logged."""

    def __init__(self, updates: Updates) -> None:
        self._updates = updates

    def __str__(self) -> str:
        return describe(self._updates)


def _swap(storage: Storage, at: TreeAt, updates: Updates, tree: VersionTree) -> TreeAt:
    tree = with_tombstones(at.tree, tree, clock.now())
    for _ in range(_ATTEMPTS):
        try:
            etag = storage.put_if(TREE_KEY, tree.to_pieces(), at.etag)
            return TreeAt(remembered(storage, tree), etag)
        except PreconditionFailed as error:
            now = _read_again(storage, error)
            if _took_effect(at.tree, tree, now.tree):
                return ensure_durable(storage, now)  # an earlier attempt succeeded, but its answer was lost
            _check_requirements(storage, at.tree, tree, now.tree, error)
            # Only another branch was published in the meantime, so apply the updates to the new tree.
            _note("%s: applied again, as another branch was published: %s", storage.url, updates)
            tree = with_tombstones(now.tree, apply(now.tree, updates), clock.now())
            storage.put_many(node_files(now.tree, tree), durable=True)
            at = now
        except StorageError as error:
            now = _read_again(storage, error, is_new=at.etag is None)
            if _took_effect(at.tree, tree, now.tree):
                return ensure_durable(storage, now)
            raise
    raise CommitFailed(
        f"{storage.url} is rewritten again and again by other processes; nothing was published"
    )


def _read_again(
    storage: Storage, error: StorageError | PreconditionFailed, *, is_new: bool = False
) -> TreeAt:
    """Read the stored tree after an attempt that may have succeeded (ARCHITECTURE section 3.3)."""
    for pause in (*_PAUSES, None):
        try:
            return read_tree_at(storage)
        except DatasetNotFoundError as again:
            if is_new:
                raise error from None
            raise CommitFailed(f"{storage.url} was deleted meanwhile; nothing was published") from again
        except (StorageError, FormatError) as again:
            if isinstance(again, FormatError) and storage.stat(TREE_KEY) is None:
                raise CommitFailed(f"{storage.url} is being deleted; nothing was published") from again
            if pause is None:
                raise CommitStateUnknown(
                    f"the answer to a publish on {storage.url} was lost ({error}) and reading again failed ({again}); "
                    "nothing is lost here: flush() again, or open the dataset to see whether the version is there "
                    "before repeating the change elsewhere"
                ) from error
            clock.sleep(pause)
    raise AssertionError("the last pause is None")


def ensure_durable(storage: Storage, now: TreeAt) -> TreeAt:
    """Sync the tree and return it: the disk may have failed after the new tree took its place."""
    try:
        storage.sync([TREE_KEY])
    except StorageError as error:
        raise CommitStateUnknown(
            f"the changes were published to {storage.url}, but may be lost after a power cut: {error}. Repair the "
            "disk, then flush() again."
        ) from error
    stat = storage.stat(TREE_KEY)
    return now if stat is None or stat.etag == now.etag else read_tree_at(storage)


def _took_effect(before: VersionTree, after: VersionTree, stored: VersionTree) -> bool:
    """Return whether the stored tree has the new heads or, if no head changed, is the updated tree."""
    changed = changed_branches(before, after)
    if changed:
        return all(stored.branches.get(name) == after.branches.get(name) for name in changed)
    return stored.commits == after.commits and stored.extra == after.extra


def _check_requirements(
    storage: Storage, before: VersionTree, after: VersionTree, stored: VersionTree, error: PreconditionFailed
) -> None:
    broken = [one for one in required(before, after) if not one.holds(stored)]
    if any(isinstance(one, FenceIs) for one in broken):
        names = ", ".join(map(repr, changed_branches(before, after)))
        raise LeaseLost(
            f"another writer took over {names} of {storage.url}: this one did not renew its "
            "lease in time. Nothing of this publish is visible. Open the dataset again and repeat the change."
        ) from error
    if broken:
        raise CommitFailed(
            f"another writer published to {storage.url} first; nothing of this publish is visible. "
            "Open the dataset again and repeat the change."
        ) from error
