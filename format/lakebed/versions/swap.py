"""The one commit point: conditional replacement of the version tree, retried or settled where that is safe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakebed.documents.version_tree import VersionTree
from lakebed.errors import (
    CommitFailed,
    CommitStateUnknown,
    KeyNotFound,
    PreconditionFailed,
    StorageError,
)
from lakebed.storage.base import Data, Storage
from lakebed.versions.opening import TREE_KEY, read_tree
from lakebed.versions.seals import with_seals
from lakebed.versions.state import folder_of


@dataclass(frozen=True, slots=True)
class TreeAt:
    """The version tree and the identity of the stored object that it was read from."""

    tree: VersionTree
    etag: str | None


def read_tree_at(storage: Storage) -> TreeAt:
    """Read the tree for a later conditional put; the etag is taken first, so a race can only make that put fail."""
    stat = storage.stat(TREE_KEY)
    return TreeAt(read_tree(storage), None if stat is None else stat.etag)


def node_files(before: VersionTree, after: VersionTree) -> list[tuple[str, Data]]:
    """Return the ``commit_info.json`` of nodes with other children or a new commit time; heads need none."""
    heads = set(after.branches.values())
    changed = [i for i, node in after.commits.items() if i not in heads and before.commits.get(i) != node]
    return [(f"{folder_of(i)}commit_info.json", after.node_bytes(i)) for i in changed]


def _built_on(before: VersionTree, after: VersionTree) -> dict[str, str | None]:
    """Return the heads that a change replaces, adds or drops, as they were: what nobody else may have touched."""
    names = before.branches.keys() | after.branches.keys()
    return {n: before.branches.get(n) for n in names if before.branches.get(n) != after.branches.get(n)}


def swap(
    storage: Storage,
    at: TreeAt,
    edit: Callable[[VersionTree], VersionTree],
    tree: VersionTree,
    seals: dict[str, str],
) -> TreeAt:
    """Replace the version tree; on a lost race try again if nobody touched what we build on."""
    for _ in range(5):
        try:
            etag = storage.put_if(TREE_KEY, tree.to_bytes(), at.etag)
            return TreeAt(tree, etag)
        except PreconditionFailed as error:
            now = read_tree_at(storage)
            if now.tree.branches == tree.branches:
                return now  # an earlier attempt, whose answer was lost, took effect after all
            if any(now.tree.branches.get(name) != head for name, head in _built_on(at.tree, tree).items()):
                raise CommitFailed(
                    f"another writer published to {storage.url} first; nothing of this publish is visible. "
                    "Open the dataset again and repeat the change."
                ) from error
            # Somebody published on another branch: the same change on top of that is still right.
            tree = with_seals(edit(now.tree), seals)
            storage.put_many(node_files(now.tree, tree), durable=True)
            at = now
        except StorageError as error:
            _settle(storage, tree, error)
            return read_tree_at(storage)
    raise CommitFailed(f"{storage.url} is rewritten all the time by another process; nothing was published")


def _settle(storage: Storage, tree: VersionTree, error: StorageError) -> None:
    """Find out whether a put whose answer is an error took effect: re-raise if not (ARCHITECTURE section 3.3)."""
    try:
        stored = VersionTree.from_bytes(storage.get(TREE_KEY))
    except (StorageError, KeyNotFound) as again:
        raise CommitStateUnknown(
            f"the answer to a publish on {storage.url} was lost ({error}) and reading again failed ({again}); "
            "open the dataset to see whether the version is there before repeating the change"
        ) from error
    if stored.branches != tree.branches:
        raise error
