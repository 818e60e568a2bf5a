"""Version history: `version_control_info.json` and `commit_info.json` (FORMAT.md 9).

    {"commits": {id: node}, "branches": {branch: id of its head}}
    node = {"branch", "parent", "children", "commit_message", "commit_time", "commit_user_name",
            "is_checkpoint", "total_samples_processed"}

A node without `commit_time` is uncommitted.  `branches` alone says which nodes are heads: uncommitted nodes
that no branch names are left over from a reset or a lost publish.

What lakebed adds is in one more member, `"lakebed": {..., "sum": checksum}`: the xxh3-64 of the whole file with sixteen
zeros in the checksum's place, in hexadecimal. 3.9.52 drops the member, and nothing is checked then.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import xxhash

from lakebed import limits
from lakebed.documents import fields, json_style
from lakebed.errors import BranchExistsError, CheckoutError, FormatError, InvalidInputError

FIRST = "firstdbf9474d461a19e9333c2fd19b46115348f"
"""Id of the root version, whose files lie directly under the dataset root."""

MAIN = "main"

OURS = "lakebed"
"""Member of the document that holds what lakebed adds."""

_WHAT = "version_control_info.json"
_REQUIRED = ("branch", "children", "parent", "commit_message", "commit_time", "commit_user_name")
_OPTIONAL = ("is_checkpoint", "total_samples_processed")
_SHORTEST_PREFIX = 7
_UNSUMMED = "0" * 16
# Quotes inside of JSON strings are escaped, so no message or name can look like this.
_SUM = re.compile(rb'"sum": "([^"]{16})"')


def new_id() -> str:
    """Return a random version id: 40 hexadecimal digits."""
    return secrets.token_hex(20)


@dataclass(frozen=True, slots=True)
class CommitNode:
    """One version; `time` in POSIX seconds, None while it is uncommitted."""

    id: str
    branch: str
    parent: str | None
    children: tuple[str, ...] = ()
    message: str | None = None
    time: float | None = None
    user: str | None = None
    is_checkpoint: bool = False
    total_samples_processed: int = 0

    @property
    def is_committed(self) -> bool:
        """Whether the version is sealed."""
        return self.time is not None

    @classmethod
    def from_json(cls, id: str, doc: Any, what: str = _WHAT) -> CommitNode:  # noqa: A002
        """Read a node.

        Raises
        ------
        FormatError
            If a member is missing or of the wrong type.
        """
        if not isinstance(doc, dict):
            raise FormatError(f"{what}: version {id} is no object")
        missing = [name for name in _REQUIRED if name not in doc]
        if missing:
            raise FormatError(f"{what}: version {id} has no {missing[0]}")
        what = f"{what}: version {id}"
        time = doc["commit_time"]
        if time is not None and type(time) not in (int, float):
            raise FormatError(f"{what}: commit_time is {time!r:.60}, not a number or null")
        total = doc.get("total_samples_processed")
        return cls(
            id=id,
            branch=fields.text(doc, "branch", what, ""),
            parent=fields.optional_text(doc, "parent", what),
            children=fields.texts(doc, "children", what),
            message=fields.optional_text(doc, "commit_message", what),
            time=time,
            user=fields.optional_text(doc, "commit_user_name", what),
            is_checkpoint=fields.flag(doc, "is_checkpoint", what, default=False),
            total_samples_processed=0
            if total is None
            else fields.count(doc, "total_samples_processed", what),
        )

    def to_json(self) -> dict[str, Any]:
        """Node as it stands in the document."""
        return {
            "branch": self.branch,
            "parent": self.parent,
            "children": list(self.children),
            "commit_message": self.message,
            "commit_time": self.time,
            "commit_user_name": self.user,
            "is_checkpoint": self.is_checkpoint,
            "total_samples_processed": self.total_samples_processed,
        }


@dataclass(frozen=True, slots=True)
class VersionTree:
    """Every version by id, and the head of every branch; edits return a new tree."""

    commits: Mapping[str, CommitNode]
    branches: Mapping[str, str]
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further members of the document; Deep Lake 3.9.52 drops them when it opens a dataset for writing."""

    @classmethod
    def initial(cls, head: str, branch: str = MAIN) -> VersionTree:
        """History of a new dataset: the empty, uncommitted root version, and the head below it."""
        return cls(
            {
                FIRST: CommitNode(FIRST, branch, None, (head,)),
                head: CommitNode(head, branch, FIRST),
            },
            {branch: head},
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> VersionTree:
        """Parse `version_control_info.json`.

        Raises
        ------
        FormatError
            If it is damaged or differs from its checksum, a version that can be reached from the root or from a head
            lacks its parent or child, or the versions run in a circle.
        LimitError
            If there are more versions than this process allows.
        """
        _check_sum(data)
        doc = json_style.load_object(data, _WHAT)
        nodes, heads = fields.mapping(doc, "commits", _WHAT), fields.mapping(doc, "branches", _WHAT)
        limits.check("MAX_VERSIONS", max(len(nodes), len(heads)), f"{_WHAT}: versions")
        commits = {
            fields.checked_version(id_, _WHAT): CommitNode.from_json(id_, node) for id_, node in nodes.items()
        }
        branches = {name: _checked_head(name, head, commits) for name, head in heads.items()}
        extra = {name: value for name, value in doc.items() if name not in ("commits", "branches")}
        if isinstance(extra.get(OURS), dict):
            extra[OURS].pop("sum", None)
        tree = cls(commits, branches, extra)
        tree._check()
        return tree

    def to_bytes(self) -> bytes:
        """Write `version_control_info.json`."""
        commits = {id_: node.to_json() for id_, node in self.commits.items()}
        doc = {"commits": commits, "branches": dict(self.branches), **self.extra}
        if not isinstance(doc.get(OURS), dict):
            return json_style.dump_compact(doc)
        doc[OURS] = {**self.extra[OURS], "sum": _UNSUMMED}
        data = json_style.dump_compact(doc)
        *_, found = _SUM.finditer(data)
        return data[: found.start(1)] + _sum(data) + data[found.end(1) :]

    def node_bytes(self, id: str) -> bytes:  # noqa: A002
        """Write the `commit_info.json` of a version, its members in the order that 3.9.52 has there."""
        node = self.commits[id].to_json()
        return json_style.dump_compact({name: node[name] for name in (*_REQUIRED, *_OPTIONAL)})

    def _check(self) -> None:
        """Refuse histories that cannot be walked (FORMAT.md 9.1, 15.3); unreachable versions may be there."""
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
        """Go up from a version until a known one; what is passed becomes known."""
        path: set[str] = set()
        current: str | None = id
        while current is not None and current not in known:
            if current in path:
                raise FormatError(f"{_WHAT}: the history of version {id} runs in a circle")
            if current not in self.commits:
                raise FormatError(f"{_WHAT}: version {current!r:.60} in the history of {id} is missing")
            path.add(current)
            yield current
            current = self.commits[current].parent
        if current is None:
            raise FormatError(f"{_WHAT}: the history of version {id} does not begin at the root version")
        known |= path

    # -- questions -----------------------------------------------------------------------------------------

    def head(self, branch: str) -> CommitNode:
        """Head of a branch.

        Raises
        ------
        CheckoutError
            If there is no such branch.
        """
        if branch not in self.branches:
            raise CheckoutError(f"there is no branch {branch!r}; there are: {', '.join(self.branches)}")
        return self.commits[self.branches[branch]]

    def resolve(self, ref: str) -> str:
        """Id of the version that a branch name, an id, or its first seven or more characters stand for.

        Raises
        ------
        CheckoutError
            If nothing, or more than one version, goes by this name.
        """
        if ref in self.branches:
            return self.branches[ref]
        if ref in self.commits:
            return ref
        found = [id_ for id_ in self.commits if id_.startswith(ref)] if len(ref) >= _SHORTEST_PREFIX else []
        if len(found) > 1:
            raise CheckoutError(f"{ref!r} is the beginning of {len(found)} versions; give more characters")
        if not found:
            raise CheckoutError(f"no branch or commit {ref!r}; branches are: {', '.join(self.branches)}")
        return found[0]

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
            If the head is committed or has children, or the new id is taken.
        """
        head = self.head(branch)
        if head.is_committed or head.children:
            raise InvalidInputError(f"the head {head.id} of branch {branch!r} cannot be replaced")
        if head.id == FIRST:
            # 3.9.52 writes here until the first commit. The root stays, below it goes on.
            return self._grow(head, CommitNode(new_id, branch, FIRST))
        self._check_free(new_id)
        commits = {
            new_id if id_ == head.id else id_: replace(node, id=new_id) if id_ == head.id else node
            for id_, node in self.commits.items()
        }
        parent = commits[str(head.parent)]
        children = tuple(new_id if child == head.id else child for child in parent.children)
        commits[parent.id] = replace(parent, children=children)
        return replace(self, commits=commits, branches={**self.branches, branch: new_id})

    def _grow(self, base: CommitNode, head: CommitNode) -> VersionTree:
        """Put a new head of its branch below a version."""
        self._check_free(head.id)
        commits = {
            **self.commits,
            base.id: replace(base, children=(*base.children, head.id)),
            head.id: head,
        }
        return replace(self, commits=commits, branches={**self.branches, head.branch: head.id})

    def seal_head(
        self, branch: str, new_head_id: str, message: str | None, time: float, user: str
    ) -> VersionTree:
        """Commit the head of a branch and put a new head below it.

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
        commits = {
            **self.commits,
            head.id: replace(head, message=message, time=time, user=user, children=children),
            new_head_id: CommitNode(new_head_id, branch, head.id),
        }
        return replace(self, commits=commits, branches={**self.branches, branch: new_head_id})

    def add_branch(self, name: str, head_id: str, base_id: str) -> VersionTree:
        """Start a branch with a new head below a version.

        Raises
        ------
        BranchExistsError
            If there is a branch of this name.
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
            If it is the main branch, or another branch begins on it.
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
        # Versions that a reset left dangling below this branch go with it.
        pending = list(gone)
        while pending:
            below = [
                id_ for id_ in self.commits[pending.pop()].children if id_ in self.commits and id_ not in gone
            ]
            gone.update(below)
            pending += below
        commits = {
            id_: node
            if gone.isdisjoint(node.children)
            else replace(node, children=tuple(child for child in node.children if child not in gone))
            for id_, node in self.commits.items()
            if id_ not in gone
        }
        branches = {branch: head for branch, head in self.branches.items() if branch != name}
        return replace(self, commits=commits, branches=branches)

    def _check_free(self, id: str) -> None:  # noqa: A002
        if id in self.commits:
            raise InvalidInputError(f"there is already a version {id}")


def _sum(data: bytes) -> bytes:
    return xxhash.xxh3_64_hexdigest(data).encode("ascii")


def _check_sum(data: bytes) -> None:
    """Refuse a file of ours that is not the one that was written."""
    found = list(_SUM.finditer(data))
    if found:
        start, end = found[-1].span(1)
        if _sum(data[:start] + _UNSUMMED.encode("ascii") + data[end:]) != found[-1][1]:
            raise FormatError(f"{_WHAT} is not as it was written: its checksum is wrong")


def _checked_head(branch: str, head: Any, commits: Mapping[str, CommitNode]) -> str:
    if not isinstance(head, str) or head not in commits:
        raise FormatError(f"{_WHAT}: the head {head!r:.60} of branch {branch!r:.60} is missing")
    return head
