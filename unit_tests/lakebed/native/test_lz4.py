"""LZ4 blocks against python-lz4 and the words of the block format: sound, damaged, near the ends of memory."""

from __future__ import annotations

from itertools import product

import lz4.block
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.native import lz4 as native
from unit_tests.effort import examples

MANY = settings(max_examples=examples(400))
BEHIND = 64
"""Bytes behind the memory that is given, which stay as they are."""


class ZeroDistanceError(ValueError):
    """What the format calls damage, and python-lz4 does not notice."""


def spelled_out(block: bytes, size: int) -> bytes:
    """Decode a block byte by byte, as its format is described; its end as the author's library wants it."""
    at, out = 0, bytearray()

    def take(count: int) -> bytes:
        nonlocal at
        if at + count > len(block):
            raise ValueError("ends")
        at += count
        return block[at - count : at]

    def length(start: int) -> int:
        total = start
        while start == 15:
            more = take(1)[0]
            total += more
            if more != 255:
                break
        return total

    if not size and block != b"\0":
        raise ValueError("nothing")
    while True:
        token = take(1)[0]
        out += take(length(token >> 4))
        if at == len(block):
            break
        if len(block) - at < 8 or size - len(out) < 12:
            raise ValueError("the last literals are fewer than 5, or the last match begins too late")
        distance = int.from_bytes(take(2), "little")
        count = 4 + length(token & 15)
        if len(out) + count > size - 5:
            raise ValueError("long")
        if distance > len(out):
            raise ValueError("distance")
        if not distance:
            raise ZeroDistanceError
        for _ in range(count):
            out.append(out[-distance])
    if len(out) != size:
        raise ValueError("size")
    return bytes(out)


def ours(block: bytes, size: int) -> bytes | None:
    """What both functions make of a block, which must be the same; None for an error."""
    memory = np.full(size + BEHIND, 0xA5, np.uint8)
    exact = np.frombuffer(block, np.uint8).copy()  # a `bytes` object has one more byte
    try:
        native.decompress_into(exact, memory[:size])
    except ValueError as error:
        with pytest.raises(ValueError, match=str(error)):
            native.decompress(block, size)
        found = None
    else:
        found = memory[:size].tobytes()
        assert native.decompress(block, size) == found
    assert (memory[size:] == 0xA5).all(), "bytes behind the memory were written"
    return found


def check(block: bytes, size: int) -> bytes | None:
    """Hold our decoding against both others."""
    found = ours(block, size)
    try:
        theirs: bytes | None = lz4.block.decompress(size.to_bytes(4, "little") + block)
    except lz4.block.LZ4BlockError:
        theirs = None
    try:
        right: bytes | None = spelled_out(block, size)
    except ZeroDistanceError:
        assert found is None
        return None
    except ValueError:
        right = None
    assert found == right
    assert found == theirs
    return found


@st.composite
def contents(draw: st.DrawFn) -> bytes:
    """Bytes: noise, runs of patterns of any period, what was there before."""
    made = bytearray()
    for _ in range(draw(st.integers(0, 12))):
        kind = draw(st.integers(0, 2))
        if kind == 0:
            count = draw(st.sampled_from((1, 4, 14, 15, 16, 31, 300, 700)))
            made += np.random.default_rng(draw(st.integers(0, 99))).bytes(count)
        elif kind == 1:
            made += (draw(st.binary(min_size=1, max_size=40)) * 300)[: draw(st.integers(1, 600))]
        elif made:
            start = draw(st.integers(0, len(made) - 1))
            made += made[start : start + draw(st.integers(1, 400))]
    return bytes(made)


@MANY
@given(contents(), st.sampled_from(("fast", "high_compression")))
def test_what_was_compressed_comes_back(raw: bytes, mode: str) -> None:
    """Content of all kinds, from both compressors."""
    block = lz4.block.compress(raw, mode=mode, store_size=False)
    assert check(block, len(raw)) == raw


@MANY
@given(contents(), st.data())
def test_damaged_blocks(raw: bytes, data: st.DataObject) -> None:
    """Changed, cut, lengthened, told to be of another size: the same bytes or an error, as of both others."""
    block = bytearray(lz4.block.compress(raw, store_size=False))
    size = len(raw)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(block) - 1))
        what = data.draw(st.integers(0, 4))
        if what == 0:
            block[at] = data.draw(st.integers(0, 255))
        elif what == 1:
            del block[max(at, 1) :]
        elif what == 2:
            block[at:at] = data.draw(st.binary(max_size=20))
        elif what == 3:
            size = max(0, size + data.draw(st.sampled_from((-300, -13, -12, -5, -4, -1, 1, 5, 300))))
        else:
            block[at] ^= 1 << data.draw(st.integers(0, 7))
    check(bytes(block), size)


def sequence(literals: bytes, distance: int, match: int) -> bytes:
    """One sequence of a block; a match of 0 is none."""

    def more(length: int) -> bytes:
        return b"" if length < 15 else b"\xff" * ((length - 15) // 255) + bytes([(length - 15) % 255])

    token = min(len(literals), 15) << 4 | (min(match - 4, 15) if match else 0)
    head = bytes([token]) + more(len(literals)) + literals
    return head + distance.to_bytes(2, "little") + more(match - 4) if match else head


@MANY
@given(
    st.lists(
        st.tuples(
            st.sampled_from((0, 0, 1, 2, 13, 14, 15, 16, 17, 30, 33, 64, 270, 513, 600)),
            st.one_of(st.integers(0, 40), st.integers(0, 700)),
            st.one_of(st.integers(4, 40), st.sampled_from((19, 50, 63, 64, 65, 273, 274, 530))),
        ),
        max_size=6,
    ),
    st.integers(0, 80),
    st.sampled_from((0, 0, 0, 0, -1, 1, 7)),
)
def test_sequences(parts: list[tuple[int, int, int]], last: int, wrong: int) -> None:
    """Any literals, distances and matches, at any place before the end; as often as not they make a sound block."""
    noise = np.random.default_rng(len(parts)).bytes(4096)
    block, size, at = b"", 0, 0
    for literals, distance, match in parts:
        block += sequence(noise[at : at + literals], distance, match)
        at, size = at + literals, size + literals + match
    block += sequence(noise[at : at + last], 0, 0)
    check(block, max(0, size + last + wrong))


@pytest.mark.parametrize("distance", range(1, 40))
def test_every_short_distance(distance: int) -> None:
    """A match that overlaps with itself repeats its pattern, far from the end and right before it."""
    pattern = bytes(range(1, 41))
    for match, last in product((4, 5, 8, 15, 18, 19, 20, 33, 64, 65, 100, 1000), (12, 40, 200)):
        block = sequence(pattern, distance, match) + sequence(bytes(last), 0, 0)
        size = len(pattern) + match + last
        found = check(block, size)
        assert found is not None, (match, last)
        assert found[40 : 40 + match] == (pattern[-distance:] * match)[:match], (match, last)


def test_lengths_of_many_bytes() -> None:
    """Literals and matches of megabytes, whose lengths take thousands of bytes."""
    noise = np.random.default_rng(0).bytes(1 << 20)
    raw = noise + noise[-60_000:] + bytes(3 << 20) + noise[:17]
    block = lz4.block.compress(raw, store_size=False)
    assert ours(block, len(raw)) == raw
    assert ours(block, len(raw) - 1) is None
    assert ours(block[:-1], len(raw)) is None
    assert ours(b"\xf0" + b"\xff" * 100_000, 1000) is None
    assert ours(b"\x1f\0\1\0" + b"\xff" * 100_000, 1000) is None


def test_memory_that_cannot_be_written() -> None:
    """Read-only memory, and such that is not contiguous, is refused, and so is a negative size."""
    block = lz4.block.compress(bytes(100), store_size=False)
    with pytest.raises((ValueError, BufferError, TypeError)):
        native.decompress_into(block, bytes(100))
    with pytest.raises((ValueError, BufferError)):
        native.decompress_into(block, np.zeros(200, np.uint8)[::2])
    with pytest.raises(ValueError, match="-1"):
        native.decompress(block, -1)
