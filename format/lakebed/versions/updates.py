"""Changes of the version tree as data, and the requirements for them.

    SwapHead         a new uncommitted head takes the place of the head of a branch
    CheckpointHead   a new head follows the head, which stays uncommitted
    CommitHead       the head becomes a commit, and a new head follows it
    RewindHead       a new head takes the place of all that is uncommitted
    AddBranch        a branch begins at a version
    DropBranch       a branch and its versions leave the tree
    CutBranch        a branch is reset to one of its commits (repair)
    NameVersion      a version without children becomes a branch (repair)
    DropVersion      a version without children leaves the tree (repair)
    ReplaceHistory   a new history takes the place of all versions and branches (create, squash)
    SetTree          another tree takes the place of this one (repair)
    SetDigests       the tree names the checksums of manifests
    DropUnverified   a digest that was not verified is removed when its version becomes a commit
    RaiseFence       the fence of a branch grows, so that its former writer can publish no more
    DropTombstones   versions that were collected leave the list of tombstones
    RequestSweep     the next full sweep is due earlier

    HeadIs, FenceIs  requirements: :func:`apply` refuses the whole list if one of them is not met

A publish is a list of these. It is applied to the tree that the writer knows and, if another branch was published
meanwhile, once more to the stored tree. Pure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import ClassVar

from lakebed.documents.commits import Commits
from lakebed.documents.version_tree import VersionTree
from lakebed.errors import CommitFailed, CommitStateUnknown, LeaseLost
from lakebed.runtime import clock
from lakebed.versions.gc.tombstones import with_sweep_by, without_tombstones
from lakebed.versions.manifests import with_digests
from lakebed.versions.state import Snapshot

_SHORT = 12


class Update(ABC):
    """A change of a version tree; ``str`` describes it."""

    __slots__ = ()
    text: ClassVar[str]
    """Format of the description; ``{0.field}`` is a field of the update."""

    @abstractmethod
    def apply(self, tree: VersionTree) -> VersionTree:
        """Return the tree with the change."""

    def __str__(self) -> str:
        return self.text.format(self)


class Requirement(ABC):
    """A condition under which a list of updates may be applied."""

    __slots__ = ()

    @abstractmethod
    def holds(self, tree: VersionTree) -> bool:
        """Return whether a tree meets the condition."""

    @abstractmethod
    def error(self) -> CommitFailed:
        """Return the error for a tree that does not meet the condition."""

    @abstractmethod
    def __str__(self) -> str: ...


Updates = Sequence[Update | Requirement]


def apply(tree: VersionTree, updates: Updates) -> VersionTree:
    """Return a tree with all updates, in the order given.

    Raises
    ------
    CommitFailed
        If a requirement does not hold for the tree.
    BranchExistsError, CheckoutError, InvalidInputError
        If an update is impossible because its branch or version exists already, or is missing.
    """
    with reported(updates):
        for one in updates:
            if isinstance(one, Requirement) and not one.holds(tree):
                raise one.error()
    for one in updates:
        if isinstance(one, Update):
            tree = one.apply(tree)
    return tree


def drop_unverified(head: Snapshot) -> list[Update]:
    """Return the update for a version that may stop being a head; an empty list if it was read from its manifest."""
    return [] if head.origin is not None else [DropUnverified(head.version_id)]


def describe(updates: Sequence[object]) -> str:
    """Return a list of updates as one line of text, for logs and errors."""
    return "; ".join(map(str, updates))


@contextmanager
def reported(updates: Sequence[object]) -> Iterator[None]:
    """Attach the updates to an error of a publish, as its attribute ``updates`` and as a note."""
    try:
        yield
    except (CommitFailed, CommitStateUnknown) as error:
        if not error.updates:
            error.updates = describe(updates)
            error.add_note(f"updates: {error.updates}")
        raise


def required(before: VersionTree, after: VersionTree) -> list[Requirement]:
    """Return the conditions under which the updates between two trees may be repeated on another.

    These are the fences, then the heads, of the branches that differ.
    """
    names = changed_branches(before, after)
    fences = fences_of(before)
    return [
        *(FenceIs(name, fences.get(name, 0)) for name in names),
        *(HeadIs(name, before.branches.get(name)) for name in names),
    ]


def changed_branches(before: VersionTree, after: VersionTree) -> list[str]:
    """Return the branches whose heads differ, or that only one tree has."""
    names = before.branches.keys() | after.branches.keys()
    return [name for name in names if before.branches.get(name) != after.branches.get(name)]


def fences_of(tree: VersionTree) -> Mapping[str, int]:
    """Return {branch: number}; branches that were never taken over are missing."""
    found = tree.own("fences")
    return {b: n for b, n in found.items() if type(n) is int} if isinstance(found, dict) else {}


# -- requirements --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeadIs(Requirement):
    """The branch has this head; None: the branch does not exist."""

    branch: str
    head: str | None
    failure: str = field(default="", compare=False)
    """Message of the error if the requirement is not met."""

    def holds(self, tree: VersionTree) -> bool:
        """Return whether the branch has this head."""
        return tree.branches.get(self.branch) == self.head

    def error(self) -> CommitFailed:
        """Return the error for another head."""
        return CommitFailed(self.failure or f"branch {self.branch!r} was written to by another writer")

    def __str__(self) -> str:
        if self.head is None:
            return f"require that there is no branch {self.branch!r}"
        return f"require head {_short(self.head)} of {self.branch!r}"


@dataclass(frozen=True, slots=True)
class FenceIs(Requirement):
    """The fence of the branch has this number: no writer took the branch over."""

    branch: str
    number: int

    def holds(self, tree: VersionTree) -> bool:
        """Return whether the fence has this number."""
        return fences_of(tree).get(self.branch, 0) == self.number

    def error(self) -> CommitFailed:
        """Return the error for another number."""
        return LeaseLost(f"another writer took over branch {self.branch!r}")

    def __str__(self) -> str:
        return f"require fence {self.number} of {self.branch!r}"


# -- heads ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SwapHead(Update):
    """A new uncommitted version takes the place of a branch's head."""

    text = "swap head of {0.branch!r} to {0.head:.12}"

    branch: str
    head: str

    def apply(self, tree: VersionTree) -> VersionTree:
        """Return the tree with the new head."""
        return tree.swap_head(self.branch, self.head)


@dataclass(frozen=True, slots=True)
class CheckpointHead(Update):
    """A new head follows that of a branch, which stays uncommitted."""

    text = "checkpoint head of {0.branch!r}, new head {0.head:.12}"

    branch: str
    head: str

    def apply(self, tree: VersionTree) -> VersionTree:
        """Return the tree with the new head."""
        return tree.checkpoint_head(self.branch, self.head)


@dataclass(frozen=True, slots=True)
class CommitHead(Update):
    """The head of a branch becomes a commit, and a new head follows it; ``time`` in POSIX seconds.

    ``processed`` is the number of input samples that a transform has processed, if the commit is one of its
    checkpoints.
    """

    text = "commit head of {0.branch!r}, new head {0.head:.12}"

    branch: str
    head: str
    message: str | None
    time: float
    user: str
    processed: int | None = None

    def apply(self, tree: VersionTree) -> VersionTree:
        """Return the tree with the commit."""
        return tree.commit_head(self.branch, self.head, self.message, self.time, self.user, self.processed)


@dataclass(frozen=True, slots=True)
class RewindHead(Update):
    """A new head takes the place of everything uncommitted at the end of a branch."""

    text = "rewind {0.branch!r} to its last commit, new head {0.head:.12}"

    branch: str
    head: str

    def apply(self, tree: VersionTree) -> VersionTree:
        """Return the tree without uncommitted versions."""
        return tree.rewind_head(self.branch, self.head)


# -- branches and versions -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddBranch(Update):
    """A branch begins with a new head whose parent is a given version."""

    text = "add branch {0.branch!r} below {0.base:.12}, head {0.head:.12}"

    branch: str
    head: str
    base: str

    def apply(self, tree: VersionTree) -> VersionTree:
        """Return the tree with the branch."""
        return tree.add_branch(self.branch, self.head, self.base)


@dataclass(frozen=True, slots=True)
class DropBranch(Update):
    """A branch and its versions leave the tree."""

    text = "drop branch {0.branch!r}"

    branch: str

    def apply(self, tree: VersionTree) -> VersionTree:
        """Return the tree without the branch."""
        return tree.drop_branch(self.branch)


@dataclass(frozen=True, slots=True)
class CutBranch(Update):
    """A branch gets a new head whose parent is one of its commits; later versions leave the tree."""

    text = "cut branch {0.branch!r} below {0.base:.12}, new head {0.head:.12}"

    branch: str
    base: str
    head: str

    def apply(self, tree: VersionTree) -> VersionTree:
        """Return the tree with the shorter branch."""
        gone = {self.base}
        while more := {i for i, node in tree.commits.items() if node.parent in gone} - gone:
            gone |= more
        gone.discard(self.base)
        commits = {i: node for i, node in tree.commits.items() if i not in gone}
        commits[self.base] = replace(commits[self.base], children=())
        branches = {name: head for name, head in tree.branches.items() if name != self.branch}
        return replace(tree, commits=commits, branches=branches).add_branch(self.branch, self.head, self.base)


@dataclass(frozen=True, slots=True)
class NameVersion(Update):
    """A version without children becomes the head of a new branch; no effect if the tree lacks the version."""

    text = "name version {0.version:.12} branch {0.branch!r}"

    version: str
    branch: str

    def apply(self, tree: VersionTree) -> VersionTree:
        """Return the tree with the branch."""
        if self.version not in tree.commits:
            return tree
        commits = {**tree.commits, self.version: replace(tree.commits[self.version], branch=self.branch)}
        return replace(tree, commits=commits, branches={**tree.branches, self.branch: self.version})


@dataclass(frozen=True, slots=True)
class DropVersion(Update):
    """A version without children leaves the tree; no effect if the tree lacks the version."""

    text = "drop version {0.version:.12}"

    version: str

    def apply(self, tree: VersionTree) -> VersionTree:
        """Return the tree without the version."""
        if self.version not in tree.commits:
            return tree
        commits = {i: node for i, node in tree.commits.items() if i != self.version}
        parent = commits[str(tree.commits[self.version].parent)]
        children = tuple(child for child in parent.children if child != self.version)
        commits[parent.id] = replace(parent, children=children)
        return replace(tree, commits=commits)


@dataclass(frozen=True, slots=True)
class ReplaceHistory(Update):
    """The empty root version, followed by one head, takes the place of all versions and branches."""

    text = "replace the history by branch {0.branch!r}, head {0.head:.12}"

    branch: str
    head: str

    def apply(self, tree: VersionTree) -> VersionTree:
        """Return the new tree."""
        return replace(VersionTree.initial(self.head, self.branch), extra=tree.extra)


@dataclass(frozen=True, slots=True)
class SetTree(Update):
    """Another tree takes the place of the current tree."""

    tree: VersionTree

    def apply(self, tree: VersionTree) -> VersionTree:  # noqa: ARG002
        """Return the other tree."""
        return self.tree

    def __str__(self) -> str:
        branches = ", ".join(map(repr, self.tree.branches))
        return f"set the tree to {len(self.tree.commits)} versions, branches {branches}"


# -- what lakebed adds to the tree ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SetDigests(Update):
    """The tree names the checksums of manifests; ``time`` is when digests of heads were made, in ns since 1970.

    All files of these versions must be older than that time.
    """

    digests: Mapping[str, str]
    time: int

    def apply(self, tree: VersionTree) -> VersionTree:
        """Return the tree with the digests; digests of versions that the tree lacks are left out."""
        return with_digests(tree, self.digests, self.time)

    def __str__(self) -> str:
        return f"set digests of {_listed(self.digests)}"


@dataclass(frozen=True, slots=True)
class DropUnverified(Update):
    """The digest of a version is dropped, unless the version is a head or left the tree.

    Otherwise readers of the commit would trust a manifest that is outdated if 3.9.52 changed the head in place.
    """

    text = "drop the digest of {0.version:.12} unless it stays a head"

    version: str

    def apply(self, tree: VersionTree) -> VersionTree:
        """Return the tree without the digest."""
        node = tree.commits.get(self.version)
        if node is None or node.digest is None or self.version in tree.branches.values():
            return tree
        return replace(tree, commits=Commits.of(tree.commits).edited([], [replace(node, digest=None)]))


@dataclass(frozen=True, slots=True)
class RaiseFence(Update):
    """The fence of a branch gets the next number; numbers of dropped branches are removed.

    Used when a writer takes over from one that may still live. A late publish of the former writer fails, because the
    tree then has another number than that writer knows.
    """

    text = "raise the fence of {0.branch!r}"

    branch: str

    def apply(self, tree: VersionTree) -> VersionTree:
        """Return the tree with the next number."""
        known = fences_of(tree)
        fences = {name: number for name, number in known.items() if name in tree.branches}
        fences[self.branch] = known.get(self.branch, 0) + 1
        return tree.with_own("fences", fences)


@dataclass(frozen=True, slots=True)
class DropTombstones(Update):
    """Collected versions leave the list; ``swept`` is the time of a full sweep, if one was done."""

    versions: Collection[str]
    swept: float | None = None

    def apply(self, tree: VersionTree) -> VersionTree:
        """Return the tree with the shorter list."""
        return without_tombstones(tree, self.versions, swept=self.swept)

    def __str__(self) -> str:
        done = "" if self.swept is None else f", full sweep done {clock.utc(self.swept)} UTC"
        return f"drop tombstones of {_listed(self.versions)}{done}"


@dataclass(frozen=True, slots=True)
class RequestSweep(Update):
    """A full sweep is due at a time, in POSIX seconds, or before."""

    due: float

    def apply(self, tree: VersionTree) -> VersionTree:
        """Return the tree with the time of the next sweep."""
        return with_sweep_by(tree, self.due)

    def __str__(self) -> str:
        return f"request a full sweep by {clock.utc(self.due)} UTC"


def _short(version: str) -> str:
    return version[:_SHORT]


def _listed(versions: Collection[str]) -> str:
    if len(versions) > 2:
        return f"{len(versions)} versions"
    return ", ".join(map(_short, versions)) or "no version"
