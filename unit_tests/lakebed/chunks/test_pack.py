"""Blocks -> chunk files -> samples."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.chunks.chunk import Chunk, parse_chunk
from lakebed.chunks.pack import PackedChunk, groups, pack
from lakebed.codecs.block import Block, empty_block
from lakebed.codecs.lz4_block import Lz4
from lakebed.codecs.registry import byte_codec
from lakebed.documents.layouts import Layout
from lakebed.documents.manifest import LARGE
from lakebed.errors import FormatError, LimitError
from unit_tests.effort import examples
from unit_tests.lakebed.chunks.blocks import Sample, block_lists, fixed, nothing, ragged, text

SMALL = settings(max_examples=examples(60))


def join(packed: PackedChunk) -> bytes:
    """The chunk file."""
    return b"".join(packed.pieces)


def read_back(chunk: Chunk) -> list[Sample]:
    """All samples of a chunk, one by one."""
    shapes = [None if chunk.ndim is None else chunk.shape(i) for i in range(chunk.count)]
    return [(bytes(chunk.sample(i)), shape) for i, shape in enumerate(shapes)]


def with_rank(samples: list[Sample], ndim: int | None) -> list[Sample]:
    """What the samples look like once the chunk knows a rank: those without a shape have extents of zero."""
    return [(data, (0,) * ndim if shape is None and ndim is not None else shape) for data, shape in samples]


@SMALL
@given(block_lists(), st.sampled_from([None, "lz4"]), st.integers(1, 90))
def test_packed_samples_come_back(
    blocks_and_samples: tuple[list[Block], list[Sample]], compression: str | None, limit: int
) -> None:
    """Whatever the mix of blocks, the limit and the compression: bytes and shapes are those that went in."""
    blocks, samples = blocks_and_samples
    codec = byte_codec(compression)
    at = 0
    for group in groups(blocks, limit):
        packed = pack(group, codec)
        raw = join(packed)
        chunk = parse_chunk(raw, packed.count, codec)
        assert packed.nbytes == len(raw)
        assert chunk.count == packed.count
        assert read_back(chunk) == with_rank(samples[at : at + packed.count], chunk.ndim)
        offsets = chunk.offsets()
        assert int(offsets[-1]) == len(chunk.data)
        at += packed.count
    assert at == len(samples)


@SMALL
@given(block_lists(), st.integers(1, 90))
def test_groups_are_as_few_as_the_limit_allows(
    blocks_and_samples: tuple[list[Block], list[Sample]], limit: int
) -> None:
    """Only a first sample that is too large itself exceeds the limit, and the next sample would not have fitted."""
    blocks, samples = blocks_and_samples
    costs = [
        len(data) + (0 if isinstance(block.sizes, int) else 12)
        for block in blocks
        for data in (block.data[a:b] for a, b in zip(block.offsets(), block.offsets()[1:], strict=False))
    ]
    at = 0
    for group in groups(blocks, limit):
        count = sum(block.count for block in group)
        used = sum(costs[at : at + count])
        assert used <= limit or used == costs[at]
        assert at + count == len(samples) or used + costs[at + count] > limit
        at += count


def test_a_full_chunk_starts_where_the_last_one_ended() -> None:
    """Ten samples of 4 bytes at 12 bytes per chunk are chunks of 3, 3, 3 and 1, also over several blocks."""
    for sizes in ([10], [5, 5], [1, 9], [3, 3, 3, 1]):
        cut = groups([fixed(n, (2,))[0] for n in sizes], 12)
        assert [sum(b.count for b in group) for group in cut] == [3, 3, 3, 1]


def test_a_sample_above_the_limit_gets_a_chunk_of_its_own() -> None:
    """A large sample shares its chunk with nobody, and its neighbours do not move into others."""
    block, _ = ragged([(2,), (90,), (2,), (2,)])
    assert [sum(b.count for b in group) for group in groups([block], 40)] == [1, 1, 2]


def test_no_samples_make_no_chunks() -> None:
    """Nothing comes of nothing."""
    assert groups([], 100) == []
    assert groups([fixed(0, (2,))[0]], 100) == []


def test_worked_example_of_the_specification() -> None:
    """The bytes of format.md 5.1: float32 samples of shapes (2, 3) and (1, 3)."""
    values = np.arange(9, dtype="<f4")
    block = Block(
        memoryview(values.tobytes()), 2, np.array([24, 12], np.uint32), np.array([[2, 3], [1, 3]], np.uint32)
    )
    expected = bytes.fromhex(
        "06 33 2e 39 2e 35 32  02 00 00 00  03 00 00 00"
        "02000000 03000000 00000000  01000000 03000000 01000000"
        "02 00 00 00  18000000 00000000 00000000  0c000000 18000000 01000000"
    )
    raw = join(pack([block]))
    assert raw == expected + values.tobytes()
    assert raw[len(expected) :].hex().startswith("000000000000803f00000040")


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        (
            [text(["hello", "wörld!"[:-1], ""])[0]],
            "06332e392e3532 01000000 02000000 0100000002000000 03000000 050000000000000000000000"
            "060000000500000001000000 000000000b00000002000000" + b"hello\x77\xc3\xb6rld".hex(),
        ),
        (
            [fixed(3, (1,), item=1)[0], fixed(2, (1,), item=1)[0]],
            "06332e392e3532 01000000 02000000 0100000004000000 01000000 010000000000000004000000 0001020001",
        ),
        ([nothing(3, None)[0]], "06332e392e3532 00000000 02000000 01000000 000000000000000002000000"),
        (
            [nothing(1, 1)[0], fixed(1, (2,), item=1)[0]],
            (
                "06332e392e3532 02000000 02000000 0000000000000000 0200000001000000"
                "02000000 000000000000000000000000 020000000000000001000000 0001"
            ),
        ),
    ],
    ids=["text", "fixed", "unknown rank", "none first"],
)
def test_bytes_of_small_chunks(blocks: list[Block], expected: str) -> None:
    """Chunks of text (format.md 15.7), of two fixed blocks, of None only, and of None before a value."""
    assert join(pack(blocks)).hex() == expected.replace(" ", "")


def test_equal_blocks_share_one_row() -> None:
    """3.9.52 needs fixed-shape tensors to have one shape row and one position row (format.md 5.5)."""
    raw = join(pack([fixed(n, (2, 2))[0] for n in (1, 4, 2)]))
    assert struct.unpack_from("<ii", raw, 7) == (1, 3)
    assert parse_chunk(raw, 7).uniform == ((2, 2), 8)


# Kinds of blocks of rank 2 that can meet in a chunk; sizes in rows of 16 bytes.
KINDS: dict[str, Callable[[int], tuple[Block, list[Sample]]]] = {
    "even": lambda rows: fixed(3, (rows, 8)),
    "even of another shape": lambda rows: fixed(2, (rows + 1, 8)),
    "even of another shape and the same size": lambda rows: fixed(2, (8, rows)),
    "single": lambda rows: fixed(1, (rows, 8)),
    "ragged": lambda rows: ragged([(rows, 8), (rows + 2, 8), (rows, 8)]),
    "ragged single": lambda rows: ragged([(rows, 8)]),
    "ragged of one size": lambda rows: ragged([(rows, 8), (8, rows)]),
    "empty": lambda _: nothing(2, 2),
    "of unknown rank": lambda _: nothing(2, None),
}


@pytest.mark.parametrize("rows", [10, LARGE // 64, LARGE // 16], ids=["small", "around", "large"])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_blocks_of_every_kind_may_meet_in_a_chunk_of_every_size(length: int, rows: int) -> None:
    """Samples come back whatever blocks meet, and the layout of a large chunk says where each one lies."""
    for names in product(KINDS, repeat=length) if length < 3 else permutations(list(KINDS)[:5], length):
        parts = [KINDS[name](rows) for name in names]
        samples = [sample for _, part in parts for sample in part]
        packed = pack([block for block, _ in parts])
        raw = join(packed)
        chunk = parse_chunk(raw, packed.count)
        assert read_back(chunk) == with_rank(samples, chunk.ndim), names
        if packed.nbytes <= LARGE:
            assert not len(packed.layout)
            continue
        layout = Layout(packed.layout, packed.count, len(raw))
        assert [raw[slice(*layout.span(i, i + 1))] for i in range(packed.count)] == [
            data for data, _ in samples
        ]
        assert [layout.shape(i) for i in range(packed.count)] == [chunk.shape(i) for i in range(packed.count)]


def test_lz4_chunks_hold_one_block_or_nothing() -> None:
    """The data area is one size-prefixed block; without data there is no block."""
    block, _ = fixed(1000, (4,))
    raw = join(pack([block], Lz4()))
    header = len(raw) - len(Lz4().encode(block.data))
    assert struct.unpack_from("<I", raw, header) == (8000,)
    empty = pack([fixed(3, (0, 2))[0]], Lz4())
    assert parse_chunk(join(empty), 3, Lz4()).shapes().tolist() == [[0, 2]] * 3
    assert len(join(empty)) == 7 + 8 + 12 + 4 + 12


def test_more_than_positions_can_hold_is_a_limit() -> None:
    """A chunk above 4 GiB is refused before any byte is joined."""
    huge = Block(memoryview(b""), 2, np.array([2**32 - 1, 1], np.uint32), (1,))
    with pytest.raises(LimitError, match="2 samples"):
        pack([huge])


def test_samples_beyond_the_tables_are_empty() -> None:
    """A header without rows, as 3.9.52 writes for None only, reads as empty samples (format.md 5.3)."""
    raw = b"\x063.9.52" + struct.pack("<iii", 0, 2, 0)
    chunk = parse_chunk(raw, 3)
    assert chunk.ndim is None
    assert [bytes(chunk.sample(i)) for i in range(3)] == [b"", b"", b""]


def test_an_index_ahead_of_its_chunk_is_damage() -> None:
    """3.9.52 gives every sample a position row; one without was never written, which is not the same as empty."""
    short = b"\x063.9.52" + struct.pack("<iiIIiIII", 1, 2, 2, 0, 1, 2, 0, 0) + b"ab"
    assert bytes(parse_chunk(short, 1).sample(0)) == b"ab"
    with pytest.raises(FormatError, match="holds 1 samples, not 2"):
        parse_chunk(short, 2)


def test_absent_data_of_a_real_shape_is_unwritten() -> None:
    """A chunk without data whose first shape has no zero reads as zeros (format.md 5.5)."""
    raw = b"\x063.9.52" + struct.pack("<iiIIIi", 1, 3, 2, 2, 0, 0)
    assert parse_chunk(raw, 1).is_unwritten
    assert not parse_chunk(join(pack([empty_block(1, 2)])), 1).is_unwritten


@pytest.mark.parametrize("count", [1, 2])
def test_a_chunk_with_more_samples_than_the_index_says_is_damaged(count: int) -> None:
    """The index and the header must agree (format.md 5.5)."""
    raw = join(pack([fixed(3, (2,))[0]]))
    with pytest.raises(FormatError, match=f"3 samples, not {count}"):
        parse_chunk(raw, count)


def test_missing_and_surplus_bytes_of_fixed_samples_are_damage() -> None:
    """Three samples of 4 bytes are 12 bytes of data, no more and no less."""
    raw = join(pack([fixed(3, (2,))[0]]))
    for wrong in (raw[:-1], raw + b"\0", raw[:-12]):
        with pytest.raises(FormatError):
            parse_chunk(wrong, 3).offsets()


def test_shapes_and_offsets_of_one_shape_are_lazy_views_of_arithmetic() -> None:
    """A uniform chunk answers for every sample without tables."""
    chunk = parse_chunk(join(pack([fixed(5, (3,))[0]])), 5)
    assert chunk.uniform == ((3,), 6)
    assert chunk.offsets().tolist() == [0, 6, 12, 18, 24, 30]
    assert chunk.shapes().tolist() == [[3]] * 5
