"""The version tree: `version_control_info.json` (format.md 9).

    {"commits": {id: node}, "branches": {branch: id of its head}}

Only `branches` tells which nodes are heads: other uncommitted nodes are left over from a reset or a lost publish.
lakebed adds one member, the last one:

    "lakebed": {..., "nodes": n, "begins": offset, "rest": checksum, "sum": checksum}

The nodes of heads, and of their parents, come last in `commits`. Opening and publishing need only the end of the file,
from the offset `begins`, which one read gets however long the history is. `rest` is the xxh3-64 of the bytes before it,
which hold the other n versions; `sum` that of the end itself, with sixteen zeros in its own place. 3.9.52 drops the
member; then nothing is verified. Earlier releases wrote `seals` of all versions and a `sum` of the whole file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import xxhash

from lakebed import limits
from lakebed.documents import fields, json_style
from lakebed.documents.commits import (
    OPENING,
    OWN,
    ColdNodes,
    CommitNode,
    Commits,
    TreeEnd,
    check_early_sum,
    whole,
)
from lakebed.documents.commits import WHAT as _WHAT
from lakebed.errors import BranchExistsError, CheckoutError, FormatError, InvalidInputError

__all__ = ["FIRST", "MAIN", "OURS", "CommitNode", "VersionTree", "new_id", "tail_begins"]

FIRST = "firstdbf9474d461a19e9333c2fd19b46115348f"
"""Id of the root version, whose files lie directly under the dataset root."""

MAIN = "main"

OURS = "lakebed"
"""Member of the document for the additions of lakebed."""


def new_id() -> str:
    """Return a random version id: 40 hexadecimal digits."""
    return os.urandom(20).hex()


@dataclass(frozen=True, slots=True, eq=False)
class VersionTree:
    """Every version by id, and the head of every branch; edits return a new tree.

    Heads and their parents are parsed. Access to other versions may read and parse the whole history, once.
    """

    commits: Mapping[str, CommitNode]
    branches: Mapping[str, str]
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further members of the document; Deep Lake 3.9.52 drops them when it opens a dataset for writing."""

    @classmethod
    def initial(cls, head: str, branch: str = MAIN) -> VersionTree:
        """Return the history of a new dataset: the empty, uncommitted root version, and the head below it."""
        return cls(
            {
                FIRST: CommitNode(FIRST, branch, None, (head,)),
                head: CommitNode(head, branch, FIRST),
            },
            {branch: head},
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> VersionTree:
        """Parse `version_control_info.json`, all of it.

        Raises
        ------
        FormatError
            If the file is damaged or differs from its checksum, a version that can be reached from the root or from a
            head lacks its parent or child, or the versions run in a circle.
        LimitError
            If the file has more versions than this process allows.
        """
        end = TreeEnd.of(data)
        if end is None:
            tree = cls._from_foreign(data, check_early_sum(data))
        else:
            tree = cls._from_end(data, end, None)
            Commits.of(tree.commits).cold.all()
        tree._check()  # noqa: SLF001
        return tree

    @classmethod
    def from_tail(cls, data: bytes, size: int, read: Callable[[], bytes]) -> VersionTree | None:
        """Parse the end of `version_control_info.json`; versions in the rest of it are read on access.

        Parameters
        ----------
        data
            The end of the file, from the offset that `tail_begins` returns, or more.
        size
            Length of the file.
        read
            Reads the file. If it was replaced meanwhile, the older versions of the new file are used.

        Returns
        -------
        VersionTree or None
            None if the file has no such end: another program wrote it, or an early release.

        Raises
        ------
        FormatError
            If the end is damaged, or contradicts itself.
        """
        end = TreeEnd.of(data)
        if end is None:
            return None
        if len(data) < size:
            return cls._from_end(data[end.begins - size :], replace(end, begins=0), read, end.begins)
        return cls._from_end(data, end, None)

    @classmethod
    def _from_foreign(cls, data: bytes, summed: bool) -> VersionTree:
        """Read a whole file without such an end; its digests are valid only if it has a checksum (``summed``)."""
        doc = json_style.load_object(data, _WHAT)
        nodes = fields.mapping(doc, "commits", _WHAT)
        extra = {name: value for name, value in doc.items() if name not in ("commits", "branches")}
        ours = extra.get(OURS)
        digests = {}
        if isinstance(ours, dict):
            ours.pop("sum", None)
            found = ours.pop("seals", None)
            digests = found if summed and isinstance(found, dict) else {}
        commits = {}
        limits.check("MAX_VERSIONS", len(nodes), f"{_WHAT}: versions")
        for id_, node in nodes.items():
            digest = digests.get(fields.checked_version(id_, _WHAT))
            commits[id_] = replace(
                CommitNode.from_json(id_, node), digest=digest if isinstance(digest, str) else None
            )
        return cls(commits, _heads(doc, commits), extra)

    @classmethod
    def _from_end(
        cls, data: bytes, end: TreeEnd, read: Callable[[], bytes] | None, length: int | None = None
    ) -> VersionTree:
        """Read the end of a file; the part before it is taken from ``data``, or read later."""
        doc = end.document(data[end.begins :])
        nodes = fields.mapping(doc, "commits", _WHAT)
        limits.check("MAX_VERSIONS", end.nodes + len(nodes), f"{_WHAT}: versions")
        hot = {
            fields.checked_version(id_, _WHAT): CommitNode.from_json(id_, node) for id_, node in nodes.items()
        }
        if length is None:
            cold = end.cold(data[: end.begins])
        else:
            cold = ColdNodes(end.nodes, length, end.rest, _reader(read, length, end, hot))
        extra = {name: value for name, value in doc.items() if name not in ("commits", "branches")}
        if isinstance(extra.get(OURS), dict):
            extra[OURS] = {name: value for name, value in extra[OURS].items() if name not in OWN}
        tree = cls(Commits(hot, cold), _heads(doc, hot), extra)
        tree._check_heads()
        return tree

    def to_bytes(self) -> bytes:
        """Write `version_control_info.json`, with an end that can be read alone if it has lakebed's member."""
        return b"".join(self.to_pieces())

    def to_pieces(self) -> list[bytes]:
        """Write `version_control_info.json` as pieces, of which the first may be long."""
        commits = Commits.of(self.commits)
        object.__setattr__(self, "commits", commits)
        heads = list(self.branches.values())
        ours = self.extra.get(OURS)
        if not isinstance(ours, dict):
            nodes = {id_: node.to_json() for id_, node in commits.items()}
            doc = {"commits": nodes, "branches": dict(self.branches), **self.extra}
            return [json_style.dump_compact(doc)]
        parents = {node.parent for head in heads if (node := commits.get(head)) and node.parent is not None}
        commits.move_to_cold(parents.union(heads))
        others = {name: value for name, value in self.extra.items() if name != OURS}
        return whole(commits, {"branches": dict(self.branches), **others}, OURS, ours)

    def node_bytes(self, id: str) -> bytes:  # noqa: A002
        """Write the `commit_info.json` of a version."""
        return self.commits[id].to_bytes()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, VersionTree):
            return NotImplemented
        # Compare the versions last, because they may have to be read.
        return self.branches == other.branches and self.extra == other.extra and self.commits == other.commits

    __hash__ = None  # type: ignore[assignment]

    def _check_heads(self) -> None:
        """Refuse an end of the file that lacks heads or their parents, or names missing branches."""
        hot = Commits.of(self.commits).hot
        for node in hot.values():
            if node.branch not in self.branches:
                raise FormatError(f"{_WHAT}: version {node.id} is on the unknown branch {node.branch!r:.60}")
        for head in self.branches.values():
            parent = hot[head].parent
            if parent is None and head != FIRST:
                raise FormatError(
                    f"{_WHAT}: the history of version {head} does not begin at the root version"
                )
            if parent is not None and parent not in hot:
                raise FormatError(f"{_WHAT}: version {parent!r:.60} in the history of {head} is missing")

    def _check(self) -> None:
        """Refuse histories that cannot be walked (format.md 9.1, 15.3); unreachable versions are allowed."""
        if isinstance(self.commits, Commits) and not self.commits.hot.keys().isdisjoint(
            self.commits.cold.all()
        ):
            raise FormatError(f"{_WHAT}: a version occurs twice")
        if FIRST not in self.commits or self.commits[FIRST].parent is not None:
            raise FormatError(f"{_WHAT}: there is no root version")
        if not self.branches:
            raise FormatError(f"{_WHAT}: there is no branch")
        seen = {FIRST}
        pending = [FIRST]
        while pending:
            node = self.commits[pending.pop()]
            if node.branch not in self.branches:
                raise FormatError(f"{_WHAT}: version {node.id} is on the unknown branch {node.branch!r:.60}")
            for child in set(node.children):
                if child not in self.commits:
                    raise FormatError(f"{_WHAT}: version {child!r:.60}, a child of {node.id}, is missing")
                if self.commits[child].parent != node.id or child in seen:
                    raise FormatError(f"{_WHAT}: version {child} has several parents")
                seen.add(child)
                pending.append(child)
        for head in self.branches.values():
            for _ in self._walk(head, seen):
                pass

    def _walk(self, id: str, known: set[str]) -> Iterator[str]:  # noqa: A002
        """Yield a version and its ancestors up to the first that is in ``known``; then add them to ``known``."""
        path: set[str] = set()
        current: str | None = id
        while current is not None and current not in known:
            if current in path:
                raise FormatError(f"{_WHAT}: the history of version {id} is circular")
            if current not in self.commits:
                raise FormatError(f"{_WHAT}: version {current!r:.60} in the history of {id} is missing")
            path.add(current)
            yield current
            current = self.commits[current].parent
        if current is None:
            raise FormatError(f"{_WHAT}: the history of version {id} does not begin at the root version")
        known |= path

    # -- what lakebed adds ---------------------------------------------------------------------------------

    def own(self, name: str) -> Any:
        """Return one of lakebed's additions, or None."""
        ours = self.extra.get(OURS)
        return ours.get(name) if isinstance(ours, dict) else None

    def with_own(self, name: str, value: object) -> VersionTree:
        """Return the tree with one of lakebed's additions set."""
        ours = self.extra.get(OURS)
        members = {**(ours if isinstance(ours, dict) else {}), name: value}
        return replace(self, extra={**self.extra, OURS: members})

    # -- queries -------------------------------------------------------------------------------------------

    def head(self, branch: str) -> CommitNode:
        """Return the head of a branch.

        Raises
        ------
        CheckoutError
            If the branch does not exist.
        """
        if branch not in self.branches:
            raise CheckoutError(f"there is no branch {branch!r}; there are: {', '.join(self.branches)}")
        return self.commits[self.branches[branch]]

    def ancestors(self, id: str) -> Iterator[str]:  # noqa: A002
        """Iterate over the version itself, its parent, and so on to the root version.

        Raises
        ------
        FormatError
            If the history is broken or runs in a circle.
        """
        yield from self._walk(id, {FIRST})
        yield FIRST

    # -- edits ---------------------------------------------------------------------------------------------

    def swap_head(self, branch: str, new_id: str) -> VersionTree:
        """Let a new, uncommitted version take the place of a branch's head, or follow the root version.

        Raises
        ------
        InvalidInputError
            If the head is committed or has children, or the new id is already used.
        """
        head = self.head(branch)
        if head.is_committed or head.children:
            raise InvalidInputError(
                f"the head {head.id} of branch {branch!r} cannot be replaced: it is committed or has children"
            )
        if head.id == FIRST:
            # Until the first commit, 3.9.52 writes into the root version. The root stays, and the new head becomes
            # its child.
            return self._grow(head, CommitNode(new_id, branch, FIRST))
        self._check_free(new_id)
        parent = self.commits[str(head.parent)]
        children = tuple(new_id if child == head.id else child for child in parent.children)
        commits = Commits.of(self.commits).edited(
            [replace(head, id=new_id, digest=None)], [replace(parent, children=children)], [head.id]
        )
        return replace(self, commits=commits, branches={**self.branches, branch: new_id})

    def checkpoint_head(self, branch: str, new_id: str) -> VersionTree:
        """Put a new, uncommitted head below the head of a branch, which stays uncommitted but is no longer a head.

        Raises
        ------
        InvalidInputError
            If the head is committed, or the new id is taken.
        """
        head = self.head(branch)
        if head.is_committed:
            raise InvalidInputError(f"the head {head.id} of branch {branch!r} is committed already")
        return self._grow(head, CommitNode(new_id, branch, head.id))

    def rewind_head(self, branch: str, new_id: str) -> VersionTree:
        """Replace everything uncommitted at the end of a branch, checkpoints included, by a new head.

        Raises
        ------
        InvalidInputError
            If the head has children, another branch begins on a dropped version, or the new id is taken.
        """
        tree, gone = self.swap_head(branch, new_id), []
        node = tree.commits[str(tree.commits[new_id].parent)]
        while not node.is_committed and node.parent is not None and node.branch == branch:
            below = (tree.commits[child].branch for child in node.children if child in tree.commits)
            other = next((name for name in below if name != branch), None)
            if other is not None:
                raise InvalidInputError(
                    f"branch {branch!r} cannot go back to its last commit: branch {other!r} begins on a version after "
                    "it; delete that one first"
                )
            gone.append(node.id)
            node = tree.commits[node.parent]
        if not gone:
            return tree
        children = tuple(new_id if child == gone[-1] else child for child in node.children)
        moved = [replace(tree.commits[new_id], parent=node.id), replace(node, children=children)]
        return replace(tree, commits=Commits.of(tree.commits).edited([], moved, gone))

    def _grow(self, base: CommitNode, head: CommitNode) -> VersionTree:
        """Put a new head of its branch below a version."""
        self._check_free(head.id)
        grown = replace(base, children=(*base.children, head.id))
        commits = Commits.of(self.commits).edited([head], [grown])
        return replace(self, commits=commits, branches={**self.branches, head.branch: head.id})

    def commit_head(
        self,
        branch: str,
        new_head_id: str,
        message: str | None,
        time: float,
        user: str,
        processed: int | None = None,
    ) -> VersionTree:
        """Commit the head of a branch and put a new head below it; ``processed`` makes it a transform's checkpoint.

        Raises
        ------
        InvalidInputError
            If the head is committed already, or the new id is taken.
        """
        head = self.head(branch)
        if head.is_committed:
            raise InvalidInputError(f"the head {head.id} of branch {branch!r} is committed already")
        self._check_free(new_head_id)
        children = (*head.children, new_head_id)
        after = replace(head, message=message, time=time, user=user, children=children)
        if processed is not None:
            after = replace(after, is_checkpoint=True, total_samples_processed=processed)
        commits = Commits.of(self.commits).edited([CommitNode(new_head_id, branch, head.id)], [after])
        return replace(self, commits=commits, branches={**self.branches, branch: new_head_id})

    def add_branch(self, name: str, head_id: str, base_id: str) -> VersionTree:
        """Start a branch with a new head below a version.

        Raises
        ------
        BranchExistsError
            If a branch of this name exists.
        InvalidInputError
            If the new id is taken.
        """
        if name in self.branches:
            raise BranchExistsError(
                f"there is already a branch {name!r}; check it out, or choose another name"
            )
        return self._grow(self.commits[base_id], CommitNode(head_id, name, base_id))

    def drop_branch(self, name: str) -> VersionTree:
        """Remove a branch and its versions.

        Raises
        ------
        InvalidInputError
            If the branch is the main branch, or another branch begins on it.
        """
        self.head(name)
        gone = {id_ for id_, node in self.commits.items() if node.branch == name}
        if name == MAIN or FIRST in gone:
            raise InvalidInputError(f"branch {name!r} holds the root version and cannot be deleted")
        for head in (head for branch, head in self.branches.items() if branch != name):
            if not gone.isdisjoint(self.ancestors(head)):
                raise InvalidInputError(
                    f"branch {name!r} cannot be deleted: branch {self.commits[head].branch!r} begins on it;"
                    " delete that one first"
                )
        # A reset may have left versions below this branch; remove them with it.
        pending = list(gone)
        while pending:
            below = [
                id_ for id_ in self.commits[pending.pop()].children if id_ in self.commits and id_ not in gone
            ]
            gone.update(below)
            pending += below
        above = {self.commits[id_].parent for id_ in gone} - gone
        parents = [self.commits[id_] for id_ in above if id_ is not None and id_ in self.commits]
        orphaned = [
            replace(node, children=tuple(child for child in node.children if child not in gone))
            for node in parents
        ]
        commits = Commits.of(self.commits).edited([], orphaned, gone)
        branches = {branch: head for branch, head in self.branches.items() if branch != name}
        return replace(self, commits=commits, branches=branches)

    def _check_free(self, id: str) -> None:  # noqa: A002
        # Ids are random, so it is enough to compare with the versions that are already in memory.
        if id in Commits.of(self.commits).hot:
            raise InvalidInputError(f"there is already a version {id}")

    # -- what changed --------------------------------------------------------------------------------------

    def changed_since(self, before: VersionTree) -> list[str]:
        """Return the versions that edits have added to a tree or changed."""
        old = Commits.of(before.commits)
        new = Commits.of(self.commits)
        if old.cold is new.cold:
            return [id_ for id_, node in new.hot.items() if old.hot.get(id_) != node]
        return [id_ for id_, node in new.hot.items() if old.get(id_) != node]

    def with_digests(self, digests: Mapping[str, str]) -> VersionTree:
        """Return the tree with the checksums of manifests; checksums of versions that it lacks are dropped."""
        nodes = [
            replace(self.commits[id_], digest=digest)
            for id_, digest in digests.items()
            if id_ in self.commits
        ]
        return replace(self, commits=Commits.of(self.commits).edited([], nodes))


def tail_begins(data: bytes) -> int | None:
    """Return the offset of the end of the file that can be read alone, given the last bytes of the file, or None."""
    end = TreeEnd.of(data)
    return None if end is None else end.begins


def _reader(
    read: Callable[[], bytes] | None, length: int, end: TreeEnd, hot: Mapping[str, CommitNode]
) -> Callable[[], tuple[bytes, int]] | None:
    """Return a function that reads the older versions from the file or its replacement."""
    if read is None:
        return None

    def older() -> tuple[bytes, int]:
        data = read()
        rest = data[:length]
        if xxhash.xxh3_64_intdigest(rest) == end.rest:
            return end.cold(rest).text, end.nodes
        now = VersionTree.from_bytes(data)
        others = [node for id_, node in now.commits.items() if id_ not in hot]
        cold = ColdNodes.of(OPENING, 0).with_(others)
        return cold.text, cold.count

    return older


def _heads(doc: Mapping[str, Any], commits: Mapping[str, CommitNode]) -> dict[str, str]:
    heads = fields.mapping(doc, "branches", _WHAT)
    limits.check("MAX_VERSIONS", len(heads), f"{_WHAT}: branches")
    return {name: _checked_head(name, head, commits) for name, head in heads.items()}


def _checked_head(branch: str, head: Any, commits: Mapping[str, CommitNode]) -> str:
    if not isinstance(head, str) or head not in commits:
        raise FormatError(f"{_WHAT}: the head {head!r:.60} of branch {branch!r:.60} is missing")
    return head
