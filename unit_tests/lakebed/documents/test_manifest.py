"""Manifests: round trips, their checksum, and headers that somebody made up and signed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lakebed import limits
from lakebed.documents.layouts import Layouts, layouts_of
from lakebed.documents.manifest import BLOCK, MAGIC, ChunkPlaces, Manifest, block_sums, digest_of
from lakebed.errors import FormatError, LimitError

ID = "ab" * 20
NAMES = st.text("abc/é", min_size=1, max_size=8)
SIZES = st.integers(0, 3 * BLOCK)


@st.composite
def chunk_places(draw: st.DrawFn) -> ChunkPlaces:
    """Places of up to five chunks in up to three folders."""
    folders = draw(
        st.lists(st.tuples(st.just(ID), st.sampled_from(["t", "g/t", "u"])), max_size=3, unique=True)
    )
    sizes = draw(st.lists(SIZES, max_size=5)) if folders else []
    count = sum(-(-size // BLOCK) for size in sizes)
    sums = np.array(draw(st.lists(st.integers(0, 2**64 - 1), min_size=count, max_size=count)), np.uint64)
    return ChunkPlaces(
        tuple(folders),
        np.array([draw(st.integers(0, len(folders) - 1)) for _ in sizes], np.uint32),
        np.array(sizes, np.uint64),
        sums,
        np.array([draw(st.booleans()) for _ in sizes], np.bool_),
        draw(layouts(sizes, sums)),
    )


@st.composite
def layouts(draw: st.DrawFn, sizes: Sequence[int], sums: NDArray[np.uint64]) -> Layouts | None:
    """Layouts of some chunks, or of none; of the same chunks they are the same, if they are known."""
    if draw(st.booleans()):
        return None
    ends = np.cumsum([0, *(-(-size // BLOCK) for size in sizes)])
    words = [(sums[a:b] % 2**32).astype(np.uint32) for a, b in pairwise(ends.tolist())]
    return layouts_of([w if draw(st.booleans()) else w[:0] for w in words])


def same(a: ChunkPlaces, b: ChunkPlaces) -> bool:
    arrays = ("folder_of", "sizes", "sums", "own")
    pairs = [(getattr(a, n), getattr(b, n)) for n in arrays]
    pairs += [(a.layout(row), b.layout(row)) for row in range(min(len(a.sizes), len(b.sizes)))]
    return a.folders == b.folders and all(np.array_equal(one, other) for one, other in pairs)


@given(
    st.dictionaries(NAMES, st.binary(max_size=9), max_size=3),
    st.dictionaries(NAMES, chunk_places(), max_size=3),
)
def test_round_trip(files: dict[str, bytes], chunks: dict[str, ChunkPlaces]) -> None:
    """Files and places survive, and the digest is the checksum in the file."""
    data = Manifest(ID, files, chunks).to_bytes()
    found = Manifest.from_bytes(data)
    assert (found.version_id, found.files) == (ID, files)
    assert found.chunks.keys() == chunks.keys()
    assert all(same(found.chunks[key], places) for key, places in chunks.items())
    assert digest_of(data) == xxhash.xxh3_64_hexdigest(data[16:])


@given(st.binary(max_size=50), st.lists(st.integers(0, 60), max_size=4))
def test_checksums_do_not_depend_on_pieces(data: bytes, cuts: list[int]) -> None:
    """A file has the same block checksums however it is cut."""
    ends = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = tuple(data[a:b] for a, b in pairwise(ends))
    assert block_sums(pieces) == ([xxhash.xxh3_64_intdigest(data)] if data else [])


def test_a_release_that_knows_no_layouts_reads_the_rest() -> None:
    """They are named beside what was there before, and lie behind it."""
    sums = np.array([7], np.uint64)
    place = ChunkPlaces(
        ((ID, "t"),), np.zeros(1, np.uint32), np.array([9], np.uint64), sums, np.ones(1, np.bool_)
    )
    plain = Manifest(ID, {"a": b"1"}, {"t": place}).to_bytes()
    known = replace(place, known_layouts=layouts_of([np.array([1, 2, 3], np.uint32)]))
    data = Manifest(ID, {"a": b"1"}, {"t": known}).to_bytes()

    def parts(manifest: bytes) -> tuple[dict[str, Any], bytes]:
        end = 20 + int.from_bytes(manifest[16:20], "little")
        return json.loads(manifest[20:end]), manifest[end:]

    (old, old_payload), (new, new_payload) = parts(plain), parts(data)
    assert new["chunks"]["t"].pop("layouts") == [len(old_payload) + -len(old_payload) % 4, 3]
    assert new == old
    assert new_payload[: len(old_payload)] == old_payload
    assert Manifest.from_bytes(plain).chunks["t"].known_layouts is None
    assert Manifest.from_bytes(data).chunks["t"].layout(0).tolist() == [1, 2, 3]


def test_every_changed_byte_is_noticed() -> None:
    """No byte of a manifest can change."""
    data = Manifest(ID, {"a": b"1"}, {}).to_bytes()
    for at in range(len(data)):
        with pytest.raises(FormatError):
            Manifest.from_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        with pytest.raises(FormatError):
            Manifest.from_bytes(data[:at])


def signed(header: Any, payload: bytes = b"") -> bytes:
    """A manifest with a header of one's own."""
    text = json.dumps(header).encode()
    body = len(text).to_bytes(4, "little") + text + payload
    return MAGIC + xxhash.xxh3_64_intdigest(body).to_bytes(8, "little") + body


def header(**members: Any) -> dict[str, Any]:
    return {"version": ID, "block": BLOCK, "files": {}, "chunks": {}, **members}


def table(**members: Any) -> dict[str, Any]:
    return header(chunks={"t": {"folders": [[ID, "t"]], "rows": 0, "sums": 0, "at": 0, **members}})


@pytest.mark.parametrize(
    "lie",
    [
        [],
        {},
        header(block=1),
        header(version=3),
        header(files=[]),
        header(files={"a": [0]}),
        header(files={"a": [0, 101]}),
        header(files={"a": [-1, 1]}),
        header(files={"a": ["0", 1]}),
        header(files={"a": [0, 60], "b": [40, 60]}),
        header(files={f"{i}": [0, 100] for i in range(100)}),
        header(chunks={"t": []}),
        table(rows=-1),
        table(rows=1, sums=-1),
        table(rows=8),
        table(rows=0.5),
        table(rows=1, folders=[]),
        table(folders=[["../..", "t"]]),
        table(folders=[[ID, "../t"]]),
        table(folders=[[ID]]),
        table(folders=[[1, "t"]]),
    ],
)
def test_made_up_headers(lie: Any) -> None:
    """A header that contradicts itself, reads beyond the file, copies it many times, or leads out of the dataset."""
    with pytest.raises(FormatError):
        dict(Manifest.from_bytes(signed(lie, bytes(100))).chunks)


def test_sizes_that_promise_checksums() -> None:
    """Sizes whose blocks add up to the checksums only by overflow are refused."""
    payload = np.array([2**64 - 1, 2**64 - BLOCK], np.uint64).tobytes() + bytes(10)
    with pytest.raises(FormatError, match="contradict"):
        dict(Manifest.from_bytes(signed(table(rows=2, sums=0), payload)).chunks)


def test_nesting_and_numbers_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also behind a right checksum."""
    deep: Any = 1
    for _ in range(limits.MAX_JSON_DEPTH):
        deep = [deep]
    with pytest.raises(LimitError, match="MAX_JSON_DEPTH"):
        Manifest.from_bytes(signed(header(more=deep)))
    monkeypatch.setattr(limits, "MAX_TENSORS", 0)
    with pytest.raises(LimitError, match="MAX_TENSORS"):
        Manifest.from_bytes(signed(table()))
