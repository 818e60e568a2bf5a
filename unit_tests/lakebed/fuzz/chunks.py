"""Fuzz targets: chunk files, and the samples in them that need no library to decode."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import lz4.frame
import numpy as np

from lakebed.chunks.chunk import parse_chunk
from lakebed.chunks.probe import probe, read_header
from lakebed.codecs.lz4_block import Lz4
from lakebed.codecs.registry import byte_codec
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import FormatError, LimitError
from lakebed.htypes.documents import decode_document
from lakebed.htypes.text import decode_text
from lakebed.limits import MAX_CHUNK_DATA
from lakebed.storage.local import LocalStorage
from lakebed.versions.opening import open_version, read_tree
from unit_tests.lakebed.fuzz.harness import Case, Target

_LARGEST = 3000
_MOST = 150


@dataclass(frozen=True)
class Place:
    """What the index and the metadata say of a chunk."""

    count: int
    compression: str | None
    meta: TensorMeta

    def __repr__(self) -> str:
        return f"{self.count} samples, {self.compression}, {self.meta.htype}"


def chunk_files(golden: Path) -> Iterator[Case]:
    """Chunks of all branch heads of the golden datasets, with what is needed to read them."""
    for root in sorted(path.parent for path in golden.glob("*/version_control_info.json")):
        storage = LocalStorage(root)
        tree = read_tree(storage)
        for head in sorted(tree.branches.values()):
            snapshot = open_version(storage, tree, head)
            for state in snapshot.tensors.values():
                table = state.table
                for row in range(len(table)):
                    compression = None if state.meta.is_link else state.meta.chunk_compression
                    yield Case(
                        storage.get(table.key(row)), Place(table.samples(row) or 1, compression, state.meta)
                    )


def _chosen(cases: Iterator[Case] | list[Case]) -> list[Case]:
    found = {hashlib.sha256(case.data).digest(): case for case in cases if len(case.data) <= _LARGEST}
    return [found[key] for key in sorted(found)[:_MOST]]


def _chunk(case: Case) -> None:
    """Read all tables of a chunk: sizes that come back are real ones."""
    count: int = case.context.count
    chunk = parse_chunk(case.data, count, byte_codec(case.context.compression))
    offsets = chunk.offsets()
    assert np.all(np.diff(offsets) >= 0)
    assert 0 <= int(offsets[-1]) <= len(chunk.data)
    assert len(chunk.shapes()) == count
    for i in {0, count // 2, count - 1}:
        assert len(chunk.sample(i)) == offsets[i + 1] - offsets[i]
        assert chunk.ndim is None or len(chunk.shape(i)) == chunk.ndim
    assert chunk.is_unwritten in (True, False)


def _probe(case: Case) -> None:
    """Find single samples: what the header read as a whole says, and the search in it, agree."""
    data, count = case.data, case.context.count

    def read(start: int, length: int) -> bytes:
        assert 0 <= start <= start + length <= len(data)
        return data[start : start + length]

    try:
        header = read_header(read, len(data), count)
    except (FormatError, LimitError):
        header = None
    for i in {0, count // 2, count - 1}:
        place = probe(read, len(data), count, i)
        assert 0 <= place.start <= place.start + place.nbytes <= len(data)
        if header is not None:
            whole = header.place(i)
            assert (whole.nbytes, whole.shape) == (place.nbytes, place.shape)
            assert not whole.nbytes or whole.start == place.start


def _lz4(case: Case) -> None:
    raw = Lz4().decode(case.data, MAX_CHUNK_DATA)
    assert Lz4().decode(Lz4().encode(raw), MAX_CHUNK_DATA) == raw


def _json(case: Case) -> None:
    decode_document(case.data)


def _text(case: Case) -> None:
    assert decode_text(case.data).encode() == case.data


def _samples(cases: list[Case], htypes: set[str]) -> list[Case]:
    """Stored samples of tensors of some htypes, decompressed."""
    found = []
    for case in cases:
        place: Place = case.context
        if place.meta.htype not in htypes or place.meta.is_link or len(case.data) > 8 * _LARGEST:
            continue
        chunk = parse_chunk(case.data, place.count, byte_codec(place.compression))
        codec = byte_codec(place.meta.sample_compression)
        for i in range(min(place.count, 5)):
            data = bytes(chunk.sample(i))
            found.append(Case(data if codec is None else codec.decode(data, MAX_CHUNK_DATA)))
    return found


NAMES = [
    "chunk",
    "chunk lz4",
    "chunk probe",
    "lz4",
    "lz4 frame",
    "json sample",
    "text sample",
]


def targets(golden: Path) -> list[Target]:
    """Chunk headers, lz4, and the samples of text and json."""
    files = list(chunk_files(golden))
    plain = [case for case in files if case.context.compression is None]
    packed = [case for case in files if case.context.compression == "lz4"]
    sized = [Case(Lz4().encode(case.data)) for case in _chosen(plain)[:30]] + [
        Case(Lz4().encode(bytes(9000)))
    ]
    framed = [Case(lz4.frame.compress(case.data)) for case in _chosen(plain)[:10]]
    json_samples = _chosen(_samples(files, {"json", "list", "tag"}))
    return [
        Target("chunk", _chunk, _chosen(plain)),
        Target("chunk lz4", _chunk, _chosen(packed)),
        Target("chunk probe", _probe, _chosen(plain)),
        Target("lz4", _lz4, sized),
        Target("lz4 frame", _lz4, framed),
        Target("json sample", _json, json_samples, structured=True),
        Target("text sample", _text, _chosen(_samples(files, {"text"}))),
    ]
