"""Fuzz targets: the JSON and binary documents of the format, each read, used and written again."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from lakebed.documents import info, json_style
from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.commits import Commits
from lakebed.documents.dataset_diff import DatasetDiff
from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.documents.indexes import version_prefix
from lakebed.documents.indexes.chunk_ids import ChunkIds
from lakebed.documents.indexes.chunk_set import ChunkSet
from lakebed.documents.indexes.creds_index import CredsIndex
from lakebed.documents.indexes.pad_index import PadIndex
from lakebed.documents.indexes.sequence_index import SequenceIndex
from lakebed.documents.indexes.tile_index import TileIndex
from lakebed.documents.linked_creds import LinkedCreds
from lakebed.documents.lock import DatasetLock, is_live_foreign
from lakebed.documents.manifest import ChunkPlaces, Manifest, block_sums, digest_of
from lakebed.documents.manifest_delta import Whole, base_of, delta_bytes, read_manifest
from lakebed.documents.refs import Refs, Tag
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.documents.version_tree import CommitNode, VersionTree, tail_begins
from lakebed.errors import CheckoutError, FormatError, LimitError
from unit_tests.lakebed.fuzz.harness import Case, Target

_LARGEST = 3000
_MOST = 60


def corpus(golden: Path, name: str) -> list[Case]:
    """Different files of one name from the golden datasets, in an order that does not depend on their paths."""
    paths = [path for path in golden.rglob(name) if path.is_file() and path.stat().st_size <= _LARGEST]
    found = {hashlib.sha256(data).digest(): data for data in (path.read_bytes() for path in paths)}
    return [Case(found[key]) for key in sorted(found)[:_MOST]]


def _encoder(golden: Path, folder: str) -> list[Case]:
    paths = [p for p in golden.rglob(f"{folder}/unsharded") if p.stat().st_size <= _LARGEST]
    found = {hashlib.sha256(data).digest(): data for data in (path.read_bytes() for path in paths)}
    return [Case(found[key]) for key in sorted(found)[:_MOST]]


def _again(parse: Callable[[bytes], Any], data: bytes) -> Any:
    """Parse, write, and parse what was written: the same document."""
    value = parse(data)
    assert parse(value.to_bytes()) == value
    return value


def _chunk_ids(case: Case) -> None:
    index = _again(ChunkIds.from_bytes, case.data)
    assert len(index.counts) == len(index)
    for sample in {0, index.count // 2, index.count - 1} - {-1} if index.count else ():
        span = index.locate(sample)
        assert 0 <= span.row < span.row + span.rows <= len(index)


def _tiles(case: Case) -> None:
    assert len(_again(TileIndex.from_bytes, case.data).entries) <= len(case.data)


def _sequences(case: Case) -> None:
    index = _again(SequenceIndex.from_bytes, case.data)
    for i in {0, index.count // 2, index.count - 1} if index.count else ():
        start, stop = index.span(i)
        assert 0 <= start <= stop <= index.total
    if index.count < 1 << 20:
        assert int(index.lengths.sum()) == index.total


def _creds(case: Case) -> None:
    index = _again(CredsIndex.from_bytes, case.data)
    if index.count:
        index.code(index.count - 1)


def _linked_creds(case: Case) -> None:
    names = _again(LinkedCreds.from_bytes, case.data)
    for name, code in names.codes.items():
        assert names.name_of(code) == name


def _pad(case: Case) -> None:
    assert (5 in _again(PadIndex.from_bytes, case.data)) in (True, False)


def _commit_diff(case: Case) -> None:
    diff = _again(CommitDiff.from_bytes, case.data)
    assert diff.is_empty in (True, False)
    assert diff.added >= 0


def _chunk_set(case: Case) -> None:
    assert all(name.isalnum() for name in _again(ChunkSet.from_bytes, case.data))


def _lock(case: Case) -> None:
    is_live_foreign(case.data, 0.0)
    lock = DatasetLock.from_bytes(case.data)
    assert DatasetLock.from_bytes(lock.to_bytes()) == lock


def _tree(case: Case) -> None:
    tree = VersionTree.from_bytes(case.data)
    assert VersionTree.from_bytes(tree.to_bytes()).branches == tree.branches
    for branch, head in tree.branches.items():
        assert tree.head(branch).id == head
        assert next(iter(tree.ancestors(head))) == head
    Commits.of(tree.commits).starting_with("firstdb")


def _tree_end(case: Case) -> None:
    """Read a history from its end as it is (its checksum tells) and as somebody would sign it who wants to do harm."""
    for data in (case.data, _signed_end(case.data)):
        with contextlib.suppress(FormatError, LimitError, CheckoutError):
            tree = VersionTree.from_tail(data[-600:], len(data), lambda data=data: data)  # type: ignore[misc]
            for branch, head in ({} if tree is None else tree.branches).items():
                assert tree is not None
                assert tree.head(branch).id == head
                assert len(tree.commits) > 0
                assert next(iter(tree.ancestors(head))) == head
                assert VersionTree.from_bytes(tree.to_bytes()).branches == tree.branches
    _tree(Case(_signed_end(case.data)))


def _signed_end(data: bytes) -> bytes:
    """Put right checksums into what may be the end of a history."""
    begins = tail_begins(data)
    if begins is None or begins > len(data):
        return data
    tail = data[begins:-19].replace(data[-46:-30], xxhash.xxh3_64_hexdigest(data[:begins]).encode())
    return data[:begins] + tail + xxhash.xxh3_64_hexdigest(tail + b"0" * 16 + b'"}}').encode() + b'"}}'


def _histories() -> list[Case]:
    made = []
    for commits in (0, 1, 6):
        tree = replace(VersionTree.initial("0" * 40), extra={"lakebed": {"times": {"0" * 40: 1}}})
        for i in range(commits):
            tree = tree.commit_head("main", f"{i + 1:040x}", 'a "message" {', float(i), "me")
            tree = tree.with_digests({f"{i:040x}": f"{i:016x}"})
        made.append(tree if commits < 2 else tree.add_branch("side", "a" * 40, f"{2:040x}"))
    return [Case(tree.to_bytes()) for tree in made]


def _node(case: Case) -> None:
    node = CommitNode.from_json("id", json_style.load(case.data, "commit_info.json"))
    VersionTree({"id": node}, {}).node_bytes("id")


def _dataset_meta(case: Case) -> None:
    _again(DatasetMeta.from_bytes, case.data)


def _dataset_diff(case: Case) -> None:
    assert _again(DatasetDiff.from_bytes, case.data).is_empty in (True, False)


def _tensor_meta(case: Case) -> None:
    meta = TensorMeta.from_bytes(case.data)
    assert TensorMeta.from_bytes(meta.to_bytes()).length == meta.length


def _info(case: Case) -> None:
    info.to_bytes(info.from_bytes(case.data))


def _prefix(case: Case) -> None:
    version, _ = version_prefix.split(case.data, "file")
    version_prefix.numbers(version, "file")


def _manifest(case: Case) -> None:
    """Read a manifest as it is (its checksum tells) and as somebody would sign it who wants to do harm."""
    with contextlib.suppress(FormatError, LimitError):
        Manifest.from_bytes(case.data)
    manifest = Manifest.from_bytes(_signed(case.data))
    for places in manifest.chunks.values():
        assert len(places.folder_of) == len(places.sizes) == len(places.own) == len(places.sum_counts())
    assert Manifest.from_bytes(manifest.to_bytes()).files == manifest.files


def _delta(case: Case) -> None:
    """Read a manifest that builds on another, as it is and as somebody would sign it who wants to do harm."""
    for data in (case.data, _signed(case.data)):
        with contextlib.suppress(LimitError, FormatError):
            manifest = read_manifest(data, lambda _: _base().to_bytes()).manifest
            for places in manifest.chunks.values():
                assert (
                    len(places.folder_of) == len(places.sizes) == len(places.own) == len(places.sum_counts())
                )
            assert Manifest.from_bytes(manifest.to_bytes()).files == manifest.files
    base_of(_signed(case.data))


def _base() -> Manifest:
    rows = np.zeros(3, np.uint32)
    places = ChunkPlaces(
        (("ab" * 20, "t"),),
        rows,
        np.full(3, 9, np.uint64),
        np.arange(3, dtype=np.uint64),
        rows.astype(np.bool_),
    )
    return Manifest("ab" * 20, {"t/a": bytes(300), "t/chunk_set": b"x"}, {"t": places, "u": places})


def _deltas() -> list[Case]:
    base = _base()
    data = base.to_bytes()
    old = base.chunks["t"]
    more = ChunkPlaces(
        (*old.folders, ("cd" * 20, "t")),
        np.append(old.folder_of, np.uint32(1)),
        np.append(old.sizes, np.uint64(5)),
        np.append(old.sums, np.uint64(5)),
        np.array([False, True, False, True]),
    )
    made = [
        Manifest("cd" * 20, dict(base.files), dict(base.chunks)),
        Manifest("cd" * 20, {"t/a": bytes(300) + b"1", "b": b"2"}, {"t": more}),
    ]
    whole = Whole(base, digest_of(data), len(data))
    return [Case(delta_bytes(manifest, whole, 0)) for manifest in made]


def _signed(data: bytes) -> bytes:
    return data[:8] + xxhash.xxh3_64_intdigest(data[16:]).to_bytes(8, "little") + data[16:]


def _manifests(golden: Path) -> list[Case]:
    """Manifests as lakebed would make them of some golden files."""
    files = {f"t/{i}": case.data for i, case in enumerate(corpus(golden, "tensor_meta.json")[:2])}
    sums = block_sums((bytes(100), bytes(1 << 18)))
    empty = np.zeros(0, np.uint64)
    places = ChunkPlaces(
        (("firstdbf9474d461a19e9333c2fd19b46115348f", "t"), ("ab" * 20, "g/t")),
        np.array([0, 1], np.uint32),
        np.array([(1 << 18) + 100, 0], np.uint64),
        np.array(sums, np.uint64),
        np.array([False, True]),
    )
    none = ChunkPlaces((), np.zeros(0, np.uint32), empty, empty, np.zeros(0, np.bool_))
    made = [
        Manifest("ab" * 20, files, {"t": places, "u": none}),
        Manifest("ab" * 20, {}, {}),
        Manifest("x", {"dataset_meta.json": b"{}"}, {"t": none}),
    ]
    assert all(digest_of(m.to_bytes()) for m in made)
    return [Case(m.to_bytes()) for m in made]


def _refs(case: Case) -> None:
    """Read tags and merges as they are (their checksum tells) and as somebody would sign them who wants to do harm."""
    with contextlib.suppress(FormatError, LimitError):
        _again(Refs.from_bytes, case.data)
    blank = case.data[:-18] + b"0" * 16 + b'"}'
    _again(Refs.from_bytes, blank[:-18] + xxhash.xxh3_64_hexdigest(blank).encode() + b'"}')


def _some_refs() -> list[Case]:
    tag = Tag("v1", "ab" * 20, "first", 1.7e9, "ann", {"later": [1]})
    made = [
        Refs(),
        Refs({"v1": tag, "2.0": Tag("2.0", "cd" * 20, None, 0.0, "")}, extra={"later": {"x": None}}),
        Refs({"v1": tag}, {"ef" * 20: ("ab" * 20, "cd" * 20), "12" * 20: ()}, {"ef" * 20: 1.7e9}),
    ]
    return [Case(refs.to_bytes()) for refs in made]


NAMES = [
    "chunk ids",
    "tile index",
    "sequence index",
    "creds index",
    "linked creds",
    "pad index",
    "version prefix",
    "commit_diff",
    "dataset_diff",
    "chunk_set",
    "lock",
    "version tree",
    "commit_info",
    "dataset_meta",
    "tensor_meta",
    "info",
    "manifest",
    "delta",
    "end of the tree",
    "refs",
]


def targets(golden: Path) -> list[Target]:
    """Every document of the format."""
    locks = [Case(DatasetLock.own(float(now)).to_bytes()[:size]) for now in (0, 2e9) for size in (18, 14)]
    return [
        Target("chunk ids", _chunk_ids, _encoder(golden, "chunks_index")),
        Target("tile index", _tiles, _encoder(golden, "tiles_index")),
        Target("sequence index", _sequences, _encoder(golden, "sequence_index")),
        Target("creds index", _creds, _encoder(golden, "creds_index")),
        Target("linked creds", _linked_creds, corpus(golden, "linked_creds.json"), structured=True),
        Target("pad index", _pad, _encoder(golden, "pad_index")),
        Target("version prefix", _prefix, _encoder(golden, "pad_index")),
        Target("commit_diff", _commit_diff, corpus(golden, "commit_diff")),
        Target("dataset_diff", _dataset_diff, corpus(golden, "dataset_diff")),
        Target("chunk_set", _chunk_set, corpus(golden, "chunk_set")),
        Target("lock", _lock, locks),
        Target("version tree", _tree, corpus(golden, "version_control_info.json"), structured=True),
        Target("commit_info", _node, corpus(golden, "commit_info.json"), structured=True),
        Target("dataset_meta", _dataset_meta, corpus(golden, "dataset_meta.json"), structured=True),
        Target("tensor_meta", _tensor_meta, corpus(golden, "tensor_meta.json"), structured=True),
        Target("info", _info, corpus(golden, "*_info.json"), structured=True),
        Target("manifest", _manifest, _manifests(golden)),
        Target("delta", _delta, _deltas()),
        Target("end of the tree", _tree_end, _histories()),
        Target("refs", _refs, _some_refs(), structured=True),
    ]
