"""Storage use of a dataset by tensor, branch and version, with shared and unreferenced bytes.

The files are listed once. Memory holds only the chunk ids that branches need, eight bytes each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.documents.version_tree import FIRST, VersionTree
from lakebed.errors import LakebedError
from lakebed.session.session import Session
from lakebed.storage.base import Storage
from lakebed.storage.url import Location, open_storage
from lakebed.versions.chunk_table import split_chunk
from lakebed.versions.gc.collect import collect

_VERSIONS = "versions/"


@dataclass(slots=True)
class Used:
    """Files and their bytes."""

    bytes: int = 0
    files: int = 0

    def add(self, size: int) -> None:
        """Count one more file."""
        self.bytes += size
        self.files += 1


@dataclass(slots=True)
class OfTensor:
    """Storage used by a tensor: ``now`` by the chunks that the branch needs, ``all`` by the chunks of all versions."""

    hidden: bool = False
    now: Used = field(default_factory=Used)
    all: Used = field(default_factory=Used)


@dataclass(slots=True)
class OfBranch:
    """Storage used by the chunks that a branch's head needs, and by those of them that another branch shares."""

    version: str
    needed: Used = field(default_factory=Used)
    shared: Used = field(default_factory=Used)


@dataclass(slots=True)
class OfVersion:
    """Storage used by a version's folder; ``branch`` and ``message`` are None for folders outside of the history."""

    branch: str | None
    message: str | None
    data: Used = field(default_factory=Used)
    metadata: Used = field(default_factory=Used)


@dataclass(slots=True)
class Usage:
    """Bytes and files of a dataset.

    Attributes
    ----------
    dataset, branch : str
        Address of the dataset, and the branch described by ``tensors``.
    tensors, branches, versions : dict
        Use of each tensor and branch, by name, and of each version, by id.
    data, metadata : Used
        Chunks, and everything else, of the whole dataset.
    unreferenced : Used or None
        Files that no branch, commit, tag or view needs, which ``data`` and ``metadata`` include; None if unknown.
    """

    dataset: str
    branch: str
    tensors: dict[str, OfTensor] = field(default_factory=dict)
    branches: dict[str, OfBranch] = field(default_factory=dict)
    versions: dict[str, OfVersion] = field(default_factory=dict)
    data: Used = field(default_factory=Used)
    metadata: Used = field(default_factory=Used)
    unreferenced: Used | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        return asdict(self)


Folder = tuple[str, str]
"""A folder of chunks: version, and key of the tensor."""

Needed = dict[str, Mapping[Folder, NDArray[np.uint64]]]
"""Sorted ids of the chunks that each branch needs, by folder."""


def usage(location: Location) -> Usage:
    """Count the bytes of a dataset.

    Raises
    ------
    DatasetNotFoundError
        If no dataset exists.
    CheckoutError
        If the version does not exist.
    """
    storage = open_storage(location)
    session = Session(storage, location.ref, read_only=True)
    tree = session.tree
    found = Usage(location.shown, session.branch)
    names = _names(session)
    needed: Needed = {session.branch: _chunks_of(session)}
    found.branches[session.branch] = OfBranch(session.snapshot.version_id)
    for branch, version in tree.branches.items():
        if branch not in needed:
            other = Session(storage, branch, read_only=True)
            needed[branch] = _chunks_of(other)
            names |= {key: name for key, name in _names(other).items() if key not in names}
            found.branches[branch] = OfBranch(version)
    hidden = {name for name, is_hidden in names.values() if is_hidden}
    found.tensors = {name: OfTensor(name in hidden) for name, _ in names.values()}
    for key, stat in storage.list(""):
        _count(found, tree, needed, names, key, stat.size)
    found.unreferenced = _unreferenced(storage)
    return found


def _names(session: Session) -> dict[str, tuple[str, bool]]:
    """Return the name of each tensor by its key, and whether it is hidden."""
    snapshot = session.snapshot
    shown = set(snapshot.names())
    return {snapshot.key_of(name) or name: (name, name not in shown) for name in snapshot.names(hidden=True)}


def _chunks_of(session: Session) -> Mapping[Folder, NDArray[np.uint64]]:
    found: dict[Folder, list[NDArray[np.uint64]]] = {}
    for state in session.snapshot.tensors.values():
        for folder, ids in state.table.named(own=False):
            found.setdefault(folder, []).append(ids.astype(np.uint64))
    return {folder: np.unique(np.concatenate(parts)) for folder, parts in found.items()}


def _count(
    found: Usage,
    tree: VersionTree,
    needed: Needed,
    names: Mapping[str, tuple[str, bool]],
    key: str,
    size: int,
) -> None:
    version = key.split("/", 2)[1] if key.startswith(_VERSIONS) and key.count("/") > 1 else FIRST
    chunk = split_chunk(version, key)
    of = found.versions.get(version)
    if of is None:
        node = tree.commits.get(version)
        of = OfVersion(None, None) if node is None else OfVersion(node.branch, node.message)
        found.versions[version] = of
    if chunk is None:
        found.metadata.add(size)
        of.metadata.add(size)
        return
    found.data.add(size)
    of.data.add(size)
    tensor, name = chunk
    known = found.tensors.setdefault(names.get(tensor, (tensor, False))[0], OfTensor())
    known.all.add(size)
    users = [branch for branch, folders in needed.items() if _holds(folders.get((version, tensor)), name)]
    for branch in users:
        found.branches[branch].needed.add(size)
        if len(users) > 1:
            found.branches[branch].shared.add(size)
    if found.branch in users:
        known.now.add(size)


def _holds(numbers: NDArray[np.uint64] | None, name: str) -> bool:
    if numbers is None:
        return False
    try:
        number = np.uint64(int(name, 16))
    except (ValueError, OverflowError):
        return False
    at = int(np.searchsorted(numbers, number))
    return at < len(numbers) and bool(numbers[at] == number)


def _unreferenced(storage: Storage) -> Used | None:
    try:
        report = collect(storage, grace=0, dry_run=True)
    except LakebedError:
        return None
    return Used(report.bytes, report.files)
