"""Manifests that build on others: round trips, bases that are not what they were, headers that somebody made up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.documents.layouts import joined, layouts_of, no_layouts
from lakebed.documents.manifest import BLOCK, ChunkPlaces, Manifest, closed, digest_of
from lakebed.documents.manifest_delta import DELTA, Whole, base_of, delta_bytes, read_manifest
from lakebed.errors import FormatError, KeyNotFound
from unit_tests.lakebed.documents.test_manifest import NAMES, chunk_places, layouts, same

BASE, ID, OTHER = "ba" * 20, "ab" * 20, "cd" * 20


def whole(manifest: Manifest) -> Whole:
    data = manifest.to_bytes()
    return Whole(manifest, digest_of(data), len(data))


@st.composite
def changed(draw: st.DrawFn, places: ChunkPlaces) -> ChunkPlaces:
    """The same chunks with some gone, replaced or added, as a writer leaves them."""
    keep = draw(st.integers(0, len(places.sizes)))
    added = draw(st.lists(st.integers(0, 2 * BLOCK), max_size=3))
    folders = places.folders[: draw(st.integers(0, len(places.folders)))]
    if keep and int(places.folder_of[:keep].max()) >= len(folders):
        folders = places.folders
    if added:
        folders = (*folders, (ID, "t"))
    counts = [-(-size // BLOCK) for size in added]
    sums = int(places.sum_counts()[:keep].sum())
    new = np.array(draw(st.lists(st.integers(0, 9), min_size=sum(counts), max_size=sum(counts))), np.uint64)
    sizes = np.concatenate([places.sizes[:keep], np.array(added, np.uint64)])
    values = np.concatenate([places.sums[:sums], new])
    if len(values) and draw(st.booleans()):
        values[draw(st.integers(0, len(values) - 1))] ^= np.uint64(1)
    own = draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
    folder_of = np.concatenate(
        [places.folder_of[:keep], np.full(len(added), max(0, len(folders) - 1), np.uint32)]
    )
    known = draw(layouts(sizes.tolist(), values))
    if (
        draw(st.booleans())
        and places.known_layouts is not None
        and np.array_equal(values[:sums], places.sums[:sums])
    ):
        known = joined([places.known_layouts.cut(0, keep), no_layouts(len(added))])
    return ChunkPlaces(folders, folder_of.astype(np.uint32), sizes, values, np.array(own, np.bool_), known)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Manifest, Manifest]:
    """A base and a version made from it."""
    files = draw(st.dictionaries(NAMES, st.binary(max_size=9), max_size=4))
    files = {key: data * draw(st.sampled_from([1, 100])) for key, data in files.items()}
    chunks = draw(st.dictionaries(NAMES, chunk_places(), max_size=3))
    base = Manifest(BASE, files, chunks)
    later = {key: data + draw(st.binary(max_size=3)) for key, data in files.items() if draw(st.booleans())}
    later |= draw(st.dictionaries(NAMES, st.binary(max_size=9), max_size=2))
    tables = {key: draw(changed(places)) for key, places in chunks.items() if draw(st.booleans())}
    tables |= {key: places for key, places in chunks.items() if draw(st.booleans())}
    tables |= draw(st.dictionaries(NAMES, chunk_places(), max_size=1))
    return base, Manifest(ID, later, tables)


@given(pairs(), st.integers(0, 10**6))
def test_round_trip(pair: tuple[Manifest, Manifest], spent: int) -> None:
    """Whatever changed since the base, the version is read as it was."""
    base, manifest = pair
    data = delta_bytes(manifest, whole(base), spent)
    found = read_manifest(data, lambda version: {BASE: base.to_bytes()}[version])
    assert (found.manifest.version_id, found.manifest.files) == (ID, manifest.files)
    assert found.manifest.chunks.keys() == manifest.chunks.keys()
    assert all(same(found.manifest.chunks[key], places) for key, places in manifest.chunks.items())
    assert found.base == replace(whole(base), manifest=found.base.manifest)
    assert found.base.manifest.files == base.files
    assert found.digest == digest_of(data)
    assert spent + len(data) <= found.spent <= spent + len(data) + 40
    assert base_of(data) == BASE
    assert base_of(base.to_bytes()) is None


def places(rows: int, *, own: bool = False) -> ChunkPlaces:
    """Chunks of one block each."""
    return ChunkPlaces(
        ((BASE, "t"),),
        np.zeros(rows, np.uint32),
        np.full(rows, 7, np.uint64),
        np.arange(rows, dtype=np.uint64),
        np.full(rows, own, np.bool_),
    )


def test_what_did_not_change_takes_no_space() -> None:
    """A child of a version of ten thousand chunks, and one with one more chunk, take a few hundred bytes."""
    index = bytes(range(256)) * 600
    base = Manifest(
        BASE, {"t/chunks_index/unsharded": index, "t/chunk_set": b"x" * 9}, {"t": places(10_000, own=True)}
    )
    child = Manifest(ID, {"t/chunks_index/unsharded": index}, {"t": places(10_000)})
    assert len(delta_bytes(child, whole(base), 0)) < 300
    grown = ChunkPlaces(
        ((BASE, "t"), (ID, "t")),
        np.append(np.zeros(10_000, np.uint32), np.uint32(1)),
        np.append(places(10_000).sizes, np.uint64(9)),
        np.append(places(10_000).sums, np.uint64(9)),
        np.append(places(10_000).own, True),
    )
    more = Manifest(ID, {"t/chunks_index/unsharded": index + b"16 more bytes..."}, {"t": grown})
    assert len(delta_bytes(more, whole(base), 0)) < 500


@pytest.mark.parametrize(
    "known", [(None, [3, 0, 2]), ([3, 0, 2], None), ([3, 0, 2], [3, 1, 2]), ([3, 1, 2], [3, 1, 2])]
)
def test_layouts_are_those_of_the_version(known: tuple[list[int] | None, list[int] | None]) -> None:
    """Whatever the base knows of the same chunks: an older release may have written one of both."""
    old, new = (
        None if counts is None else layouts_of([np.arange(n, dtype=np.uint32) for n in counts])
        for counts in known
    )
    base = Manifest(BASE, {"a": b"1" * 500}, {"t": replace(places(3), known_layouts=old)})
    grown = replace(places(4), known_layouts=None if new is None else joined([new, no_layouts(1)]))
    for later in (replace(places(3), known_layouts=new), grown):
        data = delta_bytes(Manifest(ID, {}, {"t": later}), whole(base), 0)
        found = read_manifest(data, lambda _: base.to_bytes()).manifest.chunks["t"]
        assert same(found, later)


def test_a_base_that_is_not_the_one_that_was_named() -> None:
    """Missing, damaged, replaced, or itself a delta: the version can not be read from its manifest."""
    base = Manifest(BASE, {"a": b"1" * 500}, {"t": places(3)})
    data = delta_bytes(Manifest(ID, {"a": b"1" * 500 + b"2"}, {"t": places(3)}), whole(base), 0)

    def missing(version: str) -> bytes:
        raise KeyNotFound(version)

    assert read_manifest(data, lambda _: base.to_bytes()).manifest.files == {"a": b"1" * 500 + b"2"}
    good = base.to_bytes()
    flipped = good[:-1] + bytes([good[-1] ^ 1])
    for other in (
        flipped,
        b"",
        data,
        replace(base, version_id=OTHER).to_bytes(),
        Manifest(BASE, {}, {}).to_bytes(),
    ):
        with pytest.raises(FormatError):
            read_manifest(data, lambda _, other=other: other)  # type: ignore[misc]
    with pytest.raises(FormatError, match="missing"):
        read_manifest(data, missing)


def test_every_changed_byte_is_noticed() -> None:
    """No byte of it can change."""
    base = Manifest(BASE, {"a": b"1"}, {})
    data = delta_bytes(Manifest(ID, {"a": b"2"}, {}), whole(base), 0)
    for at in range(len(data)):
        for lie in (data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :], data[:at]):
            with pytest.raises(FormatError):
                read_manifest(lie, lambda _: base.to_bytes())
            with pytest.raises(FormatError):
                base_of(lie if lie[:8] != b"LBMANIF1" else b"")


def header(**members: Any) -> dict[str, Any]:
    digest = digest_of(Manifest(BASE, {"a": b"12345"}, {"t": places(3)}).to_bytes())
    empty = {"files": {}, "chunks": {}, "gone": [], "gone_chunks": []}
    return {"version": ID, "block": BLOCK, "base": [BASE, digest], "spent": 0, **empty, **members}


def table(**members: Any) -> dict[str, Any]:
    entry = {"kept": 0, "known": 0, "folders": [[ID, "t"]], "rows": 0, "sums": 0, "own": 0, "at": 0}
    return header(chunks={"t": {**entry, **members}})


@pytest.mark.parametrize(
    "lie",
    [
        {},
        header(block=1),
        header(base=[BASE]),
        header(base=[BASE, 3]),
        header(base=["../x", "0" * 16]),
        header(base=[BASE, "0" * 16]),
        header(spent=-1),
        header(version=3),
        header(files=[]),
        header(files={"a": [0, 1]}),
        header(files={"a": [0, 101, 0]}),
        header(files={"a": [0, 1, 6]}),
        header(files={"a": [0, 1, -1]}),
        header(files={"a": [0, 1, True]}),
        header(files={"b": [0, 1, 1]}),
        header(files={f"{i}": [0, 100, 0] for i in range(100)}),
        header(gone=3),
        header(gone_chunks=[3]),
        header(chunks={"t": []}),
        table(kept=4, known=1),
        table(kept=-1),
        table(kept=1, known=0, folders=[]),
        table(rows=1, folders=[]),
        table(rows=8),
        table(rows=1, sums=0),
        table(own=1),
        table(own=200),
        table(folders=[["../..", "t"]]),
        table(folders=[[ID, "../t"]]),
    ],
)
def test_made_up_headers(lie: Any) -> None:
    """A header that contradicts itself or its base, reads beyond the file, or leads out of the dataset."""
    base = Manifest(BASE, {"a": b"12345"}, {"t": places(3)})
    payload = b"\x01" + bytes(99)
    with pytest.raises(FormatError):
        dict(read_manifest(closed(DELTA, lie, payload), lambda _: base.to_bytes()).manifest.chunks)


def test_an_honest_header_can_be_made_up() -> None:
    """The helpers of the test above make manifests that are read if they tell the truth."""
    base = Manifest(BASE, {"a": b"12345"}, {"t": places(3)})
    found = read_manifest(closed(DELTA, table(kept=2, known=1), b""), lambda _: base.to_bytes())
    assert found.manifest.files == {"a": b"12345"}
    assert len(found.manifest.chunks["t"].sizes) == 2


def test_what_tells_of_changes_is_not_inherited() -> None:
    """Diffs and chunk sets are those of the version itself, also where they happen to be those of the base."""
    files = {"t/commit_diff": b"1", "t/chunk_set": b"2", "dataset_diff": b"3", "t/tensor_meta.json": b"4"}
    base = Manifest(BASE, files, {})
    for own in ({}, {"t/commit_diff": b"1"}, files, {"dataset_diff": b"3", "t/chunk_set": b"5"}):
        manifest = Manifest(ID, {"t/tensor_meta.json": b"4", **own}, {})
        data = delta_bytes(manifest, whole(base), 0)
        assert read_manifest(data, lambda _: base.to_bytes()).manifest.files == manifest.files
