"""Pages of chunk indexes, lists of them, and the manifests that name them: round trips, ends, golden bytes, damage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from lakebed import limits
from lakebed.documents.indexes import pages
from lakebed.documents.indexes.chunk_ids import ChunkIds
from lakebed.documents.indexes.pages import ENTRY, PagedIndex
from lakebed.documents.manifest import BLOCK, PAGED, ChunkPlaces, closed
from lakebed.errors import FormatError, LimitError
from unit_tests.lakebed.documents.test_manifest import ID, chunk_places, same

WRITER = b"\x01\x02\x03\x04\x05\x06\x07\x08"


def entry(data: bytes, rows: int, samples: int) -> np.void:
    """The entry of an object."""
    found: np.void = np.array([pages.entry_of(data, rows, samples, WRITER)], ENTRY)[0]
    return found


def small_page() -> tuple[ChunkIds, ChunkPlaces]:
    """A page of two chunks, the second of which holds a tile more."""
    ids = ChunkIds.from_counts([5, 2**63], [3, 1])
    sizes = np.array([10, BLOCK + 1], np.uint64)
    own = np.zeros(2, np.bool_)
    places = ChunkPlaces(((ID, "x"),), np.zeros(2, np.uint32), sizes, np.arange(3, dtype=np.uint64), own)
    return ids, places


@st.composite
def drawn_pages(draw: st.DrawFn) -> tuple[ChunkIds, ChunkPlaces]:
    """Pages of up to five chunks; further tiles of a sample are chunks without samples."""
    places = draw(chunk_places().filter(lambda found: len(found.sizes) > 0))
    rows = len(places.sizes)
    numbers = st.integers(0, 2**64 - 1)
    ids = draw(st.lists(numbers, min_size=rows, max_size=rows))
    counts = [draw(st.integers(1, 100)), *(draw(st.integers(0, 100)) for _ in range(rows - 1))]
    return ChunkIds.from_counts(np.array(ids, np.uint64), counts), places


@given(drawn_pages())
def test_a_page_is_read_as_it_was_written(page: tuple[ChunkIds, ChunkPlaces]) -> None:
    ids, places = page
    data = pages.page_bytes(ids, places)
    read_ids, read_places = pages.read_page(data, entry(data, len(ids), ids.count))
    assert read_ids == ids
    assert same(read_places, places)


@given(st.integers(0, 10**6), st.data())
def test_any_changed_byte_of_a_page_is_an_error(at: int, data: st.DataObject) -> None:
    ids, places = small_page()
    good = pages.page_bytes(ids, places)
    bad = bytearray(good)
    bad[at % len(good)] ^= data.draw(st.integers(1, 255))
    with pytest.raises(FormatError, match="damaged"):
        pages.read_page(bytes(bad), entry(good, 2, 4))
    with pytest.raises(FormatError, match="damaged"):
        pages.read_page(good[: at % len(good)], entry(good, 2, 4))


def test_golden_bytes() -> None:
    ids, places = small_page()
    page = pages.page_bytes(ids, places)
    named = entry(page, 2, 4)
    listed = pages.list_bytes(np.array([named], ENTRY))
    index = PagedIndex(np.array([named], ENTRY), 0, ((1, 2),), tiled=False, index=(40, "ab"))
    manifest = pages.manifest_bytes(b"rest", {"x": index})
    assert (page[:8], listed[:8], manifest[:8]) == (b"LBPAGE01", b"LBLIST01", b"LBMANIF3")
    assert pages.key_of(named) == f".lakebed/pages/{xxhash.xxh3_128_hexdigest(page)}-0102030405060708"
    assert [xxhash.xxh3_128_hexdigest(data) for data in (page, listed, manifest)] == GOLDEN


GOLDEN = [
    "ce484d30fa565961745930fe313a698d",
    "ff9f98ef0aacb334d8c7069dad9cdb2d",
    "77fcfc0375a1735a13b99800d5fcff76",
]


def forged_page(**changes: Any) -> tuple[bytes, np.void]:
    """A page with another header, and with checksums that are right."""
    ids, places = small_page()
    _, payload = pages.opened(pages.page_bytes(ids, places), pages.PAGE)
    header: dict[str, Any] = {
        "block": BLOCK,
        "index": 0,
        "folders": [[ID, "x"]],
        "rows": 2,
        "sums": 3,
        "at": 32,
    }
    data = closed(pages.PAGE, header | changes, bytes(payload))
    return data, entry(data, 2, 4)


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": 3},
        {"rows": True},
        {"rows": "2"},
        {"rows": 10**12},
        {"sums": 10**12},
        {"sums": 2},
        {"index": 8},
        {"index": -1},
        {"at": 10**12},
        {"at": None},
        {"folders": []},
        {"folders": [["../..", "x"]]},
        {"layouts": [0, 10**9]},
    ],
)
def test_headers_that_somebody_made_up(changes: dict[str, Any]) -> None:
    with pytest.raises(FormatError):
        pages.read_page(*forged_page(**changes))


def test_a_page_that_contradicts_its_entry() -> None:
    ids, places = small_page()
    data = pages.page_bytes(ids, places)
    for rows, samples in ((1, 4), (3, 4), (2, 5), (2, 0)):
        with pytest.raises(FormatError):
            pages.read_page(data, entry(data, rows, samples))


def test_a_chunk_with_too_many_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    ids, places = small_page()
    data = pages.page_bytes(ids, places)
    monkeypatch.setattr(limits, "MAX_CHUNK_SAMPLES", 2)
    with pytest.raises(LimitError, match="samples in one chunk"):
        pages.read_page(data, entry(data, 2, 4))


def drawn_entries(numbers: list[int]) -> pages.Entries:
    """Entries with these numbers of samples, one chunk each."""
    rows = [(number, 1, 100, xxhash.xxh3_128_digest(b"%d" % at), WRITER) for at, number in enumerate(numbers)]
    return np.array(rows, ENTRY)


@given(st.lists(st.integers(0, 2**50), min_size=1, max_size=20))
def test_a_list_is_read_as_it_was_written(numbers: list[int]) -> None:
    entries = drawn_entries(numbers)
    data = pages.list_bytes(entries)
    found = pages.read_list(data, entry(data, len(numbers), sum(numbers)))
    assert found.tobytes() == entries.tobytes()
    for rows, samples in ((len(numbers) + 1, sum(numbers)), (len(numbers), sum(numbers) + 1)):
        with pytest.raises(FormatError, match="its totals are not"):
            pages.read_list(data, entry(data, rows, samples))


@pytest.mark.parametrize("payload", [b"", b"x" * 39, b"x" * 41, b"\xff" * 40, b"\x01" * 8 + bytes(32)])
def test_lists_that_somebody_made_up(payload: bytes) -> None:
    data = closed(pages.LIST, {"block": BLOCK}, payload)
    with pytest.raises(FormatError):
        pages.read_list(data, entry(data, 1, 1))


@given(
    st.binary(max_size=20),
    st.dictionaries(st.sampled_from(["x", "g/t"]), st.lists(st.integers(0, 99), min_size=1, max_size=5)),
    st.booleans(),
)
def test_a_manifest_is_read_as_it_was_written(
    rest: bytes, tensors: dict[str, list[int]], tiled: bool
) -> None:
    indexes = {
        key: PagedIndex(drawn_entries(numbers), len(numbers) // 2, ((0, len(numbers)),), tiled, (99, "ab"))
        for key, numbers in tensors.items()
    }
    data = pages.manifest_bytes(rest, indexes)
    read_rest, found = pages.read_manifest(data)
    assert read_rest == pages.rest_of(data) == rest
    assert found.keys() == indexes.keys()
    for key, index in indexes.items():
        assert found[key].entries.tobytes() == index.entries.tobytes()
        assert (found[key].lists, found[key].own) == (index.lists, index.own)
        assert (found[key].tiled, found[key].index) == (index.tiled, index.index)


@pytest.mark.parametrize(
    "changes",
    [
        {"entries": 10**12},
        {"entries": 2},
        {"entries": 0},
        {"entries": None},
        {"at": 10**12},
        {"lists": 2},
        {"lists": -1},
        {"own": [[0, 2]]},
        {"own": [[1, 1]]},
        {"own": [[0, 1], [0, 1]]},
        {"own": [["a", "b"]]},
        {"own": 7},
        {"index": [40]},
        {"index": ["a", "b"]},
        {"index": [40, 7]},
    ],
)
def test_manifests_that_somebody_made_up(changes: dict[str, Any]) -> None:
    right = {"at": 0, "entries": 1, "lists": 0, "own": [[0, 1]], "tiled": False, "index": [40, "ab"]}
    payload = drawn_entries([3]).tobytes()

    def made(**header: Any) -> bytes:
        return closed(PAGED, {"block": BLOCK, "manifest": 0, **header}, payload)

    assert pages.read_manifest(made(pages={"x": right}))[1].keys() == {"x"}
    for header in ({"pages": {"x": right | changes}}, {"pages": {"../x": right}}, {"pages": {"x": 7}}):
        with pytest.raises(FormatError):
            pages.read_manifest(made(**header))
    for wrong in (-1, 41, None, "4"):
        with pytest.raises(FormatError):
            pages.read_manifest(made(manifest=wrong, pages={}))


def test_entries_that_share_bytes() -> None:
    right = {"at": 0, "entries": 1, "lists": 0, "own": [], "tiled": False, "index": [40, "ab"]}
    data = closed(
        PAGED,
        {"block": BLOCK, "manifest": 0, "pages": {"x": right, "y": right}},
        drawn_entries([3]).tobytes(),
    )
    with pytest.raises(FormatError, match="overlap"):
        pages.read_manifest(data)


# -- ends -------------------------------------------------------------------------------------------------------------


def weights(count: int, each: int = 1) -> Any:
    return np.full(count, each, np.int64)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=300), st.integers(0, 299), st.integers(0, 2**64 - 1))
def test_a_change_moves_few_ends(marks: list[int], at: int, new: int) -> None:
    numbers = np.array(marks, np.uint64)
    found = pages.ends(numbers, weights(len(marks)))
    assert found == sorted(set(found))
    assert (found[-1] if found else 0) == len(marks)
    if at < len(marks):
        longer = np.insert(numbers, at, np.uint64(new))
        again = pages.ends(longer, weights(len(longer)))
        kept = [end for end in found if end <= at and numbers[end - 1] % np.uint64(pages.SPREAD) == 0]
        assert set(kept) <= set(again)
        natural = np.flatnonzero(numbers[at:] % np.uint64(pages.SPREAD) == 0)
        if len(natural):  # from the next end that an id tells on, all are as before
            first = at + int(natural[0]) + 1
            assert [end + 1 for end in found if end >= first] == [end for end in again if end > first]


def test_pages_are_neither_long_nor_large_nor_cut_inside_a_sample() -> None:
    marks = np.ones(2000, np.uint64)
    assert pages.ends(marks, weights(2000)) == [512, 1024, 1536, 2000]
    assert pages.ends(marks[:10], weights(10, pages.MOST_BYTES // 2)) == [2, 4, 6, 8, 10]
    assert pages.ends(marks[:3], weights(3, 10 * pages.MOST_BYTES)) == [1, 2, 3]
    starts = np.ones(2000, np.bool_)
    starts[510:600] = False
    assert pages.ends(marks, weights(2000), starts) == [600, 1112, 1624, 2000]
