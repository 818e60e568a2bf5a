"""Every document that Deep Lake 3.9.52 wrote into the golden datasets comes back byte for byte."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakebed.documents import info, json_style
from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.dataset_diff import DatasetDiff
from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.documents.indexes.chunk_ids import ChunkIds, chunk_name
from lakebed.documents.indexes.chunk_set import ChunkSet
from lakebed.documents.indexes.creds_index import CredsIndex
from lakebed.documents.indexes.pad_index import PadIndex
from lakebed.documents.indexes.sequence_index import SequenceIndex
from lakebed.documents.indexes.tile_index import TileIndex
from lakebed.documents.linked_creds import LinkedCreds
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.documents.version_tree import FIRST, CommitNode, VersionTree
from lakebed.errors import FormatError, LimitError
from unit_tests.effort import IS_SOAK

KINDS: dict[str, Callable[[bytes], bytes]] = {
    "version_control_info.json": lambda data: VersionTree.from_bytes(data).to_bytes(),
    "commit_info.json": lambda data: VersionTree(
        {"id": CommitNode.from_json("id", json_style.load(data, "node"))}, {}
    ).node_bytes("id"),
    "linked_creds.json": lambda data: LinkedCreds.from_bytes(data).to_bytes(),
    "dataset_meta.json": lambda data: DatasetMeta.from_bytes(data).to_bytes(),
    "tensor_meta.json": lambda data: TensorMeta.from_bytes(data).to_bytes(),
    "tensor_info.json": lambda data: info.to_bytes(info.from_bytes(data)),
    "dataset_info.json": lambda data: info.to_bytes(info.from_bytes(data)),
    "chunk_set": lambda data: ChunkSet.from_bytes(data).to_bytes(),
    "commit_diff": lambda data: CommitDiff.from_bytes(data).to_bytes(),
    "dataset_diff": lambda data: DatasetDiff.from_bytes(data).to_bytes(),
    "chunks_index": lambda data: ChunkIds.from_bytes(data).to_bytes(),
    "sequence_index": lambda data: SequenceIndex.from_bytes(data).to_bytes(),
    "creds_index": lambda data: CredsIndex.from_bytes(data).to_bytes(),
    "pad_index": lambda data: PadIndex.from_bytes(data).to_bytes(),
    "tiles_index": lambda data: TileIndex.from_bytes(data).to_bytes(),
}


def documents(golden: Path) -> list[tuple[str, Path]]:
    """(kind, path) of every document in the golden datasets."""
    files = (path for path in golden.rglob("*") if path.is_file())
    named = ((path.parent.name if path.name == "unsharded" else path.name, path) for path in files)
    return [(kind, path) for kind, path in named if kind in KINDS]


def test_round_trip_is_exact(golden: Path) -> None:
    """The format is canonical: what is parsed and written again has the same bytes."""
    seen: Counter[str] = Counter()
    for kind, path in documents(golden):
        data = path.read_bytes()
        assert KINDS[kind](data) == data, path
        seen[kind] += 1
    assert set(seen) == set(KINDS)
    assert seen.total() > 3900


def test_lengths_agree_with_the_tables(golden: Path) -> None:
    """A tensor's length is the sample count of its index; items of sequences are counted by both."""
    checked = 0
    for kind, path in documents(golden):
        if kind != "tensor_meta.json":
            continue
        meta = TensorMeta.from_bytes(path.read_bytes())
        index = path.parent / "chunks_index" / "unsharded"
        if index.exists():
            assert ChunkIds.from_bytes(index.read_bytes()).count == meta.length, path
            checked += 1
        sequence = path.parent / "sequence_index" / "unsharded"
        if meta.is_sequence and sequence.exists():
            assert SequenceIndex.from_bytes(sequence.read_bytes()).total == meta.length, path
    assert checked > 800


def test_indexed_chunks_exist(golden: Path) -> None:
    """Each name of the index is a file in the folder that the version tree and the chunk sets point to."""
    checked = 0
    for root in sorted(
        {path.parent for kind, path in documents(golden) if kind == "version_control_info.json"}
    ):
        tree = VersionTree.from_bytes((root / "version_control_info.json").read_bytes())
        for branch, head in tree.branches.items():
            assert tree.branches[branch] == head
            folder = root if head == FIRST else root / "versions" / head
            meta = DatasetMeta.from_bytes((folder / "dataset_meta.json").read_bytes())
            for key in meta.tensors:
                index = folder / key / "chunks_index" / "unsharded"
                if not index.exists():
                    assert TensorMeta.from_bytes((folder / key / "tensor_meta.json").read_bytes()).length == 0
                    continue
                for number in ChunkIds.from_bytes(index.read_bytes()).ids.tolist():
                    assert find_chunk(root, tree, head, key, chunk_name(number)).is_file()
                    checked += 1
    assert checked > 500


def find_chunk(root: Path, tree: VersionTree, version: str, key: str, name: str) -> Path:
    """Walk up from a version to the folder that holds a chunk (format.md 9.3)."""
    for node in tree.ancestors(version):
        if node == FIRST:
            return root / key / "chunks" / name
        file = root / "versions" / node / key / "chunk_set"
        place = ChunkSet.from_bytes(file.read_bytes() if file.exists() else b"").get(name)
        if place:
            commit, other_key = place[0] or node, place[1] or key
            folder = root if commit == FIRST else root / "versions" / commit
            return folder / other_key / "chunks" / name
    raise AssertionError("the walk ends at the root version")


def test_trees_are_those_that_deep_lake_shows(golden: Path) -> None:
    """Branches and versions are what 3.9.52 read back itself."""
    for expected in sorted(golden.glob("*.expected.json")):
        shown: dict[str, Any] = json.loads(expected.read_text())
        name = expected.name.removesuffix(".expected.json")
        tree = VersionTree.from_bytes((golden / name / "version_control_info.json").read_bytes())
        assert dict(tree.branches) == shown["branches"]
        assert {id_: node.parent for id_, node in tree.commits.items()} == {
            id_: node["parent"] for id_, node in shown["commits"].items()
        }


@pytest.mark.parametrize("kind", KINDS)
def test_truncated_documents_are_format_errors(golden: Path, kind: str) -> None:
    """A real document that was cut off, or had a byte changed, is refused or read, and nothing else.

    Anywhere in its first 200 bytes, and at every 29th of the others; in a soak anywhere.
    """
    paths = [path for found, path in documents(golden) if found == kind]
    path = max(paths, key=lambda path: (min(path.stat().st_size, 3000), str(path)))
    data = path.read_bytes()[:3000]
    for end in range(len(data)):
        if end > 200 and end % 29 and not IS_SOAK:
            continue
        for damaged in (data[:end], data[:end] + bytes([data[end] ^ 0x80]) + data[end + 1 :]):
            with contextlib.suppress(FormatError, LimitError):
                KINDS[kind](damaged)
