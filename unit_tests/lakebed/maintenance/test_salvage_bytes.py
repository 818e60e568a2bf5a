"""What survives of damaged chunk files: samples that lie whole before the end, and outside of damaged blocks."""

from __future__ import annotations

import numpy as np
import pytest

from lakebed.chunks.chunk import parse_chunk
from lakebed.chunks.image_chunk import chunk_codec
from lakebed.chunks.pack import pack
from lakebed.codecs.block import Block, join_samples
from lakebed.htypes.arrays import block_of_array
from lakebed.maintenance.salvage_bytes import salvage_samples


def ragged(count: int) -> Block:
    """Samples of 1, 2, 3 ... bytes."""
    parts = [bytes([i]) * (i + 1) for i in range(count)]
    return join_samples(parts, np.array([[len(part)] for part in parts], np.uint32))


def file_of(block: Block, codec: str | None = None) -> bytes:
    """Pack one chunk."""
    return b"".join(pack([block], chunk_codec(codec, "uint8")).pieces)


@pytest.mark.parametrize("cut", [0, 1, 5, 9, 10, 14, 15])
def test_samples_before_the_end_survive(cut: int) -> None:
    """A file that was cut short keeps the samples that are whole, with their bytes and shapes."""
    data = file_of(ragged(5))  # 15 bytes of data
    left = salvage_samples(data[: len(data) - 15 + cut], 5, 1)
    whole = [i for i in range(5) if (i + 1) * (i + 2) // 2 <= cut]
    assert np.flatnonzero(~left.lost).tolist() == whole
    assert left.kept == len(whole)
    if left.blocks is None:
        assert cut == 15
        return
    assert left.reason
    assert left.lost_bytes == sum(i + 1 for i in range(5) if i not in whole)
    chunk = parse_chunk(b"".join(pack(left.blocks).pieces), 5)
    for i in range(5):
        assert bytes(chunk.sample(i)) == (bytes([i]) * (i + 1) if i in whole else b"")


def test_samples_of_one_shape_survive_too() -> None:
    """Their size is on record once."""
    data = file_of(block_of_array(np.arange(6, dtype=np.int32)))
    left = salvage_samples(data[:-5], 6, 1)
    assert left.lost.tolist() == [False] * 4 + [True] * 2


def test_the_header_counts_not_the_index() -> None:
    """A chunk that an index is ahead of, or behind of, is whole; it says itself how many samples it has."""
    data = file_of(ragged(5))
    for expected in (4, 5, 6):
        left = salvage_samples(data, expected, 1)
        assert (left.count, left.kept, left.blocks) == (5, 5, None)


def test_nothing_survives_of_a_damaged_header() -> None:
    """Then as many samples are lost as the index says."""
    data = file_of(ragged(5))
    for damaged in (b"", data[:10], data[:40]):
        left = salvage_samples(damaged, 3, 2)
        assert (left.count, left.kept, left.lost_bytes) == (3, 0, len(damaged))
    assert salvage_samples(data, 5, 1, bad=[(0, len(data))]).kept == 0


def test_damaged_blocks_take_the_samples_in_them() -> None:
    """The others are kept."""
    data = file_of(ragged(5))
    start = len(data) - 15
    left = salvage_samples(data, 5, 1, bad=[(start + 4, start + 7)])  # samples 2 (3 to 6) and 3 (6 to 10)
    assert left.lost.tolist() == [False, False, True, True, False]


@pytest.mark.parametrize("codec", ["lz4", "png"])
def test_chunks_that_are_compressed_as_one_survive_whole_or_not_at_all(codec: str) -> None:
    """Half of a stream decodes to nothing that can be trusted."""
    data = file_of(block_of_array(np.arange(48, dtype=np.uint8).reshape(1, 4, 4, 3)), codec)
    assert salvage_samples(data, 1, 3, chunk_codec(codec, "uint8")).kept == 1
    assert salvage_samples(data[:-30], 1, 3, chunk_codec(codec, "uint8")).kept == 0
