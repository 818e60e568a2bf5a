"""Check of a dataset's documents: each document alone, against the others, and against the manifest.

Finds all damage without stopping at the first; `lakebed.maintenance.verify` reads the chunks of tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from lakebed.documents import info as info_document
from lakebed.documents import json_style
from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.dataset_diff import DatasetDiff
from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.documents.indexes.chunk_ids import STUB, ChunkIds
from lakebed.documents.indexes.chunk_set import ChunkSet
from lakebed.documents.indexes.creds_index import CredsIndex
from lakebed.documents.indexes.pad_index import PadIndex
from lakebed.documents.indexes.sequence_index import SequenceIndex
from lakebed.documents.indexes.tile_index import TileIndex
from lakebed.documents.lock import DatasetLock
from lakebed.documents.manifest import ChunkPlaces, Manifest, digest_of
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.documents.version_tree import FIRST, CommitNode, VersionTree
from lakebed.errors import FormatError, KeyNotFound, LakebedError, LimitError
from lakebed.runtime.printable import printable
from lakebed.storage.base import Storage
from lakebed.versions.chunk_table import ArrayTable, ChunkTable, empty_table, folder_of
from lakebed.versions.manifests import digests_of, parse_manifest, tables_of
from lakebed.versions.opening import is_unmodified, manifest_key, open_version, resolve_chunks
from lakebed.versions.paged import PagedTable, table_of_stub
from lakebed.versions.refs import REFS_KEY, Refs
from lakebed.versions.state import CREDS, PAD, SEQUENCE, TILES, TensorState

_IDS = "chunks_index/unsharded"
# Tolerated difference of times in seconds, because 3.9.52 rounds times when it rewrites the history.
_ROUNDING = 2e-6

UNUSED = (
    "not part of the history: commits leave them for readers, and `lakebed gc` removes them after an hour"
)
"""Message about folders of versions outside of the history."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Damage:
    """One defect of a dataset.

    Parameters
    ----------
    message
        Description.
    version, branch
        Id of the version, and its branch.
    tensor
        Name of the tensor.
    rows
        First and last damaged row.
    key
        Storage key of the file.
    kind
        The possible repair: ``copy`` (the manifest has the right bytes), ``node`` (the version tree has them), ``lock``
        (the file is obsolete), ``manifest`` (it can be made again), ``shared`` (a file of no version), and ``content``
        for all others.
    """

    message: str
    version: str | None = None
    branch: str | None = None
    tensor: str | None = None
    rows: tuple[int, int] | None = None
    key: str | None = None
    kind: str = "content"

    def __str__(self) -> str:
        where = []
        if self.version is not None:
            where.append(f"version {self.version[:12]}" + (f" ({self.branch})" if self.branch else ""))
        if self.tensor is not None:
            where.append(f"tensor {self.tensor!r}")
        if self.rows is not None:
            first, last = self.rows
            where.append(f"row {first}" if first == last else f"rows {first} to {last}")
        if self.key is not None:
            where.append(self.key)
        return printable(": ".join([", ".join(where), self.message] if where else [self.message]))


@dataclass(slots=True)
class Findings:
    """The result of a check; ``notes`` are harmless oddities."""

    dataset: str
    deep: bool = False
    damage: list[Damage] = field(default_factory=list)
    notes: list[Damage] = field(default_factory=list)
    versions: int = 0
    tensors: int = 0
    chunks: int = 0
    samples: int = 0

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged."""
        return not self.damage

    def to_json(self) -> dict[str, Any]:
        """Return the findings as plain data."""
        return {**asdict(self), "sound": self.is_sound}


@dataclass(frozen=True, slots=True)
class CheckedVersion:
    """The readable part of one version: its node, and tensors by key."""

    node: CommitNode
    names: Mapping[str, str]
    tensors: Mapping[str, TensorState]


@dataclass(slots=True)
class DocumentCheck:
    """Reader of all documents of a dataset that records their damage."""

    _storage: Storage
    _tree: VersionTree
    _findings: Findings
    _tables: dict[str, Mapping[str, PagedTable]] = field(default_factory=dict)

    # -- the dataset -----------------------------------------------------------------------------------------

    def history(self, chosen: str | None = None) -> list[str]:
        """Return the versions to check, oldest first; add notes on versions outside of the history."""
        if chosen is not None:
            return [chosen]
        tree, heads = self._tree, set(self._tree.branches.values())
        needed = {version for head in heads for version in tree.ancestors(head)}
        for version, node in tree.commits.items():
            if version in needed:
                continue
            if node.is_committed:
                needed.add(version)
            else:
                self._note("unused: no branch contains it (after a reset or an interrupted publish)", node)
        for folder in sorted(self._version_folders() - set(tree.commits)):
            self._findings.notes.append(Damage(UNUSED, key=f"versions/{folder}"))
        return [version for version in tree.commits if version in needed]

    def _version_folders(self) -> set[str]:
        keys = (key for key, _ in self._storage.list("versions/"))
        return {key.split("/")[1] for key in keys if key.count("/") > 1}

    def shared_files(self) -> None:
        """Check the files that belong to no version."""
        for key in ("linked_creds.json", "queries.json"):
            data = self._get(key)
            if data is not None:
                self._parsed(key, data, partial(json_style.load, what=key), kind="shared")
        data = self._get(REFS_KEY)
        if data is not None:
            self._parsed(REFS_KEY, data, Refs.from_bytes, kind="shared")

    # -- one version -----------------------------------------------------------------------------------------

    def version(self, version_id: str) -> CheckedVersion | None:
        """Check the documents of one version; None if it cannot be read."""
        known = len(self._findings.damage)
        found = self._version(version_id)
        node = self._tree.commits[version_id]
        if not node.is_committed and self._tree.branches.get(node.branch) != node.id:
            # The root is the only checked version that can be neither a commit nor a head: 3.9.52 crashed in it, and a
            # repair made a new head below it. Later versions use chunks of the root, but no reader needs its documents.
            new = self._findings.damage[known:]
            harmless = [damage for damage in new if damage.kind == "content"]
            self._findings.damage[known:] = [damage for damage in new if damage.kind != "content"]
            if harmless:
                self._note(
                    f"{len(harmless)} damaged documents that no reader needs: a repair added a head below",
                    node,
                )
            return None
        return found

    def _version(self, version_id: str) -> CheckedVersion | None:
        node, known = self._tree.commits[version_id], len(self._findings.damage)
        self._node_file(node)
        self._lock_file(node)
        manifest = self.manifest(node)
        if manifest is not None:
            self._compare(node, manifest)
        self._findings.versions += 1
        files = dict(manifest.files) if manifest is not None else {}
        data = files.get("dataset_meta.json") or self._get(folder_of(version_id) + "dataset_meta.json")
        if data is None:
            is_blank = node.id == FIRST and not node.is_committed and bool(node.children)
            if not is_blank:
                self._damaged("it is missing", node, key=folder_of(version_id) + "dataset_meta.json")
            return None
        meta = self._parsed(folder_of(version_id) + "dataset_meta.json", data, DatasetMeta.from_bytes, node)
        if meta is None:
            return None
        for name, parse in (
            ("dataset_info.json", info_document.from_bytes),
            ("dataset_diff", DatasetDiff.from_bytes),
        ):
            self._document(node, files, name, parse)
        names = {key: name for name, key in meta.tensor_names.items()}
        tensors = {}
        for key in meta.tensors:
            state = self._tensor(node, key, names.get(key, key), files, manifest)
            if state is not None:
                tensors[key] = state
        for key in {*meta.hidden_tensors, *meta.tensor_names.values()} - set(meta.tensors):
            self._damaged(f"it names {key!r}, which is not a tensor", node, key="dataset_meta.json")
        self._companions(node, names, tensors)
        self._findings.tensors += len(tensors)
        if len(self._findings.damage) == known:
            self._opening(node)
        return CheckedVersion(node, names, tensors)

    def _opening(self, node: CommitNode) -> None:
        """Open the version as a reader does, to report errors that only opening finds."""
        try:
            # The tensors are parsed when they are read, so read them all.
            list(open_version(self._storage, self._tree, node.id).tensors.values())
        except (FormatError, LimitError) as error:
            self._damaged(str(error), node)

    def _node_file(self, node: CommitNode) -> None:
        """Compare `commit_info.json`, from which 3.9.52 restores a lost history, with the history."""
        key = f"{folder_of(node.id)}commit_info.json"
        data = self._get(key)
        # A head needs no `commit_info.json`. An interrupted commit leaves such a file, perhaps incomplete, which the
        # next commit replaces.
        if data is None or node.id in self._tree.branches.values():
            return

        def parse(raw: bytes) -> CommitNode:
            return CommitNode.from_json(node.id, json_style.load(raw, key), key)

        found = self._parsed(key, data, parse, node, kind="node")
        if found is None or data == self._tree.node_bytes(node.id):
            return
        # 3.9.52 does not rewrite the file when a reset or a branch changes the children.
        alike = replace(found, time=node.time, children=node.children) == node
        if alike and abs((found.time or 0) - (node.time or 0)) < _ROUNDING:
            self._note("its time or children differ from those in version_control_info.json", node, key)
        else:
            message = "it contradicts version_control_info.json"
            self._damaged(message, node, key=key, kind="node")

    def _lock_file(self, node: CommitNode) -> None:
        key = f"{folder_of(node.id)}dataset_lock.lock"
        data = self._get(key)
        if data is not None:
            self._parsed(key, data, DatasetLock.from_bytes, node, kind="lock")

    def manifest(self, node: CommitNode) -> Manifest | None:
        """Read the manifest; return it if the history names it and it is still valid."""
        key = manifest_key(node.id)
        data, digest = self._get(key), digests_of(self._tree).get(node.id)
        if data is None:
            if digest is not None:
                message = "it is missing; reading is slower and without checksums"
                self._damaged(message, node, key=key, kind="manifest")
            return None
        if digest != digest_of(data) and digest is None:
            self._note("outdated, because another program has written since; it is not used", node, key)
            return None
        manifest = self._parsed(key, data, self._read_manifest, node, kind="manifest")
        if manifest is not None and (digest != digest_of(data) or manifest.version_id != node.id):
            self._damaged("it is not the manifest that the history names", node, key=key, kind="manifest")
            return None
        if manifest is not None and not self._is_current(manifest):
            self._note("outdated, because another program has written since; it is not used", node, key)
            return None
        return manifest

    def _read_manifest(self, data: bytes) -> Manifest:
        found = parse_manifest(self._storage, data)
        tables = self._tables[found.manifest.version_id] = tables_of(found)
        # An entry is checked when it is read, so read them all, pages one after the other.
        for key in found.manifest.chunks:
            if key not in tables:
                _ = found.manifest.chunks[key]
        for table in tables.values():
            for _ in table.tree.tables([(0, table.tree.rows)]):
                pass
        return found.manifest

    def _is_current(self, manifest: Manifest) -> bool:
        """Tell whether a manifest is still valid.

        Returns True if the manifest contradicts itself: then the caller keeps it, and its defects are reported.
        """
        try:
            return is_unmodified(self._storage, self._tree, manifest)
        except (FormatError, KeyError):
            return True

    def _compare(self, node: CommitNode, manifest: Manifest) -> None:
        for name, expected in manifest.files.items():
            key = folder_of(node.id) + name
            data = self._get(key)
            if data is None:
                message = "it is missing (Deep Lake 3.x needs this file; lakebed has a copy)"
            elif data != expected:
                message = "its content was changed (Deep Lake 3.x reads this file; lakebed has a copy)"
            else:
                continue
            self._damaged(message, node, key=key, kind="copy")

    # -- one tensor ------------------------------------------------------------------------------------------

    def _tensor(
        self, node: CommitNode, key: str, name: str, files: Mapping[str, bytes], manifest: Manifest | None
    ) -> TensorState | None:
        def read(file: str, parse: Callable[[bytes], T]) -> T | None:
            return self._document(node, files, f"{key}/{file}", parse, name)

        meta = read("tensor_meta.json", TensorMeta.from_bytes)
        if meta is None:
            file = f"{key}/tensor_meta.json"
            if file not in files and self._get(folder_of(node.id) + file) is None:
                self._damaged("it is missing", node, name, key=folder_of(node.id) + file)
            return None
        info = read("tensor_info.json", info_document.from_bytes)
        diff = read("commit_diff", CommitDiff.from_bytes)
        read("chunk_set", ChunkSet.from_bytes)
        table = self._tables.get(node.id, {}).get(key) if manifest is not None else None
        state = TensorState(
            key,
            meta,
            info or {},
            table or read(_IDS, partial(self._table, node, key, manifest)) or empty_table(),
            diff,
            read(TILES, TileIndex.from_bytes) or TileIndex.empty(),
            read(SEQUENCE, SequenceIndex.from_bytes) if meta.is_sequence else None,
            read(CREDS, CredsIndex.from_bytes) if meta.is_link else None,
            read(PAD, PadIndex.from_bytes),
        )
        self._lengths(node, name, state)
        return state

    def _table(self, node: CommitNode, key: str, manifest: Manifest | None, data: bytes) -> ChunkTable:
        if data.startswith(STUB):
            return table_of_stub(self._storage, node.id, key, data)
        ids = ChunkIds.from_bytes(data)
        return ArrayTable(ids, self._places(node, key, ids, manifest))

    def _places(self, node: CommitNode, key: str, ids: ChunkIds, manifest: Manifest | None) -> ChunkPlaces:
        if manifest is not None and key in manifest.chunks and len(manifest.chunks[key].sizes) == len(ids):
            return manifest.chunks[key]
        try:
            return resolve_chunks(self._storage, self._tree, node.id, key, ids)
        except FormatError:
            # A damaged chunk_set of an ancestor is reported for the ancestor; chunks that only this chunk_set names
            # are reported as missing.
            return resolve_chunks(
                self._storage, VersionTree({FIRST: self._tree.commits[FIRST]}, {}), FIRST, key, ids
            )

    def _lengths(self, node: CommitNode, name: str, state: TensorState) -> None:
        """Compare the numbers of samples in metadata and encoders (format.md 15.2)."""
        length, folder = state.meta.length, f"{folder_of(node.id)}{state.key}/"

        def differs(what: str, count: int, file: str) -> None:
            self._damaged(
                f"{what} {count:,} samples, tensor_meta.json has {length:,}", node, name, key=folder + file
            )

        if state.table.count != length:
            differs("the chunk index has", state.table.count, _IDS)
        if state.meta.is_sequence and length and state.sequence is None:
            self._damaged("it is missing", node, name, key=folder + SEQUENCE)
        if state.sequence is not None and state.sequence.total != length:
            differs("the sequences have", state.sequence.total, SEQUENCE)
        if state.creds is not None and state.creds.count not in (0, length):
            differs("the credentials are for", state.creds.count, CREDS)
        for index, (shape, tile) in state.tiles.entries.items():
            rows = len(state.table.rows_of(index)) if index < state.table.count else 0
            tiles = int(np.prod([-(-s // t) for s, t in zip(shape, tile, strict=True)]))
            if index >= length:
                self._damaged(
                    f"it has an entry for sample {index} of {length}", node, name, key=folder + TILES
                )
            elif rows != tiles and not state.meta.is_link:
                message = f"sample {index} has {rows} tiles, but its shape needs {tiles}"
                # 3.9.52 leaves outdated entries in the tile index (format.md 15.6); readers then trust the chunks.
                self._findings.notes.append(
                    Damage(message, node.id, node.branch, name, (index, index), folder + TILES)
                )

    def _companions(
        self, node: CommitNode, names: Mapping[str, str], tensors: Mapping[str, TensorState]
    ) -> None:
        """Compare the lengths of hidden tensors with those of their visible tensors (format.md 8)."""
        for key, state in tensors.items():
            for link, settings in state.meta.links.items():
                other = tensors.get(link)
                name = names.get(key, key)
                if other is None:
                    self._damaged(f"its hidden tensor {link!r} is missing or damaged", node, name)
                    continue
                wanted = state.meta.length if settings.get("flatten_sequence") else state.length
                if other.meta.length != wanted:
                    self._damaged(
                        f"its hidden tensor {link!r} has {other.meta.length:,} samples instead of {wanted:,}",
                        node,
                        name,
                    )

    # -- files -----------------------------------------------------------------------------------------------

    def _document(
        self,
        node: CommitNode,
        files: Mapping[str, bytes],
        name: str,
        parse: Callable[[bytes], T],
        tensor: str | None = None,
    ) -> T | None:
        """Read a document of a version, from the manifest if the manifest has it; None if it is missing or damaged."""
        key = folder_of(node.id) + name
        data = files[name] if name in files else self._get(key)
        return None if data is None else self._parsed(key, data, parse, node, tensor)

    def _get(self, key: str) -> bytes | None:
        try:
            return self._storage.get(key)
        except KeyNotFound:
            return None

    def _parsed(
        self,
        key: str,
        data: bytes,
        parse: Callable[[bytes], T],
        node: CommitNode | None = None,
        tensor: str | None = None,
        kind: str = "content",
    ) -> T | None:
        try:
            return parse(data)
        except LakebedError as error:
            self._damaged(str(error), node, tensor, key=key, kind=kind)
            return None

    def _damaged(
        self,
        message: str,
        node: CommitNode | None,
        tensor: str | None = None,
        *,
        key: str | None = None,
        kind: str = "content",
    ) -> None:
        version, branch = (None, None) if node is None else (node.id, node.branch)
        self._findings.damage.append(Damage(message, version, branch, tensor, None, key, kind))

    def _note(self, message: str, node: CommitNode, key: str | None = None) -> None:
        self._findings.notes.append(Damage(message, node.id, node.branch, key=key))
