"""What fuzzing once found, in as few bytes as show it: none may crash, hang, or take memory again."""

from __future__ import annotations

import contextlib
import json
import struct
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator

import lz4.frame
import numpy as np
import pytest

from lakebed.codecs.lz4_block import Lz4
from lakebed.codecs.registry import file_codec
from lakebed.documents.version_tree import VersionTree
from lakebed.errors import FormatError, LimitError
from lakebed.htypes.documents import decode_document
from lakebed.native import chunks


def bitmap(width: int, height: int, bits: int, colors: int) -> bytes:
    """A device-independent bitmap without pixels."""
    return struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, 0, 0, 0, 0, colors, 0)


# A 1-bit image takes a byte per pixel in memory: 150 million of them from 100 bytes.
ONE_BIT = b"BM" + struct.pack("<IHHI", 62, 0, 0, 62) + bitmap(12_000, 12_500, 1, 0) + bytes(8)
# Pillow looks at each of the colours that an 8-bit image says it has.
COLOURS = bitmap(16, 8, 8, 65_280)
# Pillow gives this image three extents.
EXTENTS = b"Image type: L image\r\nImage size (x*y): 4*4*4\r\nFile size (no of images): 1\r\n"
THREE_EXTENTS = EXTENTS.ljust(511, b"\0") + b"\x1a"
# FFmpeg walks through two gigabytes of texts that are not there.
TEXTS = (
    b"RIFF\xe6\x0f\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0"
    b"LIST\x1a\0\0\x95INFOISFT\x0e\0\0\0Lavf60.16.100\0" + b"d" * 1600
)

FILES: dict[str, tuple[str, bytes]] = {
    "one-bit bitmap": ("bmp", ONE_BIT),
    "colours of a bitmap": ("dib", COLOURS),
    "three extents": ("im", THREE_EXTENTS.ljust(700, b"\1")),
    "texts in a sound": ("wav", TEXTS),
}


@pytest.fixture
def bounded() -> Iterator[None]:
    """Hold a test to a second of CPU and 64 MiB."""
    tracemalloc.start()
    start = time.process_time()
    yield
    took, peak = time.process_time() - start, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (peak < 64 << 20, took < 1) == (True, True), (peak, took)


@pytest.mark.usefixtures("bounded")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", FILES)
def test_files(what: str) -> None:
    """They are refused at once, whatever is asked of them."""
    name, data = FILES[what]
    codec = file_codec(name)
    assert codec is not None
    for call in (codec.decode, codec.facts):
        with pytest.raises((FormatError, LimitError)):
            call(data)
    with contextlib.suppress(FormatError, LimitError):
        codec.metadata(data)  # of many kinds it needs no look at the file


def test_a_png_with_two_headers() -> None:
    """Pillow believes the last one, what looked at the file before it the first."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    def header(width: int, height: int) -> bytes:
        return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))

    rest = chunk(b"IDAT", zlib.compress(bytes(4 * 3))) + chunk(b"IEND", b"")
    codec = file_codec("png")
    assert codec is not None
    assert codec.decode(b"\x89PNG\r\n\x1a\n" + header(3, 3) + rest).shape == (3, 3)
    with pytest.raises(FormatError, match="two images"):
        codec.decode(b"\x89PNG\r\n\x1a\n" + header(20, 25) + header(3, 3) + rest)


@pytest.mark.usefixtures("bounded")
def test_lz4_frames_are_decompressed_in_steps() -> None:
    """The library allocated as much as the frame was allowed to hold: four gigabytes for three bytes."""
    assert Lz4().decode(lz4.frame.compress(b"abc"), 2**32 - 1) == b"abc"
    with pytest.raises(FormatError, match="ends early"):
        Lz4().decode(lz4.frame.compress(b"abc" * 100)[:-6], 2**32 - 1)


WRONG: dict[str, Callable[[], object]] = {
    "columns whose width overflows": lambda: chunks.last_column(bytes(8), 0, 1, 2**62),
    "a table behind the end": lambda: chunks.last_column(bytes(8), 9, 0, 1),
    "a count that overflows": lambda: chunks.expand_positions(
        bytes(12), 0, 1, 2**63 - 1, 0, np.zeros(2, np.int64)
    ),
    "positions behind the end": lambda: chunks.expand_positions(
        bytes(12), 13, 0, 0, 0, np.zeros(1, np.int64)
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_compiled_functions(what: str) -> None:
    """The first divided by zero, others calculated outside of their buffers."""
    with pytest.raises(ValueError, match=r"leaves the buffer|one place more"):
        WRONG[what]()


def test_an_array_where_json_has_the_name_of_a_kind() -> None:
    """It was compared with a name, which arrays do one by one."""
    array = {"_hub_custom_type": "ndarray", "data": "AAAAAAAAgD8=", "shape": [2], "dtype": "<f4"}
    found = decode_document(json.dumps({"a": {"_hub_custom_type": array, "data": "AA"}}).encode())
    assert found["a"]["_hub_custom_type"].tolist() == [0, 1]


def test_a_changed_message_in_the_history_is_noticed() -> None:
    """It was read back as if it had been written."""
    tree = VersionTree.initial("a" * 40)
    data = VersionTree(tree.commits, tree.branches, {"lakebed": {}}).to_bytes()
    with pytest.raises(FormatError, match="checksum"):
        VersionTree.from_bytes(
            data.replace(b'"total_samples_processed": 0', b'"total_samples_processed": 1', 1)
        )
