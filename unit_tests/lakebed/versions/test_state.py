"""Chunk tables that grow, and samples that fit into one chunk."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.chunks.pack import groups
from lakebed.codecs.block import Block
from lakebed.versions.chunk_table import ChunkTable, NewChunk, empty_table
from unit_tests.effort import examples


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=3), max_size=4))
def test_a_table_grows_as_one_that_is_rebuilt(steps: list[list[tuple[int, int]]]) -> None:
    """Chunks of several publishes, with and without layouts, and further tiles that hold no sample of their own."""
    table, number = empty_table(), 0
    for i, step in enumerate(steps):
        added = []
        for count, words in step:
            number += 1
            count += not table.count and not added
            layout = np.arange(words, dtype=np.uint32)
            added.append(NewChunk(number, count, 100 * count, [number] * (count > 0), layout))
        folder = (f"v{i % 2}", "x")
        expected = table.rebuilt([*([(0, len(table))] if len(table) else []), *added], folder)
        table = table.extended(added, folder)
        _check_same(table, expected)


def _check_same(table: ChunkTable, expected: ChunkTable) -> None:
    assert table.ids == expected.ids
    rows = range(len(table))
    assert [table.key(row) for row in rows] == [expected.key(row) for row in rows]
    for name in ("sizes", "sums", "own"):
        found, wanted = getattr(table.places, name), getattr(expected.places, name)
        assert found.dtype == wanted.dtype
        assert found.tolist() == wanted.tolist()
    assert [table.places.layout(row).tolist() for row in rows] == [
        expected.places.layout(row).tolist() for row in rows
    ]


def test_samples_that_fit_are_one_run() -> None:
    """At the limit exactly, and not one beyond."""
    block = Block(memoryview(bytes(100)), 10, 10, (10,))
    assert groups([block], 100) == [[block]]
    assert [[one.count for one in run] for run in groups([block], 99)] == [[9], [1]]
