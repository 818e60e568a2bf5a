"""Layouts of chunks: bytes as documented, places as the chunk has them, and no way to read beyond."""

from __future__ import annotations

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from lakebed.documents import layouts
from lakebed.documents.layouts import Layout, Layouts, joined, layout_words, layouts_of, no_layouts
from lakebed.errors import FormatError


def words(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


def test_sizes_of_samples_that_tell_their_shape() -> None:
    """One word each, after the form."""
    found = layout_words(words(5000, 7000, 0), None, 3)
    assert found.tolist() == [0, 5000, 7000, 0]
    layout = Layout(found, 3, 12_100)
    assert list(layout.starts) == [100, 5100, 12_100, 12_100]
    assert layout.span(1, 3) == (5100, 12_100)
    assert layout.shape(1) is None


def test_sizes_and_shapes() -> None:
    """Rows of size and extents."""
    shapes = words(10, 500, 20, 400).reshape(2, 2)
    found = layout_words(words(20_000, 32_000), shapes, 2)
    assert found.tolist() == [2, 20_000, 10, 500, 32_000, 20, 400]
    layout = Layout(found, 2, 52_030)
    assert layout.span(1, 2) == (20_030, 52_030)
    assert layout.shape(0) == (10, 500)


def test_one_row_for_samples_that_are_alike() -> None:
    """However many and small they are."""
    found = layout_words(8, (1,), 1000)
    assert found.tolist() == [1 | 1 << 31, 8, 1]
    layout = Layout(found, 1000, 8040)
    assert layout.span(999, 1000) == (8032, 8040)
    assert layout.shape(7) == (1,)


def test_checksums_follow_the_rows() -> None:
    """One word each, if that is still little for the bytes."""
    samples = [bytes([n]) * (9000 + n) for n in range(3)]
    sums = [xxhash.xxh3_64_intdigest(sample) % 2**32 for sample in samples]
    sizes = words(*map(len, samples))
    found = layout_words(sizes, None, 3, lambda: iter(samples))
    assert found.tolist() == [1 << 30, *sizes.tolist(), *sums]
    layout = Layout(found, 3, 27_010)
    assert layout.sums is not None
    assert layout.sums.tolist() == sums
    assert layout.span(2, 3) == (18_008, 27_010)
    even = layout_words(9000, (3, 3000), 2, lambda: iter([samples[0]] * 2))
    assert even.tolist() == [2 | 1 << 31 | 1 << 30, 9000, 3, 3000, sums[0], sums[0]]
    assert Layout(even, 2, 18_000).shape(1) == (3, 3000)
    assert layout_words(words(5000, 5000), None, 2, lambda: iter(samples)).tolist() == [0, 5000, 5000]
    assert layout_words(8, None, 100, lambda: iter(samples)).tolist() == [1 << 31, 8]


def test_many_words_for_few_bytes_are_not_kept() -> None:
    """A word stands for 4,000 bytes at least."""
    assert len(layout_words(words(3999, 4000), None, 2)) == 0
    assert len(layout_words(words(4000, 4000), None, 2)) == 3
    assert len(layout_words(words(11_000, 12_000), words(1, 2, 3, 4).reshape(2, 2), 2)) == 0


@pytest.mark.parametrize(
    ("found", "count", "size"),
    [
        ((), 1, 10),
        ((0, 1), 2, 10),
        ((0, 1, 2, 3), 2, 10),
        ((1, 4, 4), 2, 10),
        ((0, 6, 5), 2, 10),
        ((1 << 31, 6), 2, 11),
        ((255,), 1, 10),
        ((1 << 30, 6, 5), 2, 11),
        ((3 << 30, 6, 5), 2, 12),
        ((3 << 30 | 5, 6, 5), 2, 12),
    ],
)
def test_words_that_do_not_fit_are_damage(found: tuple[int, ...], count: int, size: int) -> None:
    """Nothing is read from where they would lead."""
    with pytest.raises(FormatError, match="manifest is damaged"):
        Layout(words(*found), count, size)


CHUNKS = st.lists(st.lists(st.integers(0, 2**32 - 1), max_size=5), max_size=12)


@given(CHUNKS, st.data())
def test_chunks_keep_their_words(chunks: list[list[int]], data: st.DataObject) -> None:
    """Whatever is cut, put together and left out."""
    whole = layouts_of([words(*chunk) for chunk in chunks])
    whole.check(len(chunks))
    assert [whole.of(row).tolist() for row in range(len(chunks))] == chunks
    at = data.draw(st.integers(0, len(chunks)))
    again = joined([whole.cut(0, at), whole.cut(at, len(chunks)), no_layouts(2)])
    assert [again.of(row).tolist() for row in range(len(chunks) + 2)] == [*chunks, [], []]
    gone = np.array([data.draw(st.booleans()) for _ in chunks], np.bool_)
    left = whole.without(gone)
    left.check(len(chunks))
    assert [left.of(row).tolist() for row in range(len(chunks))] == [
        [] if g else c for g, c in zip(gone, chunks, strict=True)
    ]


def test_a_tensor_has_no_more_words_than_a_manifest_should_carry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first chunks have theirs, the rest is read by its headers."""
    monkeypatch.setattr(layouts, "MOST_WORDS", 5)
    found = joined([layouts_of([words(1, 2, 3), words(4, 5)]), layouts_of([words(6), words()])])
    assert [found.of(row).tolist() for row in range(4)] == [[1, 2, 3], [4, 5], [], []]


def test_counts_that_contradict_the_words_are_damage() -> None:
    for bad in (Layouts(words(2), words(1)), Layouts(words(1, 1), words(1, 2))):
        with pytest.raises(FormatError, match="contradict"):
            bad.check(1)
