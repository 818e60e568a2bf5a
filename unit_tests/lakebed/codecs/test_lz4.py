"""lz4 samples and chunks (format.md 5.3)."""

from __future__ import annotations

import contextlib

import lz4.block
import lz4.frame
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.codecs.lz4_block import Lz4
from lakebed.codecs.registry import NAMES, byte_codec, normalize
from lakebed.errors import FormatError, InvalidInputError, LimitError, UnsupportedCompressionError
from unit_tests.effort import examples

CODEC = Lz4()
LIMIT = 1 << 20


@settings(max_examples=examples(60))
@given(st.binary(max_size=300), st.integers(1, 50))
def test_what_was_compressed_comes_back(data: bytes, times: int) -> None:
    """Any bytes survive, repetitive ones in less space than they take."""
    raw = data * times
    encoded = CODEC.encode(raw)
    assert CODEC.decode(encoded, LIMIT) == raw
    assert CODEC.decode(memoryview(encoded), LIMIT) == raw


def test_bytes_of_the_specification() -> None:
    """The sample of format.md 15.7: six bools as one block after their number."""
    raw = bytes([0, 0, 0, 1, 1, 1])
    stored = bytes.fromhex("06000000 60 00 00 00 01 01 01")
    assert CODEC.encode(raw) == stored
    assert CODEC.decode(stored, LIMIT) == raw


@pytest.mark.parametrize("stored", [b"", b"\0\0\0\0\0"])
def test_empty_samples(stored: bytes) -> None:
    """No bytes are stored for no bytes; the block that 3.9.52 may write for them is read too."""
    assert CODEC.encode(b"") == b""
    assert CODEC.decode(stored, LIMIT) == b""


def test_frames_of_ancient_writers_are_read() -> None:
    """LZ4 frames go by their magic number."""
    raw = b"old data " * 50
    assert CODEC.decode(lz4.frame.compress(raw), LIMIT) == raw


def test_promises_are_checked_before_memory_is_taken() -> None:
    """A size prefix above the limit is a LimitError; one that the block cannot hold is damage."""
    bomb = lz4.block.compress(bytes(100_000), store_size=True)
    with pytest.raises(LimitError, match="100000"):
        CODEC.decode(bomb, 99_999)
    with pytest.raises(FormatError, match="can not hold"):
        CODEC.decode(b"\xff\xff\xff\x00" + bomb[4:40], 1 << 30)
    with pytest.raises(LimitError):
        CODEC.decode(lz4.frame.compress(bytes(100_000)), 99_999)
    assert CODEC.decode(bomb, 100_000) == bytes(100_000)


@settings(max_examples=examples(60))
@given(st.binary(min_size=1, max_size=60), st.integers(0, 70), st.integers(0, 255), st.booleans())
def test_damage_is_an_error_of_ours(raw: bytes, at: int, value: int, cut: bool) -> None:
    """Changed and cut blocks and frames decode to something or raise FormatError or LimitError."""
    for whole in (CODEC.encode(raw), lz4.frame.compress(raw)):
        at %= len(whole)
        damaged = whole[:at] if cut else whole[:at] + bytes([value]) + whole[at + 1 :]
        with contextlib.suppress(FormatError, LimitError):
            assert isinstance(CODEC.decode(damaged, LIMIT), bytes)


def test_names_and_aliases() -> None:
    """Compressions go by the names of format.md 7; the aliases of the 3.x API are understood."""
    assert [normalize(n) for n in ("lz4", "LZ4", "jpg", "tif", "jp2", None, "null")] == [
        "lz4",
        "lz4",
        "jpeg",
        "tiff",
        "jpeg2000",
        None,
        None,
    ]
    with pytest.raises(UnsupportedCompressionError, match="is not a compression"):
        normalize("zip")


def test_only_byte_compressions_compress_bytes() -> None:
    """A compression of files is no byte codec, and never taken for none."""
    assert byte_codec(None) is None
    assert byte_codec("lz4") == CODEC
    for name in NAMES - {"lz4"}:
        with pytest.raises(UnsupportedCompressionError, match="does not compress plain bytes") as caught:
            byte_codec(name)
        assert isinstance(caught.value, InvalidInputError)


def test_memory_of_the_caller_is_filled() -> None:
    """Blocks decode into what `allocate` supplies, or into an array of any dtype and rank; frames bring their own."""
    raw = bytes(range(240)) * 9
    stored = CODEC.encode(raw)
    given: list[np.ndarray] = []

    def allocate(size: int) -> np.ndarray:
        given.append(np.zeros(size, np.uint8))
        return given[-1]

    found = CODEC.decode(stored, LIMIT, allocate)
    assert bytes(found) == raw
    assert np.shares_memory(given[0], np.frombuffer(found, np.uint8))
    assert CODEC.decode(b"", LIMIT, allocate) == b""
    assert CODEC.decode(lz4.frame.compress(raw), LIMIT, allocate) == raw
    assert len(given) == 1
    assert CODEC.size(stored, LIMIT) == len(raw)
    assert CODEC.size(lz4.frame.compress(raw), LIMIT) is None
    for dtype in ("<f8", "bool", "<M8[ns]", "<c8"):
        out = np.zeros((3, len(raw) // 48, 16 // np.dtype(dtype).itemsize), dtype)
        CODEC.decode_into(stored, out)
        assert out.tobytes() == raw
    with pytest.raises(FormatError, match="damaged lz4 block"):
        CODEC.decode_into(stored, np.zeros(len(raw) - 1, np.uint8))
    with pytest.raises(FormatError, match="damaged lz4 block"):
        CODEC.decode(stored[:-1], LIMIT, allocate)
