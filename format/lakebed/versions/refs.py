"""Tags and parents of merges, in the side file ``.lakebed/refs.json``, which 3.9.52 ignores.

It is read for tags, abbreviated ids and the graph of merges, never to open a branch. Every change is a conditional put,
repeated if another writer was faster.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import islice

from lakebed.documents.commits import Commits
from lakebed.documents.refs import Refs, Tag
from lakebed.documents.version_tree import MAIN, VersionTree
from lakebed.errors import (
    CheckoutError,
    DatasetCorruptError,
    FormatError,
    KeyNotFound,
    LimitError,
    TagExistsError,
)
from lakebed.runtime import clock
from lakebed.storage.base import Storage
from lakebed.versions.opening import read_tree

__all__ = [
    "HEAD",
    "REFS_KEY",
    "SHORTEST_PREFIX",
    "Refs",
    "Tag",
    "commit_as_of",
    "drop_tag",
    "read_refs",
    "record_merge",
    "resolve",
    "set_tag",
]

REFS_KEY = ".lakebed/refs.json"

HEAD = "HEAD"
"""Address of the head of the current branch."""

SHORTEST_PREFIX = 7
"""Minimum number of characters of an abbreviated id."""

_MOST_NAMES = 20
# A merge is recorded before its commit is published. If the commit is still not published after this many seconds,
# the record is dropped.
_GRACE_SECONDS = 86400.0
_UP = r"(?s)(.+?)~(\d{0,9})"


# -- the file ------------------------------------------------------------------------------------------------------


def read_refs(storage: Storage) -> Refs:
    """Read tags and merges; a dataset without the file has none.

    Raises
    ------
    DatasetCorruptError
        If the file is damaged.
    """
    try:
        return Refs.from_bytes(storage.get(REFS_KEY))
    except KeyNotFound:
        return Refs()
    except (FormatError, LimitError) as error:
        raise DatasetCorruptError(
            f"{REFS_KEY} of {storage.url} can not be read: {error}. Branches and commits are not affected; remove "
            "the file to continue without tags",
            dataset=storage.url,
        ) from error


class RefsUpdate(ABC):
    """A change of tags or merges; ``str()`` describes it."""

    __slots__ = ()

    @abstractmethod
    def apply(self, refs: Refs) -> Refs:
        """Return the refs with the change."""

    @abstractmethod
    def holds(self, refs: Refs) -> bool:
        """Return whether the refs contain the change already."""

    @abstractmethod
    def __str__(self) -> str: ...


@dataclass(frozen=True, slots=True)
class RecordMerge(RefsUpdate):
    """Record of the further parents of a merge commit; ``time`` in POSIX seconds."""

    commit: str
    parents: tuple[str, ...]
    time: float

    def apply(self, refs: Refs) -> Refs:
        """Return the refs with the parents."""
        merges, recorded = (
            {**refs.merges, self.commit: self.parents},
            {**refs.recorded, self.commit: self.time},
        )
        return replace(refs, merges=merges, recorded=recorded)

    def holds(self, refs: Refs) -> bool:
        """Return whether the commit has these parents."""
        return refs.merges.get(self.commit) == self.parents

    def __str__(self) -> str:
        return (
            f"record parents {', '.join(parent[:12] for parent in self.parents)} of merge {self.commit[:12]}"
        )


@dataclass(frozen=True, slots=True)
class SetTag(RefsUpdate):
    """Addition of a tag."""

    tag: Tag
    replacing: bool = True

    def apply(self, refs: Refs) -> Refs:
        """Return the refs with the tag."""
        known = refs.tags.get(self.tag.name)
        if known is not None and not self.replacing:
            raise TagExistsError(
                f"there is already a tag {known.name!r} for commit {known.commit}; choose another name, or delete "
                "it first"
            )
        return replace(refs, tags={**refs.tags, self.tag.name: self.tag})

    def holds(self, refs: Refs) -> bool:
        """Return whether the refs have exactly this tag."""
        return refs.tags.get(self.tag.name) == self.tag

    def __str__(self) -> str:
        return f"set tag {self.tag.name!r} to {self.tag.commit[:12]}"


@dataclass(frozen=True, slots=True)
class DropTag(RefsUpdate):
    """Removal of a tag."""

    name: str

    def apply(self, refs: Refs) -> Refs:
        """Return the refs without the tag."""
        return replace(refs, tags={name: tag for name, tag in refs.tags.items() if name != self.name})

    def holds(self, refs: Refs) -> bool:
        """Return whether the refs have no such tag."""
        return self.name not in refs.tags

    def __str__(self) -> str:
        return f"drop tag {self.name!r}"


def record_merge(storage: Storage, commit_id: str, parents: tuple[str, ...]) -> None:
    """Record the further parents of a merge commit, durably, before the commit is published.

    A record whose commit is never published is ignored, and dropped by a later write.

    Raises
    ------
    DatasetCorruptError
        If the file is damaged.
    CommitFailed, CommitStateUnknown
        If the file could not be replaced (CommitFailed), or if it is unknown whether it was replaced.
    """
    _change(storage, RecordMerge(commit_id, parents, clock.now()))


def set_tag(storage: Storage, tag: Tag, *, replacing: bool = True) -> None:
    """Store a tag.

    Parameters
    ----------
    replacing
        Replace a tag of the same name.

    Raises
    ------
    TagExistsError
        If a tag of this name exists, and ``replacing`` is false.
    DatasetCorruptError, CommitFailed, CommitStateUnknown
        As for :func:`record_merge`.
    """
    _change(storage, SetTag(tag, replacing=replacing))


def drop_tag(storage: Storage, name: str) -> None:
    """Remove a tag.

    Raises
    ------
    CheckoutError
        If the tag does not exist.
    DatasetCorruptError, CommitFailed, CommitStateUnknown
        As for :func:`record_merge`.
    """
    refs = read_refs(storage)
    if name not in refs.tags:
        raise CheckoutError(f"there is no tag {name!r}{_listed(refs)}")
    _change(storage, DropTag(name))


def _change(storage: Storage, update: RefsUpdate) -> None:
    """Update the file, unless it contains the update already."""
    from lakebed.storage.shared_files import change_file
    from lakebed.versions.updates import reported

    def edit(refs: Refs) -> Refs:
        return refs if update.holds(refs) else _pruned(update.apply(refs), storage)

    with reported([update]):
        change_file(
            storage,
            REFS_KEY,
            read=lambda: read_refs(storage),
            edit=edit,
            dump=Refs.to_bytes,
            holds=update.holds,
            advice="look at the tags before repeating the change",
        )


def _pruned(refs: Refs, storage: Storage) -> Refs:
    """Drop merges whose commits have left the history, or did not become part of it within a day."""
    if not refs.merges:
        return refs
    # Read the tree after the refs, so that every recorded merge that has been published is in the tree.
    known, limit = read_tree(storage).commits, clock.now() - _GRACE_SECONDS
    kept = {id_ for id_ in refs.merges if id_ in known or refs.recorded.get(id_, 0.0) > limit}
    if len(kept) == len(refs.merges):
        return refs
    merges = {id_: parents for id_, parents in refs.merges.items() if id_ in kept}
    return replace(
        refs, merges=merges, recorded={id_: at for id_, at in refs.recorded.items() if id_ in kept}
    )


# -- addresses -----------------------------------------------------------------------------------------------------


def resolve(storage: Storage, tree: VersionTree, address: str, branch: str = MAIN) -> str:
    """Return the id of the version that an address stands for.

    An address is the name of a branch (its head), a commit id, its first seven or more characters, the name of a tag,
    or ``HEAD``. The first of these that exists is taken. ``~n`` after any of them goes up ``n`` commits, by first
    parents: because a head is not committed, ``HEAD~1`` is the last commit of the branch and ``HEAD~2`` the one before
    it, while ``tag~1`` is the commit before the one that the tag names. ``~`` alone is ``~1``; ``~0`` stays.

    Parameters
    ----------
    branch
        The current branch, for ``HEAD``.

    Raises
    ------
    CheckoutError
        If no version or several versions have this name, or too few commits precede it.
    DatasetCorruptError
        If the file with the tags is needed and damaged.
    """
    if type(address) is not str:
        raise CheckoutError(
            f"Address {address} not found: an address must be text, not {type(address).__name__}"
        )
    # A name with a tilde may be a branch that 3.9.52 made; tags cannot have such names.
    is_whole = address in tree.branches or address in tree.commits
    steps = None if is_whole else re.fullmatch(_UP, address)
    name = address if steps is None else steps[1]
    base = _named(storage, tree, name, branch)
    if base is None:
        raise CheckoutError(
            f"Address {address} not found. If you want to create a new branch, use checkout with create=True. "
            f"Branches are: {_some(tree.branches)}"
        )
    if steps is None:
        return base
    count = int(steps[2] or 1)
    if count == 0:
        return base
    above = (id_ for id_ in islice(tree.ancestors(base), 1, None) if tree.commits[id_].is_committed)
    commit = next(islice(above, count - 1, None), None)
    if commit is None:
        raise CheckoutError(f"{address!r} goes beyond the first commit")
    return commit


def _named(storage: Storage, tree: VersionTree, name: str, branch: str) -> str | None:
    """Return the version of an address without ``~n``."""
    if name in tree.branches:
        return tree.branches[name]
    if name in tree.commits:
        return name
    if name == HEAD:
        return tree.head(branch).id
    found = Commits.of(tree.commits).starting_with(name) if len(name) >= SHORTEST_PREFIX else []
    try:
        tag = read_refs(storage).tags.get(name)
    except DatasetCorruptError:
        if not found:
            raise
        tag = None  # the name is also an id, which needs no tags
    if tag is not None and tag.commit not in tree.commits:
        raise CheckoutError(
            f"tag {name!r} is for commit {tag.commit}, which is no longer part of the history"
        )
    meant = {*found, *(() if tag is None else (tag.commit,))}
    if len(meant) > 1:
        also = "" if tag is None else " and the name of a tag"
        raise CheckoutError(f"{name!r} is the beginning of {len(found)} versions{also}; give more characters")
    return next(iter(meant), None)


def commit_as_of(tree: VersionTree, version_id: str, timestamp: float) -> str:
    """Return the newest commit, among a version and its ancestors, at or before a time in POSIX seconds.

    Raises
    ------
    CheckoutError
        If all these commits are later.
    """
    times = []
    for id_ in tree.ancestors(version_id):
        time = tree.commits[id_].time
        if time is not None and time <= timestamp:
            return id_
        times += [] if time is None else [time]
    branch = tree.commits[version_id].branch
    if not times:
        raise CheckoutError(f"there is no commit yet on branch {branch!r}")
    raise CheckoutError(
        f"at {clock.utc(math.floor(timestamp))} UTC there was no commit yet on branch {branch!r}: the first was made "
        f"at {clock.utc(min(times))} UTC"
    )


def _listed(refs: Refs) -> str:
    return f"; there are: {_some(refs.tags)}" if refs.tags else "; there are none"


def _some(names: Collection[str]) -> str:
    first = ", ".join(islice(names, _MOST_NAMES))
    return first if len(names) <= _MOST_NAMES else f"{first} and {len(names) - _MOST_NAMES} more"
