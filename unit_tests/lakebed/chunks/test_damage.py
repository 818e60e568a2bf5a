"""Damaged chunk files: whatever bytes change, the answer is samples or a FormatError, nothing else."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.chunks.chunk import parse_chunk
from lakebed.chunks.pack import pack
from lakebed.chunks.probe import probe
from lakebed.codecs.base import ByteCodec
from lakebed.codecs.block import Block
from lakebed.codecs.registry import byte_codec
from lakebed.errors import FormatError, LimitError
from unit_tests.effort import examples
from unit_tests.lakebed.chunks.blocks import Sample, block_lists, fixed, ragged, text

INTERESTING = [0, 1, 2, 127, 128, 254, 255]


def read_everything(raw: bytes, count: int, codec: ByteCodec | None) -> None:
    """Use every way that a reader has to look at a chunk; sizes that come back are real ones."""
    try:
        chunk = parse_chunk(raw, count, codec)
        offsets = chunk.offsets()
        assert np.all(np.diff(offsets) >= 0)
        assert int(offsets[-1]) <= len(chunk.data)
        assert len(chunk.shapes()) == count
        for i in range(count):
            assert len(chunk.sample(i)) == offsets[i + 1] - offsets[i]
            assert chunk.ndim is None or len(chunk.shape(i)) == chunk.ndim
        assert chunk.is_unwritten in (True, False)
    except (FormatError, LimitError):
        pass
    if codec is not None:
        return
    for i in range(count):
        try:
            place = probe(lambda start, length: raw[start : start + length], len(raw), count, i)
            assert place.start + place.nbytes <= len(raw)
        except FormatError:
            pass


@settings(max_examples=examples(60))
@given(block_lists(), st.sampled_from([None, "lz4"]), st.data())
def test_mutations_raise_only_format_errors(
    blocks_and_samples: tuple[list[Block], list[Sample]], compression: str | None, data: st.DataObject
) -> None:
    """Bytes replaced, cut off or appended anywhere in a chunk cause no other exception."""
    blocks, samples = blocks_and_samples
    codec = byte_codec(compression)
    raw = bytearray(b"".join(pack(blocks, codec).pieces)) if samples else bytearray(b"\x063.9.52" + bytes(12))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] = data.draw(st.sampled_from(INTERESTING))
    cut = data.draw(st.sampled_from([len(raw), len(raw) - 1, len(raw) // 2]))
    read_everything(bytes(raw[:cut]) + data.draw(st.binary(max_size=3)), len(samples), codec)


def test_every_single_byte_of_typical_chunks() -> None:
    """Each byte of a chunk of arrays, of ragged arrays and of text, set to each interesting value."""
    for block in (fixed(4, (2,))[0], ragged([(1, 2), (0, 2), (3, 1)])[0], text(["one", "", "three"])[0]):
        for compression in (None, "lz4"):
            codec = byte_codec(compression)
            raw = b"".join(pack([block], codec).pieces)
            for at in range(len(raw)):
                for value in INTERESTING:
                    read_everything(raw[:at] + bytes([value]) + raw[at + 1 :], block.count, codec)


def test_every_truncation_of_typical_chunks() -> None:
    """A chunk that ends early yields samples only if all that is missing is nothing."""
    for block in (fixed(4, (2,))[0], ragged([(1, 2), (0, 2), (3, 1)])[0], text(["one", "", "three"])[0]):
        raw = b"".join(pack([block]).pieces)
        for end in range(len(raw)):
            read_everything(raw[:end], block.count, None)
            try:
                parse_chunk(raw[:end], block.count).offsets()
            except FormatError:
                continue
            raise AssertionError(f"a chunk of {end} of {len(raw)} bytes was taken for whole")
