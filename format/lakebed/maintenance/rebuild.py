"""Restoring of a lost version tree from `commit_info.json` files and folders (format.md 9.6).

Every version except lakebed's heads has such a file, which names its parent and children. A damaged
`version_control_info.json` still contains names of branches and more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakebed.documents import json_style
from lakebed.documents.version_tree import FIRST, MAIN, CommitNode, VersionTree
from lakebed.errors import LakebedError
from lakebed.maintenance.plan import Kind, RepairReport, Step
from lakebed.storage.base import Storage

_FILE = "commit_info.json"
_META = "dataset_meta.json"
# Matches `"branches": {"main": "<id>", ...}` and `"<id>": {"branch": "main", ...` anywhere in damaged text.
_HEAD = re.compile(r'"((?:[^"\\]|\\.){1,200})": "([0-9a-zA-Z]{40})"')
_NODE = re.compile(r'"([0-9a-zA-Z]{40})": \{"branch": "((?:[^"\\]|\\.){1,200})"')


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A restored tree; branches in ``headless`` end in a commit and need a new head."""

    tree: VersionTree
    headless: tuple[str, ...]


def rebuild(storage: Storage, damaged: bytes | None, report: RepairReport) -> Rebuilt:
    """Restore the tree.

    Parameters
    ----------
    damaged
        The damaged `version_control_info.json`; None if it is missing.
    report
        Receives the steps.
    """
    nodes, folders, unread = {}, {}, {}
    for key, stat in storage.list():
        version, name = (FIRST, key) if "/" not in key else (key.split("/")[1], key.split("/", 2)[-1])
        if key.count("/") not in (0, 2) or (version != FIRST and not key.startswith("versions/")):
            continue
        if name == _META:
            folders[version] = (stat.modified or stat.stored) / 1e9
        elif name == _FILE:
            try:
                nodes[version] = CommitNode.from_json(version, json_style.load(storage.get(key), key), key)
            except LakebedError as error:
                unread[version] = f"{key} is left out: {error}"
    text = (damaged or b"").decode("utf-8", "replace")
    branch_of = dict(_NODE.findall(text)) | {
        head: name for name, head in _HEAD.findall(text[text.rfind('"branches"') :])
    }
    tree = _Builder(nodes, folders, {i: name for i, name in branch_of.items() if "\ufffd" not in name})
    tree.build()
    what = "missing" if damaged is None else "damaged"
    report.add(
        "history",
        f"version_control_info.json is {what}; it is rebuilt from {len(nodes)} commit_info.json files: "
        f"{len(tree.commits)} versions, branches {', '.join(map(repr, tree.branches))}",
    )
    for version, message in unread.items():
        report.add("history", message, version=version)
    report.steps += tree.steps
    return Rebuilt(VersionTree(tree.commits, tree.branches), tuple(tree.headless))


@dataclass(slots=True)
class _Builder:
    """A builder of a tree from versions."""

    nodes: Mapping[str, CommitNode]
    folders: Mapping[str, float]
    branch_of: Mapping[str, str]
    commits: dict[str, CommitNode] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    headless: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def build(self) -> None:
        below: dict[str, list[str]] = {}
        for id_, node in self.nodes.items():
            if node.parent is not None and id_ != FIRST:
                below.setdefault(node.parent, []).append(id_)
            for child in node.children:
                if child in self.folders or child in self.nodes:
                    below.setdefault(id_, []).append(child)
        for lost in sorted(set(below) - self.nodes.keys() - {FIRST}):
            # A version that has children was committed; its own parent is unknown, so attach it to the root.
            below.setdefault(FIRST, []).append(lost)
            self._step(
                "history", "its commit_info.json is missing: it becomes a child of the root", version=lost
            )
        pending: list[tuple[str, str | None, str]] = [(FIRST, None, MAIN)]
        while pending:
            id_, parent, branch = pending.pop(0)
            if id_ in self.commits:
                continue
            children = tuple(dict.fromkeys(c for c in below.get(id_, ()) if c != id_))
            node = self._node(id_, parent, branch, children)
            self.commits[id_] = node
            pending += [(child, id_, node.branch) for child in children]
        seen: set[str] = set()
        for id_, node in self.commits.items():
            # If several versions name the same child, the first one keeps it.
            children = tuple(c for c in node.children if c not in seen and self.commits[c].parent == id_)
            seen.update(children)
            self.commits[id_] = replace(node, children=children)
        self._find_heads()

    def _node(self, id_: str, parent: str | None, branch: str, children: tuple[str, ...]) -> CommitNode:
        found = self.nodes.get(id_)
        if found is not None:
            return replace(found, parent=parent, children=children)
        node = CommitNode(id_, self.branch_of.get(id_, branch), parent, children)
        if children and id_ != FIRST:
            return replace(node, message="recovered: its message is lost", time=self.folders.get(id_, 0.0))
        return node

    def _find_heads(self) -> None:
        tips: dict[str, list[CommitNode]] = {}
        for node in self.commits.values():
            if not node.is_committed and not node.children:
                tips.setdefault(node.branch, []).append(node)
        for branch, nodes in tips.items():
            # If a branch could have several heads, take the newest; the others are orphaned publishes.
            nodes.sort(key=lambda node: self.folders.get(node.id, 0.0))
            *others, head = nodes
            self.branches[branch] = head.id
            for other in others:
                self._name_head(other)
        for node in self.commits.values():
            if node.branch not in self.branches:
                self._add_headless(node.branch)

    def _name_head(self, node: CommitNode) -> None:
        if node.id in self.nodes:
            return  # a reset left this version behind
        name = f"recovered_{node.id[:8]}"
        self.commits[node.id] = replace(node, branch=name)
        self.branches[name] = node.id
        self._step("branch", "the name of this branch is lost", name, node.id)

    def _add_headless(self, branch: str) -> None:
        line = [node for node in self.commits.values() if node.branch == branch]
        ends = [node for node in line if not any(self.commits[c].branch == branch for c in node.children)]
        last = max(ends, key=lambda node: (node.time or 0.0, node.id))
        self.branches[branch] = last.id
        if last.is_committed:
            self.headless.append(branch)
            self._step("branch", "its head is missing; a new head is added below its last commit", branch)

    def _step(self, kind: Kind, message: str, branch: str | None = None, version: str | None = None) -> None:
        self.steps.append(Step(kind, message, branch, version))
